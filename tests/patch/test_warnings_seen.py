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


LOOKS = {
    "errors": "import warnings\nwarnings.simplefilter('error')",
    "a function in its place": "import warnings\nwarnings.showwarning = print",
    "the module by another name": "import warnings as w\nw.simplefilter('error')",
    "its function by another name": "from warnings import simplefilter as choose\nchoose('error')",
    "an action by a name": "import warnings as w\nfor kind in ('error',):\n    w.filterwarnings(action=kind)",
    "kept ones": "from warnings import catch_warnings\ncaught = catch_warnings(record=True)",
    "a setting that is handed on": "import warnings\nchoose = warnings.simplefilter",
    "the module handed on": "import warnings\ntools = [warnings]\ntools[0].simplefilter('error')",
    "a place for them": "import warnings as w\nw.showwarning = print",
    "a logger": "import logging as log\nlog.captureWarnings(True)",
    "the module by its text": "import importlib\nimportlib.import_module('warnings').simplefilter('error')",
}


@pytest.mark.parametrize("before", LOOKS.values(), ids=LOOKS.keys())
def test_a_warning_that_somebody_looks_at(before: str, tmp_path: Path) -> None:
    assert "safe" not in tiers(tmp_path, before, "float(loss)")


HARMLESS = (
    "",
    "import warnings\nwarnings.simplefilter('ignore')",
    "import warnings as w\nw.filterwarnings('ignore', category=UserWarning)",
    "from warnings import filterwarnings\nfilterwarnings(action='ignore', module='torch')",
    "import warnings\nwith warnings.catch_warnings():\n    warnings.simplefilter('ignore')",
)


@pytest.mark.parametrize("before", HARMLESS)
def test_a_warning_that_nobody_looks_at(before: str, tmp_path: Path) -> None:
    assert tiers(tmp_path, before, "float(loss)") == {"safe"}


def test_a_read_that_never_warns(tmp_path: Path) -> None:
    assert tiers(tmp_path, "import warnings\nwarnings.simplefilter('error')", "loss.item()") == {"safe"}


@pytest.mark.parametrize("line", ["import warnings as w\nw.simplefilter('error')", "from warnings import *"])
def test_another_file_looks_at_them(line: str, tmp_path: Path) -> None:
    (tmp_path / "quiet.py").write_text(f"{line}\n")
    assert "safe" not in tiers(tmp_path, "import quiet", "float(loss)")
