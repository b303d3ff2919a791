"""The patch of a Run: what its trials run is what `apply` writes."""

from __future__ import annotations

from pathlib import Path

from tests.support.patching import defer, script
from tracelens.model import Abstention
from tracelens.remedies import HunkChoice, PatchContext, change
from tracelens.run.sources import TrainingScript


def test_it_keeps_what_an_exception_would_lose(tmp_path: Path) -> None:
    """A trial ends its loop by an exception, and compares every line."""
    text = script("for x, y in loader:\n    STEP\n    print(loss.item())  # fires\n")
    code = TrainingScript(tmp_path / "train.py", tmp_path, text)
    code.path.write_text(text)
    context = PatchContext(Abstention("replay", "no recording", ""), code, None, ())
    patch = change(context, code, defer(text), HunkChoice())
    assert [file.path.name for file in patch.files] == ["train.py", "tracelens_runtime.py"]
    assert [hunk.tier for hunk in patch.hunks] == ["safe"]
