"""Small projects with one loop, for the question whether statements of it may run later.

A loop is written as lines: what stands before it, what it runs over, and its body, in which `# later` ends the lines of
the statements that should move. `SURROUNDINGS` puts the same loop into a function, a method, a module and so on.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tracelens.patch.effects.file_effects import FileEffects
from tracelens.patch.effects.places import Span, span_of
from tracelens.patch.effects.project import Project
from tracelens.patch.effects.question import Answer, Question

ROOT = Path("/project")
LATER = "# later"
LOOP = "# loop"
LIBRARY = """
import time
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset
from tqdm import tqdm


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 2)

    def forward(self, x):
        return F.relu(self.layer(x))


class Data(Dataset):
    def __getitem__(self, index):
        return torch.randn(4), 1

    def __len__(self):
        return 100
"""
SETUP = """
model = Net()
opt = torch.optim.SGD(model.parameters(), lr=0.1)
"""
STEP = """
opt.zero_grad()
loss = F.cross_entropy(model(x), y)
loss.backward()
opt.step()
"""


@dataclass(frozen=True)
class Case:
    """A loop with what it uses: `code` are definitions, `before` stands in front of the loop."""

    body: str
    code: str = ""
    before: str = ""
    over: str = "DataLoader(Data())"
    target: str = "i, (x, y)"
    counted: bool = True
    after: str = ""

    @property
    def lines(self) -> str:
        """The loop and what stands around it, without indentation."""
        iterated = f"enumerate({self.over})" if self.counted else self.over
        target = self.target if self.counted else "x, y"
        body = textwrap.dedent(self.body).strip().replace("STEP", STEP.strip())
        loop = f"for {target} in {iterated}:  {LOOP}\n" + textwrap.indent(body, "    ")
        return "\n".join(
            [SETUP.strip(), textwrap.dedent(self.before).strip(), loop, textwrap.dedent(self.after).strip()]
        )


def _indented(text: str, depth: int = 1) -> str:
    return textwrap.indent(text, "    " * depth)


def in_function(lines: str) -> str:
    return f"def train():\n{_indented(lines)}\n\ntrain()\n"


def in_method(lines: str) -> str:
    return f"class Runner:\n    def run(self):\n{_indented(lines, 2)}\n\nRunner().run()\n"


def in_module(lines: str) -> str:
    return lines + "\n"


def in_nested_function(lines: str) -> str:
    return f"def outer():\n    def inner():\n{_indented(lines, 2)}\n    inner()\n\nouter()\n"


def in_context_manager(lines: str) -> str:
    return f"def train():\n    with torch.autograd.set_detect_anomaly(False):\n{_indented(lines, 2)}\n\ntrain()\n"


SURROUNDINGS: Mapping[str, Callable[[str], str]] = {
    "function": in_function,
    "method": in_method,
    "module": in_module,
    "nested function": in_nested_function,
    "context manager": in_context_manager,
}


def one_file(case: Case, around: Callable[[str], str]) -> dict[str, str]:
    return {"main.py": f"{LIBRARY}\n{textwrap.dedent(case.code)}\n{around(case.lines)}"}


def two_files(case: Case, around: Callable[[str], str]) -> dict[str, str]:
    """The same with all definitions in another file."""
    return {
        "helpers.py": f"{LIBRARY}\n{textwrap.dedent(case.code)}",
        "main.py": f"from helpers import *\n\n{around(case.lines)}",
    }


def asked(files: Mapping[str, str], started: str | None = "main.py") -> Answer:
    """The answer for the one loop in the files that is marked; the statements marked in it run later."""
    changed = {ROOT / name: text for name, text in files.items()}
    path, text = next((path, text) for path, text in changed.items() if LOOP in text)
    lines = text.splitlines()
    line = next(number for number, one in enumerate(lines, 1) if LOOP in one)
    effects = FileEffects(_Files(ROOT, changed), path, ROOT / started if started else None)
    return effects.answer(Question(path, line, _marked(text)))


def asked_once(files: Mapping[str, str]) -> Answer:
    """The same, kept by the text of the files: for tables that several tests ask about, with the engine as it is."""
    return _kept(tuple(files.items()))


@cache
def _kept(files: tuple[tuple[str, str], ...]) -> Answer:
    return asked(dict(files))


def _marked(text: str) -> tuple[Span, ...]:
    lines = text.splitlines()
    out: list[Span] = []
    for node in ast.walk(ast.parse(text)):
        span = span_of(node) if isinstance(node, ast.stmt) else None
        if span is not None and LATER in lines[span.line - 1] and not any(one.holds(node) for one in out):
            out.append(span)
    return tuple(out)


@dataclass(frozen=True, eq=False)
class _Files(Project):
    """A project of which nothing is on the disk."""

    @property
    def paths(self) -> tuple[Path, ...]:  # type: ignore[override]
        return tuple(self.changed)
