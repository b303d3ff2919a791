"""One `torch.stack` needs all values on one device: where that is not certain, each is read by itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.patching import defer, patch_of, patched_text

HEAD = """
import torch
from torch import nn
from torch.utils.data import DataLoader

torch.manual_seed(0)
gpu = torch.device("cuda" if torch.cuda.is_available() else "cpu")
criterion = nn.MSELoss()
batches = [(torch.randn(4, 4), torch.randn(4, 1)) for _ in range(12)]
"""
ONE = "model = nn.Linear(4, 1).to(gpu)\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
LOOP = """
losses = []
for i, (x, y) in enumerate(batches):
    BODY
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
print(losses)
"""
READ = "losses.append(loss.item())"
STACKED = {
    "a model": (ONE, "loss = criterion(model(x.to(gpu)), y.to(gpu))"),
    "names": (ONE, "x, y = x.to(gpu), y.to(gpu)\nout = model(x)\nloss = criterion(out, y)\nloss = loss / 2"),
    "the device of another": (ONE, "x = x.to(gpu)\nloss = criterion(model(x), y.to(x.device))"),
    "both ways with one model": (
        ONE,
        "if i > 3:\n    loss = criterion(model(x.to(gpu)), y.to(gpu))\n"
        "else:\n    loss = criterion(model(x.to(gpu)), y.to(gpu))",
    ),
    "a GPU for each process": (
        ONE.replace(".to(gpu)", ".to(f'cuda:{rank}')"),
        "loss = criterion(model(x.to(gpu)), y.to(gpu))",
    ),
}
TWO = "small = nn.Linear(4, 1)\n" + ONE
SEVERAL = (
    "devices = [torch.device('cuda', k) for k in range(torch.cuda.device_count())]\n"
    "models = [nn.Linear(4, 1).to(d) for d in devices]\nmodel = models[0]\n" + ONE.splitlines()[1] + "\n"
)
CHOSEN = "models = [nn.Linear(4, 1).to(gpu), nn.Linear(4, 1)]\n" + ONE
ONE_BY_ONE = {
    "a small model on the host": (
        TWO,
        "if i % 2:\n    loss = criterion(small(x), y)\nelse:\n    loss = criterion(model(x.to(gpu)), y.to(gpu))",
    ),
    "in one expression": (TWO, "loss = criterion(small(x), y) if i % 2 else criterion(model(x.to(gpu)), y.to(gpu))"),
    "a device for each": (
        SEVERAL,
        "k = i % len(models)\nloss = criterion(models[k](x.to(devices[k])), y.to(devices[k]))",
    ),
    "models of a list": (CHOSEN, "loss = criterion(models[i % 2](x), y)"),
    "models of a list under a name": (CHOSEN, "one = models[i % 2]\nloss = criterion(one(x), y)"),
    "devices inside of the model": (SEVERAL, "loss = criterion(model(x.to(gpu)), y.to(gpu))"),
    "chosen by a function": (
        CHOSEN + "def losses_of(k, x, y):\n    return criterion(models[k % 2](x), y)\n",
        "loss = losses_of(i, x, y)",
    ),
    "moved for a while": (ONE, "loss = criterion(model(x), y)\nif i == 6:\n    model.cpu()"),
    "moved by a number": (ONE, "loss = criterion(model(x), y).cuda(i % 2)"),
    "moved by a text": (ONE, "loss = criterion(model(x), y).to(f'cuda:{i}')"),
}


def written(folder: Path, case: tuple[str, str]) -> str:
    body = case[1].replace("\n", "\n    ")
    text = HEAD + case[0] + LOOP.replace("BODY", body)
    return patched_text(patch_of(folder, text, defer(text, mark=READ)))


@pytest.mark.parametrize("name", STACKED)
def test_values_of_one_device_are_read_at_once(name: str, tmp_path: Path) -> None:
    assert "torch.stack(pending_losses).tolist()" in written(tmp_path, STACKED[name])


@pytest.mark.parametrize("name", ONE_BY_ONE)
def test_values_of_several_devices_are_read_one_by_one(name: str, tmp_path: Path) -> None:
    text = written(tmp_path, ONE_BY_ONE[name])
    assert "torch.stack" not in text
    assert ".item()" in text


def test_models_that_the_loop_goes_through_may_have_a_device_each(tmp_path: Path) -> None:
    loop = LOOP.replace("for i, (x, y) in enumerate(batches):", "for one in models:")
    text = HEAD + CHOSEN + "x, y = batches[0]\n" + loop.replace("BODY", "loss = criterion(one(x), y)")
    assert "torch.stack" not in patched_text(patch_of(tmp_path, text, defer(text, mark=READ)))
