"""Who owns the time of a step, what their lines call, and what a step would be shorter by without each of them.

In: one analyzed rank, its recording, the ReplayTrace and the source. Out: `Owners`. Apart from the stages because it
asks the replay about what the findings found.

A line's time is taken out of all host time, idle or not: work under a full queue owns no idle time and may be worth
removing all the same. Numbers of two owners do not add up. Optimizer, backward and launches have none: they have to be
made in any case. So have owners below a hundredth of the step, whose number would be noise.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tracelens.findings import AnalyzedRank
from tracelens.findings.owners import HostWork, attribute, with_callees
from tracelens.model import Abstention, Edit, Estimate, Owner, Owners, RankRecording, Stall, Timeline
from tracelens.replay import estimate, host_time, worker_count
from tracelens.replay.replay_trace import ReplayTrace
from tracelens.run import sources
from tracelens.run.sources import TrainingScript

LEAST_SHARE = 0.01
MOST_LINES = 4
"""Each is a replay of its own, with all its draws."""


def collect(
    rank: AnalyzedRank,
    recording: RankRecording | None,
    replay_trace: ReplayTrace | Abstention,
    code: TrainingScript | Abstention,
) -> Owners:
    """The owners of a step of this rank, as far as each can be known."""
    attributed = attribute(rank.timeline, rank.breakdown, rank.stalls, recording)
    found = attributed.owners
    if isinstance(replay_trace, ReplayTrace):
        found = with_recoverable(found, attributed.host_work, replay_trace, rank.timeline, rank.stalls)
    paths = {owner.locations[0].path for owner in found.owners if owner.locations}
    return with_callees(found, sources.texts_of(paths, rank.run, code, "project"))


def with_recoverable(
    owners: Owners, work: Iterable[HostWork], trace: ReplayTrace, timeline: Timeline, stalls: Iterable[Stall]
) -> Owners:
    """The same Owners; work that owns nothing and is worth removing is added to them."""
    by_line = _without_lines(owners, work, trace, timeline)
    exposed = {stall.id: stall.exposed_ns for stall in stalls}
    more_workers = _more_workers(trace)
    out: list[Owner] = []
    for owner in owners.owners:
        work_of_line = by_line.pop(_line(owner), None) if owner.kind in ("host_line", "allocator") else None
        if work_of_line is not None:
            out.append(_with_estimate(owner, work_of_line[1]))
        elif owner.kind == "dataloader" and more_workers is not None:
            out.append(_with_estimate(owner, more_workers))
        elif owner.kind in ("wait", "copy") and owner.group is not None and exposed.get(owner.group) is not None:
            out.append(replace(owner, recoverable_ns=exposed[owner.group], evidence="replayed"))
        else:
            out.append(owner)
    hidden = (
        _with_estimate(Owner("host_line", 0, one.locations, one.callee), found) for one, found in by_line.values()
    )
    out += [owner for owner in hidden if owner.low_ns is not None and owner.low_ns > LEAST_SHARE * owners.wall_ns]
    return replace(owners, owners=tuple(out))


def _without_lines(
    owners: Owners, work: Iterable[HostWork], trace: ReplayTrace, timeline: Timeline
) -> dict[object, tuple[HostWork, Estimate]]:
    """By line: the loop without the longest of them, each by itself."""
    long = [one for one in work if one.host_ns >= LEAST_SHARE * owners.wall_ns]
    found: dict[object, tuple[HostWork, Estimate]] = {}
    for one in sorted(long, key=lambda one: -one.host_ns)[:MOST_LINES]:
        without = estimate.predict_shortened(trace, host_time.without_spans(trace, timeline, one.spans))
        if isinstance(without, Estimate):
            found[one.locations[0]] = (one, without)
    return found


def _more_workers(trace: ReplayTrace) -> Estimate | None:
    """The loop with as many workers as keep it busy; None where more would bring nothing, or nobody knows."""
    wanted = worker_count.recommended(trace)
    if not wanted:
        return None
    found = estimate.predict(trace, (Edit("more-workers", workers=wanted),))
    return None if isinstance(found, Abstention) else found


def _line(owner: Owner) -> object:
    return owner.locations[0] if owner.locations and owner.reason is None else None


def _with_estimate(owner: Owner, found: Estimate) -> Owner:
    return replace(
        owner,
        recoverable_ns=max(0, found.base_ns - found.step_ns),
        low_ns=found.base_ns - found.high_ns,
        high_ns=found.base_ns - found.low_ns,
        evidence="replayed",
    )
