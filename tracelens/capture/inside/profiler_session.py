"""One session of torch.profiler, with guards against everything that is known to crash a process.

In: calls at step boundaries, all on one thread. Out: a Chrome trace file, or `NotRecorded` with the reason. Each guard
stands for a segmentation fault that was seen:
1. two profilers in one process: ours closes before the script's is prepared, and never starts while one is active;
2. a start inside a backward pass: the profiler's thread-local state is lost when backward returns;
3. a stop on another thread than the one that started;
4. the export of an empty result.
"""

from __future__ import annotations

import contextlib
import functools
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.autograd import profiler as autograd_profiler

from tracelens.capture.inside import cupti_detach, process_facts
from tracelens.launch.inside import profiler_options

PROFILES_ITSELF = "the script profiles itself; give the trace files that it writes to `tracelens analyze`"
_TAIL_BYTES = 64


class NotRecorded(Exception):
    """Why there is no trace, as a phrase for the notes."""


class ProfilerSession:
    """prepare → start → mark … → stop → export; every method may raise `NotRecorded`."""

    def __init__(self) -> None:
        self._thread = threading.get_ident()
        self._session: Any = None
        self._started = False
        self._stopped = False
        self._mark: Any = None
        self.open_mark: int | None = None

    def prepare(self) -> None:
        """Attach the tracer; events before `start` are discarded."""
        self._check_start()
        with _PreparingOwn():
            self._session = torch.profiler.profile(
                activities=_activities(),
                record_shapes=False,
                with_stack=False,
                **profiler_options.options(),
            )
            self._session.prepare_trace()
            profiler_options.without_event_objects(self._session)

    def start(self) -> None:
        """Record events from now on."""
        self._check_start()
        self._session.start_trace()
        self._started = True

    def mark_step(self, number: int) -> None:
        """End the open step, if any, and begin `ProfilerStep#number`."""
        self.end_step()
        self._mark = autograd_profiler.record_function(f"ProfilerStep#{number}")
        self._mark.__enter__()
        self.open_mark = number

    def end_step(self) -> None:
        if self._mark is not None:
            mark, self._mark, self.open_mark = self._mark, None, None
            mark.__exit__(None, None, None)

    def stop(self) -> None:
        """Stop recording; the second time nothing. A session that was only prepared is started first: Kineto has no
        other way to close it."""
        if self._stopped:
            return
        if self._session is None:
            raise NotRecorded("the recording had not begun")
        if threading.get_ident() != self._thread:
            raise NotRecorded("the script ended on another thread than the one that trains")
        if not self._started:
            self._session.start_trace()
            self._started = True
        if not torch.autograd._profiler_enabled():
            self._session = None
            raise NotRecorded("the profiler's state was lost: it was stopped, or the script is inside a backward pass")
        self.end_step()
        with _device_in_use():  # stopping synchronizes the current device
            self._session.stop_trace()
        self._stopped = True

    def events(self) -> int | None:
        """Number of events in a stopped session; None where this torch does not say."""
        results = getattr(getattr(self._session, "profiler", None), "kineto_results", None)
        if results is None or results.trace_start_ns() == 0:
            return None
        events = results.events()
        cupti_detach.note_graph_launches(event.name() for event in events)
        return len(events)

    def export(self, path: Path) -> None:
        """Write the trace as plain JSON. The profiler reports no failed write, so the file's end is checked."""
        session, self._session = self._session, None
        results = getattr(getattr(session, "profiler", None), "kineto_results", None)
        if results is None or results.trace_start_ns() == 0:
            raise NotRecorded("the profiler returned an empty result")
        session.export_chrome_trace(str(path))
        if not path.is_file():
            raise NotRecorded(f"the profiler wrote no file {path.name}: is the disk full?")
        with path.open("rb") as written:
            written.seek(max(0, path.stat().st_size - _TAIL_BYTES), os.SEEK_SET)
            if not written.read().rstrip().endswith(b"}"):
                raise NotRecorded(f"the profiler wrote only a part of {path.name}: is the disk full?")

    def _check_start(self) -> None:
        if threading.get_ident() != self._thread:
            raise NotRecorded("the training moved to another thread")
        if torch._C._current_graph_task_id() != -1:
            raise NotRecorded("the step ends inside a backward pass")
        if torch.autograd._profiler_enabled():
            raise NotRecorded(PROFILES_ITSELF)


def watch_foreign(on_foreign: Callable[[], None]) -> None:
    """Call `on_foreign` just before the script prepares a profiler of its own, through whichever interface.

    From now on captures of CUDA graphs are noted as well, which `cupti_detach` must know of.
    """
    cupti_detach.watch_graphs()
    original = autograd_profiler.profile._prepare_trace

    @functools.wraps(original)
    def prepare(self: Any) -> Any:
        if not _preparing_own:
            on_foreign()
        return original(self)

    autograd_profiler.profile._prepare_trace = prepare


_preparing_own: list[bool] = []


class _PreparingOwn:
    """Marks the block in which our own profiler is prepared."""

    def __enter__(self) -> None:
        _preparing_own.append(True)

    def __exit__(self, *_: object) -> None:
        _preparing_own.pop()


def _device_in_use() -> contextlib.AbstractContextManager[Any]:
    device = process_facts.device_in_use()
    return contextlib.nullcontext() if device is None else torch.cuda.device(device)


def _activities() -> list[Any]:
    activities = [torch.profiler.ProfilerActivity.CPU]
    # Stopping a session with CUDA activity synchronizes the device, which would create a context in a CPU-only job.
    if process_facts.device_in_use() is not None:
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    return activities
