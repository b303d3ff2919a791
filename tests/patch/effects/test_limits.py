"""An analysis that came to its end within the limits answers what it is asked."""

from __future__ import annotations

import ast
from pathlib import Path

from tracelens.patch.effects.analysis import Analysis, analyse
from tracelens.patch.effects.memory import Limits, TooLarge
from tracelens.patch.effects.objects import Module
from tracelens.patch.effects.project import Project

TEXT = "class Meter:\n    def __init__(self):\n        self.total = 0.0\nmeter = Meter()\nprint(meter.total)\n"


def analysed(folder: Path, effects: int) -> Analysis | None:
    (folder / "train.py").write_text(TEXT)
    try:
        return analyse(Project(folder), [folder / "train.py"], [], Limits(held=64, effects=effects))
    except TooLarge:
        return None


def test_the_last_effect_of_a_limit_leaves_room_for_questions(tmp_path: Path) -> None:
    found = next(one for one in (analysed(tmp_path, effects) for effects in range(1, 200)) if one is not None)
    (module,) = (one for one in found.memory.objects(Module) if one.file.path.name == "train.py")
    for _ in range(100):
        assert found.value(module, ast.parse("meter.total", mode="eval").body)
