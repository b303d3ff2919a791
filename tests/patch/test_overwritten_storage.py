"""Results whose storage the next batch overwrites: static buffers and compiled functions. They are copied first."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.support.patching import assert_same, defer, patch_of, patched_text, script

STATIC_STORAGE = """
class Replayed:
    '''Gives the same storage in each call, as a replayed CUDA graph does.'''
    def __init__(self, function):
        self.function, self.storage = function, None
    def __call__(self, *given):
        with torch.no_grad():
            made = self.function(*given)
            self.storage = made.clone() if self.storage is None else self.storage.copy_(made)
        return self.storage
measure = Replayed(lambda x, y: criterion(model(x), y))
total, lines = 0.0, []
for i, (x, y) in enumerate(loader):
    STEP
    value = measure(x, y)
    total += value.item()  # fires
    lines.append(f"{value:.6f}")  # fires
    print(i, lines[-1], value.view(1).tolist())  # fires
print(total)
"""


@pytest.mark.slow
def test_storage_that_the_next_batch_overwrites_is_copied_right_where_it_is_read(tmp_path: Path) -> None:
    text = script(STATIC_STORAGE)
    patch = patch_of(tmp_path, text, defer(text, 1000))
    assert patch.declined == ()
    assert assert_same(tmp_path, text, patch).ending == ""


COMPILED = """
import torch
from torch import nn

torch.manual_seed(0)
device = torch.device("cuda")
model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 8)).to(device)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = [(torch.randn(16, 32, device=device), torch.randint(0, 8, (16,), device=device)) for _ in range(40)]


@torch.compile(mode="reduce-overhead")
def forward(x, y):
    return criterion(model(x), y)


losses, total = [], 0.0
for i, (x, y) in enumerate(loader):
    optimizer.zero_grad(set_to_none=True)
    loss = forward(x, y)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())  # fires
    total += loss.item() / 2  # fires
    print(i, f"{loss.item():.9f}")  # fires
"""


def test_the_copy_of_a_compiled_functions_result_is_made_outside_of_it_and_before_its_next_call(tmp_path: Path) -> None:
    lines = [line.strip() for line in patched_text(patch_of(tmp_path, COMPILED)).splitlines()]
    kept = lines.index("pending_losses.append((loss.detach().clone(), i))")
    assert lines[kept - 1] == "optimizer.step()"
    region = lines[lines.index('@torch.compile(mode="reduce-overhead")') :][:3]
    assert region[1:] == ["def forward(x, y):", "return criterion(model(x), y)"]


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")  # torch 2.11's own, when it imports its compiler
@pytest.mark.filterwarnings("ignore::UserWarning")  # its advice about speed, and about graphs with nothing in them
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_reads_of_a_compiled_function_with_cuda_graphs_can_wait(tmp_path: Path) -> None:
    patch = patch_of(tmp_path, COMPILED)
    torch._dynamo.reset()
    left = assert_same(tmp_path, COMPILED, patch)
    torch._dynamo.reset()
    assert left.ending == ""
    assert left.output.count("\n") == 40
