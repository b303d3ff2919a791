"""The replay itself: one forward pass over a Program, every constraint kept, the maximum taken.

In: a Program (host items of each step and the order in which steps repeat). Out: the steady step time. Consecutive
launches between two waits collapse into one (max,+) map per stream, so a pass costs waits, not launches; that makes
hundreds of what-ifs per second possible. What the pass decides anew: when each op starts, how long each wait lasts.

One pass is exact for this model because waits refer only to work that the host has issued before them.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from tracelens.replay.items import ALL_STREAMS, Block, Item, Step, is_plain

LEAST_HOST_SHARE = 0.2
"""Profiler cost is taken out of a stretch of host time down to this share of it: Python never runs for free."""
LONGEST_RUN = 32
"""Launches that collapse into one: the launch-queue limit (about 1,000) is then kept to within this many."""
LONGEST_CYCLE = 60
"""Steps of one repetition at most; a longer common period of steps and intervals is cut to whole intervals."""
AGREEMENT = 0.001
"""Two windows agree when their rates differ by less (replay.md §2.5)."""
MOST_DOUBLINGS = 4
_NEVER = -(1 << 62)


@dataclass(frozen=True, slots=True)
class Program:
    """Steps to repeat. Step j of the replay is `variants[k * 2**len(intervals) + flags]`: k the recorded step it
    repeats, and bit i of flags set when step j is the last of its `intervals[i]`."""

    variants: tuple[Step, ...]
    streams: int
    queue_limit: int
    staging_bytes: int
    intervals: tuple[int, ...] = ()
    depth: int = 0
    loader_period_ns: int | None = None
    """Per step, in which the training loop asks the loader for `loads` batches."""
    loads: int = 1

    @property
    def recorded_steps(self) -> int:
        return len(self.variants) >> len(self.intervals)

    def variant(self, recorded: int, step: int) -> int:
        flags = sum(1 << i for i, interval in enumerate(self.intervals) if step % interval == interval - 1)
        return (recorded << len(self.intervals)) | flags


class Span(NamedTuple):
    """One bar of a picture: what ran where and when, ns since the replay began."""

    lane: str
    name: str
    start_ns: int
    end_ns: int


class _Part(NamedTuple):
    """What a run of launches does to one stream: end = max(host + after_host, end + after_end)."""

    stream: int
    after_host: int
    after_end: int
    launches: int
    last_ns: int


class _Op(NamedTuple):
    """A compiled item: `gap` and `issue` with the profiler's cost taken out; `parts` only for a run of launches."""

    item: Item
    gap: int
    issue: int
    parts: tuple[_Part, ...] = ()


@dataclass(frozen=True, slots=True)
class Compiled:
    """A Program made ready for repeated passes."""

    program: Program
    ops: tuple[tuple[_Op, ...], ...]


def compile_program(program: Program, row_ns: float, *, merge: bool = True) -> Compiled:
    """Take the profiler's cost per recorded row out of the host times and collapse runs of launches."""
    longest = LONGEST_RUN if merge else 1
    return Compiled(program, tuple(_compile(items, row_ns, longest) for items in program.variants))


def step_time(compiled: Compiled, order: Sequence[int] | None = None) -> float:
    """Steady time per step in ns when the recorded steps repeat in `order` (default: as recorded)."""
    order = range(compiled.program.recorded_steps) if order is None else order
    cycle = _cycle(len(order), compiled.program.intervals)
    machine = Machine(compiled)
    window = cycle
    machine.run_steps(order, max(len(order), *compiled.program.intervals, compiled.program.depth + 2, 1))
    previous = machine.rate(order, window)
    for _ in range(MOST_DOUBLINGS):
        current = machine.rate(order, window)
        if abs(current - previous) <= AGREEMENT * current:
            return (previous + current) / 2
        previous, window = current, window * 2
    return previous


def first_pass(compiled: Compiled) -> float:
    """Time per step when the recorded steps run once, in order, from an idle GPU; the last one's work may still run."""
    machine = Machine(compiled)
    machine.run_steps(range(compiled.program.recorded_steps), compiled.program.recorded_steps)
    return machine.time / compiled.program.recorded_steps


def host_time(item: Item, row_ns: float) -> tuple[int, int]:
    """(gap, issue) of an item without the profiler's cost. A driver's copy of the source is not slowed by rows."""
    fixed = item.kind in ("staged", "blocking", "sync", "event_sync")
    total = item.gap_ns if fixed else item.gap_ns + item.issue_ns
    if total <= 0 or not item.rows:
        return item.gap_ns, item.issue_ns
    share = max(LEAST_HOST_SHARE, (total - row_ns * item.rows) / total)
    return round(item.gap_ns * share), item.issue_ns if fixed else round(item.issue_ns * share)


def _cycle(steps: int, intervals: tuple[int, ...]) -> int:
    whole = math.lcm(*intervals) if intervals else 1
    cycle = math.lcm(steps, whole)
    return cycle if cycle <= LONGEST_CYCLE else whole * max(1, LONGEST_CYCLE // whole)


# ---------------------------------------------------------------------------------------------------- compiling


def _compile(step: Step, row_ns: float, longest: int) -> tuple[_Op, ...]:
    ops: list[_Op] = []
    run: list[Item] = []
    for element in step:
        if isinstance(element, Block):
            ops += _collapse(tuple(run), row_ns, longest)
            ops += _collapsed(element, row_ns, longest)
            run = []
        else:
            run.append(element)
    return (*ops, *_collapse(tuple(run), row_ns, longest))


@lru_cache(maxsize=4096)
def _collapsed(block: Block, row_ns: float, longest: int) -> tuple[_Op, ...]:
    """Blocks are shared by all Programs of a Tape: each is collapsed once per host speed."""
    return _collapse(block.items, row_ns, longest)


def _collapse(items: tuple[Item, ...], row_ns: float, longest: int) -> tuple[_Op, ...]:
    ops: list[_Op] = []
    run = _Run()
    for item in items:
        gap, issue = (0, 0) if item.detached else host_time(item, row_ns)
        plain = is_plain(item)
        if plain:
            run.add(item, gap, issue)
        if run.count and (not plain or run.count >= longest):
            ops.append(run.op())
            run = _Run()
        if not plain:
            ops.append(_Op(item, gap, issue))
    if run.count:
        ops.append(run.op())
    return tuple(ops)


class _Run:
    """Launches and host work being collapsed into one op."""

    def __init__(self) -> None:
        self.count = self.advance = self.gap = 0
        self.name = self.op_name = ""
        self.parts: dict[int, tuple[int, int, int, int]] = {}

    def add(self, item: Item, gap: int, issue: int) -> None:
        self.count += 1
        self.advance += gap
        self.gap, self.name = self.advance, item.name
        if item.kind == "launch":
            after_host, after_end, count, _ = self.parts.get(item.stream, (_NEVER, 0, 0, 0))
            host = max(self.advance + item.latency_ns, after_host + item.spacing_ns) + item.duration_ns
            after_end += item.spacing_ns + item.duration_ns
            self.op_name = item.op or item.name
            self.parts[item.stream] = (host, after_end, count + 1, item.duration_ns)
        self.advance += issue

    def op(self) -> _Op:
        parts = tuple(_Part(stream, *values) for stream, values in self.parts.items())
        return _Op(Item("work", name=self.name, op=self.op_name), self.gap, self.advance - self.gap, parts)


# ------------------------------------------------------------------------------------------------- the machine


class Machine:
    """The state of host and GPU between two items, and what each kind of item does to it."""

    def __init__(self, compiled: Compiled, log: list[Span] | None = None) -> None:
        self.compiled = compiled
        self.log = log
        self.time = 0
        self.end = [0] * compiled.program.streams
        self.engine = {"h2d": 0, "d2h": 0}
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
        program, handlers, ops = self.compiled.program, self._handlers, self.compiled.ops
        for step in range(self.steps, self.steps + count):
            for op in ops[program.variant(order[step % len(order)], step)]:
                handlers[op.item.kind](op)
        self.steps += count

    def rate(self, order: Sequence[int], count: int) -> float:
        """Time per step over the next `count`, by the host's clock or the GPU's, whichever is slower: while a
        launch queue still fills, the host runs ahead of what it can keep up."""
        host, gpu = self.time, max(self.end)
        self.run_steps(order, count)
        return max(self.time - host, max(self.end) - gpu) / count

    def _run(self, op: _Op) -> None:
        end = self.end
        for stream, after_host, after_end, count, last in op.parts:
            self._make_room(stream, count)
            end[stream] = max(self.time + after_host, end[stream] + after_end)
            self.queued[stream].append((count, end[stream] - last))
            if self.log is not None:
                self._draw(op, stream, end[stream] - last)
        called = self.time + op.gap
        self.time = called + op.issue
        if op.item.name:
            self._draw_call(op, called)

    def _make_room(self, stream: int, count: int) -> None:
        """Wait until the stream's launch queue has room: a launch returns once the op `limit` before it started."""
        queued, limit = self.queued[stream], self.compiled.program.queue_limit
        self.outstanding[stream] += count
        while self.outstanding[stream] > limit and queued:
            gone, started = queued.popleft()
            self.outstanding[stream] -= gone
            self._wait_until(started)

    def _copy(self, op: _Op) -> None:
        item = op.item
        called = self.time + op.gap
        begin = max(called + item.latency_ns, self.end[item.stream] + item.spacing_ns, self.engine.get(item.engine, 0))
        done = begin + item.duration_ns
        self._finish(op, begin, done)
        if not item.detached:
            self.time = called + op.issue
            if item.kind == "blocking":
                self._wait_until(done + item.return_ns)
            self._draw_call(op, called)

    def _staged(self, op: _Op) -> None:
        item = op.item
        called = self.time + op.gap
        ahead = item.size <= self.compiled.program.staging_bytes
        copied = (called if ahead else max(called, self.end[item.stream])) + op.issue
        begin = max(called + item.latency_ns, self.end[item.stream] + item.spacing_ns, self.engine["h2d"])
        self._finish(op, begin, max(begin + item.duration_ns, copied + item.return_ns))
        if not item.detached:
            self.time = called
            self._wait_until(copied)
            self._draw_call(op, called)

    def _finish(self, op: _Op, begin: int, done: int) -> None:
        item = op.item
        self.end[item.stream] = done
        if item.engine:
            self.engine[item.engine] = done
        if self.log is not None:
            self._draw(op, item.stream, begin)

    def _sync(self, op: _Op) -> None:
        item = op.item
        called = self.time + op.gap
        if item.kind == "event_sync":
            done = self._recorded(item)
        else:
            done = max(self.end) if item.stream == ALL_STREAMS else self.end[item.stream]
        self.time = called + op.issue
        if done > called:
            self._wait_until(done + item.return_ns)
        self._draw_call(op, called)

    def _record(self, op: _Op) -> None:
        item = op.item
        done = max(self.end) if item.stream == ALL_STREAMS else self.end[item.stream]
        self.events.setdefault(item.event, deque(maxlen=64)).append(done)
        self.time += op.gap + op.issue

    def _stream_wait(self, op: _Op) -> None:
        item = op.item
        self.end[item.stream] = max(self.end[item.stream], self._recorded(item))
        self.time += op.gap + op.issue

    def _recorded(self, item: Item) -> int:
        records = self.events.get(item.event)
        return records[-1 - item.lag] if records and len(records) > item.lag else 0

    def _loader(self, op: _Op) -> None:
        called = self.time + op.gap
        self.time = called + op.issue
        period = self.compiled.program.loader_period_ns
        if period is not None:
            self._wait_until(self.loads * period // max(1, self.compiled.program.loads))
            self.loads += 1
        self._draw_call(op, called)

    def _wait_until(self, time: int) -> None:
        """The host does nothing until `time`; meanwhile other threads have the interpreter."""
        if time > self.time:
            self.debt = max(0, self.debt - (time - self.time))
            self.time = time

    def _background(self, op: _Op) -> None:
        self.time += self.debt + op.gap
        self.debt = op.issue

    def _draw_call(self, op: _Op, called: int) -> None:
        if self.log is not None:
            self.log.append(Span("host", op.item.name, called, self.time))

    def _draw(self, op: _Op, stream: int, begin: int) -> None:
        assert self.log is not None
        self.log.append(Span(f"{stream}", op.item.op or op.item.name, begin, self.end[stream]))
