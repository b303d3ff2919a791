"""Warnings, tracebacks and lists of files name the script's own lines and none of ours."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.places import ROOT
from tests.support.recording import attributed
from tracelens.launch import supervisor

torch = pytest.importorskip("torch")

# --------------------------------------------------------------------------------------------- warnings and errors


def warns(value: torch.Tensor) -> None:
    torch.tensor(value)


LINE = warns.__code__.co_firstlineno + 1


def shown_by(act: Callable[[], Any]) -> list[tuple[str, int]]:
    shown: list[tuple[str, int]] = []
    before = warnings.showwarning
    warnings.showwarning = lambda _message, _category, path, line, *_: shown.append((path, line))  # type: ignore[assignment]
    try:
        act()
    finally:
        warnings.showwarning = before
    return shown


def test_a_warning_names_the_scripts_line_and_is_not_shown_again() -> None:
    def act() -> None:
        warns(torch.ones(1))
        with attributed():
            warns(torch.ones(1))
            warns(torch.ones(1))
        warns(torch.ones(1))

    def begins_within() -> None:
        with attributed():
            warns(torch.ones(1))
        warns(torch.ones(1))

    for told in (act, begins_within):
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            assert shown_by(told) == [(__file__, LINE)]


def test_the_scripts_filters_judge_its_own_line() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", module=__name__.replace(".", r"\."))
        with attributed():
            warns(torch.ones(1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with attributed(), pytest.raises(UserWarning, match="copy construct"):
            warns(torch.ones(1))


SEEN = """
import sys, traceback, torch
sys.path.insert(0, sys.argv[1])
from tracelens.launch.inside import hooks
hooks.install(); hooks.on_step(lambda step: None)

@torch.jit.script
def scripted(x):
    y = (x * x).sum()
    torch.autograd.backward([y])
    return y

w = torch.ones(3, requires_grad=True)
scripted(w)
assert w.grad.tolist() == [2.0, 2.0, 2.0]

class Failing(torch.optim.SGD):
    def step(self, closure=None):
        raise ValueError("on purpose")

class Rows(torch.utils.data.Dataset):
    def __len__(self): return 3
    def __getitem__(self, index): raise KeyError("on purpose")

for act in (
    Failing([w], lr=0.1).step,
    lambda: torch.ones(1).backward(),
    lambda: list(torch.utils.data.DataLoader(Rows())),
    lambda: torch.amp.GradScaler("cpu").step(Failing([w], lr=0.1)),
):
    try:
        act()
    except Exception:
        text = traceback.format_exc()
        assert "tracelens" not in text and "in <module>" in text, text
print("seen")
"""


@pytest.mark.programs
def test_an_error_that_the_script_prints_itself_shows_no_frame_of_ours(tmp_path: Path) -> None:
    (tmp_path / "seen.py").write_text(SEEN)
    words = [sys.executable, str(tmp_path / "seen.py"), str(ROOT)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("seen\n", 0), done.stderr


def test_an_error_within_an_attributed_call_shows_no_frame_of_ours() -> None:
    with attributed():
        try:
            torch.ones(2).item()
        except RuntimeError as error:
            trace, names = error.__traceback__, []
            while trace is not None:
                names.append(trace.tb_frame.f_code.co_filename)
                trace = trace.tb_next
    assert not [name for name in names if "attribution" in name]


LISTS = """
import os, sys
sys.dont_write_bytecode = True
os.makedirs("torch")
open("torch/__init__.py", "w").write("")
sys.path.insert(0, os.getcwd())
seen = set()
sys.setprofile(lambda frame, event, _: seen.add(frame.f_code.co_filename))
import torch
sys.setprofile(None)
print(sorted(name for name in seen if "/boot/" in name), any("<tracelens>" in name for name in seen))
"""


@pytest.mark.programs
def test_what_lists_the_files_that_ran_does_not_list_one_that_will_be_gone(tmp_path: Path) -> None:
    (tmp_path / "lists.py").write_text(LISTS)
    command = (sys.executable, str(tmp_path / "lists.py"))
    launch = supervisor.Launch(command=command, agent="nowhere", config={"run": str(tmp_path)}, cwd=tmp_path)
    with supervisor.bootstrap(launch, tmp_path / "boot") as boot:
        paths = {**os.environ, "PYTHONPATH": str(boot)}
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, env=paths)
    assert (done.stdout, done.stderr) == ("[] True\n", "")
