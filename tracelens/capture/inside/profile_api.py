"""`tracelens.profile()` and `tracelens.on_trace_ready()`: recordings that a script or notebook begins itself.

In: calls from the user's process. Out: the Run folder that `tracelens profile` writes too. There is no parent process
here, so this module also writes run.json.

    with tracelens.profile() as recording:          # around the training loop
        train()
    print(recording.folder, recording.reason)       # reason: None, or why the recording is not complete

    torch.profiler.profile(..., on_trace_ready=tracelens.on_trace_ready())

Nothing here ends a job: what goes wrong is in `reason`, and training goes on. Only wrong arguments and a folder that
cannot be made raise (`UsageError`), before the loop begins.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

from tracelens import run
from tracelens.capture.hardware_monitor import HardwareMonitor
from tracelens.capture.inside import process_facts, rank_files
from tracelens.capture.inside.agent import RecordingAgent
from tracelens.capture.inside.loop_bounds import BlockEntry
from tracelens.capture.inside.profiler_session import watch_foreign
from tracelens.capture.run_json import LaunchRecord, RunJsonWriter
from tracelens.capture.window_plan import KINETO_SILENT, WindowPlan
from tracelens.errors import UsageError
from tracelens.launch.inside import hooks
from tracelens.messages import say, shown

RANKS_SECONDS = 5.0
"""How long rank 0 waits for the others' entries: they end their loops together, but writing files takes time."""
UNDER_ANOTHER = say(
    "this process is already recorded by `tracelens profile` or `verify`, so nothing was recorded twice"
)
BLOCK_ENDED = say("the `with tracelens.profile()` block ended before the recording was complete")


class Recording:
    """The recording of one `with tracelens.profile():` block."""

    def __init__(self, folder: Path, plan: WindowPlan, interval: int, *, monitor: bool, quiet: bool) -> None:
        self.folder = folder
        self.complete = False
        self.reason: str | None = say("the block has not ended yet")
        self.notes: tuple[str, ...] = ()
        self._plan = plan
        self._quiet = quiet
        self._entered = False
        self._rank, self._world = process_facts.rank_and_world()
        self._agent: RecordingAgent | None = None
        self._run_json = RunJsonWriter(folder, _start(plan, interval)) if not self._rank else None
        self._monitor = HardwareMonitor(folder / run.MONITOR_FILE, os.getpid()) if monitor and not self._rank else None

    def __enter__(self) -> Recording:
        if self._entered:
            raise UsageError(
                say("{folder} was recorded into before", folder=self.folder),
                hint=say("call tracelens.profile() for each block"),
            )
        self._entered = True
        if self._run_json is not None:
            self._run_json.write()
        if _observed_from_outside():
            self.reason = UNDER_ANOTHER
            return self
        _observe_here()
        config = {"run": str(self.folder), "cwd": str(Path.cwd()), "plan": self._plan.as_dict()}
        caller = sys._getframe(1)
        self._agent = RecordingAgent(config, BlockEntry(caller.f_code, caller.f_lineno))
        _agents.append(self._agent)
        self._agent.observe()
        if self._monitor is not None:
            with suppress(RuntimeError):  # no room for another thread: the job matters more than its samples
                self._monitor.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if self._agent is not None:
            self._agent.end(BLOCK_ENDED if kind is None else say("the block was left by {kind}", kind=kind.__name__))
            _agents.remove(self._agent)
            self.reason = None
        if self._monitor is not None and self._agent is not None:
            self._monitor.stop()
        if self._run_json is not None:
            self._conclude(self._run_json)
        self.complete = self.reason is None
        if not self._quiet and not self._rank:
            print(shown(self._message()), file=sys.stderr)

    def _conclude(self, run_json: RunJsonWriter) -> None:
        deadline = time.monotonic() + RANKS_SECONDS
        run_json.collect()
        while run_json.entries and len(run_json.entries) < self._world and time.monotonic() < deadline:
            time.sleep(0.05)
            run_json.collect()
        if self.reason is None:
            reasons = [str(entry["reason"]) for entry in run_json.entries if entry.get("reason")]
            missing = say("no training step was seen inside the block") if not run_json.entries else None
            self.reason = missing or "; ".join(dict.fromkeys(reasons)) or None
        self.notes = run_json.notes()
        run_json.close(None, self.reason)
        run_json.clear()

    def _message(self) -> str:
        if self.reason is not None:
            return say("tracelens: the recording is not complete: {reason}", reason=self.reason)
        return _recorded(self.folder)


def profile(
    out: str | os.PathLike[str] | None = None,
    *,
    steps: int | None = None,
    interval: int = 10,
    monitor: bool = True,
    quiet: bool = False,
) -> Recording:
    """Record the training loop inside a `with` block, as `tracelens profile` records a script.

    `out`: the Run folder, which must be new or empty; None makes one below `tracelens-runs/`. `steps`: how many clean
    steps to record (12). `interval`: N of the remedies that act every N batches. The first steps of the block are
    timed without the profiler, so the block should hold a few dozen. Under torchrun every rank enters the block and
    all write into one folder. Raises `UsageError` if the folder cannot be made.
    """
    if steps is not None and not (isinstance(steps, int) and steps >= 1):
        raise UsageError(
            say("steps is {steps!r}: at least one whole step must be recorded", steps=steps),
            hint=say("leave it out for 12"),
        )
    if not (isinstance(interval, int) and interval >= 1):
        raise UsageError(
            say("interval is {interval!r}: it must be at least one batch", interval=interval),
            hint=say("leave it out for 10"),
        )
    plan = WindowPlan() if steps is None else replace(WindowPlan(), clean=steps)
    return Recording(_folder(out), plan, interval, monitor=monitor, quiet=quiet)


def on_trace_ready(out: str | os.PathLike[str] | None = None, *, quiet: bool = False) -> Callable[[Any], None]:
    """A handler for `torch.profiler.profile(on_trace_ready=…)`: each trace becomes a Run folder of its own.

    `out` is the folder below which the Runs are made, `tracelens-runs` by default. What an owned profiler does not
    measure stays unknown: there is no unprofiled step time, so predictions are relative to the profiled step.
    """
    parent = Path(run.RUNS_FOLDER if out is None else out)

    def handle(profiler: Any) -> None:
        try:
            folder = run.new_folder(_script_name(), parent).resolve()
            _save_owned(profiler, folder)
        except OSError as error:  # a full disk ends no training
            warnings.warn(f"tracelens could not keep this trace: {error}", RuntimeWarning, stacklevel=2)
            return
        if not quiet:
            print(shown(_recorded(folder)), file=sys.stderr)

    return handle


# ------------------------------------------------------------------------------------------------------------ folders


def _recorded(folder: Path) -> str:
    after = f"tracelens recommend {shlex.quote(f'{folder}/')}"
    return say("tracelens: recorded in {folder}\nnext: {after}", folder=folder, after=after)


def _folder(out: str | os.PathLike[str] | None) -> Path:
    """Create the Run folder; all ranks of one launch use the same name."""
    try:
        if out is None:
            launch = _launch_id()
            if launch is None:
                return run.new_folder(_script_name(), Path(run.RUNS_FOLDER)).resolve()
            out = Path(run.RUNS_FOLDER) / f"{_script_name()}-{launch}"
        folder = Path(out).resolve()
        rank, _world = process_facts.rank_and_world()
        if not rank and folder.exists() and (not folder.is_dir() or any(folder.glob(run.RUN_FILE))):
            raise UsageError(
                say("{folder} holds a recording already, or is no folder", folder=folder),
                hint=say("give another folder as out="),
            )
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            say(
                "the run folder cannot be made: {filename}: {strerror}",
                filename=error.filename or out,
                strerror=error.strerror,
            ),
            hint=say("give a folder that can be written as out="),
        ) from error
    return folder


def _launch_id() -> str | None:
    """A name that the ranks of one launch share; None for a single process."""
    if process_facts.rank_and_world()[1] < 2:
        return None
    words = (os.environ.get(name, "") for name in ("TORCHELASTIC_RUN_ID", "SLURM_JOB_ID", "MASTER_PORT"))
    launch_id = next((word for word in words if word and word != "none"), "ranks")
    return re.sub(r"[^A-Za-z0-9_-]", "_", launch_id)


def _script() -> str | None:
    """The running script's file; None in a notebook and at a prompt."""
    path = getattr(sys.modules.get("__main__"), "__file__", None)
    return path if path and Path(path).is_file() and not _interactive() else None


def _interactive() -> bool:
    return hasattr(sys, "ps1") or "ipykernel" in sys.modules


def _script_name() -> str:
    script = _script()
    return Path(script).stem if script else "notebook" if _interactive() else "python"


def _start(plan: WindowPlan, interval: int) -> LaunchRecord:
    script = _script()
    words = sys.orig_argv if script else ["python"]
    return LaunchRecord(
        kind="script" if script else "inside",
        command=tuple(words),
        cwd=Path.cwd(),
        script=script,
        plan=plan.as_dict(),
        stop_after_window=False,
        interval=interval,
    )


# ---------------------------------------------------------------------------------------------------------- observing

_agents: list[RecordingAgent] = []
"""The recording that is open in this process, if any."""
_hooked_here: list[bool] = []
"""Not empty once this module has put the hooks in place."""


def _observed_from_outside() -> bool:
    return bool(_agents) or (hooks.installed() and not _hooked_here)


def _observe_here() -> None:
    if not _hooked_here:
        for name, value in KINETO_SILENT.items():
            os.environ.setdefault(name, value)
        hooks.install()
        watch_foreign(_foreign_profiler)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=_forked)
        _hooked_here.append(True)
    hooks.restart()


def _foreign_profiler() -> None:
    for agent in tuple(_agents):
        agent.foreign_profiler()


def _forked() -> None:
    for agent in tuple(_agents):
        agent.forked()


# ------------------------------------------------------------------------------------------------- an owned profiler


def _save_owned(profiler: Any, folder: Path) -> None:
    rank, world = process_facts.rank_and_world()
    place = rank_files.claim_folder(folder, rank)
    plain = place / rank_files.trace_name(rank, os.uname().nodename)
    profiler.export_chrome_trace(str(plain))
    if not plain.is_file():
        raise OSError(say("the profiler wrote no file {name}", name=plain.name))
    trace = rank_files.compress(plain)
    entry = {
        "rank": rank,
        "world_size": world,
        "trace": f"{place.name}/{trace.name}",
        "sources": None,
        "clock": {},
        "step_marks": "profiler",
        "attributed_steps": [],
        "memory": process_facts.memory(),
        "loaders": None,  # nobody looked
        "notes": [say("recorded by the script's own profiler: no unprofiled step time, no source marks")],
        "complete": True,
        "reason": None,
        "process": process_facts.process(os.getcwd()),
    }
    run.write_json(place / "rank.json", entry)
    run_json = RunJsonWriter(folder, _start(WindowPlan(), 10))
    run_json.collect()
    reason = next((str(entry["reason"]) for entry in run_json.entries if entry.get("reason")), None)
    run_json.close(None, reason)
    run_json.clear()
