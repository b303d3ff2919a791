"""What the tests of the patcher share: patch a small script, run both versions, compare all that they leave behind."""

from __future__ import annotations

import contextlib
import io
import runpy
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import torch

from tracelens.model import Edit, Location, Patch
from tracelens.patch.recipes import PatchOptions, make

FIRES = "# fires"
"""Ends the lines at which the imagined recording saw a wait."""

HEAD = """
import torch
from torch import nn

torch.manual_seed(0)
device = torch.device("cpu")  # where there is one: "cuda"
model = nn.Linear(4, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = [(torch.randn(5, 4), torch.randint(0, 3, (5,))) for _ in range({batches})]
criterion = nn.CrossEntropyLoss()
"""

STEP = """
optimizer.zero_grad()
loss = criterion(model(x), y)
loss.backward()
optimizer.step()
"""


def script(body: str, batches: int = 23) -> str:
    """A script with a model and a loader; `STEP` on a line of its own stands for the training step."""
    text = HEAD.format(batches=batches) + textwrap.dedent(body)
    lines = []
    for line in text.splitlines():
        if line.strip() == "STEP":
            indent = line[: len(line) - len(line.lstrip())]
            lines += [indent + step for step in STEP.strip().splitlines()]
        else:
            lines.append(line)
    return "\n".join(lines).lstrip() + "\n"


def fired(text: str, mark: str = FIRES, path: str = "train.py") -> tuple[Location, ...]:
    return tuple(Location(path, n) for n, line in enumerate(text.splitlines(), 1) if line.rstrip().endswith(mark))


def defer(text: str, interval: int = 10, mark: str = FIRES) -> tuple[Edit, ...]:
    return (Edit("defer-read", locations=fired(text, mark), interval=interval),)


def patch_of(folder: Path, text: str, edits: tuple[Edit, ...] | None = None, **options: Any) -> Patch:
    """The patch of one script; every line that ends in `# fires` is a read unless `edits` say otherwise."""
    path = folder / "train.py"
    path.write_bytes(text.encode())
    return make(folder, path, edits if edits is not None else defer(text), (), PatchOptions(**options))


def patched_text(patch: Patch) -> str:
    return next(one.after for one in patch.files if one.path.name == "train.py").decode()


@dataclass(frozen=True)
class Outcome:
    """What a script left: its lines, how it ended, and its results and weights, exact to the bit."""

    output: str
    ending: str
    results: dict[str, str]


def run(folder: Path, text: str, arguments: tuple[str, ...] = ()) -> Outcome:
    """Run a script in this process, beside the runtime file that the patch vendors."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "script_under_test.py"
    path.write_text(text)
    output, ending, space = io.StringIO(), "", {}
    with (
        _importable(folder),
        contextlib.redirect_stdout(output),
        mock.patch.object(sys, "argv", ["train.py", *arguments]),
    ):
        try:
            space = runpy.run_path(str(path), run_name="__main__")
        except (Exception, KeyboardInterrupt, SystemExit) as error:
            ending = f"{type(error).__name__}: {error}"
    return Outcome(
        output.getvalue(), ending, {name: _exact(value) for name, value in space.items() if _kept(name, value)}
    )


def assert_same(folder: Path, text: str, patch: Patch, arguments: tuple[str, ...] = ()) -> Outcome:
    """Run the script and its patched version; everything must be equal. Returns what the original left."""
    for one in patch.files:
        if one.path.name == "tracelens_runtime.py":
            (folder / "after").mkdir(exist_ok=True)
            (folder / "after" / one.path.name).write_bytes(one.after)
    before = run(folder / "before", text, arguments)
    after = run(folder / "after", patched_text(patch), arguments)
    assert after.output == before.output
    assert after.ending == before.ending
    assert {name: after.results.get(name) for name in before.results} == before.results
    return before


def _kept(name: str, value: Any) -> bool:
    return not name.startswith("_") and isinstance(
        value, (int, float, str, list, dict, tuple, torch.Tensor, torch.nn.Module)
    )


def _exact(value: Any) -> str:
    """A value as text, exact to the bit: torch itself prints four digits of a tensor in a list, and slowly."""
    if isinstance(value, torch.nn.Module):
        return _exact(dict(value.state_dict()))
    if isinstance(value, torch.Tensor):
        return repr(value.tolist())
    if isinstance(value, dict):
        return ", ".join(f"{_exact(name)}: {_exact(one)}" for name, one in value.items())
    if type(value) in (list, tuple):
        return f"{type(value).__name__}({', '.join(map(_exact, value))})"
    return repr(value)


@contextlib.contextmanager
def _importable(folder: Path) -> Iterator[None]:
    """Scripts find the runtime file in `folder`; they get one thread, since tiny models only wait for more."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    sys.modules.pop("tracelens_runtime", None)
    before = set(sys.modules)
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        sys.path.remove(str(folder))
        for name in sys.modules.keys() - before:  # of those that torch brings there are 2,300
            if Path(getattr(sys.modules[name], "__file__", None) or "/").parent == folder:
                del sys.modules[name]


SUM = """
    def main():
        total = 0.0
        for step, (x, y) in enumerate(loader):
            STEP
            total += loss.item()  # fires
            # every fourth line
            if step % 4 == 0:
                print(step, total)  # so far
        return total
    result = main()
"""

HELPED = SUM.replace("        return total", "        else:\n            print('done')\n        return total")
"""The same with an `else`, before which what waits has to run: only the runtime can do that."""


def patched_again(folder: Path, patch: Patch, edits: tuple[Edit, ...]) -> Patch:
    """Patch the patched file."""
    text = patched_text(patch)
    for one in patch.files:
        if one.path.name != "train.py":
            one.path.write_bytes(one.after)
    return patch_of(folder, text, edits)
