"""Records a window of a few seconds in a program that runs torch but shows no optimizer step, batch or backward.

In: the configuration, and whether the agent is idle. Out: a recording without steps, which is dropped if steps are
recorded later.
"""

from __future__ import annotations

import shutil
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from tracelens.capture.inside import exit_guard, saving
from tracelens.capture.inside.instruments import Instruments
from tracelens.capture.inside.main_thread_timer import MainThreadTimer
from tracelens.capture.inside.profiler_session import ProfilerSession
from tracelens.capture.inside.recording_data import RecordingData
from tracelens.capture.inside.stack_sampler import StackSampler
from tracelens.capture.inside.user_frames import innermost
from tracelens.capture.window_plan import WindowPlan
from tracelens.launch.inside import hooks

BUSY_SHARE = 0.05
"""Share of one core: a launcher that waits for its ranks uses almost nothing, a loop that feeds a GPU almost all."""
LOOK_SECONDS = 0.5
"""How long the CPU time is measured for that."""


class TimeWindow:
    """Waits `patience_seconds` of the plan without a step, then records `time_window_seconds`, on the main thread."""

    def __init__(self, config: Mapping[str, Any], idle: Callable[[], bool]) -> None:
        self._config = config
        self._idle = idle
        self._plan = WindowPlan.from_config(config.get("plan", {}))
        self._patience = MainThreadTimer(self._plan.patience_seconds, self._begin, self._is_needed)
        self._length = MainThreadTimer(self._plan.time_window_seconds, self.close)
        self._recording: tuple[RecordingData, Instruments] | None = None
        self._folder: Path | None = None
        self._batches = 0

    @property
    def open(self) -> bool:
        """Whether it is recording now."""
        return self._recording is not None

    def start(self) -> None:
        """Start to wait; nothing if it waits already."""
        if self._plan.time_window_seconds and threading.current_thread() is threading.main_thread():
            self._patience.start()

    def stop(self) -> None:
        """Stop waiting."""
        self._patience.stop()

    def close(self, reason: str | None = None) -> None:
        """End the recording, if there is one, and save it; `reason` says why it is not complete."""
        if self._recording is None:
            return
        (data, instruments), self._recording = self._recording, None
        self._length.stop()
        self._folder = saving.save(self._config, data, instruments, reason)
        if reason is None and self._config.get("stop_after_window"):
            exit_guard.leave_now()

    def discard(self) -> None:
        """Delete the recording: steps were recorded in its place."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _is_needed(self) -> bool:
        before, self._batches = self._batches, hooks.rule().batches
        return before == self._batches and self._idle() and trains_unseen()

    def _begin(self) -> None:
        if not self._idle():
            return
        data = RecordingData(self._plan, thread=threading.get_native_id())
        data.notes.append(
            f"no training step was seen in {self._plan.patience_seconds:g} s (no optimizer, DataLoader or backward), "
            f"so {self._plan.time_window_seconds:g} s without steps were recorded"
        )
        data.window["provisional"] = True
        instruments = Instruments(ProfilerSession(), StackSampler(threading.get_ident()))
        instruments.begin()
        self._recording = data, instruments
        self._length.start()


def trains_unseen() -> bool:
    """Whether the main thread is busy in the user's code, and this process is no DataLoader worker."""
    if torch.utils.data.get_worker_info() is not None:
        return False
    if innermost(sys._current_frames().get(threading.main_thread().ident or 0)) is None:
        return False
    wall, used = time.monotonic(), time.process_time()
    time.sleep(LOOK_SECONDS)
    return time.process_time() - used > BUSY_SHARE * (time.monotonic() - wall)
