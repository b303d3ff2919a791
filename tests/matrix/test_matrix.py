"""Every kind of launch and loop: it ends as without us, prints what it prints without us, and is recorded.

Rows are in rows.py. A slow one is skipped but for `make matrix` (which sets TRACELENS_MATRIX); what a row needs and is
not there skips it with the reason.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.matrix.rows import ROWS, Row
from tests.support.lean import PRELUDE
from tracelens import run
from tracelens.capture.supervisor.recording import Outcome, ProfileOptions, profile
from tracelens.capture.window_plan import WindowPlan
from tracelens.trace import chrome, timeline

pytestmark = pytest.mark.programs

torch = pytest.importorskip("torch")

SCRIPTS = Path(__file__).parent / "scripts"
PLAN = WindowPlan(unprofiled_steps=8, unprofiled_seconds=0.0, unprofiled_most_steps=40, clean=5)
IMPATIENT = replace(PLAN, patience_seconds=2.0, time_window_seconds=1.0)
FOLDER = "it's a \u00fcbung"
"""Every row runs in a folder with a space, a quote and a letter that is not ASCII."""


def rows() -> list[Any]:
    marks = {True: [pytest.mark.gpu], False: []}
    return [pytest.param(row, id=row.name, marks=marks[row.gpus > 0]) for row in ROWS]


def skip_without(row: Row) -> None:
    gpus = torch.cuda.device_count()
    if gpus < row.gpus:
        pytest.skip(f"needs {row.gpus} CUDA devices, {gpus} here")
    if os.environ.get("TRACELENS_MATRIX") == "only2" and row.gpus < 2:
        pytest.skip("only rows for two GPUs were asked for")
    if gpus and not row.gpus:
        pytest.skip("a row for machines without a GPU")
    if row.slow and not os.environ.get("TRACELENS_MATRIX"):
        pytest.skip("slow: make matrix")
    for package in row.needs:
        if package == "compiler":
            if not shutil.which("cc"):
                pytest.skip("needs a C compiler")
        elif importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed: pip install 'tracelens-torch[matrix]'")


def command(row: Row) -> list[str]:
    """The row's words with programs and scripts in their places."""
    beside = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", "")))
    programs = {name: shutil.which(name, path=beside) or name for name in ("torchrun", "accelerate")}
    programs |= {"python": sys.executable, "-m": sys.executable}
    scripts = {name: str(SCRIPTS / f"{name}.py") for name in ("loops", "ranks", "frameworks")}
    first, *rest = row.words
    rest = ["-m", *rest] if first == "-m" else rest
    return [programs.get(first, first), *(scripts.get(word, word.split("@")[0]) for word in rest)]


def prepare(folder: Path) -> Path:
    """A folder with a package and a shell script in it."""
    place = folder / FOLDER
    (place / "package").mkdir(parents=True)
    (place / "package" / "__init__.py").write_text("")
    text = (SCRIPTS / "loops.py").read_text(encoding="utf-8")
    (place / "package" / "train.py").write_text(text.replace("sys.argv[1]}", "'plain'}").replace(
        "globals()[sys.argv[1]](int(sys.argv[2]))", "plain(int(sys.argv[1]))"), encoding="utf-8")  # fmt: skip
    (place / "run.sh").write_text(f"'{sys.executable}' '{SCRIPTS / 'loops.py'}' plain 60\nexit 4\n")
    return place


@pytest.mark.parametrize("row", rows())
def test_matrix(row: Row, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    skip_without(row)
    place = prepare(tmp_path)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    if not os.environ.get("TRACELENS_MATRIX"):
        monkeypatch.setenv("MATRIX_LEAN", PRELUDE)
    words = command(row)
    plain = subprocess.run(words, cwd=place, capture_output=True, text=True, check=False) if row.stdout else None
    capfd.readouterr()
    plan = IMPATIENT if "no_steps" in words else PLAN
    outcome = profile(ProfileOptions("command", tuple(words), cwd=place, plan=plan, monitor=False))
    ours = capfd.readouterr()
    assert outcome.status == row.status, ours.err[-3000:]
    if plain is not None:
        assert (outcome.status, ours.out) == (plain.returncode, plain.stdout), ours.err[-3000:]
    assert outcome.ranks == row.ranks, (outcome, ours.err[-2000:])
    assert outcome.complete == row.complete, outcome
    assert row.reason in (outcome.reason or "") + " ".join(outcome.notes), outcome
    check_recordings(row, outcome)
    left = sorted(path.name for path in outcome.folder.iterdir())
    assert not [name for name in left if name.startswith((".", "boot"))], left


def check_recordings(row: Row, outcome: Outcome) -> None:
    read = run.read(outcome.folder)
    for recording in read.recordings:
        if recording.trace_path is None:
            continue
        assert recording.meta["step_source"] == row.source
        if row.per_step is not None:
            assert sorted(recording.meta["step_rule"].values(), reverse=True) == list(row.per_step)
        built = timeline.build(chrome.load(recording.trace_path), recording)
        steps = built.steps()
        if row.clean is not None:
            assert (int((~steps["attributed"]).sum()), int(steps["attributed"].sum())) == (row.clean, 2)
        if row.gpus:
            assert len(built.tables.ops) > 0, "no GPU work in the trace"
