"""Reads that warn: where the project looks at warnings, a read that waits is not called safe."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.patching import fired, patch_of, script
from tracelens.model import Edit

LOOP = "\nhist = []\nfor x, y in loader:\n    STEP\n    hist.append({read})  # fires\n"


def tiers(folder: Path, before: str, read: str) -> set[str]:
    text = script(before + LOOP.format(read=read))
    patch = patch_of(folder, text, (Edit("defer-read", locations=fired(text), interval=10),))
    return {hunk.tier for hunk in patch.hunks}


@pytest.mark.parametrize(
    "before", ["import warnings\nwarnings.simplefilter('error')", "import warnings\nwarnings.showwarning = print"]
)
def test_a_warning_that_somebody_looks_at(before: str, tmp_path: Path) -> None:
    assert "safe" not in tiers(tmp_path, before, "float(loss)")


@pytest.mark.parametrize("before", ["import warnings\nwarnings.simplefilter('ignore')", ""])
def test_a_warning_that_nobody_looks_at(before: str, tmp_path: Path) -> None:
    assert tiers(tmp_path, before, "float(loss)") == {"safe"}


def test_a_read_that_never_warns(tmp_path: Path) -> None:
    assert tiers(tmp_path, "import warnings\nwarnings.simplefilter('error')", "loss.item()") == {"safe"}
