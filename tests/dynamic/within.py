"""Original and patched versions of one script by turns inside one process: the process's own luck is the same for all.

In: a row that was compared, and its plan. Out: `NAME.within-K.json`: rounds, each with the step time of every version.
Two processes of one and the same script differ by more than most patches gain: by their cores, their clock speed, their
memory. Here every version is a thread that runs the whole script and holds still, at the start of a batch and with the
GPU idle, until it is its turn again; then it makes some steps that do not count and some that do. A version that holds
still has its loader's workers stopped: they do not run ahead, and take no processor from the others. The original takes
part twice: what the second one shows is the error of the method.
"""

from __future__ import annotations

import json
import math
import os
import pickle
import signal
import sys
import threading
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import worker
from entry import MANY_IMAGES, Entry, Setting
from row import Row
from times_of import AGAIN, LEAST_ROUNDS, ORIGINAL
from timing import versions_of

WARM_STEPS = 30
"""Of each version's first turn: allocator, cuDNN's choice of algorithms, lazy loading of kernels."""
SETTLE_STEPS = 10
"""Of each later turn: until host, GPU and loader run as far ahead of one another as they do in the long run."""
TURN_SECONDS = 0.5
FEWEST, MOST = 20, 100
"""Timed steps of a turn: whole intervals of ten, so that each holds as many drains as any other."""
RUNTIME = "tracelens_runtime.py"


@dataclass(frozen=True)
class Together:
    """One process that hosts the versions of a row."""

    entry: Entry
    number: int
    seconds: float


def run(job: Together, setting: Setting, only: tuple[str, ...] = ()) -> str:
    """Fork the process, wait for it; returns a line for the log."""
    value = json.loads((setting.results / f"{job.entry.name}.json").read_text())
    row = Row(job.entry, setting)
    plan = row.place / "plan"
    names = [name for name in versions_of(value, every=True) if not only or name in only]
    if not names or not plan.exists():
        return f"{job.entry.name}: no version to time"
    if time.monotonic() + job.seconds > setting.ends:
        return f"{job.entry.name}: no time left"
    row.plan = pickle.loads(plan.read_bytes())
    names = [ORIGINAL, *(name for name in names if _main_file_only(row, name)), AGAIN]
    folders = {}
    for number, name in enumerate(names):
        folders[name] = row.place / f"within-{setting.worker:02d}-{number:02d}"
        row._copy_to(folders[name], row.plan.patches.get(name))
    out = row.place / f"within-{setting.worker:02d}"
    target = setting.results / f"{job.entry.name}.within-{job.number}.json"

    def child() -> int:
        worker.seed()
        found = alternate({name: folder / job.entry.path for name, folder in folders.items()}, job.seconds)
        target.write_text(json.dumps(found))
        return 0

    first = folders[ORIGINAL] / job.entry.path
    environment = {"TRACELENS_SYNTHETIC_IMAGES": str(MANY_IMAGES), "TMPDIR": str(row.place)}
    process = worker.fork(child, first, row.arguments, out, environment)
    status = _wait(process, job.seconds + setting.timeout_s)
    if not target.exists():
        return f"{job.entry.name}: ended with {status}: {(out / 'stderr').read_text()[-300:]}"
    found = json.loads(target.read_text())
    return f"{job.entry.name}: {len(found['rounds'])} rounds of {len(names)} in one process {found['ended'] or ''}"


def alternate(scripts: dict[str, Path], seconds: float) -> dict[str, Any]:
    """Let the versions take turns for so long, or three times; what they started is gone afterwards."""
    ends = time.monotonic() + seconds
    sys.path[:0] = [str(path.parent) for path in scripts.values()]
    versions = [Version(name, path) for name, path in scripts.items()]
    _follow(versions)
    for version in versions:
        version.turn(0, WARM_STEPS)
    timed = _timed_steps(versions[0].step_ns)
    rounds: list[dict[str, float]] = []
    while time.monotonic() < ends or len(rounds) < LEAST_ROUNDS:
        if any(version.ended is not None for version in versions):
            break
        order = versions if len(rounds) % 2 == 0 else versions[::-1]
        taken = {version.name: version.turn(SETTLE_STEPS, timed) for version in order}
        if all(ns is not None for ns in taken.values()):
            rounds.append({name: ns for name, ns in taken.items() if ns is not None})
    for version in versions:
        version.leave()
    return {
        "rounds": rounds,
        "timed_steps": timed,
        "ended": {version.name: version.ended for version in versions if version.ended is not None},
    }


class Version(threading.Thread):
    """A script that runs while it is its turn, and holds still at a batch's start otherwise."""

    def __init__(self, name: str, script: Path) -> None:
        super().__init__(name=name, daemon=True)
        self.script = script
        self.step_ns: float | None = None
        self.ended: str | None = None
        self._go, self._parked = threading.Semaphore(0), threading.Semaphore(0)
        self._settle = self._timed = self._count = 0
        self._loader: Any = None
        self._start: tuple[Any, int] | None = None

    def turn(self, settle: int, timed: int) -> float | None:
        """Called from outside: make so many steps; returns the time of one, None where the script has ended."""
        if self.ended is not None:
            return None
        self._settle, self._timed, self._count, self._start, self.step_ns = settle, timed, 0, None, None
        os.chdir(self.script.parent)
        self._workers(signal.SIGCONT)
        if not self.is_alive():
            self.start()
        self._go.release()
        self._parked.acquire()
        return self.step_ns

    def leave(self) -> None:
        """End what it started; the thread itself ends with the process."""
        self._workers(signal.SIGKILL)

    def run(self) -> None:
        self._go.acquire()
        try:
            code = compile(self.script.read_bytes(), str(self.script), "exec")
            exec(code, {"__name__": "__main__", "__file__": str(self.script), "__builtins__": __builtins__})
            self.ended = "the script ended"
        except BaseException as error:
            traceback.print_exc()
            self.ended = f"{type(error).__name__}: {error}"[:300]
        self._parked.release()

    def batch(self, loader: Any) -> None:
        """The script asks for a batch: a step begins. A new epoch's loader starts the turn again."""
        if loader is not self._loader:
            self._loader, self._count, self._start = loader, 0, None
        if self._count == self._settle:
            self._start = _mark()
        elif self._count == self._settle + self._timed:
            self.step_ns = _between(self._start, _mark()) / self._timed
            self._hold()
            return
        self._count += 1

    def _hold(self) -> None:
        self._workers(signal.SIGSTOP)
        self._parked.release()
        self._go.acquire()
        self._count = 1 if self._settle else 0
        if not self._settle:
            self._start = _mark()

    def _workers(self, number: signal.Signals) -> None:
        for process in getattr(self._loader, "_workers", None) or ():
            if process.is_alive():
                os.kill(process.pid, number)


def _follow(versions: list[Version]) -> None:
    """A batch that a version's own thread asks for while it trains is a step; other loaders and threads are not."""
    import torch
    from torch.utils.data.dataloader import _BaseDataLoaderIter

    original = _BaseDataLoaderIter.__next__

    def followed(loader: Any) -> Any:
        thread = threading.current_thread()
        if thread in versions and torch.is_grad_enabled():
            thread.batch(loader)  # type: ignore[attr-defined]
        return original(loader)

    _BaseDataLoaderIter.__next__ = followed


def _mark() -> tuple[Any, int]:
    import torch

    if not torch.cuda.is_initialized():
        return None, time.perf_counter_ns()
    event = torch.cuda.Event(enable_timing=True)
    event.record()
    return event, time.perf_counter_ns()


def _between(start: tuple[Any, int] | None, end: tuple[Any, int]) -> float:
    """By the GPU's clock where there is one, as `verify` does; it is idle afterwards."""
    assert start is not None
    if start[0] is None or end[0] is None:
        return end[1] - start[1]
    import torch

    torch.cuda.synchronize()
    return float(start[0].elapsed_time(end[0]) * 1e6)


def _timed_steps(step_ns: float | None) -> int:
    wanted = TURN_SECONDS * 1e9 / step_ns if step_ns else FEWEST
    return min(MOST, max(FEWEST, 10 * math.ceil(wanted / 10)))


def _main_file_only(row: Row, name: str) -> bool:
    """Modules are imported once per process: a patch of any other file than the script would be everybody's."""
    script = row.place / "project" / row.entry.path
    own = {file.path.resolve() for file in row.plan.patches[name].files if file.path.name != RUNTIME}
    return own <= {script.resolve()}


def _wait(process: int, seconds: float) -> int:
    limit = time.monotonic() + seconds
    while True:
        done, status = os.waitpid(process, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > limit:
            os.killpg(process, signal.SIGKILL)
        time.sleep(0.05)
