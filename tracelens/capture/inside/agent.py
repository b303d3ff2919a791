"""The recording agent: lives in the user's training process and decides when recording begins, ends and is saved.

In: `arm(config)` from the bootstrap, then the observers of `launch.inside.hooks`. Out: files in the Run folder (see
`saving`). What happens at which step is in `windows`.

Every line here and below keeps three rules: whatever fails, recording ends and training goes on; outside the windows
nothing synchronizes; no random number is drawn and no CUDA context is created.
"""

from __future__ import annotations

import atexit
import contextlib
import multiprocessing
import multiprocessing.util
import os
import threading
import time
from collections.abc import Mapping
from typing import Any

from tracelens.capture.inside import (
    anomaly_log,
    exit_guard,
    loader_places,
    process_facts,
    recording_limits,
    saving,
    worker_split,
)
from tracelens.capture.inside.forward_only_pass import ForwardOnlyPass
from tracelens.capture.inside.loop_bounds import BlockEntry
from tracelens.capture.inside.phases import PROFILER_ATTACHED, Phase
from tracelens.capture.inside.profiler_session import PROFILES_ITSELF, watch_foreign
from tracelens.capture.inside.time_window import TimeWindow
from tracelens.capture.inside.windows import RecordingWindows
from tracelens.launch.inside import hooks

_DONE = Phase.DONE  # an Enum's members are slow to look up, and this runs per step
MOST_SYSTEM_EXITS = 3
"""SystemExits that are raised before a script that catches them is ended by `os._exit`."""


def arm(config: Mapping[str, Any]) -> None:
    """Observe this process; recording begins by itself when it makes training steps."""
    hooks.install()
    anomaly_log.install()
    loader_places.install()
    worker_split.install(config)
    agent = RecordingAgent(config)
    watch_foreign(agent.foreign_profiler)
    agent.observe()
    agent.watch()
    atexit.register(agent.end, "the script ended before the recording was complete")
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=agent.before_fork, after_in_parent=agent.after_fork, after_in_child=agent.forked)


class RecordingAgent:
    """One process's recording. Its methods run on the training thread, except those that the process's end calls."""

    def __init__(self, config: Mapping[str, Any], block: BlockEntry | None = None) -> None:
        """`block`: where the script itself began the recording; loops around that place are not counted."""
        self._config = config
        self._block = block
        self._exit_guard = exit_guard.ExitGuard(self.end, self.stranded)
        self._time_window = TimeWindow(config, self._idle)
        self._removers: list[hooks.Remove] = []
        self._reset()

    def observe(self) -> None:
        """Register with the hooks."""
        self._removers = [
            hooks.on_step(self.on_step),
            hooks.on_loader_next(self.on_batch),
            hooks.on_failure(self.on_failure),
        ]

    def watch(self) -> None:
        """Record a time window if no step comes."""
        self._time_window.start()

    def _reset(self) -> None:
        self._windows = RecordingWindows(self._config, self._block, self._exit_guard, self)
        self._graphs = process_facts.GraphCaptures()
        self._forward_only = ForwardOnlyPass()
        self._system_exits = 0

    # -------------------------------------------------------------------------------------------- observers

    def on_step(self, step: hooks.Step) -> None:
        now, restarts = time.perf_counter_ns(), False
        windows = self._windows
        if windows.phase is _DONE:
            restarts = self._forward_only.training_began()
            if not restarts:
                self._end_script()
                return
        if self._time_window.open or self._graphs.capturing():
            return  # a step that is captured into a CUDA graph does not run
        data = windows.data
        if not data.steps_seen:
            self._first_step()
        windows.catch_up()
        data.steps_seen += 1
        if restarts or data.source is None or (step.restarted and data.is_replaced_by(step.source)):
            windows.restart(step)
        if step.source == windows.data.source:  # batches of an evaluation between epochs are no steps
            windows.advance(step, now)

    def on_batch(self, iterator: Any, batch: Any) -> None:
        if self._windows.phase is not _DONE or self._forward_only.pending:
            self._windows.data.loaders.first_batch(iterator, batch)

    def on_failure(self, text: str) -> None:
        self._windows.data.notes.append(f"TraceLens failed and stood down: {text}")
        self.end("TraceLens failed inside the training process")

    def foreign_profiler(self) -> None:
        """The script is about to start a profiler of its own: two at once crash the process, so ours ends."""
        if self._windows.phase is not _DONE:
            self._windows.data.notes.append(PROFILES_ITSELF)
            self.end(PROFILES_ITSELF)

    def before_fork(self) -> None:
        self._time_window.stop()

    def after_fork(self) -> None:
        if self._idle() and not self._time_window.open:
            self._time_window.start()

    def forked(self) -> None:
        """In a forked child: start again, or do nothing if the parent was recording, as its session is inherited."""
        recording = self._windows.phase in PROFILER_ATTACHED or self._time_window.open
        for inherited in (self._windows.data, self._windows.instruments, self._time_window):
            exit_guard.never_free(inherited)  # freeing a CUDA event in a forked child crashes it
        self._time_window = TimeWindow(self._config, self._idle)
        self._exit_guard.forked()
        self._windows.data.loaders.end_split()
        self._windows.instruments.put_back()
        self._reset()
        if recording:
            self._windows.phase = _DONE
        elif not self._removers:
            self.observe()

    def completed(self) -> None:
        """All windows were recorded: save them, then let the training go on or end it, as asked."""
        self._windows.phase = _DONE
        try:
            self._save(None)
        finally:
            self._windows.release()
        self._end_script()

    def end(self, reason: str) -> None:
        """Close what is open and save what there is; called when the process ends, or when recording has to stop."""
        windows = self._windows
        if windows.phase is _DONE:
            return
        self._time_window.stop()
        windows.catch_up()
        phase, windows.phase = windows.phase, _DONE
        try:
            self._save_partial(phase, reason)
        except Exception as error:  # noqa: BLE001 -- an error of ours must not show at the end of the process
            self._windows.data.notes.append(f"the partial recording was lost: {error!r}")
        finally:
            self._windows.release()
            self.leave()

    def stranded(self, reason: str) -> None:
        """Save all but the trace, as the training thread hangs in a C call. Runs on a thread of its own."""
        if self._windows.phase is _DONE:
            return
        self._windows.phase = _DONE
        data, instruments = self._windows.data, self._windows.instruments
        data.stranded = True
        profiler, instruments.profiler = instruments.profiler, None
        exit_guard.never_free(profiler)  # only the thread that started it may end it
        with contextlib.suppress(Exception):  # the process is about to end; nothing else can be saved
            saving.save(self._config, data, instruments, f"{reason}, after {data.steps_seen} steps")

    def leave(self) -> None:
        """Remove our observers, unless a training may still follow; without them the hooks do nothing."""
        while self._removers and not self._forward_only.pending:
            self._removers.pop()()

    def _first_step(self) -> None:
        self._windows.data.thread = threading.get_native_id()
        self._time_window.stop()
        if multiprocessing.parent_process() is not None:  # such children leave without running atexit
            multiprocessing.util.Finalize(None, self.end, args=("the script ended",), exitpriority=0)

    # ----------------------------------------------------------------------------------------------- saving

    def _save(self, reason: str | None) -> None:
        self._time_window.discard()
        self._forward_only.discard(self._windows.data)
        stops = bool(self._config.get("stop_after_window"))
        first = self._forward_only.is_one(self._windows.data, stops=stops)
        with self._exit_guard.undisturbed():
            config = {**self._config, "stop_after_window": stops and not first}
            folder = saving.save(config, self._windows.data, self._windows.instruments, reason)
        if first:
            self._forward_only.keep(folder)
        recording_limits.withdraw_event_count(self._config["run"])

    def _end_script(self) -> None:
        """After the window: end the script if `stop_after_window` asks for it, else only remove the observers."""
        goes_on = not self._config.get("stop_after_window") or self._forward_only.pending
        if goes_on or not self._windows.data.window.get("saved"):
            self.leave()
            return
        self._system_exits += 1
        if self._system_exits > MOST_SYSTEM_EXITS:
            exit_guard.leave_now()
        raise SystemExit(0)

    def _save_partial(self, phase: Phase, reason: str) -> None:
        data, profiler = self._windows.data, self._windows.instruments.profiler
        self._time_window.close(reason)
        if phase is Phase.SLOW_STEP:  # all windows were recorded; only a slow step did not come
            self._save(None)
            return
        if not data.steps_seen and not data.notes:
            return  # the process does not train: a launcher, a DataLoader worker
        if profiler is not None and profiler.open_mark is not None:
            unfinished = profiler.open_mark
            data.window["unfinished_step"] = unfinished
            if unfinished not in data.attributed:
                data.attributed.append(unfinished)  # it was cut off, so it enters no statistic
        if not data.profiled:
            reason = recording_limits.explain_too_early(
                data, reason, attached=phase in PROFILER_ATTACHED, inside=self._block is not None
            )
            if self._forward_only.stays(reason):
                data.loaders.end_split()
                self._windows.instruments.give_up()
                return
        self._save(reason)

    def _idle(self) -> bool:
        return not self._windows.data.steps_seen and self._windows.phase is Phase.SETTLE
