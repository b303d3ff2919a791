"""A batch that is a view of the data set is not pinned where a loop writes into it: pinning makes a copy."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.every_place import every_place_of
from tracelens.edit_kinds import EditKind
from tracelens.model import Patch

TRAIN = """
import torch
from torch import nn
from torch.utils.data import DataLoader
from bank import Bank, together

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
bank = Bank()
loader = DataLoader(bank, {arguments})
model = nn.Linear(4, 2).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def add(part, out):
    part.mul_(0.9).add_(out)


for x, mean in loader:
    {before}
    inputs, y = x.to(device), mean.to(device)
    out = model(inputs)
    loss = nn.functional.mse_loss(out, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    {after}
"""
BANK = """
import torch
from torch.utils.data import Dataset


class Bank(Dataset):
    def __init__(self):
        self.x, self.mean = torch.randn(96, 4), torch.full((96, 2), 0.5)

    def __len__(self):
        return 12

    def __getitem__(self, b):
        return self.x[b * 8 : b * 8 + 8], self.mean[b * 8 : b * 8 + 8]


def together(items):
    return items[0]


"""
VIEWS = {
    "no collation": "batch_size=None",
    "one of its own": "batch_size=1, collate_fn=together",
    "hidden": "**dict(batch_size=None)",
}
WRITES = {
    "in place": "mean.mul_(0.9).add_(out.detach().cpu())",
    "a part": "mean[:4] = out.detach().cpu()[:4]",
    "an operator": "mean *= 0.9",
    "through NumPy": "array = mean.numpy()\n    array[0] = 1",
    "into a result": "torch.mul(mean, 0.9, out=mean)",
    "in a function": "add(mean, out.detach().cpu())",
    "a view": "rows = mean.view(-1)\n    rows.zero_()",
}
KINDS: dict[EditKind, int] = {"async-copy": 1}


def patched(folder: Path, arguments: str, before: str = "pass", after: str = "pass") -> Patch:
    script = TRAIN.format(arguments=arguments, before=before, after=after)
    return every_place_of(folder, {"train.py": script, "bank.py": BANK}, KINDS, "train.py")


def pins(patch: Patch) -> list[str]:
    return [one.tier for one in patch.hunks if "pinned" in one.reason]


@pytest.mark.parametrize("loader", VIEWS)
@pytest.mark.parametrize("write", WRITES)
def test_what_is_written_into_the_data_set(write: str, loader: str, tmp_path: Path) -> None:
    assert not pins(patched(tmp_path, VIEWS[loader], after=WRITES[write]))


def test_what_is_written_before_the_copy(tmp_path: Path) -> None:
    assert not pins(patched(tmp_path, "batch_size=None", before="mean.mul_(0.9)"))


def test_what_another_loop_writes(tmp_path: Path) -> None:
    after = "pass\nfor x, mean in loader:\n    mean.mul_(0.9)"
    assert not pins(patched(tmp_path, "batch_size=None", after=after))


@pytest.mark.parametrize("after", ["pass", "out.mul_(2)", "print(mean.mean())", "x = x.to(device)\n    x.mul_(2)"])
def test_what_is_only_read(after: str, tmp_path: Path) -> None:
    assert pins(patched(tmp_path, "batch_size=None", after=after)) == ["checked"]


@pytest.mark.parametrize("write", WRITES)
def test_batches_in_new_memory(write: str, tmp_path: Path) -> None:
    assert pins(patched(tmp_path, "batch_size=1, shuffle=True", after=WRITES[write])) == ["safe"]


DICTS = """
for batch in loader:
    STEP
    x = batch["x"].to(device)
    loss = model(x).mean()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("step", "tiers"),
    [
        ("batch['seen'] = True", []),
        ("batch.update(seen=True)", []),
        ("del batch['y']", []),
        ("for key in batch:\n        batch[key] = batch[key].to(device)", ["checked"]),
        ("batch = {key: value.to(device) for key, value in batch.items()}\n    batch['seen'] = True", ["checked"]),
    ],
)
def test_a_dict_of_the_data_set(step: str, tiers: list[str], tmp_path: Path) -> None:
    head, _, _ = TRAIN.partition("for x, mean")
    script = head.format(arguments="batch_size=None") + DICTS.strip().replace("STEP", step) + "\n"
    assert pins(every_place_of(tmp_path, {"train.py": script, "bank.py": BANK}, KINDS, "train.py")) == tiers


@pytest.mark.parametrize(("write", "tiers"), [("mean.mul_(0.9)", []), ("pass", ["checked"])])
def test_the_lever_of_its_own_asks_the_same(write: str, tiers: list[str], tmp_path: Path) -> None:
    script = TRAIN.format(arguments="batch_size=None", before="pass", after=write)
    script = script.replace(
        "bank = Bank()", "bank = torch.utils.data.TensorDataset(torch.ones(8, 4), torch.ones(8, 2))"
    )
    patch = every_place_of(tmp_path, {"train.py": script, "bank.py": BANK}, {"loader-pinning": 1}, "train.py")
    assert [one.tier for one in patch.hunks] == tiers
