"""Recordings that a script or a notebook begins itself, in real processes on the CPU."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import lean
from tests.support.places import ROOT
from tracelens import run
from tracelens.trace import chrome, timeline

pytestmark = pytest.mark.programs

pytest.importorskip("torch")

LOOP = """
import sys
import torch
import tracelens

model = torch.nn.Linear(8, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)           # both exist before anyone observes
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 10)


def train(steps):
    for _ in range(steps):
        optimizer.zero_grad()
        loss = model(torch.ones(2, 8)).sum()
        loss.backward()
        optimizer.step()
        scheduler.step()
        loss.item()


"""
PATHS = f"{lean.SITE}:{ROOT}"


def python(
    folder: Path, text: str, *, before: tuple[str, ...] = (), paths: str = PATHS
) -> subprocess.CompletedProcess[str]:
    (folder / "train.py").write_text(text)
    command = [sys.executable, *before, "train.py"]
    environment = {"PYTHONPATH": paths, "PATH": "/usr/bin:/bin", "HOME": str(folder), "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, timeout=300, env=environment
    )


def test_a_block_records_steps_of_an_optimizer_that_was_made_before(tmp_path: Path) -> None:
    """With all of torch, as users have it."""
    done = python(
        tmp_path,
        LOOP
        + "with tracelens.profile('out', steps=4) as recording:\n    train(200)\n"
        + "print(recording.complete, recording.reason, recording.folder.name)\n",
        paths=str(ROOT),
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "True None out\n"
    assert done.stderr.splitlines()[-1] == f"next: tracelens recommend {tmp_path / 'out'}/"
    recorded = run.read(tmp_path / "out")
    (only,) = recorded.recordings
    assert recorded.complete
    assert recorded.script == tmp_path / "train.py"
    assert only.meta["step_source"] == "optimizer"
    assert only.clock is not None
    assert len(only.clock.unprofiled_ns) >= 20
    assert only.trace_path is not None
    attributed = timeline.build(chrome.load(only.trace_path), only).steps()["attributed"]
    assert (int((~attributed).sum()), int(attributed.sum()), len(only.attributed_steps)) == (4, 2, 2)
    assert not list((tmp_path / "out").glob("rank*/rank.json"))


def test_a_second_block_in_the_same_process_counts_afresh(tmp_path: Path) -> None:
    text = LOOP + (
        "for name in 'ab':\n"
        "    with tracelens.profile(name, steps=2, monitor=False, quiet=True) as recording:\n"
        "        train(200)\n"
        "    print(recording.complete)\n"
        "train(3)\n"
        "with tracelens.profile('c', quiet=True) as recording:\n"
        "    pass\n"
        "print(recording.reason)\n"
        "try:\n"
        "    with tracelens.profile('d', quiet=True) as recording:\n"
        "        train(2)\n"
        "        raise KeyError('mine')\n"
        "except KeyError:\n"
        "    print(recording.reason)\n"
        "try:\n"
        "    tracelens.profile('a')\n"
        "except tracelens.errors.UsageError as error:\n"
        "    print(error.hint)\n"
    )
    done = python(tmp_path, text)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "True",
        "True",
        "no training step was seen inside the block",
        "the block was left by KeyError, after 2 steps, before the profiler was started",
        "give another folder as out=",
    ]
    first, second = (run.read(tmp_path / name).recordings[0] for name in "ab")
    assert first.meta["window"]["first_step"] == second.meta["window"]["first_step"]
    assert first.meta["window"]["settled_unix_ns"] <= first.meta["window"]["start_unix_ns"]


def test_a_step_that_raised_does_not_hide_the_next_ones(tmp_path: Path) -> None:
    text = LOOP + (
        "failing = torch.optim.LBFGS(model.parameters())\n"
        "with tracelens.profile('out', steps=2, monitor=False, quiet=True) as recording:\n"
        "    try:\n"
        "        failing.step(lambda: 1 / 0)\n"
        "    except ZeroDivisionError:\n"
        "        pass\n"
        "    try:\n"
        "        failing.step(lambda: 1 / 0)\n"
        "    except ZeroDivisionError:\n"
        "        pass\n"
        "    failing.step(lambda: torch.tensor(0.0, requires_grad=True))\n"
        "    train(300)\n"
        "print(recording.complete, recording.reason)\n"
    )
    done = python(tmp_path, text)
    assert done.stdout == "True None\n", done.stderr


def test_inside_tracelens_profile_the_block_stands_aside(tmp_path: Path) -> None:
    text = LOOP + "with tracelens.profile('mine', quiet=True) as r:\n    train(200)\nprint(r.reason)\n"
    done = python(tmp_path, text, before=("-m", "tracelens", "profile", "-q", "-o", "theirs"))
    assert done.returncode == 0, done.stderr
    assert "already recorded" in done.stdout
    assert run.read(tmp_path / "theirs").complete
    assert not run.read(tmp_path / "mine").complete


def test_the_handler_of_an_owned_profiler_keeps_each_trace(tmp_path: Path) -> None:
    text = LOOP + (
        "from torch.profiler import profile, schedule, ProfilerActivity\n"
        "with profile(activities=[ProfilerActivity.CPU], schedule=schedule(wait=1, warmup=1, active=3, repeat=2),\n"
        "             on_trace_ready=tracelens.on_trace_ready('runs')) as owned:\n"
        "    for _ in range(10):\n"
        "        train(1)\n"
        "        owned.step()\n"
    )
    done = python(tmp_path, text)
    assert done.returncode == 0, done.stderr
    folders = sorted((tmp_path / "runs").iterdir())
    assert [run.read(folder).complete for folder in folders] == [True, True]
    assert done.stderr.count("next: tracelens recommend ") == 2
    (only,) = run.read(folders[0]).recordings
    assert only.trace_path is not None
    picture = timeline.build(chrome.load(only.trace_path), only)
    assert picture.step_source == "profiler_step"
    steps = picture.steps()
    assert len(steps) == 3
    # Without a GPU a step's length tells whether it was cut off, and on a busy machine one may look so.
    assert steps["kept"].sum() >= 1
    shown = subprocess.run(
        [sys.executable, "-m", "tracelens", "analyze", str(folders[0]), "--format", "json"],
        capture_output=True, text=True, check=False, cwd=ROOT,
    )  # fmt: skip
    assert shown.returncode == 0, shown.stderr
    assert json.loads(shown.stdout)["steps"]["count"] == steps["kept"].sum()


def test_the_ranks_of_a_launch_write_one_folder(tmp_path: Path) -> None:
    text = LOOP.replace("import tracelens", "import tracelens\ntorch.distributed.init_process_group('gloo')") + (
        "with tracelens.profile(steps=3, quiet=True) as recording:\n    train(150)\n"
        "torch.distributed.destroy_process_group()\n"
    )
    done = python(tmp_path, text, before=("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"))
    assert done.returncode == 0, done.stderr
    (folder,) = (tmp_path / run.RUNS_FOLDER).iterdir()
    recorded = run.read(folder)
    assert recorded.complete, recorded.meta["reason"]
    assert [one.rank for one in recorded.recordings] == [0, 1]


def test_a_cell_magic_records_and_gives_the_verdict(tmp_path: Path) -> None:
    pytest.importorskip("IPython")
    text = (
        "from IPython.core.interactiveshell import InteractiveShell\n"
        "shell = InteractiveShell.instance()\n"
        "shell.run_line_magic('load_ext', 'tracelens')\n"
        f"shell.run_cell({LOOP!r})\n"
        "shell.run_cell_magic('tracelens', '--steps 3 -o out', 'train(200); print(\"ran\")')\n"
        "shell.run_cell_magic('tracelens', '--steps none', 'print(\"not run\")')\n"
        "shell.run_cell_magic('tracelens', \"-o '\", 'print(\"not run\")')\n"
        "shell.run_cell_magic('tracelens', '-o other', '1 / 0')\n"
        "shell.run_cell('print(\"the kernel lives\")')\n"
    )
    done = python(tmp_path, text)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "ran"
    assert lines[1].startswith("tracelens: ")
    assert lines[2] == f"report: {tmp_path / 'out' / 'report.html'}"
    assert lines[3].startswith("next: tracelens recommend")
    assert "not run" not in done.stdout
    assert "ZeroDivisionError" in done.stdout
    assert lines[-1] == "the kernel lives"
    assert (tmp_path / "out" / "report.html").is_file()


def test_the_examples_of_the_docs_run(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "inside.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```$", page, flags=re.MULTILINE | re.DOTALL)
    assert len(blocks) == 3
    done = python(tmp_path, "\n".join(blocks))
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "True None"
    assert lines[1].startswith("30 iterations in ")
    assert run.read(tmp_path / "runs" / "first").complete
    (owned,) = (tmp_path / "runs" / "owned").iterdir()
    assert run.read(owned).complete


def notebook(path: Path, *cells: str) -> None:
    """A file with these cells, for whoever executes it."""
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("nbconvert")
    pytest.importorskip("ipykernel")
    kernel = {"name": "python3", "display_name": "Python", "language": "python"}
    book = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(cell) for cell in cells], metadata={"kernelspec": kernel}
    )
    nbformat.write(book, path)


def execute(folder: Path, *before: str) -> tuple[subprocess.CompletedProcess[str], list[str]]:
    """Run `book.ipynb` as one does without a browser; what came of it, and what its cells printed."""
    command = [sys.executable, *before, "-m", "nbconvert", "--to", "notebook", "--execute", "book.ipynb"]
    environment = {"PYTHONPATH": PATHS, "PATH": "/usr/bin:/bin", "HOME": str(folder), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*command, "--output", "done.ipynb"],
        cwd=folder, capture_output=True, text=True, check=False, timeout=300, env=environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    cells = json.loads((folder / "done.ipynb").read_text(encoding="utf-8"))["cells"]
    return done, ["".join(text for output in cell["outputs"] for text in output.get("text", [])) for cell in cells]


def test_a_notebook_that_nbconvert_executes_records_its_cell(tmp_path: Path) -> None:
    notebook(
        tmp_path / "book.ipynb", "%load_ext tracelens", LOOP, "%%tracelens --steps 3 -o out\ntrain(200)\nprint('ran')"
    )
    _, printed = execute(tmp_path)
    assert printed[2].startswith("ran\ntracelens: ")
    assert "next: tracelens recommend" in printed[2]
    assert run.read(tmp_path / "out").complete


def test_a_notebook_that_knows_nothing_of_us_is_recorded_in_its_kernel(tmp_path: Path) -> None:
    cell = LOOP.replace("import tracelens\n", "").strip()
    notebook(tmp_path / "book.ipynb", cell, "train(300)\nprint('ran')")
    done, printed = execute(tmp_path, "-m", "tracelens", "profile", "-o", "out", "--", sys.executable)
    assert printed[1] == "ran\n"  # nothing of ours in the notebook
    # Which command is next depends on what was measured: on a busy machine to record the notebook again.
    assert re.search(r"^next: tracelens \w+ .*\nreport: out/report\.html$", done.stderr, re.MULTILINE)
    recorded = run.read(tmp_path / "out")
    assert recorded.complete
    (recording,) = recorded.recordings  # the kernel; not the program that started it
    line = cell.splitlines().index("        loss.item()") + 1
    assert any(mark.call == "Tensor.item" and mark.location.line == line for mark in recording.marks)
