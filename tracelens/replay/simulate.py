"""The replay itself: one forward pass over a CompiledProgram, in which every constraint holds.

In: a CompiledProgram. Out: a `Simulator` whose clocks advance step by step. It computes when each operation starts and
how long each wait lasts: the latest of all constraints. One pass is exact for this model, because waits refer only to
work that the host has issued before them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from tracelens.replay.merged_launches import CompiledOp
from tracelens.replay.program import CompiledProgram
from tracelens.replay.replay_trace import ALL_STREAMS, HostOp

NEVER = -(1 << 62)
"""A time before all others: nothing has run yet."""


class LaneSpan(NamedTuple):
    """One bar of a picture: what ran where and when, ns since the replay began."""

    lane: str
    name: str
    start_ns: int
    end_ns: int


class Simulator:
    """The state of host and GPU between two operations, and what each kind of HostOp does to it."""

    def __init__(self, compiled: CompiledProgram, log: list[LaneSpan] | None = None) -> None:
        self.compiled = compiled
        self.log = log
        self.limit = compiled.program.queue_limit
        self.time = 0
        self.end = [NEVER] * compiled.program.streams
        self.engine = {"h2d": NEVER, "d2h": NEVER}
        self.events: dict[str, deque[int]] = {}
        self.queued: list[deque[tuple[int, int]]] = [deque() for _ in self.end]
        self.outstanding = [0] * compiled.program.streams
        self.steps = self.loads = self.debt = 0
        self._handlers = {
            "work": self._run,
            "launch": self._copy,
            "staged": self._staged,
            "blocking": self._copy,
            "sync": self._sync,
            "event_sync": self._sync,
            "record": self._record,
            "stream_wait": self._stream_wait,
            "loader": self._loader,
            "background": self._background,
        }

    def run_steps(self, order: Sequence[int], count: int) -> None:
        program, handlers, ops, run = self.compiled.program, self._handlers, self.compiled.ops, self._run
        for step in range(self.steps, self.steps + count):
            for op in ops[program.variant(order[step % len(order)], step)]:
                if op.parts:
                    run(op)
                else:
                    handlers[op.host_op.kind](op)
        self.steps += count

    def rate(self, order: Sequence[int], count: int) -> float:
        """Time per step over the next `count`, by the slowest of all clocks: the host's, each stream's, the loader's.

        While a launch queue still fills, the host runs ahead of what it can keep up; and while batches that were ready
        at the start are used up, ahead of the loader.
        """
        before = (self.time, *self.end)
        self.run_steps(order, count)
        spent = max(now - then for now, then in zip((self.time, *self.end), before, strict=True))
        return max(spent / count, self._loader_rate())

    def state(self, oldest_ns: int) -> tuple[object, ...]:
        """Everything that decides what comes next, as times from now; what lies further back than `oldest_ns` counts
        as never. Two machines in the same state do the same."""
        now, oldest = self.time, self.time - oldest_ns
        clocks = (*self.end, *self.engine.values())
        events = tuple(
            (name, tuple(done - now for done in records if done > oldest)) for name, records in self.events.items()
        )
        queued = tuple(
            tuple((count, started - now) for count, started in stream if started > now) for stream in self.queued
        )
        return (*(max(clock, oldest) - now for clock in clocks), events, queued, self.debt, self._loader_lag())

    def _loader_lag(self) -> int:
        """How long ago the next batch was ready."""
        period = self.compiled.program.loader_period_ns
        return 0 if period is None or not self.compiled.program.loads else self.time - self._ready(period)

    def _ready(self, period_ns: int) -> int:
        program = self.compiled.program
        return self.loads * period_ns * program.recorded_steps // program.loads

    def _loader_rate(self) -> float:
        program = self.compiled.program
        return float(program.loader_period_ns or 0) if program.loads else 0.0

    def _run(self, op: CompiledOp) -> None:
        end, outstanding, queued, limit = self.end, self.outstanding, self.queued, self.limit
        host_op, gap, issue, parts = op
        for stream, after_host, after_end, count, last in parts:
            waiting = outstanding[stream] + count
            if waiting > limit:
                waiting = self._make_room(queued[stream], waiting)
            outstanding[stream] = waiting
            by_host, by_stream = self.time + after_host, end[stream] + after_end
            end[stream] = done = by_host if by_host > by_stream else by_stream
            queued[stream].append((count, done - last))
            if self.log is not None:
                self._draw(op, stream, done - last)
        called = self.time + gap
        self.time = called + issue
        if self.log is not None and host_op.name:
            self._draw_call(op, called)

    def _make_room(self, queued: deque[tuple[int, int]], outstanding: int) -> int:
        """Wait until a launch queue has room, a launch returns once the op `limit` before it started; how many are
        outstanding then. Where the GPU is the limit, this is most of what a replay does."""
        started, limit = NEVER, self.limit
        while outstanding > limit and queued:
            gone, started = queued.popleft()  # a stream starts its work in order: the last one waited for is the latest
            outstanding -= gone
        if started > self.time:
            self._wait_until(started)
        return outstanding

    def _clear_finished_queues(self) -> None:
        """Empties the launch queues of streams that have finished: they no longer block a launch."""
        for stream, done in enumerate(self.end):
            if done <= self.time and self.outstanding[stream]:
                self.queued[stream].clear()
                self.outstanding[stream] = 0

    def _copy(self, op: CompiledOp) -> None:
        host_op = op.host_op
        called = self.time + op.gap
        free = max(self.end[host_op.stream] + host_op.spacing_ns, self.engine.get(host_op.engine, NEVER))
        begin = max(called + host_op.latency_ns, free)
        done = begin + host_op.duration_ns
        self._finish(op, begin, done)
        if not host_op.detached:
            self.time = called + op.issue
            if host_op.kind == "blocking":
                self._wait_until(done + host_op.return_ns)
                self._clear_finished_queues()
            self._draw_call(op, called)

    def _staged(self, op: CompiledOp) -> None:
        host_op = op.host_op
        called = self.time + op.gap
        ahead = host_op.size <= self.compiled.program.staging_bytes
        copied = (called if ahead else max(called, self.end[host_op.stream])) + op.issue
        begin = max(called + host_op.latency_ns, self.end[host_op.stream] + host_op.spacing_ns, self.engine["h2d"])
        self._finish(op, begin, max(begin + host_op.duration_ns, copied + host_op.return_ns))
        if not host_op.detached:
            self.time = called
            self._wait_until(copied)
            self._draw_call(op, called)

    def _finish(self, op: CompiledOp, begin: int, done: int) -> None:
        host_op = op.host_op
        self.end[host_op.stream] = done
        if host_op.engine:
            self.engine[host_op.engine] = done
        if self.log is not None:
            self._draw(op, host_op.stream, begin)

    def _sync(self, op: CompiledOp) -> None:
        host_op = op.host_op
        called = self.time + op.gap
        done = self._recorded(host_op) if host_op.kind == "event_sync" else self._last_end(host_op.stream)
        self.time = called + op.issue
        # Also where the work was done a moment before the call: the host learns of it no sooner than others do.
        self._wait_until(done + host_op.return_ns)
        self._clear_finished_queues()
        self._draw_call(op, called)

    def _record(self, op: CompiledOp) -> None:
        host_op = op.host_op
        done = self._last_end(host_op.stream)
        self.events.setdefault(host_op.event, deque(maxlen=64)).append(done)
        self.time += op.gap + op.issue

    def _stream_wait(self, op: CompiledOp) -> None:
        host_op = op.host_op
        self.end[host_op.stream] = max(self.end[host_op.stream], self._recorded(host_op))
        self.time += op.gap + op.issue

    def _last_end(self, stream: int) -> int:
        return max(self.end) if stream == ALL_STREAMS else self.end[stream]

    def _recorded(self, host_op: HostOp) -> int:
        records = self.events.get(host_op.event)
        return records[-1 - host_op.lag] if records and len(records) > host_op.lag else NEVER

    def _loader(self, op: CompiledOp) -> None:
        called = self.time + op.gap
        self.time = called + op.issue
        period = self.compiled.program.loader_period_ns
        if period is not None:
            self._wait_until(self._ready(period))
            self.loads += 1
        self._draw_call(op, called)

    def _wait_until(self, time: int) -> None:
        """The host does nothing until `time`; meanwhile other threads have the interpreter."""
        if time > self.time:
            if self.debt:
                self.debt = max(0, self.debt - (time - self.time))
            self.time = time

    def _background(self, op: CompiledOp) -> None:
        self.time += self.debt + op.gap
        self.debt = op.issue

    def _draw_call(self, op: CompiledOp, called: int) -> None:
        if self.log is not None:
            self.log.append(LaneSpan("host", op.host_op.name, called, self.time))

    def _draw(self, op: CompiledOp, stream: int, begin: int) -> None:
        assert self.log is not None
        self.log.append(LaneSpan(f"{stream}", op.host_op.op or op.host_op.name, begin, self.end[stream]))
