"""What a recording may cost: events, bytes, seconds, ranks; and what is named when a limit holds."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.places import SCRIPTS
from tests.support.recording import PLAN, plain, record
from tracelens import run
from tracelens.capture.inside import recording_limits, time_window
from tracelens.capture.inside.recording_data import RecordingData
from tracelens.capture.window_plan import NoRoomError, WindowPlan
from tracelens.launch import supervisor

# ------------------------------------------------------------------------------------------------------------- limits


def test_a_window_is_bounded_by_events_bytes_and_seconds() -> None:
    plan = WindowPlan(clean=12, attributed=2, most_events=100_000, most_bytes=400_000_000, most_window_seconds=60.0)
    assert plan.within_limits(1000, 0.01, None) == plan
    assert (plan.within_limits(20_000, 0.01, None).clean, plan.within_limits(20_000, 0.01, None).attributed) == (4, 1)
    assert plan.within_limits(80_000, 0.01, None).clean == 1  # one step is always recorded, if there is room for it
    assert plan.within_limits(1000, 12.0, None).clean == 4
    assert plan.within_limits(1000, 0.01, 8_000_000).clean == 9  # half of the free disk: ten steps, one attributed
    assert replace(plan, most_window_seconds=float("inf")).within_limits(1000, 12.0, None).clean == 12
    with pytest.raises(NoRoomError, match=r"1,000 events, 400,000 bytes"):
        plan.within_limits(1000, 0.01, 700_000)


@pytest.mark.parametrize(
    ("events", "seconds", "free", "said"),
    [
        (50_000, 0.01, None, "a step records about 50,000 events, so only 1 step was recorded"),
        (1000, 12.0, None, "a step lasts 12 s, so only 4 steps were recorded"),
        (1000, 0.01, 4_000_000, "the recording may take 2,000,000 bytes of the disk's free ones, so only 4 steps were"),
    ],
)
def test_the_limit_that_holds_is_the_one_that_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, events: int, seconds: float, free: int | None, said: str
) -> None:
    monkeypatch.setattr(recording_limits, "free_bytes", lambda *_: free)
    gathered = RecordingData(WindowPlan(most_events=100_000), window={"events_per_step": events})
    gathered.unprofiled, gathered.unprofiled_ns = [1], int(seconds * 1e9)
    recording_limits.apply_limits(gathered, str(tmp_path))
    assert gathered.notes[0].startswith(said)


def test_ranks_agree_on_the_most_that_any_of_them_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = str(tmp_path)
    for rank, events in ((0, 500), (1, 90_000)):
        monkeypatch.setenv("RANK", str(rank))
        recording_limits.publish_event_count(folder, events)
    monkeypatch.setenv("RANK", "0")
    assert recording_limits.largest_event_count(folder, 500) == 90_000
    gathered = RecordingData(WindowPlan(clean=12, most_events=300_000), window={"events_per_step": 500})
    recording_limits.apply_limits(gathered, folder)
    assert gathered.plan.clean == 2
    assert "90,000 events" in gathered.notes[0]
    recording_limits.withdraw_event_count(folder)
    assert len(list(tmp_path.iterdir())) == 1
    recording_limits.publish_event_count(str(tmp_path / "gone"), 1)  # costs nothing but the agreement
    assert recording_limits.free_bytes(str(tmp_path / "gone"), 1) is None


@pytest.mark.programs
def test_a_step_that_records_much_is_recorded_less_often(tmp_path: Path) -> None:
    outcome = record(tmp_path, plain(), "60", plan=replace(PLAN, most_events=300))
    (recording,) = run.read(outcome.folder).recordings
    assert outcome.complete
    assert "so only" in outcome.notes[0]
    assert 1 <= len(recording.clock.profiled_ns) < 5
    assert recording.meta["window"]["events_per_step"] > 20
    assert sorted(path.name for path in outcome.folder.iterdir()) == ["rank0", "run.json"]


def test_a_process_that_waits_is_not_worth_recording(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_window, "LOOK_SECONDS", 0.05)
    used = iter([0.0, 0.001, 0.0, 0.05])
    monkeypatch.setattr(time, "process_time", lambda: next(used))
    assert not time_window.trains_unseen()
    assert time_window.trains_unseen()


# ------------------------------------------------------------------------------ one Run, many parents


@pytest.mark.programs
def test_parents_of_two_nodes_make_one_run(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    driver = (
        "import sys; from pathlib import Path; sys.path.insert(0, sys.argv[1]);"
        "from tracelens.capture.supervisor.recording import *; from tracelens.capture.window_plan import WindowPlan;"
        "o = profile(ProfileOptions('script', tuple(sys.argv[3:]), out=Path(sys.argv[2]), join=True, monitor=False,"
        "plan=WindowPlan(unprofiled_steps=8, unprofiled_seconds=0.0, clean=5)));"
        "raise SystemExit(o.status)"
    )
    root = str(SCRIPTS.parent.parent)
    nodes = []
    for rank in (0, 1):
        environment = {**os.environ, "RANK": str(rank), "WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": "job7"}
        command = [sys.executable, "-c", driver, root, str(shared), plain(), "200"]
        nodes.append(subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.DEVNULL))
    assert [node.wait(timeout=120) for node in nodes] == [0, 0]
    read = run.read(shared)
    assert read.complete, read.meta["reason"]
    assert [recording.rank for recording in read.recordings] == [0, 1]
    assert {recording.meta["job"] for recording in read.recordings} == {"job7"}
    assert sorted(path.name for path in shared.iterdir()) == ["rank0", "rank1", "run.json"]
    late = subprocess.run([sys.executable, "-c", driver, root, str(shared), plain(), "3"], capture_output=True,
                          text=True, check=False, cwd=tmp_path)  # fmt: skip
    assert "holds a recording already" in late.stderr


@pytest.mark.programs
def test_only_the_ranks_that_are_wanted_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "4")
    wanted = record(tmp_path, plain(), "60", ranks=(1,), plan=replace(PLAN, unprofiled_most_steps=20))
    assert (wanted.complete, wanted.ranks) == (True, 1)
    other = record(tmp_path, plain(), "60", ranks=(0, 2))
    assert (other.status, other.ranks) == (0, 0)


@pytest.mark.programs
def test_the_handshake_knows_python_without_torch(tmp_path: Path) -> None:
    launch = supervisor.Launch((sys.executable, "-c", "pass"), "none", {})
    with supervisor.bootstrap(launch, tmp_path / "boot") as boot:
        assert not supervisor.reached(boot)
        supervisor.run(launch, boot, lambda pid: None)
        assert supervisor.reached(boot)
        assert supervisor.handshakes(boot) == ()
