"""The examples in rules/recipes: each is a test, a page of the documentation and the text of `tracelens rules ID`."""

from __future__ import annotations

import contextlib
import gc
import io
import runpy
import shutil
from pathlib import Path
from typing import get_args

import pytest
import yaml

from tests.support.patching import _importable
from tests.support.recipe_examples import FOLDER, example_edit
from tracelens.edit_kinds import EDIT_DEFINITIONS, EditKind, Tier
from tracelens.model import UNSAFE_EDITS, Patch
from tracelens.patch.recipes import PatchOptions, make

KINDS = sorted(EDIT_DEFINITIONS)
COMPILES = (pytest.mark.slow, pytest.mark.filterwarnings("ignore:.*torch.jit.script_method:DeprecationWarning"))
RUN = [pytest.param(kind, marks=COMPILES if kind == "compile-modules" else ()) for kind in KINDS]
"""torch's compiler takes seconds to be imported."""
KEYS = {"id", "title", "tier", "loop_before", "loop_after", "conditions", "by_hand"}
OPTIONAL = {"offered_by"}


def patch_example(folder: Path, kind: EditKind) -> Patch:
    path = Path(shutil.copy(FOLDER / kind / "before.py", folder))
    return make(folder, path, (example_edit(kind, path.name),), (), PatchOptions(unsafe=kind in UNSAFE_EDITS))


def test_every_recipe_has_its_folder_and_no_other() -> None:
    assert sorted(folder.name for folder in FOLDER.iterdir()) == KINDS


@pytest.mark.parametrize("kind", KINDS)
def test_the_rule_says_when_and_what_else(kind: str) -> None:
    rule = yaml.safe_load((FOLDER / kind / "rule.yaml").read_text())
    assert set(rule) - OPTIONAL == KEYS
    assert rule["id"] == kind
    assert rule["tier"] in get_args(Tier)
    assert all(isinstance(condition, str) for condition in rule["conditions"])
    assert len(rule["conditions"]) > 1, f"rules/recipes/{kind}/rule.yaml: conditions needs two entries at least"


@pytest.mark.parametrize("kind", KINDS)
def test_the_example_is_patched_as_shown_and_its_other_place_stays(kind: EditKind, tmp_path: Path) -> None:
    patch = patch_example(tmp_path, kind)
    patched = {file.path.name: file.after for file in patch.files}
    told = [f"{declined.location}: {declined.obstacle}" for declined in patch.declined]
    assert "before.py" in patched, f"rules/recipes/{kind}/before.py was not patched; the patcher says: {told}"
    after = patched["before.py"]
    assert after.decode() == (FOLDER / kind / "after.py").read_text()
    staying = [n for n, line in enumerate((tmp_path / "before.py").read_text().splitlines(), 1) if "must stay" in line]
    assert staying
    assert {declined.location.line for declined in patch.declined} & set(range(min(staying) - 3, max(staying) + 3))


@pytest.mark.parametrize("kind", RUN)
def test_both_versions_print_the_same(kind: EditKind, tmp_path: Path) -> None:
    patch = patch_example(tmp_path, kind)
    for one in patch.files:
        if one.before is None:
            one.path.write_bytes(one.after)
    before, after = (printed(FOLDER / kind / name, tmp_path) for name in ("before.py", "after.py"))
    if kind == "thin-logs":
        first = before.splitlines()[:25]
        before = "".join(f"{line}\n" for line in (*first[::10], *before.splitlines()[25:]))
    assert after == before != ""


def printed(path: Path, folder: Path) -> str:
    output = io.StringIO()
    gc.freeze()  # an example may collect garbage in each batch: its own, not that of all tests before it
    try:
        with _importable(folder), contextlib.redirect_stdout(output):
            runpy.run_path(str(path), run_name="__main__")
    finally:
        gc.unfreeze()
    return output.getvalue()
