"""Takes one process's recording through its windows, one training step at a time.

In: the ends of training steps. Out: `RecordingData`, filled, and the instruments that recorded; the owner hears how the
windows ended. How many steps each window lasts is in `window_plan`.

    settle → W0 unprofiled → probe, warm-up → W1 clean → W2 attributed (→ a slow step, where W0 had some)
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Mapping
from typing import Any, Protocol

import torch

from tracelens.capture.inside import cupti_detach, process_facts, recording_limits, slow_step_watch
from tracelens.capture.inside.exit_guard import ExitGuard
from tracelens.capture.inside.instruments import Instruments
from tracelens.capture.inside.loop_bounds import BlockEntry
from tracelens.capture.inside.main_thread_timer import MainThreadTimer
from tracelens.capture.inside.phases import Phase
from tracelens.capture.inside.profiler_session import NotRecorded, ProfilerSession
from tracelens.capture.inside.recording_data import RecordingData
from tracelens.capture.inside.stack_sampler import StackSampler
from tracelens.capture.window_plan import NoRoomError, WindowPlan
from tracelens.launch.inside import hooks

_UNPROFILED = Phase.UNPROFILED  # an Enum's members are slow to look up, and this runs per step


class WindowsOwner(Protocol):
    """Hears how the windows end; exactly one of its methods is called, on the main thread or the training thread."""

    def completed(self) -> None:
        """All windows were recorded."""

    def end(self, reason: str) -> None:
        """Recording has to stop before that."""

    def leave(self) -> None:
        """This rank is not to be recorded."""


class RecordingWindows:
    """The state of one recording: its phase, and the steps seen in it. Runs on the training thread."""

    def __init__(
        self, config: Mapping[str, Any], block: BlockEntry | None, guard: ExitGuard, owner: WindowsOwner
    ) -> None:
        self._config = config
        self._block = block
        self._exit_guard = guard
        self._owner = owner
        self.data = RecordingData(self._plan())
        self.instruments = Instruments()
        self.phase = Phase.SETTLE
        self._count = 0
        """Steps in this phase."""
        self._remaining_steps = recording_limits.RemainingSteps(block)
        self._timer: MainThreadTimer | None = None

    def restart(self, step: hooks.Step) -> None:
        """Start again at `step`, as steps have another source from here on; what was recorded is dropped."""
        data = self.data
        if self.instruments.profiler is not None:
            data.loaders.end_split()
            self.instruments.give_up()
            self.release()
            self.instruments = Instruments()
        self.data = RecordingData(self._plan(), thread=data.thread, loaders=data.loaders, source=step.source)
        self.data.steps_seen = 1 if self.phase is Phase.DONE else data.steps_seen
        self._remaining_steps = recording_limits.RemainingSteps(self._block)
        self._enter(Phase.SETTLE)

    def advance(self, step: hooks.Step, now: int) -> None:
        """`step` ended at `now` (`time.perf_counter_ns`)."""
        self._count += 1
        phase, data = self.phase, self.data
        if phase is _UNPROFILED:
            data.ended((now,))
            if data.plan.unprofiled_enough(self._count, data.unprofiled_seconds):
                self._record_event()
                data.loaders.measure_throughput()
                self._attach(step)
            else:
                hooks.allow_unobserved(data.plan.unobserved(self._count, data.unprofiled_seconds))
        elif phase is Phase.SETTLE:
            self._settle(step, now)
        elif phase is Phase.PROBE:
            self._end_probe()
        elif phase is Phase.SLOW_STEP:
            self._watch_step(step, now)
        elif phase is Phase.WARMUP:
            if self._count >= data.plan.warmup:
                self._begin_clean(step)
        else:
            self._recorded_step(step, now)

    def catch_up(self) -> None:
        """Add the steps of W0 that ended without a call."""
        if self.phase is _UNPROFILED and (ends := hooks.unobserved_ends()):
            self.data.ended(ends)
            self.data.steps_seen += len(ends)
            self._count += len(ends)

    def release(self) -> None:
        """Remove what guards the windows while they record."""
        self._exit_guard.remove()
        if self._timer is not None:
            self._timer.stop()

    def _plan(self) -> WindowPlan:
        return WindowPlan.from_config(self._config.get("plan", {}))

    def _enter(self, phase: Phase, count: int = 0) -> None:
        self.phase, self._count = phase, count

    # -------------------------------------------------------------------------------------------- before the profiler

    def _settle(self, step: hooks.Step, now: int) -> None:
        if self._count <= 2:
            self._remaining_steps.look(self.data, sys._getframe(1))
        if self._count < self.data.plan.settle:
            return
        rank, world = process_facts.rank_and_world()
        wanted = self._config.get("ranks")
        if wanted is not None and rank not in wanted:
            self.phase = Phase.DONE
            self._owner.leave()
            return
        if world > 1:
            self.data.plan = self.data.plan.by_counts()
        self._enter(Phase.UNPROFILED)
        self._record_event()
        self.data.window["settled_unix_ns"] = time.time_ns()
        self.data.first_unprofiled = step.number + 1
        self.data.last_ns = now

    def _record_event(self) -> None:
        """Record a CUDA event at an end of W0. It is read only after the window, so nothing waits for it."""
        device = process_facts.device_in_use()
        if device is not None:
            event = torch.cuda.Event(enable_timing=True)
            event.record(torch.cuda.current_stream(device))
            self.data.ends.append(event)

    # ---------------------------------------------------------------------------------------------- with the profiler

    def _attach(self, step: hooks.Step) -> None:
        """Attach the profiler. Its first step, the slowest, is the probe: recorded, counted and discarded."""
        self._exit_guard.install()
        if not self._prepared():
            return
        if self.data.plan.has_probe():
            self._profiler.start()
            self._enter(Phase.PROBE)
            return
        self._enter(Phase.WARMUP)
        if not self.data.plan.warmup:
            self._begin_clean(step)

    def _prepared(self) -> bool:
        self.instruments.profiler = ProfilerSession()
        try:
            self.instruments.profiler.prepare()
        except NotRecorded as reason:
            self._give_up(str(reason))
            return False
        return True

    def _give_up(self, reason: str) -> None:
        self.instruments.profiler = None
        self.data.notes.append(reason)
        self._owner.end(reason)

    def _end_probe(self) -> None:
        self._profiler.stop()
        if (events := self._profiler.events()) is not None:
            recording_limits.publish_event_count(self._config["run"], events)
            self.data.window["events_per_step"] = events
        if self._prepared():
            self._enter(Phase.WARMUP, 1)

    @property
    def _profiler(self) -> ProfilerSession:
        assert self.instruments.profiler is not None
        return self.instruments.profiler

    def _begin_clean(self, step: hooks.Step) -> None:
        try:
            recording_limits.apply_limits(self.data, self._config["run"])
        except NoRoomError as error:
            self._profiler.stop()
            self._give_up(f"there is no room for the recording: {error}")
            return
        if self.data.plan.attributed:
            self.instruments.prepare_clock()
        self.instruments.install_logs()
        self._profiler.start()
        self._enter(Phase.CLEAN)
        self.instruments.sampler = StackSampler(threading.get_ident())
        self.instruments.sampler.start()
        self._timer = MainThreadTimer(self.data.plan.longest_window_seconds() + 1.0, self._overrun)
        self._timer.start()
        self.data.window |= {"first_step": step.number + 1, "start_unix_ns": time.time_ns()}
        self._profiler.mark_step(step.number + 1)
        self.data.last_ns = time.perf_counter_ns()

    def _recorded_step(self, step: hooks.Step, now: int) -> None:
        data = self.data
        number = self._profiler.open_mark
        if number is not None:
            data.profiled[number] = now - data.last_ns
        data.window["last_step"] = number
        if self.phase is Phase.ATTRIBUTED:
            if self._count >= data.plan.attributed:
                self._look_for_slow_step(step)
                return
        elif self._count >= data.plan.clean or self._window_is_long():
            if self.instruments.sampler is not None:
                self.instruments.sampler.stop()
            if not data.plan.attributed:
                self._owner.completed()
                return
            self._profiler.end_step()  # what is installed takes no time of the last clean step
            self.instruments.attribution.install()
            data.loaders.begin_split(str(self._config.get("cwd", "")))
            self._enter(Phase.ATTRIBUTED)
        if self.phase is Phase.ATTRIBUTED:
            data.attributed.append(step.number + 1)
            self.instruments.clock_lines(step.number + 1)
        self._profiler.mark_step(step.number + 1)
        data.last_ns = time.perf_counter_ns()

    # -------------------------------------------------------------------------------------------- behind the windows

    def _look_for_slow_step(self, step: hooks.Step) -> None:
        """The windows are complete: save them, or wait for a slow step with the profiler off. Not among several ranks:
        one that saves earlier makes the others wait, and their lines would tell of that."""
        data = self.data
        watch = slow_step_watch.planned(
            data.unprofiled, data.first_unprofiled, step.number, data.plan.most_wait_seconds
        )
        if watch is None or process_facts.rank_and_world()[1] > 1:
            self._owner.completed()
            return
        try:
            with cupti_detach.detaching(wanted=not self._config.get("stop_after_window"), notes=data.notes):
                self.instruments.stop_recording()
            data.window["end_unix_ns"] = time.time_ns()
            data.loaders.end_split()
            watch.begin()
        except (NotRecorded, RuntimeError):  # said once the recording is saved
            self._owner.completed()
            return
        self.instruments.watch = watch
        self._enter(Phase.SLOW_STEP)

    def _watch_step(self, step: hooks.Step, now: int) -> None:
        watch = self.instruments.watch
        try:
            done = watch is None or watch.ended(step.number, now)
        except Exception as error:  # noqa: BLE001 -- an error here must not lose what is recorded
            self.data.notes.append(f"no slow step was clocked: {error!r}")
            done = True
        if not done:
            return
        if watch is not None and watch.found is not None:
            self.data.slow_step = {"number": watch.found[0], "ns": watch.found[1]}
        self._owner.completed()

    def _window_is_long(self) -> bool:
        return sum(self.data.profiled.values()) > 1e9 * self.data.plan.most_window_seconds  # no clock that may be set

    def _overrun(self) -> None:
        """A step does not end (a long evaluation, for one): close the window before it records too much."""
        if self.phase in (Phase.CLEAN, Phase.ATTRIBUTED):
            self._owner.end("a step lasted longer than the window may")
