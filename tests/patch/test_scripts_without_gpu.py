"""Scripts that run on the CPU are told so at each place; those that may use a GPU are patched."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.patching import fired, patch_of
from tracelens.model import Edit, EditKind, Location, Stall
from tracelens.patch.recipes import PatchOptions, make

ON_CPU = """
import torch
from torch import nn
from torch.utils.data import DataLoader

device = torch.device("cpu")
model = nn.Linear(4, 3).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader([(torch.randn(4), i % 3) for i in range(20)], batch_size=4)
total = 0.0
for x, y in loader:
    x = x.to(device)  # fires
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    total += loss.item()  # fires
print(total)
"""
MAY_USE_A_GPU = {
    "its device comes from outside": ('torch.device("cpu")', "torch.device(input())"),
    "its device has another name": (".to(device)  # fires", ".to(elsewhere)  # fires"),
    "it names one in a branch": ('torch.device("cpu")', 'torch.device("cuda" if torch.cuda.is_available() else "cpu")'),
    "its model was saved somewhere": ("nn.Linear(4, 3).to(device)", 'torch.load("model.pt")'),
    "another library makes the model": ("from torch import nn", "from torch import nn\nimport timm"),
    "it sets a device for all": ("total = 0.0", "total = 0.0\ntorch.set_default_device(total)"),
}


@pytest.mark.parametrize("kind", ["defer-read", "async-copy", "prefetch", "event-sync"])
def test_a_script_that_uses_no_gpu_is_told_so_at_each_place(kind: EditKind, tmp_path: Path) -> None:
    patch = patch_of(tmp_path, ON_CPU, (Edit(kind, locations=fired(ON_CPU), interval=10),))
    assert patch.empty
    assert ["nothing in this script uses a GPU" in one.obstacle for one in patch.declined] == [True, True]
    assert [one.location.line for one in patch.declined] == [12, 17]


@pytest.mark.slow
@pytest.mark.parametrize("name", MAY_USE_A_GPU)
def test_a_script_that_may_use_a_gpu_is_patched(name: str, tmp_path: Path) -> None:
    old, new = MAY_USE_A_GPU[name]
    text = ON_CPU.replace(old, new)
    assert text != ON_CPU
    assert patch_of(tmp_path, text).hunks


def test_a_wait_that_was_recorded_shows_that_there_is_a_gpu(tmp_path: Path) -> None:
    place = Location("train.py", 17)
    stall = Stall("read", "cudaStreamSynchronize", "d2h", 1.0, 0, 0, None, "unknown", place)
    (tmp_path / "train.py").write_text(ON_CPU)
    edits = (Edit("defer-read", stalls=("read",), interval=10),)
    assert make(tmp_path, tmp_path / "train.py", edits, (stall,), PatchOptions()).hunks


def test_a_module_of_a_project_that_names_a_gpu_is_no_script_for_the_cpu(tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text("import train\ntrain.model.cuda()\n")
    assert patch_of(tmp_path, ON_CPU).hunks
