"""What each Edit does to the host's calls: a ReplayTrace and a set of Edits become one Program, replayed together.

In: a ReplayTrace, Edits. Out: a Program. Steps are rewritten site by site: an Edit names Stalls, a Stall names waits, a
wait belongs to a HostOp (or to the pair of a copy and the synchronize right behind it). Edits that meet at one site
are combined; they are never applied one after the other, and their gains are never added up.

`edit_kinds` says which of these rules stands for each kind of Edit:

    wait-every-n(N)        keep the wait in the last of every N steps
    mark-by-event          record an event instead of waiting; with wait-every-n(N) wait for it every N steps
    read-later(1)          copy into pinned memory, record, look later whether it has arrived: no wait
    read-later(N)          keep the values on the GPU, stack and read them every N steps
    read-every-n(N)        the read is made in the last of every N steps only, and nothing is kept
    pinned-copy            pinned source, no wait; the pin thread pins, without workers the main thread
    copy-ahead(depth)      the batch's copies go to a stream of their own, `depth` batches ahead
    more-workers(W)        W workers share what the present ones need per batch (`loader_workers`)
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product

from tracelens.edit_kinds import ReplayRule
from tracelens.model import Edit
from tracelens.replay import edit_sites
from tracelens.replay.calibration import Calibration
from tracelens.replay.edit_sites import EditPlan, SplitStep
from tracelens.replay.loader_workers import least_step_ns, with_more_workers
from tracelens.replay.program import Program
from tracelens.replay.replay_trace import ALL_STREAMS, HostOp, OpBlock, ReplayTrace, StepVariant, UntouchedSpan

COPIED = "prefetch"
"""Name of the event that is recorded after a prefetched batch."""
STACK_NS = 3_000
"""GPU time of stacking the kept losses: one small kernel (1-4 µs for small elementwise kernels on one H200)."""
OWN_MAPPING_BYTES = 128 << 10
"""Memory of at least this size is mapped, and unmapped, by itself (the C library's default threshold)."""


def apply(trace: ReplayTrace, edits: Sequence[Edit] = ()) -> Program:
    """The Program of the ReplayTrace with all `edits` in place; without Edits, the loop as it was recorded."""
    return PreparedEdits(trace, edits).program(trace.calibration)


class PreparedEdits:
    """A set of Edits of one ReplayTrace: its sites are found once, its Programs made for any calibration."""

    def __init__(self, trace: ReplayTrace, edits: Sequence[Edit]) -> None:
        self.trace, self.edits = trace, edits
        self.plan = edit_sites.plan(trace, edits)
        self.cuts = self._cuts(trace)

    def program(self, costs: Calibration, repeated: Collection[int] | None = None) -> Program:
        """The Program under these constants; of `repeated` recorded steps only, if given: the others stay empty."""
        own = replace(self.trace, calibration=costs)
        trace = with_more_workers(own, self.edits)
        cuts = self.cuts if trace.steps is own.steps else self._cuts(trace)
        return Program(
            variants=tuple(self._variants(trace, cuts, repeated)) if self.plan.sites else trace.steps,
            streams=len(trace.streams) + (1 if self.plan.depth else 0),
            queue_limit=costs.queue_limit,
            staging_bytes=costs.staging_bytes,
            intervals=self.plan.intervals,
            depth=self.plan.depth,
            loader_period_ns=_loader_period(trace, cuts),
            loads=sum(len(cut.loaders) for cut in cuts),
            least_step_ns=least_step_ns(trace),
        )

    def _cuts(self, trace: ReplayTrace) -> tuple[SplitStep, ...]:
        return tuple(edit_sites.split(step, self.plan) for step in trace.steps)

    def _variants(
        self, trace: ReplayTrace, cuts: Sequence[SplitStep], repeated: Collection[int] | None
    ) -> Iterator[StepVariant]:
        intervals = self.plan.intervals
        for number, cut in enumerate(cuts):
            if repeated is not None and number not in repeated:
                yield from ((),) * (1 << len(intervals))
                continue
            for flags in product((False, True), repeat=len(intervals)):
                # Bit i of the variant's number is intervals[i]: the last factor of a product varies fastest.
                last = {interval for interval, flag in zip(intervals, reversed(flags), strict=True) if flag}
                yield _Rewriting(trace, self.plan, last).step(cut)


def without(trace: ReplayTrace, waits: Collection[int]) -> Program:
    """The Program in which the host never waits at these waits: the counterfactual behind every exposed cost.

    Nothing else changes: a copy keeps its duration, a call its issue time.
    """
    return apply(without_waits(trace, waits))


def without_waits(trace: ReplayTrace, waits: Collection[int]) -> ReplayTrace:
    """The steps in which the host never waits at these waits."""
    calls, costs = edit_sites.calls(trace, waits), trace.calibration
    steps = tuple(
        tuple(_unwaited(op, costs) if isinstance(op, HostOp) and op.call in calls else op for op in step)
        for step in trace.steps
    )
    return replace(trace, steps=steps)


def _loader_period(trace: ReplayTrace, cuts: Sequence[SplitStep]) -> int | None:
    """Steps cannot be shorter than what the slowest producer of batches needs: the workers, or the new pin thread."""
    periods = [trace.loader.period_ns] if trace.loader.period_ns is not None else []
    if trace.loader.workers != 0:
        taken_over = [time for cut in cuts if (time := _pin_thread_time(cut, trace.calibration))]
        if taken_over:
            periods.append(sum(taken_over) // len(taken_over))
    return max(periods, default=None)


def _pin_thread_time(cut: SplitStep, costs: Calibration) -> int:
    """What a pin thread takes over from the main thread for one batch, 0 if it has nothing to pin."""
    copying = sum(_pin_thread_copy(op, costs) for op in cut.pinned)
    return round(_loading(cut, costs) + sum(_released(cut, costs).values()) + copying) if copying else 0


def _pin_thread_copy(copy: HostOp, costs: Calibration) -> float:
    """From what the training loop's own copy of this batch took; no faster than such copies ever are."""
    return max(costs.pin_thread_copy_factor * copy.issue_ns, copy.size * 1_000 / costs.pin_thread_bytes_per_us)


def _loading(cut: SplitStep, costs: Calibration) -> int:
    """The main thread's own work inside the loader; what exceeds the usual is waiting."""
    return sum(min(op.issue_ns, costs.loader_work_limit_ns) for op in cut.loaders)


def _released(cut: SplitStep, costs: Calibration) -> dict[int, int]:
    """Host time that the loop spends on giving back the workers' batches, by position of the item that it precedes."""
    sizes = [op.size for op in cut.pinned]
    most = sum(round(size * 1_000 / costs.release_bytes_per_us) for size in sizes)
    most += sum(costs.release_tensor_ns for size in sizes if size >= OWN_MAPPING_BYTES)
    freed_ns: dict[int, int] = {}
    for index, op in cut.dropping:
        spent = min(max(0, op.gap_ns - costs.usual_gap_ns), most)
        if spent:
            freed_ns[index] = spent
            most -= spent
    return freed_ns


def _unwaited(op: HostOp, costs: Calibration) -> HostOp:
    """The same call without its wait; a copy from pageable memory becomes one that the host only starts."""
    if op.kind in ("sync", "event_sync"):
        return op._replace(kind="work")
    if op.kind == "blocking":
        return op._replace(kind="launch")
    if op.kind == "staged":
        issue = min(op.issue_ns, costs.copy_issue_ns)
        return op._replace(kind="launch", issue_ns=issue, latency_ns=min(op.latency_ns, costs.launch_latency_ns))
    return op


# ------------------------------------------------------------------------------------------------- the rewriting


class _Rewriting:
    """Rewrites steps; `last` are the intervals of which the step is the last."""

    def __init__(self, trace: ReplayTrace, plan: EditPlan, last: set[int]) -> None:
        self.trace, self.plan, self.last = trace, plan, last
        self.costs = trace.calibration

    def step(self, cut: SplitStep) -> StepVariant:
        pinned = [op for op in cut.copies if self.plan.pins(op)]
        moved = [op for op in cut.copies if "copy-ahead" in self.plan.rules(op)]
        pin_thread = bool(pinned) and self.trace.loader.workers != 0
        released = _released(cut, self.costs) if pin_thread else {}
        out: list[HostOp | OpBlock | UntouchedSpan] = [self._contention(cut, released)] if pin_thread else []
        ahead = self._prefetched(moved) if moved else ()
        for part in cut.parts:
            if isinstance(part, UntouchedSpan):
                out.append(part)
                continue
            for position, recorded, rules, carries in part:
                op = recorded
                if position in released:
                    op = recorded._replace(gap_ns=recorded.gap_ns - released[position])
                if op.kind == "loader":
                    out += [self._loader(op, pinned, handed_over=pin_thread), *ahead]
                    pinned, ahead = [], ()
                elif rules:
                    out += self._rewrite(op, rules, carries)
                else:
                    out.append(op)
        # Without a loader in the step, batches are pinned and prefetched where the step begins.
        return (*(_work(self._pin_cost(copy)) for copy in pinned), *ahead, *out)

    def _rewrite(self, op: HostOp, rules: Mapping[ReplayRule, int], carries: bool) -> Sequence[HostOp]:
        if carries:
            if "copy-ahead" in rules or ("pinned-copy" in rules and op.engine != "h2d"):
                return (_emptied(op),)
            return (self._asynchronous(op),) if "pinned-copy" in rules else (op,)
        if "read-every-n" in rules:
            return (op,) if rules["read-every-n"] in {1, *self.last} else (_emptied(op),)
        interval = max(rules.values())
        if op.pair >= 0 or op.engine == "d2h" or "read-later" in rules:
            return self._read_later(op, interval)
        return self._synchronized_later(op, interval, "mark-by-event" in rules)

    def _synchronized_later(self, op: HostOp, interval: int, event: bool) -> Sequence[HostOp]:
        if not event:
            return (op,) if interval == 1 or interval in self.last else (_emptied(op),)
        name = f"batch {op.stream}"
        record = op._replace(kind="record", event=name, issue_ns=self.costs.event_record_ns, name="event record")
        if interval == 1:
            return (record, _work(self.costs.event_query_ns))
        if interval not in self.last:
            return (record,)
        wait = op._replace(kind="event_sync", event=name, gap_ns=0, rows=0, name="event synchronize")
        return (record, wait)

    def _read_later(self, op: HostOp, interval: int) -> Sequence[HostOp]:
        copy = op.engine == "d2h"
        if interval == 1:
            if copy:
                ready = _work(self.costs.deferred_value_ns + self.costs.ready_value_ns)
                return (op._replace(kind="launch", issue_ns=self.costs.copy_issue_ns), ready)
            return (_emptied(op), _work(self.costs.event_record_ns + self.costs.event_query_ns))
        kept = (_emptied(op),) if not copy else (_emptied(op), _work(self.costs.deferred_value_ns))
        if interval not in self.last:
            return kept
        if not copy:
            return (op,)
        stack = HostOp(
            "launch",
            issue_ns=self.costs.stacked_read_ns,
            stream=op.stream,
            duration_ns=STACK_NS,
            latency_ns=self.costs.launch_latency_ns,
            spacing_ns=self.costs.kernel_gap_ns,
            name="stack the kept values",
        )
        return (*kept, stack, op._replace(gap_ns=0, rows=0))

    def _asynchronous(self, op: HostOp) -> HostOp:
        """The same copy from pinned memory, without a wait."""
        return op._replace(
            kind="launch",
            issue_ns=min(op.issue_ns, self.costs.copy_issue_ns),
            duration_ns=self.costs.pinned_duration_ns(op.size),
            latency_ns=min(op.latency_ns, self.costs.launch_latency_ns),
        )

    def _loader(self, op: HostOp, pinned: Sequence[HostOp], *, handed_over: bool) -> HostOp:
        """The loader's `__next__` once batches are pinned: by a pin thread, or by the main thread itself."""
        if handed_over:
            return op._replace(issue_ns=min(op.issue_ns, self.costs.loader_get_ns), rows=0)
        return op._replace(issue_ns=op.issue_ns + sum(map(self._pin_cost, pinned)))

    def _contention(self, cut: SplitStep, released: dict[int, int]) -> HostOp:
        """What the pin thread does with the interpreter: unpack a batch, and give back the memory of the last one."""
        own = len(cut.loaders) * self.costs.loader_get_ns
        taken_over = max(0, _loading(cut, self.costs) - own) + sum(released.values())
        return HostOp("background", issue_ns=round(taken_over * self.costs.pin_thread_contention))

    def _pin_cost(self, copy: HostOp) -> int:
        if self.trace.loader.workers not in (0, None):
            return 0
        return self.costs.pin_main_tensor_ns + round(copy.size * 1_000 / self.costs.pin_main_bytes_per_us)

    def _prefetched(self, copies: Sequence[HostOp]) -> Sequence[HostOp]:
        """This step's share of the pipeline: copy the batch `depth` ahead, then let the consumer wait for its own."""
        own = len(self.trace.streams)
        out: list[HostOp] = []
        for copy in copies:
            pinned = "pinned-copy" in self.plan.rules(copy)
            moved = (self._asynchronous(copy) if pinned else copy)._replace(stream=own, gap_ns=0, rows=0)
            out.append(moved)
        consumer = copies[0].stream
        record = HostOp("record", issue_ns=self.costs.event_record_ns, stream=own, event=COPIED)
        wait = HostOp("stream_wait", issue_ns=self.costs.stream_wait_ns, stream=consumer, event=COPIED)
        kept_alive = self.costs.prefetch_tensor_ns * len(copies)
        return (*out, record, wait._replace(lag=self.plan.depth), _work(kept_alive))


def _work(duration_ns: int) -> HostOp:
    return HostOp("work", issue_ns=duration_ns, stream=ALL_STREAMS)


def _emptied(op: HostOp) -> HostOp:
    """What remains of a call that is no longer made: the host's time before it."""
    return HostOp("work", gap_ns=op.gap_ns, rows=max(0, op.rows - 1), detached=op.detached)
