"""An answer is the same in each process: the order of sets, which differs in each, decides nothing.

The project is one in which the order in which functions are looked at again counts: names that stand for many things.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

CODE = """
import torch
from torch import nn


class Meter:
    def __init__(self, owner):
        self.owner, self.seen = owner, []

    def update(self, value):
        self.seen.append(value)
        for name in ('update', 'seen', 'owner'):
            getattr(self.owner, name)

    def shown(self):
        return sorted(self.seen, key=lambda one: len(self.owner.seen))


class Log(Meter):
    def update(self, value):
        super().update(value)
        print(self.shown(), getattr(self, str(value)))


def build(kind, *rest, **more):
    return [made(*rest, **more) for made in (Meter, Log, kind)]


def run(loader, model, opt, settings):
    meters = {key: made for key, made in zip(settings, build(*settings))}
    total = 0.0
    for x in loader:
        loss = model(x, *meters.values()).sum()
        loss.backward()
        opt.step()
        total += loss.item()
        for meter in meters.values():
            meter.update(getattr(settings, meter.shown()))
    return total


run([torch.ones(2)], nn.Linear(2, 2), torch.optim.SGD([], 0.1), [Meter, Log, build])
"""
ASK = """
import json, sys
from pathlib import Path
from tests.patch.effects.test_same_in_each_process import answers
print(json.dumps(answers(Path(sys.argv[1]))))
"""


def answers(path: Path) -> Any:
    """What one process says of the project, and what it did to get there."""
    from tracelens.patch.effects.file_effects import FileEffects
    from tracelens.patch.effects.memory import all_limits
    from tracelens.patch.effects.places import Span
    from tracelens.patch.effects.project import Project
    from tracelens.patch.effects.question import Question

    text = path.read_text()
    at = 1 + next(number for number, line in enumerate(text.splitlines()) if "total += " in line)
    effects = FileEffects(Project(path.parent), path, path)
    answer = effects.answer(Question(path, at - 4, (Span(at, 8, at, 28),)))
    together = effects._together(all_limits()[0])
    assert together is not None
    memory, reached = together.memory, effects.reached(at - 4)
    assert reached is not None
    return [
        [answer.tier, [[one.certainty, one.kind, one.text, one.line] for one in answer.reasons]],
        [memory.effects_left, memory.changes, len(memory.summaries)],
        [[sorted(unit.seen), sorted(unit.changed)] for _, unit in reached._pieces],
    ]


@pytest.mark.programs
def test_three_processes_say_the_same(tmp_path: Path) -> None:
    path = tmp_path / "main.py"
    path.write_text(CODE)
    found = [_asked_apart(path, seed) for seed in ("0", "1", "2")]
    assert found[0][2], "the loop calls something"
    assert found[0] == found[1] == found[2]


def _asked_apart(path: Path, seed: str) -> Any:
    root = Path(__file__).parents[3]
    environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(root)}
    command = [sys.executable, "-c", ASK, str(path)]
    done = subprocess.run(command, env=environment, cwd=root, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)
