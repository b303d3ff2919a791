"""Only memory of the host can be pinned: a loader whose items may be on the GPU is left as it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from tracelens.model import Patch
from tracelens.patch.every_place import patch_files
from tracelens.patch.recipes import PatchOptions

TRAIN = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split
{imports}
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(4, 2).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
{made}
for x, y in loader:
    x, y = x.to(device), y.to(device)
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
MAKE = "import torch\nfrom torch.utils.data import Dataset, TensorDataset\n"
SET = MAKE + "class Items(Dataset):\n    def __init__(self{more}):\n        self.x = torch.randn(80, 4){moved}\n"
ITEM = "    def __getitem__(self, i):\n        return self.x[i], self.x[i, :2]\n"
ON_GPU = {
    "a function of another file": (
        "from data import make",
        "loader = DataLoader(make(device), 8)",
        MAKE + "def make(device):\n    x = torch.randn(80, 4).to(device)\n    return TensorDataset(x, x[:, :2])\n",
    ),
    "a function below that one": (
        "from data import make",
        "loader = DataLoader(make(), 8)",
        MAKE + "def send(x):\n    return x.cuda()\ndef make():\n    return TensorDataset(send(torch.ones(8, 4)))\n",
    ),
    "what makes the object": (
        "from data import Items",
        "data = Items(device)\nloader = DataLoader(data, 8)",
        SET.format(more=", device", moved=".to(device)") + ITEM,
    ),
    "a method": (
        "from data import Items",
        "loader = DataLoader(Items().preload(), 8)",
        SET.format(more="", moved="") + ITEM + "    def preload(self):\n        self.x = self.x.cuda()\n"
        "        return self\n",
    ),
    "a function that is handed it": (
        "from data import Items, send",
        "data = Items()\nsend(data)\nloader = DataLoader(data, 8)",
        SET.format(more="", moved="") + ITEM + "def send(data):\n    data.x = data.x.cuda()\n",
    ),
    "a call in each item": (
        "from data import Items",
        "loader = DataLoader(Items(), 8)",
        SET.format(more="", moved="") + "    def __getitem__(self, i):\n        return send(self.x[i]), 0\n"
        "def send(x):\n    return x.to('cuda')\n",
    ),
    "what puts a batch together": (
        "from data import Items, Together",
        "loader = DataLoader(Items(), 8, collate_fn=Together(device))",
        SET.format(more="", moved="") + ITEM + "class Together:\n    def __init__(self, where):\n"
        "        self.where = where\n    def __call__(self, items):\n"
        "        return torch.stack(items).to(self.where)\n",
    ),
    "a part of what is there": (
        "",
        "x = torch.randn(80, 4, device=device)\nfirst, rest = random_split(TensorDataset(x, x), [40, 40])\n"
        "loader = DataLoader(first, 8)",
        "",
    ),
    "a file that is read to it": (
        "",
        "x = torch.load('x.pt', map_location=device)\nloader = DataLoader(TensorDataset(x, x), 8)",
        "",
    ),
    "a file that goes where it was saved": (
        "from data import Items",
        "loader = DataLoader(Items(), 8)",
        SET.format(more="", moved="") + "    def __getitem__(self, i):\n        return torch.load(f'{i}.pt'), 0\n",
    ),
    "a block": ("", "with device:\n    x = torch.randn(80, 4)\nloader = DataLoader(TensorDataset(x, x), 8)", ""),
    "torch's default": (
        "torch.set_default_device('cuda')",
        "x = torch.randn(80, 4)\nloader = DataLoader(TensorDataset(x, x), 8)",
        "",
    ),
}


def patched(folder: Path, imports: str, made: str, data: str) -> Patch:
    (folder / "train.py").write_text(TRAIN.format(imports=imports, made=made))
    (folder / "data.py").write_text(data)
    return patch_files([folder / "train.py"], folder, {"async-copy": 10}, PatchOptions())


@pytest.mark.parametrize("how", ON_GPU)
def test_items_that_may_be_on_the_gpu_are_not_pinned(how: str, tmp_path: Path) -> None:
    assert "pin_memory" not in patched(tmp_path, *ON_GPU[how]).diff


def test_items_of_the_host_are(tmp_path: Path) -> None:
    """Moving the model, or a batch in the loop, moves no item; the arguments of the script are handed to everybody."""
    made = "args = dict(batch=8)\ndef build(args):\n    return nn.Linear(4, 2).to(device)\nother = build(args)\n"
    made += "data = Items()\nloader = DataLoader(data, batch_size=args['batch'])"
    patch = patched(tmp_path, "from data import Items", made, SET.format(more="", moved="") + ITEM)
    assert "pin_memory=torch.cuda.is_available()" in patch.diff


PLAIN = {
    "tensors": ("", "DataLoader(TensorDataset(torch.ones(8, 4), torch.ones(8, 2)), 8)", "safe"),
    "pictures": ("from torchvision import datasets", "DataLoader(datasets.MNIST('x'), batch_size=8)", "safe"),
    "pictures put together by hand": (
        "from torchvision.datasets import MNIST",
        "DataLoader(MNIST('x'), 8, collate_fn=tuple)",
        "checked",
    ),
    "a class of the project's": ("from data import Items", "DataLoader(Items(), 8)", "safe"),
    "one that is made of what is not known": (
        "from data import Items\ndef fit(x):\n    return DataLoader(Items(x), 8)",
        "fit(torch.ones(8, 4))",
        "checked",
    ),
    "tensors that a loop has gathered": (
        "kept = []\nfor part in torch.ones(4, 8, 4):\n    kept.append(model_of(part))\nx = torch.cat(kept)",
        "DataLoader(TensorDataset(x, x), 8)",
        "checked",
    ),
    "tensors without batches": (
        "x = torch.ones(8, 4)",
        "DataLoader(TensorDataset(x, x), batch_size=None)",
        "checked",
    ),
    "one that is filled": ("from data import Items", "DataLoader(data := Items(), 8)\ndata.push(1)", "checked"),
    "one that returns an object": ("from data import Items, Pair", "DataLoader(Pair(), 8)", "checked"),
    "one without batches": ("from data import Items", "DataLoader(Items(), batch_size=None)", "checked"),
    "hidden arguments": ("from data import Items", "DataLoader(Items(), **{'batch_size': None})", "checked"),
    "a list": ("", "DataLoader(list(zip(torch.ones(8, 4), torch.ones(8, 2))), 8)", "checked"),
}


@pytest.mark.parametrize("what", PLAIN)
def test_what_torch_puts_together_of_its_own_data_sets_is_proved(what: str, tmp_path: Path) -> None:
    """Other batches may have objects that lose something, or are something else, when they are pinned."""
    imports, made, tier = PLAIN[what]
    own = "class Pair(Items):\n    def __getitem__(self, i):\n        return self\n"
    patch = patched(tmp_path, imports, f"loader = {made}", SET.format(more=", *more", moved="") + ITEM + own)
    (hunk,) = (hunk for hunk in patch.hunks if "pinned" in hunk.reason)
    assert hunk.tier == tier
    assert ("others may be changed when they are pinned" in hunk.unproved) == (tier == "checked")
