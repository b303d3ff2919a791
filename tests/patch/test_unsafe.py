"""What needs --unsafe: listed without it, chosen by hunk, applied twice without a change, reverted exactly."""

from __future__ import annotations

import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.patching import assert_same, defer, patch_of, script
from tests.support.recipe_examples import example, example_edit
from tests.support.unsafe_patches import edits, reasons, unsafe
from tracelens.edit_kinds import EditKind, definition
from tracelens.model import UNSAFE_EDITS, Location, Stall
from tracelens.patch.files import apply
from tracelens.patch.loop.thinned import MARK
from tracelens.patch.recipes import PatchOptions, make

# ------------------------------------------------------------------------------------------- the patch as a whole

WHOLE = """
import math, sys
from torch.utils.data import DataLoader, TensorDataset
data = TensorDataset(torch.randn(60, 4), torch.randint(0, 3, (60,)))


def main():
    total = 0.0
    loader = DataLoader(data, batch_size=4, num_workers=1)
    for epoch in range(2):
        for x, y in loader:
            STEP
            loss_value = loss.item()  # fires
            if not math.isfinite(loss_value):
                sys.exit(1)
            total += loss_value
            print(loss.norm().item())  # fires
    print(total)


if __name__ == "__main__":
    main()
"""
IN_WHOLE = ("thin-logs", "move-guard", "more-workers", "persistent-workers")
"""Kinds with a place in it. Other kinds are tried on their examples alone."""


def test_without_unsafe_every_place_is_listed_and_not_a_byte_differs(tmp_path: Path) -> None:
    text = script(WHOLE)
    plain = patch_of(tmp_path, text, defer(text))
    offered = patch_of(tmp_path, text, (*defer(text), *edits(text, *IN_WHOLE)))
    assert [one.after for one in offered.files] == [one.after for one in plain.files]
    assert offered.hunks == plain.hunks
    told = {one.edit: one.obstacle for one in offered.declined if one.edit in UNSAFE_EDITS}
    assert set(told) == set(IN_WHOLE)
    assert all("needs --unsafe: " in obstacle for obstacle in told.values())
    assert offered.by_hand == plain.by_hand, "they are no work for a person"


@pytest.mark.parametrize("kind", UNSAFE_EDITS)
def test_without_unsafe_the_example_of_each_kind_is_told_and_stays(kind: EditKind, tmp_path: Path) -> None:
    """A new unsafe kind is here without an entry: its example in rules/recipes/ is the place that it is tried on."""
    text = example(kind)
    plain = patch_of(tmp_path, text, defer(text))
    offered = patch_of(tmp_path, text, (*defer(text), example_edit(kind)))
    assert [one.after for one in offered.files] == [one.after for one in plain.files]
    assert offered.hunks == plain.hunks
    assert any(obstacle.startswith("needs --unsafe: ") for obstacle in reasons(offered, kind)), (
        f"tracelens/patch/recipes/{definition(kind).recipe}.py: `propose` says nothing about rules/recipes/{kind}/"
        'before.py without --unsafe; raise Blocked(None, "needs --unsafe: …", …) where a place could be changed'
    )


def test_hunks_have_families_of_their_own_and_obey_only_and_skip(tmp_path: Path) -> None:
    text = script(WHOLE)
    wanted = (*defer(text), *edits(text, *IN_WHOLE))
    every = patch_of(tmp_path, text, wanted, unsafe=True)
    assert [hunk.id for hunk in every.hunks] == ["TL701", "TL801", "TL601", "TL501"], "what waits, waits with the guard"
    assert every.left_alone == ()
    only = patch_of(tmp_path, text, wanted, unsafe=True, only=("TL601",))
    assert [hunk.id for hunk in only.hunks] == ["TL601"] and MARK not in only.diff
    skipped = patch_of(tmp_path, text, wanted, unsafe=True, skip=("TL601",))
    assert "TL601" not in [hunk.id for hunk in skipped.hunks] and MARK in skipped.diff


TOGETHER = ("event-sync", "interval-sync", "defer-read", *IN_WHOLE)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kinds", "ending"),
    [
        # To read a file that has the runtime beside it takes ten seconds: that of a moved guard.
        pytest.param(kinds, ending, id=f"{'+'.join(kinds)}-{name}")
        for kinds in (*((one,) for one in IN_WHOLE), TOGETHER)
        for name, ending in (("lf", "\n"), ("crlf", "\r\n"))
        if (kinds, name) != (("move-guard",), "crlf")  # also in the last
    ],
)
def test_a_second_run_changes_nothing_and_revert_is_exact(kinds: tuple[str, ...], ending: str, tmp_path: Path) -> None:
    text = script(WHOLE).replace("print(total)", "torch.cuda.synchronize()").replace("\n", ending)
    path = tmp_path / "train.py"
    wanted = edits(text, *kinds)
    patch = patch_of(tmp_path, text, wanted, unsafe=True)
    assert not patch.empty
    apply.write(patch, tmp_path / "backup")
    now = path.read_bytes().decode()
    stalls = tuple(
        Stall(f"s{n}", "cudaStreamSynchronize", "d2h", 1.0, 0, 0, None, "unknown", Location("train.py", n))
        for n, line in enumerate(now.splitlines(), 1)
        if ".item()" in line
    )
    again = tuple(
        replace(edit, locations=(), stalls=tuple(s.id for s in stalls)) if edit.locations else edit for edit in wanted
    )
    assert make(tmp_path, path, again, stalls, PatchOptions(unsafe=True)).diff == ""
    apply.revert(tmp_path / "backup")
    assert path.read_bytes() == text.encode()
    shutil.rmtree(tmp_path / "backup", ignore_errors=True)


METERS = """
class Meters:
    def __init__(self):
        self.values = {}

    def update(self, **values):
        for name, value in values.items():
            self.values.setdefault(name, []).append(value)

    def log_every(self, batches, every):
        count = 0
        for batch in batches:
            yield batch
            if count % every == 0:
                print(count, {name: sum(values) for name, values in self.values.items()})
            count += 1
"""
ENGINE = """
import math, sys
from meters import Meters


def train_one_epoch(poison):
    meters = Meters()
    for x, y in meters.log_every(loader, 7):
        x = x * float("nan") if poison and x is loader[13][0] else x
        loss = criterion(model(x), y)
        loss_value = loss.item()  # fires
        if not math.isfinite(loss_value):
            print("Loss is {}, stopping training".format(loss_value))
            print(sorted(meters.values))
            sys.exit(1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        meters.update(loss=loss_value)
    return meters.values


kept = train_one_epoch("poison" in sys.argv)
print(kept)
"""


@pytest.mark.parametrize("arguments", [(), ("poison",)])
def test_the_engine_of_a_project_with_meters(arguments: tuple[str, ...], tmp_path: Path) -> None:
    """The shape of MAE, DeiT and DETR: a guard, and meters that their own generator prints."""
    text = script(ENGINE)
    for folder in (tmp_path, tmp_path / "before", tmp_path / "after"):
        folder.mkdir(exist_ok=True)
        (folder / "meters.py").write_text(METERS)
    patch = unsafe(tmp_path, text, "defer-read", "move-guard")
    assert [hunk.id for hunk in patch.hunks] == ["TL601"]
    sys.modules.pop("meters", None)
    assert assert_same(tmp_path, text, patch, arguments).ending == ("SystemExit: 1" if arguments else "")
    sys.modules.pop("meters", None)
