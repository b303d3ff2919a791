"""Whether a recording holds enough for a replay, and why a replay that is far off is.

In: a Timeline, or the error of a replay of the recorded steps. Out: an Abstention with what to record, or None.
"""

from __future__ import annotations

import numpy as np

from tracelens.messages import joined, say, say_count
from tracelens.model import Abstention, Timeline, TraceTable
from tracelens.replay.replay_trace import ReplayTrace
from tracelens.trace.streams import distinct_streams
from tracelens.trace.tables import among
from tracelens.units import signed_percent

FEWEST_STEPS = 3
MOST_UNMATCHED = 0.01
MOST_BACKLOG = 0.1
"""A tenth of the GPU time from before the window: the GPU was so far behind that the window cannot be a steady one."""


def too_little_known(timeline: Timeline) -> Abstention | None:
    """Of the recording as a whole, before its rows are looked at."""
    if not timeline.coverage.judged:
        return abstain(
            say("{reason}, and no step is complete", reason=timeline.coverage.reason),
            say("record again, to the end of the file"),
        )
    if timeline.unknown_waits:
        return abstain(
            say(
                "the host waits in calls that are not known: {calls}",
                calls=joined(", ", timeline.unknown_waits[:3]),
            ),
            say("report the runtime and the names of its calls to the project"),
        )
    return None


def too_few_records(timeline: Timeline) -> Abstention | None:
    """Of its rows: GPU work, calls that launched it, complete steps."""
    calls, ops, steps = timeline.tables.calls, timeline.tables.ops, timeline.tables.steps
    if not len(ops):
        return abstain(say("the trace has no GPU work"), say("record where a GPU is used: tracelens profile SCRIPT"))
    if not len(calls):
        return abstain(
            say("the trace has no CUDA calls"), say("record CPU and CUDA activities together: tracelens profile")
        )
    if timeline.step_source == "none" or int(steps["kept"].sum()) < FEWEST_STEPS:
        kept = int(steps["kept"].sum()) if timeline.step_source != "none" else 0
        return abstain(_too_few(kept), say("record more of them: tracelens profile SCRIPT"))
    unmatched = _unmatched(ops)
    if unmatched > MOST_UNMATCHED:
        return abstain(
            say("{share:.1f} % of the GPU work has no CUDA call that launched it", share=100 * unmatched),
            say("record a shorter window, so that no record is lost: --steps 8"),
        )
    return None


def unexplained(error: float, timeline: Timeline, trace: ReplayTrace) -> Abstention:
    """Why the replay of the recorded steps is far off, as far as the trace shows it."""
    off = say("the replay of the recorded steps is off by {error}", error=signed_percent(100 * error))
    behind = _backlog(timeline.tables.ops)
    if trace.unresolved_waits and error < 0:  # an order that is missing makes a replay too fast, never too slow
        waits = unresolved_waits(trace.unresolved_waits)
        return abstain(
            say("{off}: {waits}", off=off, waits=waits), say("record with synchronization events: tracelens profile")
        )
    if behind > MOST_BACKLOG:
        earlier = say(
            "{share:.0f} % of the recorded GPU time is work from before the recording began", share=100 * behind
        )
        return abstain(
            say("{off}: {earlier}, so the window shows no steady step", off=off, earlier=earlier),
            say("record more steps: --steps 30"),
        )
    if among(timeline.tables.ops["kind"], "collective").any():
        return abstain(
            say("{off}: the GPU waits for other ranks", off=off), say("give the traces of all ranks, or record one GPU")
        )
    several = len(distinct_streams(timeline.tables.ops)[0]) > 1
    return abstain(
        say("{off}: kernels of several streams compete for the GPU", off=off)
        if several
        else say("{off}: what the host did is not all there", off=off),
        say("record a longer window, so that no record is lost: --steps 20"),
    )


def unresolved_waits(count: int) -> str:
    """How many waits of a step are for nobody knows what."""
    return say_count(
        "{count} wait between GPU streams per step does not say what it waits for",
        "{count} waits between GPU streams per step do not say what they wait for",
        count,
    )


def abstain(missing: str, hint: str) -> Abstention:
    """That no replay is made of this recording."""
    return Abstention("replay", missing, hint)


def _too_few(kept: int) -> str:
    if not kept:
        return say("no complete steps, {needed} are needed", needed=FEWEST_STEPS)
    return say_count(
        "{count} complete step, {needed} are needed",
        "{count} complete steps, {needed} are needed",
        kept,
        needed=FEWEST_STEPS,
    )


def _unmatched(ops: TraceTable) -> float:
    """Share of the GPU work without a call. What ran before a stream's first matched op was launched before the
    window opened, and is no loss."""
    matched = ops["call"] >= 0
    known, stream = distinct_streams(ops)
    opened = np.full(len(known), np.iinfo(np.int64).max)
    np.minimum.at(opened, stream[matched], ops["start_ns"][matched])
    opened[opened == np.iinfo(np.int64).max] = np.iinfo(np.int64).min  # of a stream without any, all is a loss
    later = ops["start_ns"] >= opened[stream]
    return float((~matched & later).sum() / max(1, later.sum()))


def _backlog(ops: TraceTable) -> float:
    """Share of the recorded GPU time (0 to 1) whose launch call is not recorded: launched before the window opened."""
    busy = ops["end_ns"] - ops["start_ns"]
    return float(busy[ops["call"] < 0].sum() / max(1, busy.sum()))
