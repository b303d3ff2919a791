"""One recording at a time, one process per rank, and a clean end where nothing can be written."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.lean import PRELUDE
from tests.support.places import ROOT
from tests.support.recording import FORMS
from tracelens.capture.run_json import LaunchRecord, RunJsonWriter
from tracelens.capture.supervisor.recording import ProfileOptions, profile
from tracelens.capture.window_plan import WindowPlan
from tracelens.monitor import TrainingMonitor
from tracelens.run import read as read_run

TWICE = """
import sys; sys.path.insert(0, sys.argv[1])
import tracelens
from tracelens.errors import UsageError

once = tracelens.profile("first", quiet=True)
with once:
    pass
try:
    with once:
        print("not here")
except UsageError as error:
    print(error)
with tracelens.profile("second", quiet=True) as again:
    pass
print(again.reason)
"""


@pytest.mark.programs
def test_a_recording_is_entered_once_and_the_next_one_is_not_hindered(tmp_path: Path) -> None:
    words = [sys.executable, "-c", TWICE, str(ROOT)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        f"{tmp_path / 'first'} was recorded into before",
        "no training step was seen inside the block",
    ]


def test_ranks_that_set_one_file_aside_at_once_do_not_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    older = tmp_path / "monitor.jsonl"
    older.write_text("{}\n")
    rename = Path.rename

    def later(path: Path, target: Path) -> Path:
        rename(path, target)  # another rank, a moment earlier
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", later)
    with TrainingMonitor(older) as monitor:
        monitor.log_iteration(0.1)
    assert monitor.get_summary().iterations.count == 1


def entry_of(folder: Path, name: str, **told: Any) -> None:
    (folder / name).mkdir()
    whole = {"rank": 0, "world_size": 1, "complete": True, "notes": [], "process": {}, "clock": {}, **told}
    (folder / name / "rank.json").write_text(json.dumps(whole))


def test_of_processes_that_all_call_themselves_rank_0_one_is_chosen_and_it_is_said(tmp_path: Path) -> None:
    for number, (name, steps) in enumerate({"rank0": 40, "rank0.2": 60, "rank0.10": 60, "rank0.3": 90}.items()):
        trace = None if name == "rank0.3" else f"{name}/trace.json"
        entry_of(tmp_path, name, steps_seen=steps, job=str(number))
        if trace:
            (tmp_path / trace).write_text('{"traceEvents": [{"ph": "X", "name": "a", "ts": 1, "dur": 1}]}')
            entry = json.loads((tmp_path / name / "rank.json").read_text())
            (tmp_path / name / "rank.json").write_text(json.dumps({**entry, "trace": trace}))
    start = LaunchRecord("command", ("pool.py",), tmp_path, None, {}, stop_after_window=False, interval=10)
    ledger = RunJsonWriter(tmp_path, start)
    ledger.collect()
    ledger.close(0, None)
    said = "4 processes trained as rank 0; the one with the most steps stands for them"
    assert ledger.notes() == (said,)
    read = read_run(tmp_path)
    (recording,) = read.recordings
    assert (recording.meta["job"], recording.meta["notes"]) == ("1", [said])
    assert [one["steps_seen"] for one in read.meta["set_aside"]] == [60, 40, 90]


@pytest.mark.programs
def test_a_clock_that_is_set_does_not_end_the_window(tmp_path: Path) -> None:
    text = PRELUDE + FORMS.replace("(row for row in rows)", "loader") + "    time.time_ns = lambda at=next(later): at\n"
    head = "import itertools, time\nlater = itertools.count(10**18, 10**14)\n"
    (tmp_path / "clock.py").write_text(head + text)
    outcome = profile(ProfileOptions("script", ("clock.py", "60"), cwd=tmp_path, monitor=False))
    assert (outcome.complete, outcome.reason) == (True, None)
    (recording,) = read_run(outcome.folder).recordings
    assert len(recording.clock.profiled_ns) == 12


# ------------------------------------------------------------------------------------------------ nothing can be kept

GONE = """
import shutil, sys
from pathlib import Path
import torch

run = Path(sys.argv[1])
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
on = []
for step in range(1, 41):
    model(torch.ones(4, 8)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    on.append(torch.autograd._profiler_enabled())
    if step == 16 and run.is_dir():  # nobody can make a folder in it any more
        shutil.rmtree(run)
        run.write_text("")
        assert on[-1]
print(on[-1])
"""


@pytest.mark.programs
def test_where_not_even_a_folder_can_be_made_the_profiler_does_not_stay_on(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "gone.py").write_text(PRELUDE + GONE)
    plan = WindowPlan(unprofiled_steps=8, unprofiled_seconds=0.0, unprofiled_most_steps=8, clean=5)
    options = ProfileOptions("script", ("gone.py", "run"), cwd=tmp_path, out=Path("run"), monitor=False, plan=plan)
    outcome = profile(options)
    assert capfd.readouterr().out == "False\n"
    assert (outcome.status, outcome.complete) == (0, False)  # the script's own, though we could write nothing
    assert (outcome.reason or "").startswith("run.json could not be written")
