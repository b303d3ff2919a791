"""The recording agent: lives in the user's training process and goes through three windows at its step boundaries.

In: `arm(config)` from the bootstrap, then the observers of `launch.hooks`. Out: files in the Run folder (see `output`).

    settle → W0 unprofiled → warm-up → W1 clean → W2 attributed → done

Rules that every line here obeys: the job comes first (whatever fails, recording ends and training goes on), outside
the windows nothing synchronizes, no random number is drawn, no CUDA context is created.
"""

from __future__ import annotations

import atexit
import enum
import multiprocessing
import multiprocessing.util
import os
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from tracelens import run
from tracelens.capture import facts, output
from tracelens.capture.attribution import Attribution
from tracelens.capture.plan import Plan
from tracelens.capture.recorder import PROFILES_ITSELF, NotRecorded, Recorder, watch_foreign
from tracelens.capture.remaining import iterations
from tracelens.capture.rescue import Rescue
from tracelens.capture.sampler import Sampler
from tracelens.launch import hooks

PATIENCE_WITH_STOP = 3
"""Steps after which a script that swallows SystemExit is ended for good."""


class Phase(enum.Enum):
    SETTLE = "settle"
    UNPROFILED = "unprofiled"
    WARMUP = "warm-up"
    CLEAN = "clean"
    ATTRIBUTED = "attributed"
    DONE = "done"


def arm(config: Mapping[str, Any]) -> None:
    """Observe this process; recording begins by itself once it makes training steps."""
    hooks.install()
    engine = Engine(config)
    watch_foreign(engine.foreign_profiler)
    engine.observe()
    atexit.register(engine.end, "the script ended before the recording was complete")
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=engine.forked)


class Engine:
    """One process's recording. All methods run on the training thread, but for the ends of the process."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._config = config
        self._rescue = Rescue(self.end)
        self._attribution = Attribution()
        self._removers: list[hooks.Remove] = []
        self._reset()

    def observe(self) -> None:
        """Register with the hooks."""
        self._removers = [
            hooks.on_step(self.on_step),
            hooks.on_loader_next(self.on_batch),
            hooks.on_failure(self.on_failure),
        ]

    def _reset(self) -> None:
        self._plan = Plan.of(self._config.get("plan", {}))
        self._phase = Phase.SETTLE
        self._notes: list[str] = []
        self._loaders = facts.Loaders()
        self._steps_seen = 0
        self._source: str | None = None
        self._count = 0
        self._remaining: int | None = None
        self._last_ns = 0
        self._unprofiled: list[int] = []
        self._profiled: dict[int, int] = {}
        self._events: list[torch.cuda.Event] = []
        self._attributed: list[int] = []
        self._recorder: Recorder | None = None
        self._sampler: Sampler | None = None
        self._thread = 0
        self._window: dict[str, Any] = {}
        self._stops = 0

    # -------------------------------------------------------------------------------------------- observers

    def on_step(self, step: hooks.Step) -> None:
        now = time.perf_counter_ns()
        if self._phase is Phase.DONE:
            self._stop_again()
            return
        if _capturing():
            return  # a step that is being captured into a CUDA graph does not run
        if not self._steps_seen:
            self._thread = threading.get_native_id()
            if multiprocessing.parent_process() is not None:  # such children leave without running atexit
                multiprocessing.util.Finalize(None, self.end, args=("the script ended",), exitpriority=0)
        self._steps_seen += 1
        if step.restarted and self._phase in (Phase.SETTLE, Phase.UNPROFILED):
            self._settle_again(step)
        if step.source == self._source:  # an evaluation between two epochs, counted by its batches, is no step
            self._go_on(step, now)

    def on_batch(self, iterator: Any, batch: Any) -> None:
        if self._phase is not Phase.DONE:
            self._loaders.saw(iterator, batch)

    def on_failure(self, text: str) -> None:
        self._notes.append(f"TraceLens failed and stood down: {text}")
        self.end("TraceLens failed inside the training process")

    def foreign_profiler(self) -> None:
        """The script is about to start a profiler of its own: two at once crash the process, so ours gives way."""
        if self._phase is not Phase.DONE:
            self._notes.append(PROFILES_ITSELF)
            self.end(PROFILES_ITSELF)

    def forked(self) -> None:
        """In a forked child: begin afresh, unless the parent was recording (its session is not ours to touch)."""
        recording = self._phase in (Phase.WARMUP, Phase.CLEAN, Phase.ATTRIBUTED)
        self._attribution.remove()
        self._reset()
        if recording:
            self._phase = Phase.DONE
        elif not self._removers:
            self.observe()

    def end(self, reason: str) -> None:
        """Close whatever is open and keep what there is; called when the process ends or we must give way."""
        if self._phase is Phase.DONE:
            return
        phase, self._phase = self._phase, Phase.DONE
        try:
            self._save_partial(phase, reason)
        except Exception as error:  # noqa: BLE001 -- at the end of the user's process: nothing of ours may show
            self._notes.append(f"the partial recording was lost: {error!r}")
        finally:
            self._rescue.remove()
            self._unobserve()

    def _unobserve(self) -> None:
        """Afterwards the hooks cost a count per step and nothing of ours runs."""
        while self._removers:
            self._removers.pop()()

    # ---------------------------------------------------------------------------------------------- windows

    def _go_on(self, step: hooks.Step, now: int) -> None:
        self._count += 1
        if self._phase is Phase.SETTLE:
            self._settle(now)
        elif self._phase is Phase.UNPROFILED:
            self._unprofiled.append(now - self._last_ns)
            self._last_ns = now
            if self._plan.unprofiled_enough(len(self._unprofiled), sum(self._unprofiled) / 1e9):
                self._record_event()
                self._begin_warmup(step)
        elif self._phase is Phase.WARMUP:
            if self._count >= self._plan.warmup:
                self._begin_clean(step)
        else:
            self._recorded_step(step, now)

    def _enter(self, phase: Phase) -> None:
        self._phase, self._count = phase, 0

    def _settle_again(self, step: hooks.Step) -> None:
        self._source = step.source
        self._unprofiled.clear()
        self._events.clear()
        self._remaining = None
        self._enter(Phase.SETTLE)

    def _settle(self, now: int) -> None:
        self._fit_plan()
        if self._count >= self._plan.settle:
            if facts.rank_and_world()[1] > 1:
                self._plan = self._plan.in_step()
            self._enter(Phase.UNPROFILED)
            self._last_ns = now
            self._record_event()

    def _fit_plan(self) -> None:
        """Two looks at the running loops, one step apart, say how many steps are left."""
        if self._plan.shrunk or self._count > 2:
            return
        before, self._remaining = self._remaining, _iterations_left()
        if before is None or self._remaining is None or before <= self._remaining:
            self._plan = self._plan.with_unknown_length() if self._count == 2 else self._plan
            return
        left = self._remaining // (before - self._remaining)
        self._plan = self._plan.fitted(left)
        if self._plan.shrunk:
            self._notes.append(f"a short run: about {left} steps were left, so the windows were made shorter")

    def _record_event(self) -> None:
        """A CUDA event at an end of W0; asked for its time only after the window, when it has long passed."""
        device = facts.device_in_use()
        if device is not None:
            event = torch.cuda.Event(enable_timing=True)
            event.record(torch.cuda.current_stream(device))
            self._events.append(event)

    def _begin_warmup(self, step: hooks.Step) -> None:
        self._recorder = Recorder()
        try:
            self._recorder.prepare()
        except NotRecorded as reason:
            self._recorder = None
            self._notes.append(str(reason))
            self.end(str(reason))
            return
        self._rescue.install()
        self._enter(Phase.WARMUP)
        if not self._plan.warmup:
            self._begin_clean(step)

    def _begin_clean(self, step: hooks.Step) -> None:
        assert self._recorder is not None
        self._recorder.start()
        self._enter(Phase.CLEAN)
        self._sampler = Sampler(threading.get_ident())
        self._sampler.start()
        self._window = {"first_step": step.number + 1, "start_unix_ns": time.time_ns()}
        self._recorder.mark_step(step.number + 1)
        self._last_ns = time.perf_counter_ns()

    def _recorded_step(self, step: hooks.Step, now: int) -> None:
        assert self._recorder is not None
        number = self._recorder.open_mark
        if number is not None:
            self._profiled[number] = now - self._last_ns
        self._window["last_step"] = number
        if self._phase is Phase.ATTRIBUTED:
            if self._count >= self._plan.attributed:
                self._close()
                return
        elif self._count >= self._plan.clean or self._window_is_long():
            self._stop_sampler()
            if not self._plan.attributed:
                self._close()
                return
            self._attribution.install()
            self._enter(Phase.ATTRIBUTED)
        if self._phase is Phase.ATTRIBUTED:
            self._attributed.append(step.number + 1)
        self._recorder.mark_step(step.number + 1)
        self._last_ns = time.perf_counter_ns()

    def _window_is_long(self) -> bool:
        elapsed_ns: int = time.time_ns() - self._window["start_unix_ns"]
        return elapsed_ns / 1e9 > self._plan.most_window_seconds

    # ----------------------------------------------------------------------------------------------- saving

    def _close(self) -> None:
        """The window is complete: write it, and let the training go on or end it, as asked."""
        self._phase = Phase.DONE
        try:
            self._save(None)
        finally:
            self._rescue.remove()
        self._stop_again()

    def _stop_again(self) -> None:
        if not self._config.get("stop_after_window") or not self._window.get("saved"):
            self._unobserve()
            return
        self._stops += 1
        if self._stops > PATIENCE_WITH_STOP:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(0)
        raise SystemExit(0)

    def _stop_sampler(self) -> None:
        if self._sampler is not None:
            self._sampler.stop()

    def _save_partial(self, phase: Phase, reason: str) -> None:
        if not self._steps_seen and not self._notes:
            return  # a process that does not train: a launcher, a DataLoader worker
        if self._recorder is not None and self._recorder.open_mark is not None:
            unfinished = self._recorder.open_mark
            self._window["unfinished_step"] = unfinished
            if unfinished not in self._attributed:
                self._attributed.append(unfinished)  # its end is the end of the recording, so it enters no statistic
        if phase in (Phase.SETTLE, Phase.UNPROFILED):
            reason = f"{reason}, after {self._steps_seen} steps, before the profiler was started"
        elif phase is Phase.WARMUP or not self._profiled:
            reason = f"{reason}, before one step was recorded"
        self._save(reason)

    def _save(self, reason: str | None) -> None:
        """Write everything; `reason` says why the recording is not complete, None that it is."""
        self._stop_sampler()
        self._attribution.remove()
        rank, world = facts.rank_and_world()
        folder = output.claim_folder(Path(self._config["run"]), rank)
        trace = None
        try:
            trace = self._save_trace(folder, rank)
        except (NotRecorded, OSError, RuntimeError) as error:
            self._notes.append(f"no trace: {error}")
            reason = reason or f"no trace was saved: {error}"
        samples = [(at, self._thread, place) for at, place in (self._sampler.samples if self._sampler else ())]
        output.write_sources(folder / "sources.json", self._attribution.marks, samples, str(self._config["cwd"]))
        self._window["saved"] = True
        run.write_json(folder / "rank.json", self._entry(folder, trace, (rank, world), reason))

    def _save_trace(self, folder: Path, rank: int) -> Path | None:
        if self._recorder is None:
            return None
        start = time.perf_counter()
        recorder, self._recorder = self._recorder, None
        recorder.stop()
        self._window["end_unix_ns"] = time.time_ns()
        stopped = time.perf_counter()
        if not self._profiled:
            return None
        plain = folder / output.trace_name(rank, os.uname().nodename)
        recorder.export(plain)
        exported = time.perf_counter()
        size = plain.stat().st_size
        trace = output.compress(plain)
        self._window |= {
            "stop_seconds": round(stopped - start, 4),
            "export_seconds": round(exported - stopped, 4),
            "compress_seconds": round(time.perf_counter() - exported, 4),
            "trace_bytes": size,
        }
        return trace

    def _entry(
        self, folder: Path, trace: Path | None, rank_and_world: tuple[int, int], reason: str | None
    ) -> dict[str, Any]:
        rank, world = rank_and_world
        return {
            "rank": rank,
            "world_size": world,
            "trace": f"{folder.name}/{trace.name}" if trace else None,
            "sources": f"{folder.name}/sources.json",
            "clock": self._clock(),
            "step_marks": "tracelens",
            "attributed_steps": self._attributed,
            "steps_seen": self._steps_seen,
            "step_source": self._source,
            "step_rule": _rule(),
            "memory": facts.memory(),
            "loaders": self._loaders.listed(),
            "window": self._window,
            "plan": self._plan.as_dict(),
            "notes": self._notes,
            "stopped": bool(reason is None and self._config.get("stop_after_window")),
            "complete": reason is None,
            "reason": reason,
            "process": facts.process(),
        }

    def _clock(self) -> dict[str, Any]:
        total, clock = sum(self._unprofiled), "host"
        if len(self._events) == 2 and all(event.query() for event in self._events):
            total, clock = round(self._events[0].elapsed_time(self._events[1]) * 1e6), "cuda_event"
        return {
            "unprofiled_ns": self._unprofiled,
            "unprofiled_mean_ns": total // len(self._unprofiled) if self._unprofiled else None,
            "unprofiled_clock": clock,
            "profiled_ns": [ns for number, ns in self._profiled.items() if number not in self._attributed],
        }


def _iterations_left() -> int | None:
    try:
        return iterations(sys._getframe(2))
    except Exception:  # noqa: BLE001 -- a `__len__` of the user's may raise anything; it was only a guess
        return None


def _capturing() -> bool:
    in_use = torch.cuda.is_initialized() and facts.device_in_use() == torch.cuda.current_device()
    return in_use and bool(torch.cuda.is_current_stream_capturing())


def _rule() -> dict[str, float]:
    """How often each optimizer steps per training step, by the optimizers' order of appearance."""
    return {f"optimizer {order}": round(share, 3) for order, share in enumerate(hooks.rule().per_step().values(), 1)}
