"""loader-ahead, loader-pinning and gradients-to-none: what is written, when that is proved, and what stays."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.patching import patched_text, script
from tracelens.edit_kinds import EditKind
from tracelens.model import Edit, Location, Patch
from tracelens.patch.recipes import PatchOptions, make

DATA = "tensors = torch.utils.data.TensorDataset(torch.ones(8, 3), torch.zeros(8, 2))\n"
OWN = "class Rows(list):\n    pass\ntensors = Rows()\n"


def patch(folder: Path, arguments: str, kind: EditKind, data: str = DATA) -> Patch:
    text = script(
        f"from torch.utils.data import DataLoader\nworkers = 2\n{data}"
        f"loader = DataLoader(tensors, batch_size=4{arguments})\nfor x, y in loader:\n    STEP\n"
    )
    (folder / "train.py").write_text(text)
    return make(folder, folder / "train.py", (Edit(kind, depth=4),), (), PatchOptions(checked=True))


@pytest.mark.parametrize(
    ("kind", "arguments", "written"),
    [
        ("loader-ahead", ", num_workers=2", ", num_workers=2, prefetch_factor=4)"),
        ("loader-ahead", ", num_workers=workers", ", prefetch_factor=4 if workers > 0 else None)"),
        ("loader-ahead", ", num_workers=2, prefetch_factor=3", ", num_workers=2, prefetch_factor=4)"),
        ("loader-pinning", "", ", pin_memory=torch.cuda.is_available())"),
        ("loader-pinning", ", pin_memory=False", ", pin_memory=torch.cuda.is_available())"),
    ],
)
def test_a_loader_of_tensors_gets_its_argument_for_certain(
    kind: EditKind, arguments: str, written: str, tmp_path: Path
) -> None:
    made = patch(tmp_path, arguments, kind)
    assert [hunk.tier for hunk in made.hunks] == ["safe"]
    assert written in patched_text(made)
    assert [hunk.tier for hunk in patch(tmp_path, arguments, kind, OWN).hunks] == ["checked"]


@pytest.mark.parametrize(
    ("kind", "arguments", "why"),
    [
        ("loader-ahead", "", "the loader has no workers"),
        ("loader-ahead", ", num_workers=2, prefetch_factor=workers", "prefetch_factor comes from `workers`"),
        ("loader-ahead", ", num_workers=len('ab')", "the number of workers comes from"),
        ("loader-pinning", ", pin_memory=bool(workers)", "pin_memory comes from"),
        ("loader-pinning", ", **{}", "hidden"),
    ],
)
def test_what_is_decided_elsewhere_stays_and_says_why(kind: EditKind, arguments: str, why: str, tmp_path: Path) -> None:
    made = patch(tmp_path, arguments, kind)
    assert made.empty and why in made.declined[0].obstacle


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [("loader-ahead", ", num_workers=2, prefetch_factor=8"), ("loader-pinning", ", pin_memory=True")],
)
def test_what_is_there_already_is_left_alone(kind: EditKind, arguments: str, tmp_path: Path) -> None:
    made = patch(tmp_path, arguments, kind)
    assert made.empty and not made.declined


@pytest.mark.parametrize(
    ("call", "after"),
    [
        ("optimizer.zero_grad(set_to_none=False)", "optimizer.zero_grad()"),
        ("optimizer.zero_grad(False)", "optimizer.zero_grad()"),
        ("optimizer.zero_grad(set_to_none=True)", None),
        ("optimizer.zero_grad()", None),
        ("optimizer.zero_grad(*[False])", None),
        ("done = optimizer.zero_grad(False)", None),
    ],
)
def test_gradients_are_freed_where_they_are_filled_with_zeros(call: str, after: str | None, tmp_path: Path) -> None:
    text = script(f"for x, y in loader:\n    STEP\n    {call}\n")
    (tmp_path / "train.py").write_text(text)
    line = next(number for number, row in enumerate(text.splitlines(), 1) if row.strip() == call)
    edit = Edit("gradients-to-none", locations=(Location("train.py", line),))
    made = make(tmp_path, tmp_path / "train.py", (edit,), (), PatchOptions(checked=True))
    if after is None:
        assert made.empty and "no zero_grad(set_to_none=False)" in made.declined[0].obstacle
    else:
        assert [hunk.tier for hunk in made.hunks] == ["checked"]
        assert f"    {after}\n" in patched_text(made).split("optimizer.step()\n")[1]


def test_two_levers_that_pin_the_same_loader_write_the_argument_once(tmp_path: Path) -> None:
    lines = ["import torch as t", "from torch.utils.data import DataLoader"]
    lines += ["tensors = t.utils.data.TensorDataset(t.ones(8, 3), t.zeros(8, 2))", "model = t.nn.Linear(3, 2).cuda()"]
    lines += ["loader = DataLoader(tensors, batch_size=4)", "for x, y in loader:", "    x = x.cuda()"]
    lines += ["    model(x).sum().backward()", ""]
    (tmp_path / "train.py").write_text("\n".join(lines))
    edits = (Edit("async-copy"), Edit("loader-pinning"))
    made = make(tmp_path, tmp_path / "train.py", edits, (), PatchOptions(checked=True))
    assert not made.declined
    assert [hunk.edit for hunk in made.hunks if hunk.location.line == 5] == ["async-copy", "loader-pinning"]
    assert "DataLoader(tensors, batch_size=4, pin_memory=t.cuda.is_available())\n" in patched_text(made)


LOOPS = {
    "a method makes the step": """
class Trainer:
    def fit(self, loader):
        for x, y in loader:
            self.step(x, y)

    def step(self, x, y):
        optimizer.zero_grad()
        loss = (model(x) - y).pow(2).mean()
        loss.backward()
        optimizer.step()
Trainer().fit(loader)
""",
    "an iterator is asked for the next batch": """
batches = iter(loader)
while True:
    try:
        x, y = next(batches)
    except StopIteration:
        break
    optimizer.zero_grad()
    (model(x) - y).pow(2).mean().backward()
    optimizer.step()
""",
    "the loop is in another file": "import elsewhere\nelsewhere.train(loader)\n",
}


@pytest.mark.parametrize("loop", LOOPS.values(), ids=LOOPS)
@pytest.mark.parametrize("kind", ["loader-workers", "loader-ahead", "loader-pinning"])
def test_where_the_recording_saw_the_loader_made_any_loop_will_do(kind: EditKind, loop: str, tmp_path: Path) -> None:
    """Nothing was found, and nothing declined, unless a `for` loop of the same file goes backward itself."""
    made = placed(kind, f"loader = DataLoader(\n    tensors, 4, num_workers=2)\n{loop}", tmp_path)
    assert [(hunk.tier, hunk.location.line) for hunk in made.hunks] == [("checked", 6)]
    assert not made.declined


def placed(kind: EditKind, text: str, folder: Path) -> Patch:
    """The patch of an Edit at the sixth line, which makes the loader."""
    start = "import torch\nfrom torch.utils.data import DataLoader\nmodel = torch.nn.Linear(3, 2)\n"
    start += f"optimizer = torch.optim.SGD(model.parameters(), 0.1)\n{DATA}"
    (folder / "train.py").write_text(start + text)
    edit = Edit(kind, locations=(Location("train.py", 6),), depth=4, workers=4)
    return make(folder, folder / "train.py", (edit,), (), PatchOptions(checked=True))


def test_a_step_function_that_changes_the_data_set_keeps_its_loader(tmp_path: Path) -> None:
    loop = LOOPS["a method makes the step"].replace("loss.backward()", "loss.backward(); tensors.tensors[0].add_(1)")
    made = placed("loader-workers", f"loader = DataLoader(tensors, 4)\n{loop}", tmp_path)
    assert made.empty and "the loop uses its data set `tensors`" in made.declined[0].obstacle
