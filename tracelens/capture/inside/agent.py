"""The recording agent: lives in the user's training process and goes through three windows at its step boundaries.

In: `arm(config)` from the bootstrap, then the observers of `launch.hooks`. Out: files in the Run folder (see `saving`).

    settle → W0 unprofiled → probe, warm-up → W1 clean → W2 attributed → done

Rules that every line here obeys: the job comes first (whatever fails, recording ends and training goes on), outside
the windows nothing synchronizes, no random number is drawn, no CUDA context is created.
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
from tracelens.capture.inside.forward_only_pass import FirstPass
from tracelens.capture.inside.loop_bounds import Block
from tracelens.capture.inside.main_thread_timer import Later
from tracelens.capture.inside.phases import RECORDING, Phase
from tracelens.capture.inside.profiler_session import PROFILES_ITSELF, NotRecorded, Recorder, watch_foreign
from tracelens.capture.inside.recording_data import Gathered
from tracelens.capture.inside.stack_sampler import Sampler
from tracelens.capture.inside.time_window import LastResort
from tracelens.capture.window_plan import NoRoomError, Plan
from tracelens.launch.inside import hooks

_UNPROFILED, _DONE = Phase.UNPROFILED, Phase.DONE  # members of an Enum are slow to look up, and this runs per step
PATIENCE_WITH_STOP = 3
"""Steps after which a script that swallows SystemExit is ended for good."""


def arm(config: Mapping[str, Any]) -> None:
    """Observe this process; recording begins by itself once it makes training steps."""
    hooks.install()
    engine = Engine(config)
    watch_foreign(engine.foreign_profiler)
    engine.observe()
    engine.watch()
    atexit.register(engine.end, "the script ended before the recording was complete")
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=engine.before_fork, after_in_parent=engine.after_fork, after_in_child=engine.forked)


class Engine:
    """One process's recording. All methods run on the training thread, but for the ends of the process."""

    def __init__(self, config: Mapping[str, Any], block: Block | None = None) -> None:
        """`block`: where the script itself began the recording; loops around that place do not count."""
        self._config = config
        self._block = block
        self._rescue = exit_guard.Rescue(self.end, self.stranded)
        self._last_resort = LastResort(config, self._idle)
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
        """Record a window of time if no step comes."""
        self._last_resort.start()

    def _reset(self) -> None:
        self._now = Gathered(Plan.of(self._config.get("plan", {})))
        self._tools = saving.Tools()
        self._phase = Phase.SETTLE
        self._count = self._stops = 0
        self._graphs = process_facts.Graphs()
        self._length = recording_limits.Length(self._block)
        self._limit: Later | None = None
        self._first_pass = FirstPass()

    # -------------------------------------------------------------------------------------------- observers

    def on_step(self, step: hooks.Step) -> None:
        now, anew = time.perf_counter_ns(), False
        if self._phase is _DONE:
            anew = self._first_pass.over()
            if not anew:
                self._stop_again()
                return
        if self._last_resort.open or self._graphs.capturing():
            return  # a step that is being captured into a CUDA graph does not run
        gathered = self._now
        if not gathered.steps_seen:
            self._first_step()
        self._catch_up()
        gathered.steps_seen += 1
        if anew or gathered.source is None or (step.restarted and gathered.gives_way_to(step.source)):
            self._settle_again(step)
        if step.source == self._now.source:  # an evaluation between epochs, counted by its batches, is no step
            self._go_on(step, now)

    def on_batch(self, iterator: Any, batch: Any) -> None:
        if self._phase is not _DONE or self._first_pass.pending:
            self._now.loaders.saw(iterator, batch)

    def on_failure(self, text: str) -> None:
        self._now.notes.append(f"TraceLens failed and stood down: {text}")
        self.end("TraceLens failed inside the training process")

    def foreign_profiler(self) -> None:
        """The script is about to start a profiler of its own: two at once crash the process, so ours gives way."""
        if self._phase is not Phase.DONE:
            self._now.notes.append(PROFILES_ITSELF)
            self.end(PROFILES_ITSELF)

    def before_fork(self) -> None:
        self._last_resort.stop()

    def after_fork(self) -> None:
        if self._idle() and not self._last_resort.open:
            self._last_resort.start()

    def forked(self) -> None:
        """In a forked child: begin afresh, unless the parent was recording (its session is not ours to touch)."""
        recording = self._phase in RECORDING or self._last_resort.open
        for inherited in (self._now, self._tools, self._last_resort):
            exit_guard.never_free(inherited)  # a CUDA event that dies in a forked child takes the child with it
        self._last_resort = LastResort(self._config, self._idle)
        self._rescue.forked()
        self._tools.attribution.remove()
        self._tools.event_log.remove()
        self._reset()
        if recording:
            self._phase = Phase.DONE
        elif not self._removers:
            self.observe()

    def end(self, reason: str) -> None:
        """Close whatever is open and keep what there is; called when the process ends or we must give way."""
        if self._phase is _DONE:
            return
        self._last_resort.stop()
        self._catch_up()
        phase, self._phase = self._phase, Phase.DONE
        try:
            self._save_partial(phase, reason)
        except Exception as error:  # noqa: BLE001 -- at the end of the user's process: nothing of ours may show
            self._now.notes.append(f"the partial recording was lost: {error!r}")
        finally:
            self._release()
            self._unobserve()

    def stranded(self, reason: str) -> None:
        """The training thread hangs for good, and with it the trace: keep the rest. Runs on a thread of its own."""
        if self._phase is _DONE:
            return
        self._phase, self._now.stranded = Phase.DONE, True
        recorder, self._tools.recorder = self._tools.recorder, None
        exit_guard.never_free(recorder)  # only the thread that started it may end it
        with contextlib.suppress(Exception):  # the process is about to end, and nothing more can be kept of it
            saving.save(self._config, self._now, self._tools, f"{reason}, after {self._now.steps_seen} steps")

    def _unobserve(self) -> None:
        """Afterwards the hooks only call what they wrap, and nothing of ours runs; but where a training may follow."""
        while self._removers and not self._first_pass.pending:
            self._removers.pop()()

    def _first_step(self) -> None:
        self._now.thread = threading.get_native_id()
        self._last_resort.stop()
        if multiprocessing.parent_process() is not None:  # such children leave without running atexit
            multiprocessing.util.Finalize(None, self.end, args=("the script ended",), exitpriority=0)

    # ---------------------------------------------------------------------------------------------- windows

    def _go_on(self, step: hooks.Step, now: int) -> None:
        self._count += 1
        phase, gathered = self._phase, self._now
        if phase is _UNPROFILED:
            gathered.ended((now,))
            if gathered.plan.unprofiled_enough(self._count, gathered.unprofiled_seconds):
                self._record_event()
                gathered.loaders.measure_supply()
                self._attach(step)
            else:
                hooks.let_pass(gathered.plan.unseen(self._count, gathered.unprofiled_seconds))
        elif phase is Phase.SETTLE:
            self._settle(now)
        elif phase is Phase.PROBE:
            self._end_probe()
        elif phase is Phase.WARMUP:
            if self._count >= gathered.plan.warmup:
                self._begin_clean(step)
        else:
            self._recorded_step(step, now)

    def _catch_up(self) -> None:
        """With the steps that ended unseen."""
        if self._phase is _UNPROFILED and (ends := hooks.passed()):
            self._now.ended(ends)
            self._now.steps_seen += len(ends)
            self._count += len(ends)

    def _enter(self, phase: Phase, count: int = 0) -> None:
        self._phase, self._count = phase, count

    def _settle_again(self, step: hooks.Step) -> None:
        """Another rule tells the steps from here on; what was begun by the last one is given up."""
        gathered = self._now
        if self._tools.recorder is not None:
            self._tools.give_up()
            self._release()
            self._tools = saving.Tools()
        self._now = Gathered(Plan.of(self._config.get("plan", {})), thread=gathered.thread, loaders=gathered.loaders)
        self._now.steps_seen = 1 if self._phase is _DONE else gathered.steps_seen
        self._now.source = step.source
        self._length = recording_limits.Length(self._block)
        self._enter(Phase.SETTLE)

    def _settle(self, now: int) -> None:
        if self._count <= 2:
            self._length.look(self._now, sys._getframe(1))
        if self._count < self._now.plan.settle:
            return
        rank, world = process_facts.rank_and_world()
        wanted = self._config.get("ranks")
        if wanted is not None and rank not in wanted:
            self._phase = Phase.DONE
            self._unobserve()
            return
        if world > 1:
            self._now.plan = self._now.plan.in_step()
        self._enter(Phase.UNPROFILED)
        self._record_event()
        self._now.last_ns = now

    def _record_event(self) -> None:
        """A CUDA event at an end of W0; asked for its time only after the window, when it has long passed."""
        device = process_facts.device_in_use()
        if device is not None:
            event = torch.cuda.Event(enable_timing=True)
            event.record(torch.cuda.current_stream(device))
            self._now.ends.append(event)

    def _attach(self, step: hooks.Step) -> None:
        """The profiler comes in. Its first step, the slowest, is the probe: recorded, counted, thrown away."""
        self._rescue.install()
        if not self._prepared():
            return
        if self._now.plan.probed():
            self._recorder.start()
            self._enter(Phase.PROBE)
            return
        self._enter(Phase.WARMUP)
        if not self._now.plan.warmup:
            self._begin_clean(step)

    def _prepared(self) -> bool:
        self._tools.recorder = Recorder()
        try:
            self._tools.recorder.prepare()
        except NotRecorded as reason:
            self._give_up(str(reason))
            return False
        return True

    def _give_up(self, reason: str) -> None:
        self._tools.recorder = None
        self._now.notes.append(reason)
        self.end(reason)

    def _end_probe(self) -> None:
        self._recorder.stop()
        if (events := self._recorder.events()) is not None:
            recording_limits.publish(self._config["run"], events)
            self._now.window["events_per_step"] = events
        if self._prepared():
            self._enter(Phase.WARMUP, 1)

    @property
    def _recorder(self) -> Recorder:
        assert self._tools.recorder is not None
        return self._tools.recorder

    def _begin_clean(self, step: hooks.Step) -> None:
        try:
            recording_limits.keep(self._now, self._config["run"])
        except NoRoomError as error:
            self._recorder.stop()
            self._give_up(f"there is no room for the recording: {error}")
            return
        self._tools.event_log.install()
        self._recorder.start()
        self._enter(Phase.CLEAN)
        self._tools.sampler = Sampler(threading.get_ident())
        self._tools.sampler.start()
        self._limit = Later(self._now.plan.longest_window_seconds() + 1.0, self._overrun)
        self._limit.start()
        self._now.window |= {"first_step": step.number + 1, "start_unix_ns": time.time_ns()}
        self._recorder.mark_step(step.number + 1)
        self._now.last_ns = time.perf_counter_ns()

    def _recorded_step(self, step: hooks.Step, now: int) -> None:
        gathered = self._now
        number = self._recorder.open_mark
        if number is not None:
            gathered.profiled[number] = now - self._now.last_ns
        gathered.window["last_step"] = number
        if self._phase is Phase.ATTRIBUTED:
            if self._count >= gathered.plan.attributed:
                self._close()
                return
        elif self._count >= gathered.plan.clean or self._window_is_long():
            if self._tools.sampler is not None:
                self._tools.sampler.stop()
            if not gathered.plan.attributed:
                self._close()
                return
            self._tools.attribution.install()
            self._enter(Phase.ATTRIBUTED)
        if self._phase is Phase.ATTRIBUTED:
            gathered.attributed.append(step.number + 1)
        self._recorder.mark_step(step.number + 1)
        self._now.last_ns = time.perf_counter_ns()

    def _window_is_long(self) -> bool:
        return sum(self._now.profiled.values()) > 1e9 * self._now.plan.most_window_seconds  # no clock that may be set

    def _overrun(self) -> None:
        """A step does not end (a long evaluation, say), and all the while its events pile up."""
        if self._phase in (Phase.CLEAN, Phase.ATTRIBUTED):
            self.end("a step lasted longer than the window may")

    # ----------------------------------------------------------------------------------------------- saving

    def _close(self) -> None:
        """The window is complete: write it, and let the training go on or end it, as asked."""
        self._phase = Phase.DONE
        try:
            self._save(None)
        finally:
            self._release()
        self._stop_again()

    def _release(self) -> None:
        self._rescue.remove()
        if self._limit is not None:
            self._limit.stop()

    def _save(self, reason: str | None) -> None:
        self._last_resort.discard()
        self._first_pass.discard(self._now)
        stops = bool(self._config.get("stop_after_window"))
        first = self._first_pass.begins(self._now, stops=stops)
        with self._rescue.undisturbed():
            config = {**self._config, "stop_after_window": stops and not first}
            folder = saving.save(config, self._now, self._tools, reason)
        if first:
            self._first_pass.keep(folder)
        recording_limits.withdraw(self._config["run"])

    def _stop_again(self) -> None:
        goes_on = not self._config.get("stop_after_window") or self._first_pass.pending
        if goes_on or not self._now.window.get("saved"):
            self._unobserve()
            return
        self._stops += 1
        if self._stops > PATIENCE_WITH_STOP:
            exit_guard.leave_now()
        raise SystemExit(0)

    def _save_partial(self, phase: Phase, reason: str) -> None:
        gathered, recorder = self._now, self._tools.recorder
        self._last_resort.close(reason)
        if not gathered.steps_seen and not gathered.notes:
            return  # a process that does not train: a launcher, a DataLoader worker
        if recorder is not None and recorder.open_mark is not None:
            unfinished = recorder.open_mark
            gathered.window["unfinished_step"] = unfinished
            if unfinished not in gathered.attributed:
                gathered.attributed.append(unfinished)  # it ends with the recording, so it enters no statistic
        if not gathered.profiled:
            reason = recording_limits.too_early(
                gathered, reason, attached=phase in RECORDING, inside=self._block is not None
            )
            if self._first_pass.stays(reason):
                self._tools.give_up()
                return
        self._save(reason)

    def _idle(self) -> bool:
        return not self._now.steps_seen and self._phase is Phase.SETTLE
