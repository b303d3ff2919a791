"""The patcher on loops that it once patched wrongly: no hunk of theirs is safe, wherever the class stands."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.known_mistakes import HOLDER_OF_STATE, KNOWN_MISTAKES, METER_CALLBACK_PRINTS, TRACKER_PRINTS
from tests.support.moves import SURROUNDINGS, Case, one_file, two_files
from tracelens.model import Patch
from tracelens.patch.every_place import patch_script
from tracelens.patch.recipes import PatchOptions

MOVES_ALONG = {
    TRACKER_PRINTS: "tracker.add(i)",
    METER_CALLBACK_PRINTS: "meter.update(i)",
    HOLDER_OF_STATE: "state.step += 1",
}
"""Statements without a read, which can wait as well: then all keep their order, and nothing is wrong."""
PROVED = Case(before="losses = []", body="STEP\nlosses.append(loss.item())", after="print(sum(losses))")


def patched(folder: Path, files: dict[str, str], checked: bool = True) -> Patch:
    for name, text in files.items():
        (folder / name).write_text(text)
    return patch_script(folder / "main.py", folder, {"defer-read": 10}, PatchOptions(checked=checked))


def tiers(patch: Patch) -> list[str]:
    return [hunk.tier for hunk in (*patch.hunks, *patch.left_out) if hunk.edit == "defer-read"]


@pytest.mark.parametrize("files", [one_file, two_files])
@pytest.mark.parametrize("around", SURROUNDINGS)
@pytest.mark.parametrize("mistake", [name for name in KNOWN_MISTAKES if KNOWN_MISTAKES[name] not in MOVES_ALONG])
def test_no_patch_of_theirs_is_safe(
    mistake: str, around: str, files: Callable[..., dict[str, str]], tmp_path: Path
) -> None:
    for checked in (True, False):
        assert "safe" not in tiers(patched(tmp_path, files(KNOWN_MISTAKES[mistake], SURROUNDINGS[around]), checked))


@pytest.mark.parametrize("around", SURROUNDINGS)
def test_a_loop_without_such_a_mistake_is_patched_safely(around: str, tmp_path: Path) -> None:
    assert tiers(patched(tmp_path, two_files(PROVED, SURROUNDINGS[around]), checked=False)) == ["safe"]


@pytest.mark.parametrize("files", [one_file, two_files])
@pytest.mark.parametrize("around", SURROUNDINGS)
@pytest.mark.parametrize("case", MOVES_ALONG, ids=MOVES_ALONG.values())
def test_what_the_reads_may_not_pass_waits_with_them(
    case: Case, around: str, files: Callable[..., dict[str, str]], tmp_path: Path
) -> None:
    patch = patched(tmp_path, files(case, SURROUNDINGS[around]), checked=False)
    removed = {line[1:].strip() for line in patch.diff.splitlines() if line.startswith("-")}
    assert tiers(patch) == ["safe"]
    assert removed > {MOVES_ALONG[case]}
    assert any(line.startswith("print(") for line in removed)
