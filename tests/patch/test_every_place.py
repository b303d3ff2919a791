"""Scripts that are patched without a recording: which Edits stand for all of their places."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.patching import script
from tests.support.recipe_examples import FOLDER
from tracelens.edit_kinds import EDIT_DEFINITIONS, definition
from tracelens.model import Declined
from tracelens.patch.every_place import patch_script
from tracelens.patch.proposal import RecipeAnswer, RecipeRequest
from tracelens.patch.recipes import PatchOptions, build, defer_read


@pytest.mark.parametrize("ends_waits", [False, True])
def test_a_kind_that_is_about_no_wait_is_asked_for_too(
    ends_waits: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed = replace(definition("persistent-workers"), acts_on=(), ends_waits=ends_waits)
    monkeypatch.setitem(EDIT_DEFINITIONS, "persistent-workers", changed)  # type: ignore[arg-type]
    script = tmp_path / "train.py"
    script.write_bytes((FOLDER / "persistent-workers" / "before.py").read_bytes())
    patch = patch_script(script, tmp_path, {"persistent-workers": 10}, PatchOptions(unsafe=True))
    assert [hunk.edit for hunk in patch.hunks] == ["persistent-workers"]


def test_lines_that_cannot_be_moved_leave_the_other_changes_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unstable = build._Project._unstable
    monkeypatch.setattr(
        build._Project,
        "_unstable",
        lambda self, draft, new, proposals: (
            "it is not so" if any(p.sites for p in proposals) else unstable(self, draft, new, proposals)
        ),
    )
    path = tmp_path / "train.py"
    path.write_text(
        script(
            "total = 0.0\nfor x, y in loader:\n    x = x.to('cuda')\n    STEP\n    total += loss.item()\nprint(total)\n"
        )
    )
    patch = patch_script(path, tmp_path, {"async-copy": 10, "defer-read": 10}, PatchOptions())
    assert {hunk.edit for hunk in patch.hunks} == {"async-copy"}
    assert "non_blocking=True" in patch.files[0].after.decode()
    assert [(one.edit, one.obstacle) for one in patch.declined if "it is not so" in one.obstacle] == [
        ("defer-read", "the file is left as it is: it is not so")
    ]


@pytest.mark.parametrize("declined", [True, False])
def test_a_place_that_was_left_over_is_no_second_change_of_the_others(
    declined: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A read that cannot wait beside another may be able to once that one waits; the file is patched all the same."""
    path = tmp_path / "train.py"
    loop = "total = 0.0\nfor x, y in loader:\n    STEP\n    total += loss.item()\nprint(total)\n"
    path.write_text(script(loop + loop).replace('"cpu"', '"cuda"'))
    propose = defer_read.propose

    def at_first_one_only(request: RecipeRequest) -> RecipeAnswer:
        answer = propose(request)
        first, *others = answer.proposals
        if "pending" in request.source.text:
            return answer
        told = tuple(Declined("defer-read", one.location, "it stays", "nothing") for one in others)
        return RecipeAnswer((first,), told if declined else ())

    monkeypatch.setattr(defer_read, "propose", at_first_one_only)
    patch = patch_script(path, tmp_path, {"defer-read": 10}, PatchOptions())
    assert len(patch.hunks) == declined
    assert any("a second run would change" in one.obstacle for one in patch.declined) != declined


def test_a_loop_in_a_class_body_is_declined(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    text = "class Train:\n    total = 0.0\n    for x, y in loader:\n        x = x.to('cuda')\n        STEP\n"
    path.write_text(
        script(text + "        torch.cuda.synchronize()\n        total += loss.item()\nprint(Train.total)\n")
    )
    kinds = {"async-copy": 10, "defer-read": 10, "event-sync": 10, "interval-sync": 10, "prefetch": 10}
    patch = patch_script(path, tmp_path, kinds, PatchOptions())
    assert {one.edit for one in patch.declined if "class body" in one.obstacle} == set(kinds)


_LEARNER = """
class Learner:
    def __init__(self, model, optimizer):
        self.model, self.optimizer = model, optimizer

    def train_step(self, x, y):
        self.optimizer.zero_grad()
        loss = (self.model(x).sum(1) - y).square().mean()
        loss.backward()
        self.optimizer.step()
        return loss
"""
_EPOCH = """
def train_epoch(learner, loader):
    total = 0.0
    for x, y in loader:
        loss = learner.train_step(x, y)
        total += loss.item()
    return total / len(loader)
"""
_MAIN = "from epoch import train_epoch\nfrom learner import Learner\n"


def test_a_loop_whose_step_is_a_method_of_another_file_is_seen(tmp_path: Path) -> None:
    """The loop's own file does not import the learner; the script that is started hands it over."""
    (tmp_path / "learner.py").write_text(_LEARNER)
    (tmp_path / "epoch.py").write_text(_EPOCH)
    call = "print(train_epoch(Learner(model, optimizer), loader))\n"
    (tmp_path / "main.py").write_text(_MAIN + script(call))
    patch = patch_script(tmp_path / "epoch.py", tmp_path, {"defer-read": 10}, PatchOptions(checked=True))
    assert [(hunk.edit, hunk.location.line) for hunk in patch.hunks] == [("defer-read", 6)]


BELOW_AN_OPTION = """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--every", {option})
args = parser.parse_args([])
{before}
total = 0.0
for i, (x, y) in enumerate(loader):
    x, y = x.to(device), y.to(device)
    STEP
    if (i + 1) % args.every == 0:
        total += loss.item()
print(total)
"""


@pytest.mark.parametrize(
    ("option", "before", "few"),
    [
        ("type=int, default=1", "", False),
        ("type=int, default=20", "", True),
        ("type=int", "", True),
        ("type=int, default=1", "args.every = 10", True),
        ("type=int, default=1", "parser.set_defaults(every=10)", True),
        ("type=int, default=1", "args = parser.parse_known_args([])[0]", True),
    ],
)
def test_a_line_of_every_kth_batch_is_one_of_each_where_k_is_1_unless_somebody_says_so(
    option: str, before: str, few: bool, tmp_path: Path
) -> None:
    path = tmp_path / "train.py"
    path.write_text(script(BELOW_AN_OPTION.format(option=option, before=before)).replace('"cpu"', '"cuda"'))
    patch = patch_script(path, tmp_path, {"defer-read": 10}, PatchOptions())
    assert ["few batches" in one.obstacle for one in patch.declined] == [True] * few
    assert len(patch.hunks) == (not few)
