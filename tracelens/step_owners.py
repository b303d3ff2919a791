"""Who owns the time of a step, what their lines call, and what a step would be shorter by without each of them.

In: one analyzed rank, its recording, the ReplayTrace and the source. Out: `Owners`. Apart from the stages because it
asks the replay about what the findings found.

A line's time is taken out of all host time, idle or not: work under a full queue owns no idle time and may be worth
removing all the same. Numbers of two owners do not add up; waits that pay only together are one owner. The backward
pass, launches of a model's layers and an optimizer that takes its tensors at once have no number: they have to be made
in any case. So have owners below a hundredth of the step, whose number would be noise.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from tracelens.findings import AnalyzedRank, kept_steps
from tracelens.findings.owners import (
    LineWork,
    LoopWork,
    OwnedStep,
    attribute,
    loop_around,
    slow_steps,
    with_callees,
)
from tracelens.messages import say, say_count
from tracelens.model import Abstention, Edit, Location, Owner, OwnerKind, Owners, RankRecording, Stall, Timeline
from tracelens.replay import estimate, exposed_cost, line_gains, worker_count
from tracelens.replay.line_gains import Gain
from tracelens.replay.replay_trace import ReplayTrace
from tracelens.run import sources
from tracelens.run.sources import TrainingScript
from tracelens.trace import intervals, recorded_rows
from tracelens.trace.intervals import IntervalSet
from tracelens.trace.tables import among

LEAST_SHARE = 0.01
MOST_LINES = 6
"""Each is a replay of its own, with all its draws."""
MOST_LOOPS = 3
MOST_LAUNCHES_PER_WAIT = 16
"""A line that launches more for each of its waits calls a model from a library: it cannot go as a whole. A boolean mask
launches 12 kernels and copies for its two waits, a norm that is read two."""
MOST_TOGETHER = 8
"""Waits that are tried together: each may double the replays."""
SOON_NS = 100_000
"""After its wait an upload's operation ends within tens of microseconds, also beside the profiler."""
TOGETHER_SHARE = 1.2
"""Waits that give back a fifth more together than one by one pay together."""
ENOUGH_SHARE = 0.95
"""Of what all waits give back together: those that keep as much are left in the group."""


def collect(
    rank: AnalyzedRank,
    recording: RankRecording | None,
    replay_trace: ReplayTrace | Abstention,
    code: TrainingScript | Abstention,
) -> Owners:
    """The owners of a step of this rank, as far as each can be known."""
    attributed = attribute(rank.timeline, rank.breakdown, rank.stalls, recording)
    found = attributed.owners
    slow, theirs = slow_steps.collect(rank.timeline, recording)
    paths = {owner.locations[0].path for owner in (*found.owners, *theirs) if owner.locations}
    paths |= {work.location.path for work in attributed.loop_work}
    texts = sources.texts_of(paths, rank.run, code, "project")
    if isinstance(replay_trace, ReplayTrace):
        found = _Recoverable(attributed, replay_trace, rank.timeline, rank.stalls, texts).owners()
    found = replace(found, owners=(*found.owners, *theirs), slow=slow)
    return with_callees(found, texts)


_Line = tuple[str, int | None]
_BY_WORK: tuple[OwnerKind, ...] = ("host_line", "allocator", "backward")
"""What goes with the work of a line."""


@dataclass(frozen=True)
class _Recoverable:
    """Replays the step without each owner."""

    step: OwnedStep
    trace: ReplayTrace
    timeline: Timeline
    stalls: Sequence[Stall]
    texts: Mapping[str, str]

    def owners(self) -> Owners:
        """The same Owners; work that owns nothing and is worth removing is added to them."""
        out: list[Owner] = []
        named: set[_Line] = set()
        for owner in self._joined(self.step.owners.owners):
            line = _line(owner)
            again = owner.kind in _BY_WORK and line in named  # the largest owner of a line has its number
            out.append(owner if again else self._with_gain(owner))
            named |= {line} if owner.kind in _BY_WORK else set()
        for line, work in self._long.items():
            gain = None if line in named else self._without_work(work)
            if gain is not None and gain.low_ns > self._least:
                out.append(_gaining(Owner("host_line", 0, work.locations, work.callee), gain))
        return replace(self.step.owners, owners=tuple(out), base_ns=self.trace.base_ns, loops=tuple(self._loops()))

    @property
    def _least(self) -> float:
        return LEAST_SHARE * self.step.owners.wall_ns

    @cached_property
    def _lines(self) -> dict[_Line, LineWork]:
        return {_place(work.locations[0]): work for work in self.step.line_work}

    @cached_property
    def _long(self) -> dict[_Line, LineWork]:
        """The lines with the most work besides launching and waiting."""
        long = [(line, work) for line, work in self._lines.items() if work.work_ns >= self._least]
        return dict(sorted(long, key=lambda each: -each[1].work_ns)[:MOST_LINES])

    def _with_gain(self, owner: Owner) -> Owner:
        gain, line = None, _line(owner)
        if owner.kind in ("host_line", "allocator"):
            gain = self._without_work(self._long[line]) if line in self._long else None
            if gain is not None and owner.kind == "host_line":
                gain = _the_larger(gain, self._without_launches(line))
        elif owner.kind == "backward" and owner.callee != "backward":  # a node goes with its forward operation
            gain = self._without_line(self._long[line], self._long[line].work_ns) if line in self._long else None
        elif owner.kind == "dataloader":
            gain, owner = self._loader(owner)
        elif owner.kind in ("wait", "copy"):
            gain = self._without_wait(owner)
        elif owner.kind == "optimizer":
            gain = self._optimizer(owner)
            owner = owner if gain is None else replace(owner, instead=say("all tensors taken at once"))
        elif owner.kind == "launch" and owner.owned_ns >= self._least:
            gain = self._without_launches(line)
        return owner if gain is None else _gaining(owner, gain)

    def _without_work(self, work: LineWork) -> Gain | None:
        line = _place(work.locations[0])
        uploads = [one for one in self.stalls if one.kind == "h2d" and one.location and _place(one.location) == line]
        kept = self._after_uploads(work, uploads)
        if not len(kept[0]):
            return line_gains.without_work(self.trace, self.timeline, work.work, work.work_ns)
        left_ns = work.work_ns - intervals.total(kept) // max(1, self._steps)
        if left_ns < self._least:
            return line_gains.from_pinned_memory(self.trace, [one.id for one in uploads])
        return line_gains.without_work(self.trace, self.timeline, intervals.subtract(work.work, kept), left_ns)

    def _after_uploads(self, work: LineWork, uploads: Sequence[Stall]) -> IntervalSet:
        """What a line does once a batch is uploaded at it and before anything else is recorded: the name gets the new
        tensor, and the memory of the batch is given back. That has to be done in any case. Pinning moves it to another
        thread, which holds the interpreter meanwhile: the line gives back what pinning gives, and not this."""
        waits = self.timeline.tables.waits
        rows = np.array(sorted(row for stall in uploads for row in stall.waits), dtype=np.int64)
        done = np.sort(waits["start_ns"][rows] + waits["wait_ns"][rows])
        starts, ends = work.work
        at = np.searchsorted(done, starts, side="right") - 1
        after = (at >= 0) & (starts - done[at] <= SOON_NS) if len(done) else np.zeros(len(starts), dtype=np.bool_)
        return starts[after], ends[after]

    def _without_line(self, work: LineWork, waits_ns: int) -> Gain | None:
        return line_gains.without_line(self.trace, self.timeline, work.everything, waits_ns)

    def _without_launches(self, line: _Line) -> Gain | None:
        """Without a line that launches for one tensor after the other, outside of the model, and waits for none."""
        work = self._lines.get(line)
        waits = any(stall.location is not None and _place(stall.location) == line for stall in self.stalls)
        if work is None or not work.loops or waits or work.launches_ns < self._least:
            return None
        return self._without_line(work, 0)

    def _loops(self) -> Iterator[Owner]:
        """Loops within a step of which several lines take part, those with the most work first. Without the source the
        lines of one function that repeat are taken for one."""
        loops: dict[object, list[LoopWork]] = {}
        for work in self.step.loop_work:
            path, line = _place(work.location)
            text = self.texts.get(path)
            around = work.location.function if text is None else loop_around(text, line or 0)
            if around is not None:
                loops.setdefault((path, around), []).append(work)
        longest = sorted(loops.values(), key=lambda works: -sum(intervals.total(one.everything) for one in works))
        for works in longest[:MOST_LOOPS]:
            owner = self._loop(works) if not any(work.trains for work in works) else None
            if owner is not None:
                yield owner

    def _loop(self, works: Sequence[LoopWork]) -> Owner | None:
        places = tuple(work.location for work in works)
        if len(frozenset().union(*(work.places for work in works))) < 2:
            return None  # one line, which is an owner itself
        ends = zip(*(work.everything for work in works), strict=True)
        spans = intervals.union(*map(np.concatenate, ends))
        row_ns = min(self.trace.overhead.row_ns, line_gains.LOOP_ROW_NS)
        times = recorded_rows.host_time(self.timeline, spans, row_ns)
        owned_ns, taken_ns = (ns // max(1, self._steps) for ns in (times.idle_ns, times.profiler_ns))
        if owned_ns < self._least:
            return None
        numbers = [place.line for place in places if place.line is not None]
        loop = Owner("host_line", owned_ns, places, loop=(min(numbers), max(numbers)), profiler_ns=taken_ns)
        own_rows = intervals.inside(spans, self._rows).sum() / max(len(self._rows), 1)
        gain = line_gains.without_loop(self.trace, self.timeline, spans, float(own_rows))
        return loop if gain is None else _gaining(loop, gain)

    @cached_property
    def _rows(self) -> recorded_rows.Times:
        """The recorded rows of the kept steps."""
        rows = recorded_rows.host_rows(self.timeline)
        return rows[intervals.inside(kept_steps.select(self.timeline).covered, rows)]

    def _optimizer(self, owner: Owner) -> Gain | None:
        slow = self.step.optimizer
        if slow is None or (owner.callee or "").endswith("zero_grad"):
            return None
        return line_gains.in_one_call(self.trace, self.timeline, slow.launching, slow.everything)

    def _loader(self, owner: Owner) -> tuple[Gain | None, Owner]:
        """With more workers, or where they bring nothing, with batches that need not be made. Where the loop makes an
        iterator for each batch, with one that is kept: before that workers are no help, and afterwards nobody knows."""
        if self.step.iterators is not None:
            if not owner.makes_iterators or owner.owned_ns < self._least:
                return None, owner
            return self._kept_iterator, replace(owner, instead=say("an iterator that is kept"))
        if self._more_workers is not None:
            return self._more_workers, replace(owner, instead=self._enough_workers)
        gain = line_gains.with_ready_batches(self.trace) if owner.owned_ns >= self._least else None
        return gain, owner if gain is None else replace(owner, instead=say("batches that are ready"))

    @cached_property
    def _kept_iterator(self) -> Gain | None:
        spans = self.step.iterators or intervals.EMPTY
        return line_gains.without_work(self.trace, self.timeline, spans, intervals.total(spans) // max(1, self._steps))

    @cached_property
    def _more_workers(self) -> Gain | None:
        """With as many workers as keep the loop busy; None where more would bring nothing, or nobody knows."""
        wanted = worker_count.recommended(self.trace)
        if wanted is None:
            return None
        return line_gains.gain_of(estimate.predict(self.trace, (Edit("more-workers", workers=wanted),)))

    @property
    def _enough_workers(self) -> str | None:
        wanted, now = worker_count.recommended(self.trace), self.trace.loader.workers
        if wanted is None:
            return None
        return say_count("{count} worker instead of {now}", "{count} workers instead of {now}", wanted, now=now)

    # -------------------------------------------------------------------------------------------------- waits

    def _without_wait(self, owner: Owner) -> Gain | None:
        stalls = self._stalls_of(owner)
        if not stalls or any(stall.exposed_ns is None for stall in stalls):
            return None
        ids = [stall.id for stall in stalls]
        if owner.kind == "copy" and (pinned := line_gains.from_pinned_memory(self.trace, ids)) is not None:
            return pinned
        gain = line_gains.without_waits(self.trace, ids)
        work = self._lines.get(_line(owner)) if len(stalls) == 1 and owner.kind == "wait" else None
        if gain is None or work is None or work.launches_ns < self._least or not self._may_go(work, stalls[0]):
            return gain
        return self._without_line(work, gain.low_ns) or gain

    def _stalls_of(self, owner: Owner) -> list[Stall]:
        ids = owner.group.split("+") if owner.group else []
        return [stall for stall in self.stalls if stall.id in ids]

    def _may_go(self, work: LineWork, stall: Stall) -> bool:
        """Whether a line waits for what it launches itself."""
        calls = self.timeline.tables.calls
        launching = among(calls["kind"], "launch", "copy", "memset")
        inside = intervals.inside(work.everything, calls["start_ns"]) & launching
        return bool(inside.sum() <= MOST_LAUNCHES_PER_WAIT * stall.calls_per_step * max(1, self._steps))

    @property
    def _steps(self) -> int:
        return int(self.timeline.tables.steps["kept"].sum())

    def _joined(self, owners: Sequence[Owner]) -> list[Owner]:
        """With the waits that pay only together as one owner, at the place of the first."""
        together = self._together()
        out: list[Owner] = []
        mine = [owner for owner in owners if owner.kind in ("wait", "copy") and owner.group in together]
        for owner in owners:
            if owner not in mine or len(mine) < 2:
                out.append(owner)
            elif owner is mine[0]:
                places = tuple(dict.fromkeys(place for each in mine for place in each.locations))
                total = sum(each.owned_ns for each in mine)
                group = "+".join(str(each.group) for each in mine)
                kind: OwnerKind = "copy" if all(each.kind == "copy" for each in mine) else "wait"
                taken = sum(each.profiler_ns for each in mine)
                joint = replace(owner, kind=kind, owned_ns=total, locations=places, group=group, profiler_ns=taken)
                out.append(joint)
        return out

    def _together(self) -> list[str]:
        """Ids of the Stalls that give back more together than one by one; empty where none do."""
        known = [stall for stall in self.stalls if stall.exposed_ns is not None]
        known = sorted(known, key=lambda stall: -stall.wait_ns)[:MOST_TOGETHER]
        chosen = [stall.id for stall in known]
        alone = sum(stall.exposed_ns or 0 for stall in known)
        joint = exposed_cost.together(self.trace, chosen) if len(chosen) > 1 else None
        if joint is None or joint - alone < self._least or joint < TOGETHER_SHARE * alone:
            return []
        for stall in reversed(known):
            rest = [name for name in chosen if name != stall.id]
            left = exposed_cost.together(self.trace, rest)
            if left is not None and left >= ENOUGH_SHARE * joint:
                chosen = rest
        return chosen


def _the_larger(work: Gain, everything: Gain | None) -> Gain:
    """What a line gives back whose launches go with it: at least its own work."""
    if everything is None or everything.ns <= work.ns:
        return work
    return replace(everything, low_ns=work.low_ns, high_ns=max(work.high_ns, everything.high_ns))


def _place(location: Location) -> _Line:
    return location.path, location.line


def _line(owner: Owner) -> _Line:
    return _place(owner.locations[0]) if owner.locations and owner.reason is None else ("", None)


def _gaining(owner: Owner, gain: Gain) -> Owner:
    low, high = min(gain.low_ns, gain.ns), max(gain.high_ns, gain.ns)
    return replace(owner, recoverable_ns=gain.ns, low_ns=low, high_ns=high, evidence="replayed")
