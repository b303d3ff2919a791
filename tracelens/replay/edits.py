"""What each Edit does to the host's program: a Tape and a set of Edits become one Program, replayed together.

In: a Tape, Edits. Out: a Program. The rewriting is per step and per place: an Edit names Stalls, a Stall names waits, a
wait belongs to an Item (or to the pair of a copy and the synchronize right behind it). Edits that meet at one place
are combined, never applied one after the other and never added up afterwards.

    interval-sync(N)              keep the wait in the last of every N steps
    event-sync                    record an event instead of waiting; with interval-sync(N) wait for it every N steps
    defer-read(1)                 copy into pinned memory, record, look later whether it has arrived: no wait
    defer-read(N)                 keep the values on the GPU, stack and read them every N steps
    async-copy                    pinned source, no wait; the pin thread pins, without workers the main thread
    prefetch(depth)               the batch's copies go to a stream of their own, `depth` batches ahead
    more-workers(W)               W workers share what the present ones need per batch (`workers`)
    move-guard(N)                 like defer-read(N): the guard looks at kept values
    thin-logs(N)                  the read is made in the last of every N steps only, and nothing is kept
    persistent-workers            nothing: it acts between two epochs, and steps lie within one
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, product

from tracelens.model import Edit, EditKind
from tracelens.replay.calibrate import Calibration
from tracelens.replay.items import ALL_STREAMS, Block, Item, Step, Tape, single
from tracelens.replay.program import Program
from tracelens.replay.workers import hired, least_step_ns

COPIED = "prefetch"
"""Name of the event behind a prefetched batch."""
STACK_NS = 3_000
"""GPU time of stacking the kept losses: one small kernel (1-4 µs for small elementwise kernels on one H200)."""


def apply(tape: Tape, edits: Sequence[Edit] = ()) -> Program:
    """The Program of the Tape with all `edits` in place; without Edits, the loop as it was recorded."""
    tape = hired(tape, edits)
    plan = _plan(tape, edits)
    variants = []
    for step in tape.steps:
        for flags in product((False, True), repeat=len(plan.intervals)):
            # Bit i of the variant's number is intervals[i]: the last factor of a product varies fastest.
            last = {interval for interval, flag in zip(plan.intervals, reversed(flags), strict=True) if flag}
            variants.append(_Rewriting(tape, plan, last).step(step))
    return Program(
        variants=tuple(variants),
        streams=len(tape.streams) + (1 if plan.depth else 0),
        queue_limit=tape.calibration.queue_limit,
        staging_bytes=tape.calibration.staging_bytes,
        intervals=plan.intervals,
        depth=plan.depth,
        loader_period_ns=_loader_period(tape, plan),
        loads=sum(item.kind == "loader" for step in tape.steps for item in single(step)),
        least_step_ns=least_step_ns(tape),
    )


def without(tape: Tape, waits: Collection[int]) -> Program:
    """The Program in which the host never waits at these waits: the counterfactual behind every exposed cost.

    Nothing else changes: a copy keeps its duration, a call its issue time.
    """
    calls, costs = _calls(tape, waits), tape.calibration
    steps = tuple(
        tuple(_unwaited(item, costs) if isinstance(item, Item) and item.call in calls else item for item in step)
        for step in tape.steps
    )
    return apply(replace(tape, steps=steps))


def stall_waits(tape: Tape, stalls: Collection[str]) -> frozenset[int]:
    """The waits of these Stalls; a Stall the Tape does not know has none."""
    return frozenset(wait for name in stalls if name in tape.stalls for wait in tape.stalls[name].waits)


# ------------------------------------------------------------------------------------------------------ the plan


Place = tuple[str, int]
OWN_MAPPING_BYTES = 128 << 10
"""Memory of at least this size is mapped, and unmapped, by itself (the C library's default threshold)."""


@dataclass(frozen=True, slots=True)
class _Plan:
    """Which Edits act at which place, with what interval."""

    places: dict[Place, dict[EditKind, int]]
    intervals: tuple[int, ...]
    depth: int
    batch_copies: frozenset[Place]
    """Places where a batch goes to the GPU: only copy Edits act there."""


def _plan(tape: Tape, edits: Sequence[Edit]) -> _Plan:
    places: dict[Place, dict[EditKind, int]] = {}
    for edit in edits:
        for place in _addressed(tape, edit):
            chosen = places.setdefault(place, {})
            chosen[edit.kind] = max(edit.interval, chosen.get(edit.kind, 1))
    intervals = sorted({interval for chosen in places.values() for interval in chosen.values() if interval > 1})
    depth = max((edit.depth or 1 for edit in edits if edit.kind == "prefetch"), default=0)
    return _Plan(places, tuple(intervals), depth, frozenset(_batch_copies(tape)))


def _addressed(tape: Tape, edit: Edit) -> set[Place]:
    """The places of an Edit's Stalls; a copy Edit that names none acts on every pageable or waited-for batch copy."""
    if edit.stalls:
        return _places(tape, stall_waits(tape, edit.stalls))
    if edit.kind not in ("async-copy", "prefetch"):
        return set()
    return _batch_copies(tape)


def _batch_copies(tape: Tape) -> set[Place]:
    return {_place(item) for step in tape.steps for item in single(step) if item.engine == "h2d" and not item.detached}


def _calls(tape: Tape, waits: Collection[int]) -> set[int]:
    """The calls behind these waits. A copy takes the synchronize behind it along: it is one call of the user's. The
    synchronize behind a batch's copy goes alone, because that copy has a wait of its own."""
    calls: set[int] = set()
    for step in tape.steps:
        batch = {item.pair for item in single(step) if item.engine == "h2d" and item.pair >= 0}
        named = [item for item in single(step) if item.wait in waits and item.wait >= 0]
        pairs = {item.pair for item in named if item.pair >= 0 and (item.engine or item.pair not in batch)}
        calls |= {item.call for item in single(step) if item.pair in pairs} | {item.call for item in named}
    return calls


def _places(tape: Tape, waits: Collection[int]) -> set[Place]:
    return {_place(item) for step in tape.steps for item in single(step) if item.wait in waits and item.wait >= 0}


def _place(item: Item) -> Place:
    """Where an Edit acts: a copy and the synchronize behind it are one place."""
    return ("pair", item.pair) if item.pair >= 0 else ("wait", item.wait) if item.wait >= 0 else ("call", item.call)


def _loader_period(tape: Tape, plan: _Plan) -> int | None:
    """Steps cannot be shorter than what the slowest producer of batches needs: the workers, or the new pin thread."""
    periods = [tape.loader.period_ns] if tape.loader.period_ns is not None else []
    if tape.loader.workers != 0:
        taken_over = [time for step in tape.steps if (time := _pin_thread_time(tape, step, plan))]
        if taken_over:
            periods.append(sum(taken_over) // len(taken_over))
    return max(periods, default=None)


def _pin_thread_time(tape: Tape, step: Step, plan: _Plan) -> int:
    """What a pin thread takes over from the main thread for one batch, 0 if it has nothing to pin."""
    costs = tape.calibration
    copying = sum(_pin_thread_copy(item, costs) for item in single(step) if _pins(item, plan))
    return round(_loading(step, costs) + sum(_released(step, plan, costs).values()) + copying) if copying else 0


def _pin_thread_copy(copy: Item, costs: Calibration) -> float:
    """From what the training loop's own copy of this batch took; no faster than such copies ever are."""
    return max(costs.pin_thread_copy_factor * copy.issue_ns, copy.size * 1_000 / costs.pin_thread_bytes_per_us)


def _loading(step: Step, costs: Calibration) -> int:
    """The main thread's own work inside the loader; what exceeds the usual is waiting."""
    return sum(min(item.issue_ns, costs.loader_work_limit_ns) for item in single(step) if item.kind == "loader")


def _released(step: Step, plan: _Plan, costs: Calibration) -> dict[int, int]:
    """Host time that the loop spends on giving back the workers' batches, by position of the item that it precedes.

    The memory of a batch goes when the loop drops it: right after its copy, or when the next batch takes its name.
    """
    sizes = [item.size for item in single(step) if _pins(item, plan)]
    most = sum(round(size * 1_000 / costs.release_bytes_per_us) for size in sizes)
    most += sum(costs.release_tensor_ns for size in sizes if size >= OWN_MAPPING_BYTES)
    places = {_place(item) for item in single(step) if _pins(item, plan)}
    found: dict[int, int] = {}
    for index, (before, item) in enumerate(pairwise(step), start=1):
        if isinstance(before, Block) or isinstance(item, Block):
            continue
        dropped = before.kind == "loader" or (_place(before) in places and _place(item) not in places)
        spent = min(max(0, item.gap_ns - costs.usual_gap_ns), most) if dropped or _pins(before, plan) else 0
        if spent:
            found[index] = spent
            most -= spent
    return found


def _pins(item: Item, plan: _Plan) -> bool:
    return item.kind == "staged" and "async-copy" in plan.places.get(_place(item), {})


def _unwaited(item: Item, costs: Calibration) -> Item:
    """The same call without its wait; a copy from pageable memory becomes one that the host only starts."""
    if item.kind in ("sync", "event_sync"):
        return item._replace(kind="work")
    if item.kind == "blocking":
        return item._replace(kind="launch")
    if item.kind == "staged":
        issue = min(item.issue_ns, costs.copy_issue_ns)
        return item._replace(kind="launch", issue_ns=issue, latency_ns=min(item.latency_ns, costs.launch_latency_ns))
    return item


# ------------------------------------------------------------------------------------------------- the rewriting


class _Rewriting:
    """Rewrites steps; `last` are the intervals of which the step is the last."""

    def __init__(self, tape: Tape, plan: _Plan, last: set[int]) -> None:
        self.tape, self.plan, self.last = tape, plan, last
        self.costs = tape.calibration

    def step(self, items: Step) -> Step:
        copies = [item for item in single(items) if self._kinds(item) and item.engine == "h2d"]
        pinned = [item for item in copies if _pins(item, self.plan)]
        moved = [item for item in copies if "prefetch" in self._kinds(item)]
        pin_thread = bool(pinned) and self.tape.loader.workers != 0
        released = _released(items, self.plan, self.costs) if pin_thread else {}
        out: list[Item | Block] = [self._contention(items, released)] if pin_thread else []
        ahead = self._prefetched(moved) if moved else ()
        for index, recorded in enumerate(items):
            if isinstance(recorded, Block):
                out.append(recorded)
                continue
            item = recorded._replace(gap_ns=recorded.gap_ns - released[index]) if index in released else recorded
            if item.kind == "loader":
                out += [self._loader(item, pinned, handed_over=pin_thread), *ahead]
                pinned, ahead = [], ()
            else:
                out += self._rewrite(item)
        # Without a loader in the step, batches are pinned and prefetched where the step begins.
        return (*(_work(self._pin_cost(copy)) for copy in pinned), *ahead, *out)

    def _kinds(self, item: Item) -> dict[EditKind, int]:
        return self.plan.places.get(_place(item), {})

    def _rewrite(self, item: Item) -> Sequence[Item]:
        kinds = self._kinds(item)
        if not kinds:
            return (item,)
        if _place(item) in self.plan.batch_copies:
            if "prefetch" in kinds or ("async-copy" in kinds and item.engine != "h2d"):
                return (_emptied(item),)
            return (self._asynchronous(item),) if "async-copy" in kinds else (item,)
        if "thin-logs" in kinds:
            return (item,) if kinds["thin-logs"] in {1, *self.last} else (_emptied(item),)
        interval = max(kinds.values())
        if item.pair >= 0 or item.engine == "d2h" or "defer-read" in kinds:
            return self._read_later(item, interval)
        return self._synchronized_later(item, interval, "event-sync" in kinds)

    def _synchronized_later(self, item: Item, interval: int, event: bool) -> Sequence[Item]:
        if not event:
            return (item,) if interval == 1 or interval in self.last else (_emptied(item),)
        name = f"batch {item.stream}"
        record = item._replace(kind="record", event=name, issue_ns=self.costs.event_record_ns, name="event record")
        if interval == 1:
            return (record, _work(self.costs.event_query_ns))
        if interval not in self.last:
            return (record,)
        wait = item._replace(kind="event_sync", event=name, gap_ns=0, rows=0, name="event synchronize")
        return (record, wait)

    def _read_later(self, item: Item, interval: int) -> Sequence[Item]:
        copy = item.engine == "d2h"
        if interval == 1:
            if copy:
                ready = _work(self.costs.deferred_value_ns + self.costs.ready_value_ns)
                return (item._replace(kind="launch", issue_ns=self.costs.copy_issue_ns), ready)
            return (_emptied(item), _work(self.costs.event_record_ns + self.costs.event_query_ns))
        kept = (_emptied(item),) if not copy else (_emptied(item), _work(self.costs.deferred_value_ns))
        if interval not in self.last:
            return kept
        if not copy:
            return (item,)
        stack = Item(
            "launch",
            issue_ns=self.costs.stacked_read_ns,
            stream=item.stream,
            duration_ns=STACK_NS,
            latency_ns=self.costs.launch_latency_ns,
            spacing_ns=self.costs.kernel_gap_ns,
            name="stack the kept values",
        )
        return (*kept, stack, item._replace(gap_ns=0, rows=0))

    def _asynchronous(self, item: Item) -> Item:
        """The same copy from pinned memory, without a wait."""
        return item._replace(
            kind="launch",
            issue_ns=min(item.issue_ns, self.costs.copy_issue_ns),
            duration_ns=self.costs.pinned_duration_ns(item.size),
            latency_ns=min(item.latency_ns, self.costs.launch_latency_ns),
        )

    def _loader(self, item: Item, pinned: Sequence[Item], *, handed_over: bool) -> Item:
        """The loader's `__next__` once batches are pinned: by a pin thread, or by the main thread itself."""
        if handed_over:
            return item._replace(issue_ns=min(item.issue_ns, self.costs.loader_get_ns), rows=0)
        return item._replace(issue_ns=item.issue_ns + sum(map(self._pin_cost, pinned)))

    def _contention(self, items: Step, released: dict[int, int]) -> Item:
        """What the pin thread does with the interpreter: unpack a batch, and give back the memory of the last one."""
        loads = sum(item.kind == "loader" for item in single(items))
        taken_over = max(0, _loading(items, self.costs) - loads * self.costs.loader_get_ns) + sum(released.values())
        return Item("background", issue_ns=round(taken_over * self.costs.pin_thread_contention))

    def _pin_cost(self, copy: Item) -> int:
        if self.tape.loader.workers not in (0, None):
            return 0
        return self.costs.pin_main_tensor_ns + round(copy.size * 1_000 / self.costs.pin_main_bytes_per_us)

    def _prefetched(self, copies: Sequence[Item]) -> Sequence[Item]:
        """This step's share of the pipeline: copy the batch `depth` ahead, then let the consumer wait for its own."""
        own = len(self.tape.streams)
        out: list[Item] = []
        for copy in copies:
            pinned = "async-copy" in self._kinds(copy)
            moved = (self._asynchronous(copy) if pinned else copy)._replace(stream=own, gap_ns=0, rows=0)
            out.append(moved)
        consumer = copies[0].stream
        record = Item("record", issue_ns=self.costs.event_record_ns, stream=own, event=COPIED)
        wait = Item("stream_wait", issue_ns=self.costs.stream_wait_ns, stream=consumer, event=COPIED)
        kept_alive = self.costs.prefetch_tensor_ns * len(copies)
        return (*out, record, wait._replace(lag=self.plan.depth), _work(kept_alive))


def _work(duration_ns: int) -> Item:
    return Item("work", issue_ns=duration_ns, stream=ALL_STREAMS)


def _emptied(item: Item) -> Item:
    """What is left of a call that is no longer made: the host's time before it."""
    return Item("work", gap_ns=item.gap_ns, rows=max(0, item.rows - 1), detached=item.detached)
