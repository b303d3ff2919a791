"""One arm: a fresh process that runs one version of a script for an agreed number of steps and times them.

In: `Arm`. Out: a JSON file. The process is forked from one that has imported torch and never touched the GPU, so it
pays for no import and has a CUDA context, allocators and caches of its own. Steps are seen by the product's own hooks;
at the end of every block a CUDA event is recorded, and nothing waits for the GPU before the last one. Where a `Share`
is given, its threads and its loader workers have CPUs of their own.
"""

from __future__ import annotations

import json
import os
import resource
import runpy
import signal
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.accuracy.placement import Share, settle, stolen

BLOCK = 10
"""Steps timed together: the interval of every-N schemes, so that each block holds one read."""
EVERYWHERE = Share()


@dataclass(frozen=True)
class Arm:
    """What to run in which folder, how many steps to let pass and how many to time."""

    folder: str
    arguments: tuple[str, ...]
    warmup: int
    blocks: int
    out: str


def forked(work: Callable[[], None], seconds: float, log: Path, place: Share = EVERYWHERE) -> bool:
    """Run `work` in a forked process, its own session, output to `log`; True if it ended well and in time."""
    pid = os.fork()
    if pid == 0:
        _child(work, log, place)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            _end_group(pid)
            return status == 0
        time.sleep(0.01)
    _end_group(pid)
    os.waitpid(pid, 0)
    return False


def _end_group(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)  # DataLoader workers that are left


def _child(work: Callable[[], None], log: Path, place: Share) -> None:
    status = 1
    try:
        os.setsid()
        settle(place)
        target = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(target, 1)
        os.dup2(target, 2)
        work()
        status = 0
    except SystemExit as end:
        status = 0 if end.code in (0, None) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def script(folder: str, arguments: tuple[str, ...]) -> None:
    """Run the folder's train.py as Python would run it from a shell."""
    os.chdir(folder)
    sys.argv = ["train.py", *arguments]
    sys.path[0:0] = [folder]
    for name in ("images", "tracelens_runtime"):
        sys.modules.pop(name, None)
    runpy.run_path("train.py", run_name="__main__")


def measure(arm: Arm) -> None:
    """Time the version; to be called in a process of its own."""
    import torch

    from tracelens.launch.inside import hooks

    torch.manual_seed(0)
    hooks.install()
    stopwatch = _Stopwatch(arm)
    hooks.on_step(stopwatch.step)
    failures: list[str] = []
    hooks.on_failure(failures.append)
    with suppress(SystemExit):
        script(arm.folder, arm.arguments)
    if not stopwatch.written:
        raise RuntimeError(f"the script ended after {stopwatch.steps} steps {failures}")


class _Stopwatch:
    """Notes the time at the end of every block; writes and ends the process after the last."""

    def __init__(self, arm: Arm) -> None:
        self.arm, self.steps, self.written = arm, 0, False
        self.host: list[int] = []
        self.events: list[Any] = []
        self.began = time.perf_counter()
        self.loading = _Loading()

    def step(self, _step: Any) -> None:
        self.steps += 1
        beyond = self.steps - self.arm.warmup
        if beyond < 0 or beyond % BLOCK:
            return
        import torch

        if beyond == 0:
            self.loading.total_ns = 0
            self.stolen = stolen()
            self.usage = resource.getrusage(resource.RUSAGE_SELF)
            self.allocations = _host_allocations(torch)
        self.host.append(time.perf_counter_ns())
        if torch.cuda.is_available():
            event = torch.cuda.Event(enable_timing=True)
            event.record()
            self.events.append(event)
        if beyond == BLOCK * self.arm.blocks:
            self._write(torch)
            raise SystemExit(0)

    def _write(self, torch: Any) -> None:
        host = [(b - a) / BLOCK / 1e3 for a, b in zip(self.host, self.host[1:], strict=False)]
        loading = self.loading.total_ns / (BLOCK * self.arm.blocks) / 1e3
        allocations = _host_allocations(torch)
        usage = resource.getrusage(resource.RUSAGE_SELF)
        if self.events:
            torch.cuda.synchronize()
            pairs = zip(self.events, self.events[1:], strict=False)
            block = [a.elapsed_time(b) / BLOCK * 1e3 for a, b in pairs]
        else:
            block = host
        found = {
            "block_us": [round(value, 1) for value in block],
            "loader_us": round(loading, 1),
            "page_faults": round((usage.ru_minflt - self.usage.ru_minflt) / (BLOCK * self.arm.blocks), 1),
            "displaced": usage.ru_nivcsw - self.usage.ru_nivcsw,
            "stolen_ticks": stolen() - self.stolen,
            "pinned_allocations": None if allocations is None else allocations - (self.allocations or 0),
            "seconds": round(time.perf_counter() - self.began, 2),
        }
        part = Path(self.arm.out + ".part")
        part.write_text(json.dumps(found), encoding="utf-8")
        part.replace(self.arm.out)
        self.written = True


class _Loading:
    """Time that the training thread spends inside the DataLoader's `__next__`."""

    def __init__(self) -> None:
        from torch.utils.data import dataloader

        self.total_ns = 0
        inner = dataloader._BaseDataLoaderIter.__next__

        def timed(iterator: Any) -> Any:
            started = time.perf_counter_ns()
            try:
                return inner(iterator)
            finally:
                self.total_ns += time.perf_counter_ns() - started

        dataloader._BaseDataLoaderIter.__next__ = timed


def _host_allocations(torch: Any) -> int | None:
    """How often pinned memory was asked of the driver so far; None where this torch does not count it."""
    count = getattr(torch.cuda, "host_memory_stats", None)
    if count is None or not torch.cuda.is_initialized():
        return None
    return int(count().get("num_host_alloc", 0))


def described(arm: Arm) -> dict[str, Any]:
    """The arm as JSON."""
    return asdict(arm)
