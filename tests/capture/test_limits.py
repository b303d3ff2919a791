"""What a recording may cost and what it survives: limits, a full disk, a folder that is gone, hung processes, forks."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.lean import PRELUDE
from tests.support.places import SCRIPTS
from tracelens import run
from tracelens.capture.inside import cuda_event_log, rank_files, recording_limits, time_window
from tracelens.capture.inside.attribution import REPORTED, Attribution
from tracelens.capture.inside.main_thread_timer import MainThreadTimer
from tracelens.capture.inside.recording_data import RecordingData
from tracelens.capture.inside.sync_debug_mode import SyncDebugMode
from tracelens.capture.run_json import LaunchRecord, RunJsonWriter
from tracelens.capture.supervisor.recording import Outcome, ProfileOptions, profile
from tracelens.capture.window_plan import NoRoomError, WindowPlan
from tracelens.launch import supervisor

torch = pytest.importorskip("torch")
PLAN = WindowPlan(unprofiled_steps=8, unprofiled_seconds=0.0, clean=5)


def record(folder: Path, *words: str, **options: Any) -> Outcome:
    return profile(ProfileOptions("script", words, cwd=folder, monitor=False, **{"plan": PLAN} | options))


def plain() -> str:
    return str(SCRIPTS / "plain.py")


# ------------------------------------------------------------------------------------------------------------- limits


def test_a_window_is_bounded_by_events_bytes_and_seconds() -> None:
    plan = WindowPlan(clean=12, attributed=2, most_events=100_000, most_bytes=400_000_000, most_window_seconds=60.0)
    assert plan.bounded(1000, 0.01, None) == plan
    assert (plan.bounded(20_000, 0.01, None).clean, plan.bounded(20_000, 0.01, None).attributed) == (4, 1)
    assert plan.bounded(80_000, 0.01, None).clean == 1  # one step is always recorded, if there is room for it
    assert plan.bounded(1000, 12.0, None).clean == 4
    assert plan.bounded(1000, 0.01, 8_000_000).clean == 9  # half of what is free: ten steps of 400 kB, one attributed
    assert replace(plan, most_window_seconds=float("inf")).bounded(1000, 12.0, None).clean == 12
    with pytest.raises(NoRoomError, match=r"1,000 events, 400,000 bytes"):
        plan.bounded(1000, 0.01, 700_000)


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


def test_a_step_that_records_much_is_recorded_less_often(tmp_path: Path) -> None:
    outcome = record(tmp_path, plain(), "60", plan=replace(PLAN, most_events=300))
    (recording,) = run.read(outcome.folder).recordings
    assert outcome.complete
    assert "so only" in outcome.notes[0]
    assert 1 <= len(recording.clock.profiled_ns) < 5
    assert recording.meta["window"]["events_per_step"] > 20
    assert sorted(path.name for path in outcome.folder.iterdir()) == ["rank0", "run.json"]


# ---------------------------------------------------------------------------------------------- disk and folders


def test_on_a_full_disk_the_job_goes_on_and_the_reason_is_said(tmp_path: Path) -> None:
    """No file may grow beyond 30 kB: neither the trace nor its compressed copy can be written, rank.json can."""
    limited = "import resource, runpy, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, 30_000));"
    code = limited + "sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"
    words = (sys.executable, "-c", code, plain(), "60")
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    outcome = profile(ProfileOptions("command", words, cwd=tmp_path, plan=PLAN, monitor=False))
    assert (outcome.status, outcome.complete, outcome.ranks) == (done.returncode, False, 0)
    assert "is the disk full?" in (outcome.reason or "")
    assert not list(outcome.folder.glob("rank0/*.json*.tmp"))
    assert not list(outcome.folder.glob("rank0/*trace*"))


def test_a_disk_without_any_room_is_told_from_no_steps(tmp_path: Path) -> None:
    limited = "import os, resource, runpy, sys; sys.stdout = open(os.devnull, 'w');"
    limited += "resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10));"
    code = limited + "sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"
    outcome = profile(
        ProfileOptions("command", (sys.executable, "-c", code, plain(), "60"), cwd=tmp_path, plan=PLAN, monitor=False)
    )
    assert outcome.status == 0
    assert "was not written to its end" in (outcome.reason or "")


def test_a_run_folder_that_vanishes_hurts_nobody(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    text = Path(plain()).read_text(encoding="utf-8").replace("abspath(__file__)", f"abspath({plain()!r})")
    gone = "        if number == 10:\n            __import__('shutil').rmtree('tracelens-runs')\n"
    script.write_text(text.replace("        value = loss.item()\n", "        value = loss.item()\n" + gone))
    outcome = record(tmp_path, "train.py", "60")
    assert outcome.status == 0
    assert outcome.ranks == 1  # the folder was made anew
    assert run.read(outcome.folder).recordings


def test_what_fills_tmpdir_does_not_concern_us(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", "/dev/null/full")
    outcome = record(tmp_path, plain(), "60")
    assert (outcome.status, outcome.complete) == (0, True)


def test_a_trace_that_does_not_fit_compressed_stays_plain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = tmp_path / "x.json"
    trace.write_text("{}")

    class Full:
        def compress(self, _chunk: bytes) -> bytes:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(rank_files.zlib, "compressobj", lambda *_: Full())
    with pytest.raises(OSError, match="No space"):
        rank_files.compress(trace)
    assert [path.name for path in tmp_path.iterdir()] == ["x.json"]


# ------------------------------------------------------------------------------ nothing is saved until it is read


def entry_of(folder: Path, content: bytes, device: str = "cpu") -> dict[str, Any]:
    place = folder / "rank0"
    place.mkdir(exist_ok=True)
    (place / "t.pt.trace.json.gz").write_bytes(gzip.compress(content))
    row = {"rank": 0, "world_size": 1, "trace": "rank0/t.pt.trace.json.gz", "complete": True, "reason": None,
           "process": {"device": device}}  # fmt: skip
    run.write_json(place / "rank.json", row)
    ledger = RunJsonWriter(folder, LaunchRecord("script", ("python", "a.py"), folder, None, {}, False, 10))
    ledger.collect()
    (entry,) = ledger.entries
    return entry


EVENT = b'{"ph": "X", "cat": "cpu_op", "name": "%s", "pid": 1, "tid": 1, "ts": 1.0, "dur": 2.0}'


def test_every_trace_is_parsed_before_it_is_called_saved(tmp_path: Path) -> None:
    whole = b'{"traceEvents": [' + EVENT + b"]}"
    assert entry_of(tmp_path, whole % b"a")["reason"] is None
    assert entry_of(tmp_path, whole % b'a "quoted" name')["reason"] is None  # repaired when it is read
    assert "no complete timed event" in str(entry_of(tmp_path, b'{"traceEvents": []}')["reason"])
    assert "not complete" in str(entry_of(tmp_path, b'{"traceEvents": [' + EVENT % b"a" + b", ")["reason"])
    assert "ends early" in str(entry_of(tmp_path, b'{"traceEvents": [' + EVENT % b"a")["reason"])
    assert "holds no GPU work" in str(entry_of(tmp_path, whole % b"a", "NVIDIA H200")["reason"])


def test_an_entry_that_is_written_again_is_read_again(tmp_path: Path) -> None:
    """A window of time gives way to steps that came after all."""
    whole = b'{"traceEvents": [' + EVENT % b"a" + b"]}"
    entry_of(tmp_path, whole)
    ledger = RunJsonWriter(tmp_path, LaunchRecord("script", ("python", "a.py"), tmp_path, None, {}, False, 10))
    path = tmp_path / "rank0" / "rank.json"
    row = json.loads(path.read_text())
    run.write_json(path, row | {"window": {"provisional": True}})
    ledger.collect()
    assert (len(ledger.recorded()), len(ledger.recorded(final=True))) == (1, 0)
    time.sleep(0.01)
    run.write_json(path, row)
    ledger.collect()
    assert len(ledger.recorded(final=True)) == 1


# ------------------------------------------------------------------------------ the last resort


def spin(until: Any, seconds: float = 5.0) -> bool:
    """Run Python code, between whose instructions pending calls are made."""
    end = time.monotonic() + seconds
    while not until() and time.monotonic() < end:
        pass
    return bool(until())


def test_something_happens_later_on_the_main_thread_and_once() -> None:
    looked: list[int] = []
    acted: list[int] = []
    before = threading.enumerate()
    later = MainThreadTimer(
        0.02, lambda: acted.append(threading.get_ident()), lambda: looked.append(1) or len(looked) > 2
    )
    later.start()
    assert threading.enumerate() == before  # the script does not see the thread
    assert spin(lambda: acted)
    assert acted == [threading.main_thread().ident]
    assert len(looked) == 3
    assert not spin(lambda: len(acted) > 1, 0.1)


def test_what_was_to_happen_later_can_be_stopped_and_begun_again() -> None:
    acted: list[int] = []
    later = MainThreadTimer(0.1, lambda: acted.append(1))
    for _ in range(3):  # around forks
        later.start()
        later.stop()
    later.stop()
    assert not spin(lambda: acted, 0.3)
    later.start()
    assert spin(lambda: acted)


def test_an_error_in_it_is_nobodys_business(capsys: pytest.CaptureFixture[str]) -> None:
    for later in (MainThreadTimer(0.01, lambda: 1 // 0), MainThreadTimer(0.01, lambda: None, lambda: 1 // 0 > 0)):
        later.start()
        spin(lambda: False, 0.1)
        later.stop()
    assert capsys.readouterr().err == ""


def test_a_step_that_does_not_end_closes_the_window(tmp_path: Path) -> None:
    """A long evaluation inside the window would fill the disk with its events."""
    (tmp_path / "train.py").write_text(
        PRELUDE + "model = torch.nn.Linear(8, 1)\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "for number in range(60):\n"
        "    model(torch.ones(4, 8)).sum().backward(); optimizer.step(); optimizer.zero_grad()\n"
        "    if number == 17:\n"
        "        end = time.monotonic() + 4\n"
        "        while time.monotonic() < end: model(torch.ones(4, 8)); time.sleep(0.002)\n"
    )
    outcome = record(tmp_path, "train.py", plan=replace(PLAN, most_window_seconds=0.5))
    assert (outcome.status, outcome.ranks, outcome.complete) == (0, 1, False)
    assert "longer than the window may" in (outcome.reason or "")
    assert run.read(outcome.folder).recordings[0].clock.profiled_ns


def test_what_cuda_knows_is_not_freed_in_a_forked_child(tmp_path: Path) -> None:
    """A CUDA event that is destroyed in a forked DataLoader worker aborts the worker, and with it the training."""
    from tracelens.capture.inside.agent import RecordingAgent

    engine = RecordingAgent({"run": str(tmp_path), "cwd": str(tmp_path)})
    freed = tmp_path / "freed"

    class Event:
        def __del__(self) -> None:
            if os.getpid() != parent:
                freed.write_text("")

    parent = os.getpid()
    engine._data.ends.append(Event())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # forking beside threads
        child = os.fork()
    if not child:
        engine.forked()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert not freed.exists()
    assert engine._data.ends


def test_a_process_that_waits_is_not_worth_recording(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_window, "LOOK_SECONDS", 0.05)
    used = iter([0.0, 0.001, 0.0, 0.05])
    monkeypatch.setattr(time, "process_time", lambda: next(used))
    assert not time_window.trains_unseen()
    assert time_window.trains_unseen()


# ------------------------------------------------------------------------------ signals to a hung process

HANGS = """
import ctypes, os, signal, threading, torch
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for number in range(60):
    model(torch.ones(4, 8)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    if number == 17:
        threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGTERM)).start()
        lock = ctypes.create_string_buffer(64)
        ctypes.CDLL(None).pthread_mutex_lock(lock)
        ctypes.CDLL(None).pthread_mutex_lock(lock)  # returns for no signal
"""


def test_sigterm_ends_a_process_that_hangs_in_a_c_call(tmp_path: Path) -> None:
    """A handler in Python never gets its turn there; without us the signal's default action ends it."""
    (tmp_path / "train.py").write_text(PRELUDE + HANGS)
    begin = time.monotonic()
    outcome = record(tmp_path, "train.py")
    assert outcome.status == -signal.SIGTERM
    assert time.monotonic() - begin < 240  # it would hang for good
    assert (outcome.ranks, outcome.complete) == (0, False)  # no trace: only the thread that hangs could have stopped it
    assert outcome.reason == (
        "the process hung in a call that SIGTERM could not interrupt, so its trace could not be written, after 18 steps"
    )
    meta = json.loads((outcome.folder / run.RUN_FILE).read_text())
    (entry,) = meta["ranks"]
    assert len(entry["clock"]["unprofiled_ns"]) == 8
    assert entry["steps_seen"] == 18
    where = json.loads((outcome.folder / entry["sources"]).read_text())["samples"][-1]
    assert where["path"] == "train.py"
    assert "returns for no signal" in (PRELUDE + HANGS).splitlines()[where["line"] - 1]


def test_sigterm_waits_for_a_save_that_has_begun(tmp_path: Path) -> None:
    """torchrun ends the other ranks as soon as one has failed, while they save because of the same failure."""
    code = (
        "import os, signal, sys, time; sys.path.insert(0, sys.argv[1]);"
        "from tracelens.capture.inside.exit_guard import ExitGuard; rescue = ExitGuard(print); rescue.install()\n"
        "with rescue.undisturbed():\n"
        "    os.kill(os.getpid(), signal.SIGTERM); time.sleep(0.1); print('saved', flush=True)\n"
        "print('not reached')\n"
    )
    root = str(SCRIPTS.parent.parent)
    done = subprocess.run([sys.executable, "-c", code, root], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (-signal.SIGTERM, "saved\n"), done.stderr


def test_a_wakeup_descriptor_of_the_scripts_own_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    from tracelens.capture.inside.exit_guard import ExitGuard

    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    before = signal.set_wakeup_fd(writing)
    rescue = ExitGuard(lambda reason: None)
    try:
        rescue.install()
        assert signal.getsignal(signal.SIGTERM) == rescue._terminated
        rescue.remove()
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
        assert signal.set_wakeup_fd(before) == writing
    finally:
        signal.set_wakeup_fd(before)
        os.close(reading)
        os.close(writing)


# ------------------------------------------------------------------------------------------------------ events, reports


class FakeEvent:
    """Stands in for torch.cuda.Event on a machine without a GPU."""

    def __init__(self, pointer: int = 0) -> None:
        self.pointer, self.cuda_event = pointer, 0

    def record(self, stream: Any = None) -> None:
        self.cuda_event = self.pointer

    def wait(self, stream: Any = None) -> None: ...
    def query(self) -> bool:
        return True

    def synchronize(self) -> None: ...


def test_uses_of_events_are_noted_with_their_stream_and_everything_is_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "Event", FakeEvent)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: SimpleNamespace(cuda_stream=0))
    monkeypatch.setattr(cuda_event_log, "_cupti_question", lambda: {0: 7, 99: 20}.get)
    before = dict(vars(FakeEvent))
    log = cuda_event_log.CudaEventLog()
    log.install()
    side = SimpleNamespace(cuda_stream=99)
    first, second, never = FakeEvent(0x1000), FakeEvent(0x2000), FakeEvent()
    first.record()
    first.wait(side)
    second.record(side)
    assert second.query() is True
    second.synchronize()
    second.wait(SimpleNamespace())  # a stream of another kind
    never.query()
    log.remove()
    first.record()
    assert dict(vars(FakeEvent)) == before
    found = [(use.call, use.event, use.stream) for use in log.uses()]
    assert found == [("record", 1, 7), ("wait", 1, 20), ("record", 2, 20), ("query", 2, None),
                     ("synchronize", 2, None), ("wait", 2, None)]  # fmt: skip
    assert all(0 <= time.time_ns() - use.start_unix_ns < 60e9 for use in log.uses())
    assert {use.thread for use in log.uses()} == {threading.get_native_id()}


def test_without_cupti_only_the_default_stream_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_event_log, "_loaded", lambda name: None)
    assert cuda_event_log._stream_numbers({0, 99}) == {0: 7}
    assert cuda_event_log._loaded("libcuptiXX") is None


def test_uses_of_events_go_through_the_run_folder(tmp_path: Path) -> None:
    use = cuda_event_log.EventCall(10, 20, 3, "wait", 1, None)
    rank_files.write_sources(tmp_path / "sources.json", rank_files.Sources(uses=[use]), "/")
    found = json.loads((tmp_path / "sources.json").read_text())["events"]
    assert found == [{"start_unix_ns": 10, "end_unix_ns": 20, "thread": 3, "call": "wait", "event": 1, "stream": None}]


class FakeMode:
    """torch.cuda's debug mode without a GPU; a change warns, as torch's does."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, mode: int = 0) -> None:
        self.mode = mode
        monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
        monkeypatch.setattr(torch.cuda, "get_sync_debug_mode", lambda: self.mode)
        monkeypatch.setattr(torch.cuda, "set_sync_debug_mode", self.set)

    def set(self, mode: int) -> None:
        self.mode = mode
        if mode:
            warnings.warn("Synchronization debug mode is a prototype feature", stacklevel=2)


def test_torchs_reports_are_heard_and_nothing_of_it_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    mode = FakeMode(monkeypatch)
    heard: list[int] = []
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("default")
        debug = SyncDebugMode(lambda: heard.append(1))

        def own() -> None:
            warnings.warn("the script's own", stacklevel=2)

        def repeat() -> None:
            own()  # one place: by default it is shown once

        repeat()
        filters = list(warnings.filters)
        debug.install()
        assert mode.mode == 1
        warnings.warn("called a synchronizing CUDA operation", stacklevel=2)
        repeat()
        warnings.warn("another", stacklevel=2)
        debug.remove()
        repeat()
        assert (mode.mode, list(warnings.filters)) == (0, filters)
    assert heard == [1]
    assert [str(one.message) for one in shown] == ["the script's own", "another"]


def test_reports_are_no_errors_where_the_script_makes_warnings_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    FakeMode(monkeypatch)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        heard: list[int] = []
        debug = SyncDebugMode(lambda: heard.append(1))
        debug.install()
        warnings.warn("called a synchronizing CUDA operation", stacklevel=2)
        debug.remove()
        with pytest.raises(UserWarning):
            warnings.warn("called a synchronizing CUDA operation", stacklevel=2)
    assert heard == [1]


def test_a_mode_that_the_script_has_set_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    mode = FakeMode(monkeypatch, mode=2)
    debug = SyncDebugMode(lambda: None)
    debug.install()
    debug.remove()
    assert mode.mode == 2


def test_a_report_becomes_a_short_mark_that_overlaps_no_other() -> None:
    attribution = Attribution()
    attribution.install()
    try:
        torch.ones(1).item()
        attribution._reported()
        here = sys._getframe().f_lineno - 1
    finally:
        attribution.remove()
    read, report = attribution.marks[-2:]
    assert (report.call, report.place[1]) == (REPORTED, here)
    assert read.end_unix_ns <= report.start_unix_ns <= report.end_unix_ns


# ------------------------------------------------------------------------------ one Run, many parents


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


def test_only_the_ranks_that_are_wanted_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "4")
    wanted = record(tmp_path, plain(), "60", ranks=(1,), plan=replace(PLAN, unprofiled_most_steps=20))
    assert (wanted.complete, wanted.ranks) == (True, 1)
    other = record(tmp_path, plain(), "60", ranks=(0, 2))
    assert (other.status, other.ranks) == (0, 0)


def test_the_handshake_knows_python_without_torch(tmp_path: Path) -> None:
    launch = supervisor.Launch((sys.executable, "-c", "pass"), "none", {})
    with supervisor.bootstrap(launch, tmp_path / "boot") as boot:
        assert not supervisor.reached(boot)
        supervisor.run(launch, boot, lambda pid: None)
        assert supervisor.reached(boot)
        assert supervisor.handshakes(boot) == ()
