"""Odd but real training loops: the patched one leaves the same lines, files, results and weights, or is declined."""

from __future__ import annotations

import contextlib
import io
import logging
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.odd_loops.declined import STAYS
from tests.support.odd_loops.patched import HELD
from tests.support.patching import Outcome, run, script
from tracelens.model import Edit, Location, Patch
from tracelens.patch.code.source import parse
from tracelens.patch.effects import memory
from tracelens.patch.loop.sites import find
from tracelens.patch.recipes import PatchOptions, make

Case = str | dict[str, str]
NEVER = 1000
"""So many batches apart that only the end of the loop, or something that looks, makes waiting statements run."""


@pytest.mark.slow
@pytest.mark.parametrize("name", HELD)
def test_a_patched_loop_leaves_the_same(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    patch = _patch(HELD[name], tmp_path / "project")
    assert patch.hunks
    assert not any("the file is left" in one.obstacle for one in patch.declined)
    for side in ("before", "after"):
        _write(HELD[name], tmp_path / side)
    for one in patch.files:
        (tmp_path / "after" / one.path.name).write_bytes(one.after)
    outcomes = []
    for side in ("before", "after"):
        monkeypatch.chdir(tmp_path / side)
        outcomes.append((_run(tmp_path / side), _files(tmp_path / side)))
    (before, made), (after, made_after) = outcomes
    assert after.output == before.output
    assert after.ending == before.ending
    assert made_after == made
    assert {key: after.results.get(key) for key in before.results} == before.results


@pytest.mark.parametrize("name", STAYS)
def test_a_loop_that_would_change_stays_and_says_why(name: str, tmp_path: Path) -> None:
    case, reason = STAYS[name]
    patch = _patch(case, tmp_path)
    assert patch.empty
    assert any(reason in one.obstacle for one in patch.declined)


@pytest.mark.slow
@pytest.mark.parametrize("name", STAYS)
def test_it_stays_where_the_engine_gives_up(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "MAX_EFFECTS", 1)
    assert _patch(STAYS[name][0], tmp_path).empty


ENDS = {
    "the process ends": "os._exit(0)",
    "a program writes to the same screen": "os.system('echo so far')",
    "a signal": "os.kill(os.getpid(), 9)",
    "a second process": "child = os.fork()",
    "a question": "input('go on? ')",
    "a trace": "traceback.print_stack()",
}


@pytest.mark.parametrize("name", ENDS)
def test_all_that_waits_is_out_before(name: str, tmp_path: Path) -> None:
    body = "import os, traceback\nfor i, (x, y) in enumerate(loader):\n    STEP\n    print(loss.item(), flush=True)\n"
    patch = _patch(f"{body}    if i == 12:\n        {ENDS[name]}\n", tmp_path)
    lines = next(one.after for one in patch.files if one.path.name == "train.py").decode().splitlines()
    place = lines.index(f"        {ENDS[name]}")
    assert lines[place - 1].strip() == "pending_losses.clear()"


def test_warnings_stay_because_they_name_their_line(tmp_path: Path) -> None:
    body = "import warnings\nfor x, y in loader:\n    STEP\n    warnings.warn(str(loss.item()))\n"
    assert _patch(body, tmp_path).empty


def _patch(case: Case, folder: Path) -> Patch:
    """The patch of a project in which every read waits in every batch."""
    _write(case, folder)
    found = [
        Location(path.name, site.line)
        for path in sorted(folder.glob("*.py"))
        for site in find(parse(path, path.name, path.read_bytes()))
        if site.kind == "read"
    ]
    edit = Edit("defer-read", locations=tuple(dict.fromkeys(found)), interval=NEVER)
    return make(folder, folder / "train.py", (edit,), (), PatchOptions())


def _write(case: Case, folder: Path) -> None:
    files = {"train.py": case} if isinstance(case, str) else case
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(script(text) if name == "train.py" else text, encoding="utf-8")


def _run(folder: Path) -> Outcome:
    own = {path.stem if path.stem != "__init__" else path.parent.name for path in folder.rglob("*.py")}
    with _fresh(own):
        return run(folder, (folder / "train.py").read_text(encoding="utf-8"))


@contextlib.contextmanager
def _fresh(modules: set[str]) -> Iterator[None]:
    """Neither the project's modules nor what a script does to the logging outlive it."""
    root = logging.getLogger()
    handlers, level, errors = root.handlers[:], root.level, sys.stderr
    root.handlers[:] = []
    sys.stderr = io.StringIO()
    try:
        yield
    finally:
        root.handlers[:], sys.stderr = handlers, errors
        root.setLevel(level)
        for name in [name for name in sys.modules if name.partition(".")[0] in modules - {"train"}]:
            if name not in ("tracelens_runtime",):
                del sys.modules[name]


def _files(folder: Path) -> dict[str, bytes]:
    paths = (path for path in folder.rglob("*") if path.is_file() and path.suffix not in (".py", ".pyc"))
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}
