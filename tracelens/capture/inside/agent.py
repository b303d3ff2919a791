"""The recording agent: runs in the user's training process and goes through the recording windows, step by step.

In: `arm(config)` from the bootstrap, then the observers of `launch.inside.hooks`. Out: files in the Run folder (see
`saving`).

    settle → W0 unprofiled → probe, warm-up → W1 clean → W2 attributed → done

Every line here keeps three rules: whatever fails, recording ends and training goes on; outside the windows nothing
synchronizes; no random number is drawn and no CUDA context is created.
"""

from __future__ import annotations

import atexit
import contextlib
import multiprocessing
import multiprocessing.util
import os
import sys
import threading
import time
from collections.abc import Mapping
from typing import Any

import torch

from tracelens.capture.inside import exit_guard, process_facts, recording_limits, saving
from tracelens.capture.inside.forward_only_pass import ForwardOnlyPass
from tracelens.capture.inside.loop_bounds import BlockEntry
from tracelens.capture.inside.main_thread_timer import MainThreadTimer
from tracelens.capture.inside.phases import PROFILER_ATTACHED, Phase
from tracelens.capture.inside.profiler_session import PROFILES_ITSELF, NotRecorded, ProfilerSession, watch_foreign
from tracelens.capture.inside.recording_data import RecordingData
from tracelens.capture.inside.stack_sampler import StackSampler
from tracelens.capture.inside.time_window import TimeWindow
from tracelens.capture.window_plan import NoRoomError, WindowPlan
from tracelens.launch.inside import hooks

_UNPROFILED, _DONE = Phase.UNPROFILED, Phase.DONE  # an Enum's members are slow to look up, and this runs per step
MOST_SYSTEM_EXITS = 3
"""SystemExits that are raised before a script that catches them is ended by `os._exit`."""


def arm(config: Mapping[str, Any]) -> None:
    """Observe this process; recording begins by itself when it makes training steps."""
    hooks.install()
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
        self._data = RecordingData(WindowPlan.from_config(self._config.get("plan", {})))
        self._instruments = saving.Instruments()
        self._phase = Phase.SETTLE
        self._count = self._system_exits = 0
        self._graphs = process_facts.GraphCaptures()
        self._remaining_steps = recording_limits.RemainingSteps(self._block)
        self._window_timer: MainThreadTimer | None = None
        self._forward_only = ForwardOnlyPass()

    # -------------------------------------------------------------------------------------------- observers

    def on_step(self, step: hooks.Step) -> None:
        now, restarts = time.perf_counter_ns(), False
        if self._phase is _DONE:
            restarts = self._forward_only.training_began()
            if not restarts:
                self._end_script()
                return
        if self._time_window.open or self._graphs.capturing():
            return  # a step that is captured into a CUDA graph does not run
        data = self._data
        if not data.steps_seen:
            self._first_step()
        self._catch_up()
        data.steps_seen += 1
        if restarts or data.source is None or (step.restarted and data.is_replaced_by(step.source)):
            self._restart(step)
        if step.source == self._data.source:  # batches of an evaluation between epochs are no steps
            self._advance(step, now)

    def on_batch(self, iterator: Any, batch: Any) -> None:
        if self._phase is not _DONE or self._forward_only.pending:
            self._data.loaders.first_batch(iterator, batch)

    def on_failure(self, text: str) -> None:
        self._data.notes.append(f"TraceLens failed and stood down: {text}")
        self.end("TraceLens failed inside the training process")

    def foreign_profiler(self) -> None:
        """The script is about to start a profiler of its own: two at once crash the process, so ours ends."""
        if self._phase is not Phase.DONE:
            self._data.notes.append(PROFILES_ITSELF)
            self.end(PROFILES_ITSELF)

    def before_fork(self) -> None:
        self._time_window.stop()

    def after_fork(self) -> None:
        if self._idle() and not self._time_window.open:
            self._time_window.start()

    def forked(self) -> None:
        """In a forked child: start again, or do nothing if the parent was recording, as its session is inherited."""
        recording = self._phase in PROFILER_ATTACHED or self._time_window.open
        for inherited in (self._data, self._instruments, self._time_window):
            exit_guard.never_free(inherited)  # freeing a CUDA event in a forked child crashes it
        self._time_window = TimeWindow(self._config, self._idle)
        self._exit_guard.forked()
        self._instruments.put_back()
        self._reset()
        if recording:
            self._phase = Phase.DONE
        elif not self._removers:
            self.observe()

    def end(self, reason: str) -> None:
        """Close what is open and save what there is; called when the process ends, or when recording has to stop."""
        if self._phase is _DONE:
            return
        self._time_window.stop()
        self._catch_up()
        phase, self._phase = self._phase, Phase.DONE
        try:
            self._save_partial(phase, reason)
        except Exception as error:  # noqa: BLE001 -- an error of ours must not show at the end of the process
            self._data.notes.append(f"the partial recording was lost: {error!r}")
        finally:
            self._release()
            self._unobserve()

    def stranded(self, reason: str) -> None:
        """Save all but the trace, as the training thread hangs in a C call. Runs on a thread of its own."""
        if self._phase is _DONE:
            return
        self._phase, self._data.stranded = Phase.DONE, True
        profiler, self._instruments.profiler = self._instruments.profiler, None
        exit_guard.never_free(profiler)  # only the thread that started it may end it
        with contextlib.suppress(Exception):  # the process is about to end; nothing else can be saved
            saving.save(self._config, self._data, self._instruments, f"{reason}, after {self._data.steps_seen} steps")

    def _unobserve(self) -> None:
        """Remove our observers, unless a training may still follow; without them the hooks do nothing."""
        while self._removers and not self._forward_only.pending:
            self._removers.pop()()

    def _first_step(self) -> None:
        self._data.thread = threading.get_native_id()
        self._time_window.stop()
        if multiprocessing.parent_process() is not None:  # such children leave without running atexit
            multiprocessing.util.Finalize(None, self.end, args=("the script ended",), exitpriority=0)

    # ---------------------------------------------------------------------------------------------- windows

    def _advance(self, step: hooks.Step, now: int) -> None:
        self._count += 1
        phase, data = self._phase, self._data
        if phase is _UNPROFILED:
            data.ended((now,))
            if data.plan.unprofiled_enough(self._count, data.unprofiled_seconds):
                self._record_event()
                data.loaders.measure_throughput()
                self._attach(step)
            else:
                hooks.allow_unobserved(data.plan.unobserved(self._count, data.unprofiled_seconds))
        elif phase is Phase.SETTLE:
            self._settle(now)
        elif phase is Phase.PROBE:
            self._end_probe()
        elif phase is Phase.WARMUP:
            if self._count >= data.plan.warmup:
                self._begin_clean(step)
        else:
            self._recorded_step(step, now)

    def _catch_up(self) -> None:
        """Add the steps of W0 that ended without a call."""
        if self._phase is _UNPROFILED and (ends := hooks.unobserved_ends()):
            self._data.ended(ends)
            self._data.steps_seen += len(ends)
            self._count += len(ends)

    def _enter(self, phase: Phase, count: int = 0) -> None:
        self._phase, self._count = phase, count

    def _restart(self, step: hooks.Step) -> None:
        """Start again at `step`, as steps have another source from here on; what was recorded is dropped."""
        data = self._data
        if self._instruments.profiler is not None:
            self._instruments.give_up()
            self._release()
            self._instruments = saving.Instruments()
        self._data = RecordingData(
            WindowPlan.from_config(self._config.get("plan", {})), thread=data.thread, loaders=data.loaders
        )
        self._data.steps_seen = 1 if self._phase is _DONE else data.steps_seen
        self._data.source = step.source
        self._remaining_steps = recording_limits.RemainingSteps(self._block)
        self._enter(Phase.SETTLE)

    def _settle(self, now: int) -> None:
        if self._count <= 2:
            self._remaining_steps.look(self._data, sys._getframe(1))
        if self._count < self._data.plan.settle:
            return
        rank, world = process_facts.rank_and_world()
        wanted = self._config.get("ranks")
        if wanted is not None and rank not in wanted:
            self._phase = Phase.DONE
            self._unobserve()
            return
        if world > 1:
            self._data.plan = self._data.plan.by_counts()
        self._enter(Phase.UNPROFILED)
        self._record_event()
        self._data.last_ns = now

    def _record_event(self) -> None:
        """Record a CUDA event at an end of W0. It is read only after the window, so nothing waits for it."""
        device = process_facts.device_in_use()
        if device is not None:
            event = torch.cuda.Event(enable_timing=True)
            event.record(torch.cuda.current_stream(device))
            self._data.ends.append(event)

    def _attach(self, step: hooks.Step) -> None:
        """Attach the profiler. Its first step, the slowest, is the probe: recorded, counted and discarded."""
        self._exit_guard.install()
        if not self._prepared():
            return
        if self._data.plan.has_probe():
            self._profiler.start()
            self._enter(Phase.PROBE)
            return
        self._enter(Phase.WARMUP)
        if not self._data.plan.warmup:
            self._begin_clean(step)

    def _prepared(self) -> bool:
        self._instruments.profiler = ProfilerSession()
        try:
            self._instruments.profiler.prepare()
        except NotRecorded as reason:
            self._give_up(str(reason))
            return False
        return True

    def _give_up(self, reason: str) -> None:
        self._instruments.profiler = None
        self._data.notes.append(reason)
        self.end(reason)

    def _end_probe(self) -> None:
        self._profiler.stop()
        if (events := self._profiler.events()) is not None:
            recording_limits.publish_event_count(self._config["run"], events)
            self._data.window["events_per_step"] = events
        if self._prepared():
            self._enter(Phase.WARMUP, 1)

    @property
    def _profiler(self) -> ProfilerSession:
        assert self._instruments.profiler is not None
        return self._instruments.profiler

    def _begin_clean(self, step: hooks.Step) -> None:
        try:
            recording_limits.apply_limits(self._data, self._config["run"])
        except NoRoomError as error:
            self._profiler.stop()
            self._give_up(f"there is no room for the recording: {error}")
            return
        self._instruments.install_logs()
        self._profiler.start()
        self._enter(Phase.CLEAN)
        self._instruments.sampler = StackSampler(threading.get_ident())
        self._instruments.sampler.start()
        self._window_timer = MainThreadTimer(self._data.plan.longest_window_seconds() + 1.0, self._overrun)
        self._window_timer.start()
        self._data.window |= {"first_step": step.number + 1, "start_unix_ns": time.time_ns()}
        self._profiler.mark_step(step.number + 1)
        self._data.last_ns = time.perf_counter_ns()

    def _recorded_step(self, step: hooks.Step, now: int) -> None:
        data = self._data
        number = self._profiler.open_mark
        if number is not None:
            data.profiled[number] = now - self._data.last_ns
        data.window["last_step"] = number
        if self._phase is Phase.ATTRIBUTED:
            if self._count >= data.plan.attributed:
                self._close()
                return
        elif self._count >= data.plan.clean or self._window_is_long():
            if self._instruments.sampler is not None:
                self._instruments.sampler.stop()
            if not data.plan.attributed:
                self._close()
                return
            self._instruments.attribution.install()
            self._enter(Phase.ATTRIBUTED)
        if self._phase is Phase.ATTRIBUTED:
            data.attributed.append(step.number + 1)
            self._instruments.clock_lines(step.number + 1)
        self._profiler.mark_step(step.number + 1)
        self._data.last_ns = time.perf_counter_ns()

    def _window_is_long(self) -> bool:
        return sum(self._data.profiled.values()) > 1e9 * self._data.plan.most_window_seconds  # no clock that may be set

    def _overrun(self) -> None:
        """A step does not end (a long evaluation, for one): close the window before it records too much."""
        if self._phase in (Phase.CLEAN, Phase.ATTRIBUTED):
            self.end("a step lasted longer than the window may")

    # ----------------------------------------------------------------------------------------------- saving

    def _close(self) -> None:
        """The window is complete: save it, then let the training go on or end it, as asked."""
        self._phase = Phase.DONE
        try:
            self._save(None)
        finally:
            self._release()
        self._end_script()

    def _release(self) -> None:
        self._exit_guard.remove()
        if self._window_timer is not None:
            self._window_timer.stop()

    def _save(self, reason: str | None) -> None:
        self._time_window.discard()
        self._forward_only.discard(self._data)
        stops = bool(self._config.get("stop_after_window"))
        first = self._forward_only.is_one(self._data, stops=stops)
        with self._exit_guard.undisturbed():
            config = {**self._config, "stop_after_window": stops and not first}
            folder = saving.save(config, self._data, self._instruments, reason)
        if first:
            self._forward_only.keep(folder)
        recording_limits.withdraw_event_count(self._config["run"])

    def _end_script(self) -> None:
        """After the window: end the script if `stop_after_window` asks for it, else only remove the observers."""
        goes_on = not self._config.get("stop_after_window") or self._forward_only.pending
        if goes_on or not self._data.window.get("saved"):
            self._unobserve()
            return
        self._system_exits += 1
        if self._system_exits > MOST_SYSTEM_EXITS:
            exit_guard.leave_now()
        raise SystemExit(0)

    def _save_partial(self, phase: Phase, reason: str) -> None:
        data, profiler = self._data, self._instruments.profiler
        self._time_window.close(reason)
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
                self._instruments.give_up()
                return
        self._save(reason)

    def _idle(self) -> bool:
        return not self._data.steps_seen and self._phase is Phase.SETTLE
