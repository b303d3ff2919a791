"""Names of files in a diff: those with spaces end with a tab, as git writes them."""

from __future__ import annotations

from pathlib import Path

from tracelens.model import FilePatch
from tracelens.patch.files.diff import unified

ROOT = Path("/project")


def test_a_name_with_spaces_ends_with_a_tab_and_another_does_not() -> None:
    both = [FilePatch(ROOT / name, b"a\n", b"b\n") for name in ("my script.py", "train.py")]
    lines = unified(both, ROOT).splitlines()
    assert lines[:3] == ["diff --git a/my script.py b/my script.py", "--- a/my script.py\t", "+++ b/my script.py\t"]
    assert lines[6:9] == ["diff --git a/train.py b/train.py", "--- a/train.py", "+++ b/train.py"]
