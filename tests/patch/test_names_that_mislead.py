"""What a value or its list is called says nothing: `state.loss` is not the tensor `loss`, `dist` may be a list."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.patching import assert_same, patch_of, script

STATE = """
class State:
    def __init__(self):
        self.best, self.loss = 1e9, 0.0
state = State()
"""
LOOP = """
for i, (x, y) in enumerate(loader):
    STEP
    {lines}
"""
LATER = {
    "an attribute called like the tensor": (
        STATE,
        "state.loss = loss.item(); state.best = min(state.best, state.loss)",
    ),
    "an element of one": (
        "seen = {'loss': []}\nmost = [0.0]\n",
        "seen['loss'].append(loss.item()); most[0] = max(most[0], seen['loss'][-1])",
    ),
    "a list with a word of trainings": ("dist = []\n", "dist.append(loss.item())"),
    "a dict of a model's numbers": ("model_losses = {}\n", "model_losses.update({i: loss.item()})"),
}
SHOWN = {
    "an attribute called like the tensor": "print(state.best, state.loss)",
    "an element of one": "print(most, seen)",
    "a list with a word of trainings": "print(dist)",
    "a dict of a model's numbers": "print(model_losses)",
}


@pytest.mark.parametrize("name", LATER)
def test_a_value_waits_whatever_its_place_is_called(name: str, tmp_path: Path) -> None:
    before, lines = LATER[name]
    text = script(before + LOOP.format(lines=f"{lines}  # fires") + SHOWN[name] + "\n", batches=12)
    patch = patch_of(tmp_path, text)
    assert [(hunk.edit, hunk.tier) for hunk in patch.hunks] == [("defer-read", "safe")], patch.declined
    assert_same(tmp_path, text, patch)


@pytest.mark.parametrize(
    ("before", "lines"),
    [
        (STATE, "state.loss = loss.item()  # fires\n    optimizer.param_groups[0]['lr'] = 0.1 / (1 + state.loss)"),
        (
            "dist = []\n",
            "dist.append(loss.item())  # fires\n    optimizer.param_groups[0]['lr'] = 0.1 / (1 + dist[-1])",
        ),
        ("", "optimizer.note = [0]\n    dist = optimizer\n    dist.note.append(loss.item())  # fires"),
    ],
    ids=["the attribute is looked at", "the list is looked at", "the name is another one's"],
)
def test_a_value_that_the_training_looks_at_stays(before: str, lines: str, tmp_path: Path) -> None:
    patch = patch_of(tmp_path, script(before + LOOP.format(lines=lines), batches=12))
    assert not patch.hunks
    assert [one.edit for one in patch.declined] == ["defer-read"]


ACCELERATOR = """
from accelerate import Accelerator
accelerator = Accelerator()
"""


@pytest.mark.parametrize(("line", "waits"), [("", True), ("\n    accelerator.end_training()", False)])
def test_a_log_of_accelerate_waits_beside_its_steps(line: str, waits: bool, tmp_path: Path) -> None:
    """What a step changes of the accelerator is nothing that its trackers look at; what closes them is."""
    lines = f"accelerator.backward(loss)\n    accelerator.log({{'loss': loss.item()}}, step=i)  # fires{line}"
    patch = patch_of(tmp_path, script(ACCELERATOR + LOOP.format(lines=lines), batches=12))
    deferred = [hunk for hunk in patch.hunks if hunk.edit == "defer-read"]
    assert bool(deferred) == waits, patch.declined


@pytest.mark.parametrize(
    "watchdog", ["faulthandler.dump_traceback_later(600, exit=True)", "signal.alarm(600)", "faulthandler.enable()"]
)
def test_a_watchdog_is_armed_in_its_batch_whatever_it_is_called(watchdog: str, tmp_path: Path) -> None:
    """A `dump…` of a library may write lines, and lines keep their order: this one only sets a clock."""
    lines = f"{watchdog}\n    print(i, loss.item())  # fires"
    patch = patch_of(tmp_path, script("import faulthandler, signal\n" + LOOP.format(lines=lines), batches=12))
    removed = [line for line in patch.diff.splitlines() if line.startswith("-    ")]
    assert [hunk.edit for hunk in patch.hunks] == ["defer-read"] and watchdog not in "".join(removed), patch.diff
