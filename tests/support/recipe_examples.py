"""The examples in rules/recipes/: the text that a recipe is tried on, and the Edit that asks for it."""

from __future__ import annotations

from tests.support.patching import FIRES, fired
from tests.support.places import ROOT
from tracelens.edit_kinds import EditKind
from tracelens.model import Edit

FOLDER = ROOT / "rules" / "recipes"


def example(kind: str) -> str:
    """before.py of a kind; its marked lines end in `# fires`, without what the mark says to the reader."""
    lines = (FOLDER / kind / "before.py").read_text(encoding="utf-8").splitlines()
    return "".join(f"{line.partition(FIRES)[0]}{FIRES}\n" if FIRES in line else f"{line}\n" for line in lines)


def example_edit(kind: EditKind, path: str = "train.py") -> Edit:
    """The kind, at every line of its example that is marked."""
    depth = 4 if kind == "loader-ahead" else 1  # two batches ahead is what torch does by itself
    return Edit(kind, locations=fired(example(kind), path=path), interval=10, depth=depth, workers=2)
