"""Scripts that are patched without a recording: which Edits stand for all of their places."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.recipe_examples import FOLDER
from tracelens.edit_kinds import EDIT_DEFINITIONS, definition
from tracelens.patch.every_place import patch_script
from tracelens.patch.recipes import PatchOptions


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
