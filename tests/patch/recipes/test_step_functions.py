"""A step function that logs or adds up what it reads: its statements wait, and the loop that calls it tells batches."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.patching import assert_same, patch_of, patched_text, script

METHOD = """
from collections import defaultdict
class Trainer:
    def __init__(self):
        self.steps, self.epochs = 0, 0
        self.total = defaultdict(float)
        self.lines = []

    def train_step(self, x, y):
        \"\"\"One step.\"\"\"
        STEP
        if self.steps > 3:
            self.total["late"] += loss.item()  # fires
        self.total[
            "all"
        ] += loss.item()  # fires
        self.steps += 1
        self.check()

    def check(self):
        pass

    def epoch(self):
        for x, y in loader:
            self.train_step(x, y)
            self.log()
            if self.steps > 40:
                BREAK
        self.epochs += 1

    def log(self):
        if self.steps % 7 == 0:
            for name in self.total:
                self.lines.append((self.steps, name, self.total[name]))
            self.total = defaultdict(float)

trainer = Trainer()
try:
    for _ in range(2):
        trainer.epoch()
finally:
    result = (trainer.steps, dict(trainer.total), trainer.lines)
"""
FUNCTION = """
def train(epoch, x, y):
    STEP
    print("epoch", epoch, "loss: {:.4f}".format(loss.item()), loss.item())  # fires

for epoch, (x, y) in enumerate(loader):
    train(epoch, x, y)
    if epoch == 17:
        BREAK
print("done")
"""
PRINTED = 'print("epoch", epoch, "loss: {:.4f}".format(loss.item()), loss.item())'
ENDS = {"to the end": "pass", "left early": "break", "an error": "raise ValueError('stop')"}


@pytest.mark.parametrize("ends", ENDS)
@pytest.mark.parametrize("body", [METHOD, FUNCTION], ids=["a method", "a function"])
def test_what_a_step_function_adds_up_or_prints_is_the_same_later(body: str, ends: str, tmp_path: Path) -> None:
    text = script(body.replace("BREAK", ENDS[ends]), batches=23)
    patch = patch_of(tmp_path, text)
    assert [(hunk.edit, hunk.tier) for hunk in patch.hunks] == [("defer-read", "checked")]
    assert patch.declined == ()
    assert "between two calls of" in patch.hunks[0].unproved
    after = patched_text(patch)
    assert "loss.item()" not in after and "ahead.iterate(" in after
    assert_same(tmp_path, text, patch)
    assert patch_of(tmp_path, after).empty


def test_the_docstring_stays_first_and_sums_are_drained_where_they_are_shown(tmp_path: Path) -> None:
    after = patched_text(patch_of(tmp_path, script(METHOD.replace("BREAK", "pass"))))
    assert '        """One step."""\n        def record_loss(' in after
    assert "        if self.steps % 7 == 0:\n            ahead.drain()\n            for name in self.total:\n" in after


STAYS = {
    "the loop shows the sum in each batch": (METHOD.replace("BREAK", "print(self.total)"), "in each batch"),
    "the value is returned, beside a read that stays": (
        FUNCTION.replace("# fires\n", "\n    return loss.item()  # fires\n"),
        "right beside it",
    ),
    "the step looks at it": (METHOD.replace("self.check()", "assert self.total['all'] < 1e9"), "same batch"),
    "the loop prints in each batch": (
        FUNCTION.replace("    if epoch", "    print(epoch)\n    if epoch"),
        "in each batch",
    ),
    "it is called outside of a loop too": (FUNCTION + "train(99, x, y)\n", "calls `train` in one"),
    "it is handed to somebody": (FUNCTION + "steps = [train]\n", "calls `train` in one"),
    "an object that was handed over": (
        FUNCTION.replace("    train(epoch", "    train(sums").replace(PRINTED, "epoch.append(loss.item())"),
        "handed over",
    ),
}


@pytest.mark.parametrize("name", STAYS)
def test_a_step_function_stays_where_its_results_are_needed_in_the_same_batch(name: str, tmp_path: Path) -> None:
    body, why = STAYS[name]
    patch = patch_of(tmp_path, script("sums = []\n" + body.replace("BREAK", "pass")))
    assert patch.empty
    assert any(why in one.obstacle for one in patch.declined), patch.declined


def test_a_method_that_is_called_as_those_of_torch_are_is_found(tmp_path: Path) -> None:
    text = script(METHOD.replace("BREAK", "pass").replace("train_step(", "step("))
    patch = patch_of(tmp_path, text)
    assert [hunk.tier for hunk in patch.hunks] == ["checked"]
    assert_same(tmp_path, text, patch)


def test_without_checked_hunks_it_stays(tmp_path: Path) -> None:
    patch = patch_of(tmp_path, script(FUNCTION.replace("BREAK", "pass")), checked=False)
    assert patch.empty and [hunk.tier for hunk in patch.left_out] == ["checked"]


def test_a_file_that_imports_this_one_may_call_it(tmp_path: Path) -> None:
    (tmp_path / "other.py").write_text("from train import train\n")
    patch = patch_of(tmp_path, script(FUNCTION.replace("BREAK", "pass")))
    assert patch.empty and "calls `train` in one" in patch.declined[0].obstacle
