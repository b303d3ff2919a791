"""Whole recordings of real programs on the CPU: what they leave, and that the program does not notice.

torch's import takes one to two seconds per program, so each one here answers several questions.
"""

from __future__ import annotations

import gzip
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.places import SCRIPTS
from tracelens import run
from tracelens.capture.supervisor.recording import Outcome, ProfileOptions, profile
from tracelens.capture.window_plan import WindowPlan
from tracelens.errors import InputError, UsageError
from tracelens.model import RankRecording, SourceMark
from tracelens.trace import chrome, lines, timeline

pytestmark = pytest.mark.programs

pytest.importorskip("torch")
PLAN = WindowPlan(unprofiled_steps=8, unprofiled_seconds=0.0, clean=5)
"""settle 3, W0 8, warm-up 3, W1 steps 15 to 19, W2 steps 20 and 21."""


def record(folder: Path, kind: str, *words: str, **options: Any) -> Outcome:
    return profile(ProfileOptions(kind=kind, words=words, cwd=folder, **{"plan": PLAN, "monitor": False} | options))  # type: ignore[arg-type]


def script(name: str) -> str:
    return str(SCRIPTS / name)


def only(outcome: Outcome) -> RankRecording:
    (recording,) = run.read(outcome.folder).recordings
    return recording


def ends_of_marks(recording: RankRecording) -> dict[str, float]:
    """When each mark of a step ends, in ns of Unix time."""
    assert recording.trace_path is not None
    with gzip.open(recording.trace_path) as packed:
        trace = json.load(packed)
    marks = [each for each in trace["traceEvents"] if each.get("cat") == "user_annotation"]
    base = trace.get("baseTimeNanoseconds", 0)
    steps = (each for each in marks if each["name"].startswith("ProfilerStep#"))
    return {each["name"]: base + 1000 * (each["ts"] + each["dur"]) for each in steps}


def marks_in(recording: RankRecording) -> list[str]:
    return sorted(ends_of_marks(recording))


def line_of(mark: SourceMark, folder: Path) -> str:
    assert mark.location.line is not None
    return (folder / mark.location.path).read_text().splitlines()[mark.location.line - 1].strip()


@pytest.fixture(scope="module")
def passed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Outcome, dict[str, Any], dict[str, Any], list[Any]]:
    """One program in a folder with a space and a quote, plain and recorded: (folder, outcome, plain, ours, windows)."""
    folder = tmp_path_factory.mktemp("it's a folder")
    shutil.copy(SCRIPTS / "passes_through.py", folder / "train me.py")
    command = [sys.executable, "train me.py", "--lr", "-m", "--"]
    plain = subprocess.run(command, cwd=folder, input="typed\n", capture_output=True, text=True, check=False)
    assert plain.returncode == 5, plain.stderr
    driver = (
        "import sys, json; from pathlib import Path; sys.path.insert(0, sys.argv[1]);"
        "from tracelens.capture.supervisor.recording import *; from tracelens.capture.window_plan import WindowPlan;"
        "plan = WindowPlan(unprofiled_steps=8, unprofiled_seconds=0.0, clean=5); windows = [];"
        "see = lambda folder: windows.append(json.loads((folder / 'run.json').read_text()));"
        "o = profile(ProfileOptions('script', tuple(sys.argv[2:]), plan=plan), see);"
        "Path('windows.json').write_text(json.dumps([str(o.folder), o.complete, o.reason, o.ranks, windows]));"
        "raise SystemExit(o.status)"
    )
    ours = subprocess.run(
        [sys.executable, "-c", driver, str(SCRIPTS.parent.parent), *command[1:]],
        cwd=folder,
        input="typed\n",
        capture_output=True,
        text=True,
        check=False,
    )
    assert ours.stderr == plain.stderr
    run_folder, complete, reason, ranks, windows = json.loads((folder / "windows.json").read_text())
    outcome = Outcome(folder / run_folder, ours.returncode, complete, reason, ranks, stopped=False)
    return folder, outcome, json.loads(plain.stdout), json.loads(ours.stdout), windows


def test_the_program_cannot_tell(passed: Any) -> None:
    _, outcome, plain, ours, _ = passed
    assert outcome.status == 5
    assert ours == plain


def test_a_recording_is_complete_and_can_be_read(passed: Any) -> None:
    folder, outcome, _, _, windows = passed
    assert (outcome.complete, outcome.reason, outcome.ranks) == (True, None, 1)
    read = run.read(outcome.folder)
    recording = only(outcome)
    assert read.complete
    assert read.script == folder.resolve() / "train me.py"
    assert read.meta["exit_code"] == 5
    assert read.meta["environment"]["torch"]
    assert len(recording.clock.unprofiled_ns) == 8
    assert recording.clock.unprofiled_mean_ns == sum(recording.clock.unprofiled_ns) // 8
    assert len(recording.clock.profiled_ns) == 5
    assert recording.attributed_steps == (20, 21)
    assert marks_in(recording) == [f"ProfilerStep#{number}" for number in range(15, 22)]
    assert sorted(path.name for path in outcome.folder.iterdir()) == ["monitor.jsonl", "rank0", "run.json"]
    (while_it_ran,) = windows
    assert while_it_ran["complete"]
    assert while_it_ran["exit_code"] is None


def test_loader_workers_leave_nothing_and_the_loader_is_described(passed: Any) -> None:
    _, outcome, _, _, _ = passed
    (loader,) = only(outcome).meta["loaders"]
    assert loader["num_workers"] == 2
    assert loader["dataset"] == "Rows"
    assert loader["batch_bytes"] == 4 * 8 * 4
    assert loader["batches"] == 100


def test_marks_name_the_line_that_read_the_tensor(passed: Any) -> None:
    folder, outcome, _, _, _ = passed
    found = {(mark.call, line_of(mark, folder)) for mark in only(outcome).marks}
    assert ("Tensor.__bool__", "if loss > 1e12:") in found
    assert ("Tensor.item", "torch.relu(loss).item()") in found
    assert {mark.location.path for mark in only(outcome).marks} == {"train me.py"}


def test_marks_and_samples_are_on_the_traces_clock_and_thread(passed: Any) -> None:
    folder, outcome, _, _, _ = passed
    recording = only(outcome)
    built = timeline.build(chrome.load(recording.trace_path), recording)
    base = built.trace.base_unix_ns
    steps = built.steps()
    attributed = steps[steps["attributed"]]
    first, last = attributed["start_ns"].min(), attributed["end_ns"].max()
    tensor = [mark for mark in recording.marks if line_of(mark, folder) == "torch.relu(loss).item()"]
    assert len(tensor) == 2
    for mark in tensor:
        assert mark.thread == built.main_thread
        assert first <= mark.start_unix_ns - base <= mark.end_unix_ns - base <= last
    clean = steps[~steps["attributed"]]
    inside = [sample for sample in recording.samples if sample.unix_ns - base <= clean["end_ns"].max() + 5_000_000]
    assert recording.samples
    assert len(inside) == len(recording.samples)


def test_the_line_clock_ran_in_the_attributed_steps_and_there_alone(passed: Any) -> None:
    folder, outcome, _, _, _ = passed
    recording = only(outcome)
    assert recording.meta["notes"] == []
    assert recording.lines is not None
    built = timeline.build(chrome.load(recording.trace_path), recording)
    base, steps = built.trace.base_unix_ns, built.steps()
    attributed = steps[steps["attributed"]]
    assert recording.lines.thread == built.main_thread
    clocked = lines.fold(recording.lines)
    assert tuple(step.number for step in clocked) == recording.attributed_steps
    text = (folder / "train me.py").read_text().splitlines()
    for step, (start, end) in zip(clocked, attributed[["start_ns", "end_ns"]].to_numpy(), strict=True):
        both = min(step.end_ns - base, end) - max(step.start_ns - base, start)
        assert both > 0.5 * (end - start)
        seen = {text[line - 1].strip() for code, line in lines.time_per_line(step) if recording.lines.codes[code].path}
        assert {"loss.backward()", "optimizer.step()", "torch.relu(loss).item()"} <= seen
    assert {place.path for place in recording.lines.codes} == {"train me.py"}  # no worker's code, no library's


def test_the_last_clean_step_ends_before_the_line_clock_is_installed(passed: Any) -> None:
    recording = only(passed[1])
    assert recording.lines is not None
    last = ends_of_marks(recording)[f"ProfilerStep#{recording.attributed_steps[0] - 1}"]
    begins = recording.lines.steps[0].start_unix_ns
    assert begins - 10_000_000_000 < last < begins


def test_the_monitor_writes_samples_and_no_invented_gpu(passed: Any) -> None:
    _, outcome, _, _, _ = passed
    rows = [json.loads(row) for row in (outcome.folder / "monitor.jsonl").read_text().splitlines()]
    assert len(rows) >= 3
    assert all(row["gpus"] is None or row["gpus"] for row in rows)
    assert any(row["process_memory"] and row["process_memory"] > 50e6 for row in rows)
    assert all(after["unix_ns"] > before["unix_ns"] for before, after in itertools.pairwise(rows))


def test_a_script_of_six_steps_still_yields_a_recording(tmp_path: Path) -> None:
    outcome = record(tmp_path, "script", script("plain.py"), "6", out=Path("here/it is"), plan=WindowPlan())
    assert outcome.complete
    assert outcome.folder == tmp_path / "here/it is"
    assert [path.name for path in tmp_path.iterdir()] == ["here"]
    assert "short run" in outcome.notes[0]
    assert len(only(outcome).clock.unprofiled_ns) >= 1
    assert len(only(outcome).clock.profiled_ns) >= 1
    with pytest.raises(UsageError, match="not an empty folder"):
        record(tmp_path, "script", script("plain.py"), "6", out=Path("here/it is"))


@pytest.mark.parametrize(
    ("ending", "at", "status", "steps"),
    [("exit", 18, 3, 4), ("raise", 5, 1, 0), ("_exit", 18, 7, 4), ("term", 20, -15, 6), ("kill", 18, -9, 0)],
)
def test_however_it_ends_its_status_is_kept_and_what_was_recorded_too(
    tmp_path: Path, ending: str, at: int, status: int, steps: int
) -> None:
    outcome = record(tmp_path, "script", script("plain.py"), "100", ending, str(at))
    assert outcome.status == status
    assert not outcome.complete
    assert outcome.reason
    recordings = run.read(outcome.folder).recordings
    if steps:
        (recording,) = recordings
        built = timeline.build(chrome.load(recording.trace_path), recording)
        assert (
            list(built.steps()["number"][~built.steps()["attributed"]])
            == list(range(15, 15 + min(steps, 5)))[: len(recording.clock.profiled_ns)]
        )
        assert recording.clock.profiled_ns
    else:
        assert all(recording.trace_path is None for recording in recordings)


def test_an_uncaught_error_reads_as_without_us(tmp_path: Path) -> None:
    words = (script("plain.py"), "100", "raise", "19")
    plain = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False)
    driver = (
        "import sys; from pathlib import Path; sys.path.insert(0, sys.argv[1]);"
        "from tracelens.capture.supervisor.recording import *;"
        "o = profile(ProfileOptions('script', tuple(sys.argv[2:]), monitor=False)); raise SystemExit(o.status)"
    )
    command = [sys.executable, "-c", driver, str(SCRIPTS.parent.parent), *words]
    ours = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (ours.returncode, ours.stderr) == (plain.returncode, plain.stderr) == (1, plain.stderr)
    assert "on purpose" in ours.stderr


@pytest.mark.parametrize("begins", ["0", "13", "17", "20"])
def test_a_script_that_profiles_itself_keeps_its_own_profile(tmp_path: Path, begins: str) -> None:
    outcome = record(
        tmp_path, "command", "bash", "-c", f"'{sys.executable}' '{script('profiles_itself.py')}' {begins} > out"
    )
    assert outcome.status == 0
    assert (tmp_path / "out").read_text() == "40\n"
    assert "profiles itself" in (outcome.reason or "")
    assert (outcome.ranks == 1) == (int(begins) >= 17)  # what was recorded before is kept


@pytest.mark.parametrize(("loop", "shares"), [("accumulate", [1]), ("gan", [3, 1]), ("scaler", [1]), ("closure", [1])])
def test_a_step_is_what_the_script_repeats(tmp_path: Path, loop: str, shares: list[float]) -> None:
    outcome = record(tmp_path, "script", script("loops.py"), loop)
    recording = only(outcome)
    assert outcome.complete
    assert sorted(recording.meta["step_rule"].values()) == sorted(shares)
    assert len(marks_in(recording)) == 7
    names = chrome.load(recording.trace_path).frame["name"]
    forwards = {"accumulate": 4, "gan": 4, "scaler": 1}
    if loop in forwards:  # LBFGS evaluates as often as it likes
        assert (names == "aten::addmm").sum() == 7 * forwards[loop]


@pytest.mark.usefixtures("lean_programs")
def test_two_ranks_under_torchrun_stop_after_their_windows(tmp_path: Path) -> None:
    torchrun = Path(sys.executable).parent / "torchrun"
    if not torchrun.exists():
        pytest.skip("torchrun is not installed beside this Python")
    words = (str(torchrun), "--nproc-per-node=2", "--standalone", script("plain.py"), "100000")
    begin = time.monotonic()
    outcome = record(tmp_path, "command", *words, stop_after_window=True)
    assert time.monotonic() - begin < 60
    assert (outcome.status, outcome.stopped, outcome.complete, outcome.ranks) == (0, True, True, 2)
    read = run.read(outcome.folder)
    assert [recording.rank for recording in read.recordings] == [0, 1]
    assert read.meta["world_size"] == 2
    assert read.script == SCRIPTS / "plain.py"


@pytest.mark.usefixtures("lean_programs")
def test_out_of_reach_is_told_apart_from_no_steps(tmp_path: Path) -> None:
    unreached = record(tmp_path, "command", sys.executable, "-I", script("plain.py"), "3")
    assert unreached.status == 0
    assert "injection did not reach any Python process" in (unreached.reason or "")
    without = record(tmp_path, "command", sys.executable, "-c", "pass")
    assert "no Python process below the command imported torch" in (without.reason or "")
    assert "with a PYTHONPATH of its own" in (without.reason or "")  # such a child would be out of reach
    failed = record(tmp_path, "command", "bash", "-c", f"'{sys.executable}' -I -c 'import torch'; exit 4")
    assert failed.status == 4
    assert "injection did not reach any Python process" in (failed.reason or "")  # not: "before it imported torch"
    early = record(tmp_path, "command", sys.executable, "-c", "raise SystemExit(3)")
    assert early.reason == "the command ended with exit code 3 before it imported torch"
    stepless = record(tmp_path, "command", sys.executable, "-c", "import torch")
    assert "no training step" in (stepless.reason or "")
    assert not run.read(stepless.folder).complete


def test_a_missing_script_creates_nothing(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no\.py does not exist"):
        record(tmp_path, "script", "no.py")
    assert list(tmp_path.iterdir()) == []


def test_a_parent_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be made"):
        record(tmp_path, "script", script("plain.py"), "3", out=Path("file/run"))


def test_sigterm_to_the_command_is_passed_on_and_what_is_recorded_is_kept(tmp_path: Path) -> None:
    words = ("bash", "-c", f"exec '{sys.executable}' '{script('plain.py')}' 100 term 19")
    outcome = record(tmp_path, "command", *words)
    assert outcome.status == -signal.SIGTERM
    assert "SIGTERM" in (outcome.reason or "")
    assert os.fspath(outcome.folder).startswith(os.fspath(tmp_path))
    assert only(outcome).meta["window"]["unfinished_step"] == 20


@pytest.mark.usefixtures("lean_programs")
@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("raise SystemExit(3)", "ended with exit code 3 before it imported torch"),
        ("import torch, os; os._exit(7)", "ended with exit code 7 before anything was saved"),
        ("import os; os.kill(os.getpid(), 9)", "was killed by SIGKILL before it imported torch"),
    ],
)
def test_a_command_that_failed_is_not_blamed_for_having_no_torch(tmp_path: Path, code: str, said: str) -> None:
    outcome = record(tmp_path, "command", sys.executable, "-c", code)
    assert said in (outcome.reason or "")


@pytest.mark.parametrize("name", ["x\ny", os.fsdecode(b"x\xff")])
def test_a_folder_that_the_profiler_cannot_write_to_is_refused_first(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="cannot write to a path"):
        record(tmp_path, "script", script("plain.py"), "3", out=Path(name))
    project = tmp_path / name
    project.mkdir()
    with pytest.raises(UsageError, match="cannot write to a path"):
        record(project, "script", script("plain.py"), "3")
    assert list(project.iterdir()) == []
