"""Which number of a diagnosis needs which signal of the recording, as one table.

A number that needs a signal which is missing is None, not the 0 that a computation without it would give. The time of
an idle part that is not known goes to `idle_other`, the part whose cause the trace does not tell, so that the parts
that are known still add up to the wall time. One relation is weaker: without marks of the DataLoader its time is part
of `idle_host`, where the host's other work is, and `idle_dataloader` is None.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tracelens.findings.analyzed_rank import calls_recorded
from tracelens.messages import say
from tracelens.model import Abstention, Breakdown, Overlap, RankRecording, Stall, Timeline, Verdict
from tracelens.trace import loader_marks

CALLS, LINKS, LOADER_MARKS, SOURCE_LINES, KNOWN_WAITS = "calls", "links", "loader_marks", "source_lines", "known_waits"

NEEDS: Mapping[str, tuple[str, ...]] = {
    "breakdown.parts.idle_sync": (CALLS, LINKS, KNOWN_WAITS),
    "breakdown.parts.idle_dataloader": (CALLS, LINKS, LOADER_MARKS),
    "breakdown.parts.idle_host": (CALLS, LINKS, KNOWN_WAITS),
    "breakdown.parts.idle_launch": (CALLS, LINKS),
    "overlap.h2d_blocking_us_per_step": (CALLS, LINKS),
    "syncs[].gpu_idle_us_per_step": (CALLS, LINKS, KNOWN_WAITS),
    "syncs[].exposed_us_per_step": (CALLS, LINKS, KNOWN_WAITS),
    "exposed_together_us_per_step": (CALLS, LINKS, KNOWN_WAITS),
    "syncs[].location": (SOURCE_LINES,),
}
"""JSON key → signals. What GPU work itself needs (`breakdown`, `overlap`, the shares) is None without any, and where no
step is complete (`Coverage`)."""

NO_SOURCE_LINES = Abstention(
    SOURCE_LINES,
    say("the recording does not tell at which source lines the host waits"),
    say("record the lines: tracelens profile SCRIPT, or torch.profiler with with_stack=True"),
)


@dataclass(frozen=True, slots=True)
class Signals:
    """The signals that a recording lacks, with the reason."""

    missing: frozenset[str]
    unknown_waits: tuple[str, ...] = ()

    def lacks(self, key: str) -> bool:
        """Whether the number at a JSON key cannot be known."""
        return not self.missing.isdisjoint(NEEDS[key])

    def parts(self, breakdown: Breakdown | None) -> Breakdown | None:
        """The breakdown without what cannot be known."""
        if breakdown is None:
            return None
        unknown = [name for name in breakdown.parts if (key := f"breakdown.parts.{name}") in NEEDS and self.lacks(key)]
        moved = sum(breakdown.known[name] for name in unknown)
        parts = {**breakdown.known, **dict.fromkeys(unknown), "idle_other": breakdown.known["idle_other"] + moved}
        taken = dict(breakdown.profiler_ns)
        taken["idle_other"] = taken.get("idle_other", 0) + sum(taken.pop(name, 0) for name in unknown)
        return replace(breakdown, parts={name: parts[name] for name in breakdown.parts}, profiler_ns=taken)

    def stalls(self, stalls: Sequence[Stall]) -> tuple[Stall, ...]:
        """The waits without what cannot be known of them."""
        if not self.lacks("syncs[].gpu_idle_us_per_step"):
            return tuple(stalls)
        return tuple(replace(stall, gpu_idle_ns=None, exposed_ns=None, verdict=_unjudged(stall)) for stall in stalls)

    def overlap(self, overlap: Overlap | None) -> Overlap | None:
        """The copies without what cannot be known of them."""
        if overlap is None or not self.lacks("overlap.h2d_blocking_us_per_step"):
            return overlap
        return replace(overlap, h2d_blocking_ns=None)

    def abstentions(self) -> tuple[Abstention, ...]:
        """The reasons that no detector gives."""
        lines = (NO_SOURCE_LINES,) if SOURCE_LINES in self.missing else ()
        return (*lines, *((unknown_waits(self.unknown_waits),) if self.unknown_waits else ()))


def examine(timeline: Timeline, stalls: Sequence[Stall], recording: RankRecording | None) -> Signals:
    """What this recording lacks."""
    signals = timeline.trace.signals
    located = [stall.location is not None for stall in stalls if stall.verdict != "window_edge"]
    lacking = {
        CALLS: "runtime" not in signals,
        LINKS: not calls_recorded(timeline),
        LOADER_MARKS: not loader_marks.known(timeline, recording),
        SOURCE_LINES: bool(located) and not any(located),
        KNOWN_WAITS: bool(timeline.unknown_waits),
    }
    return Signals(frozenset(name for name, absent in lacking.items() if absent), timeline.unknown_waits)


def unknown_waits(calls: Sequence[str], question: str = "waits") -> Abstention:
    """Calls that wait by their name, of a runtime whose calls are not known."""
    return Abstention(
        question,
        say(
            "{calls}: by the name the host waits there, but these calls are not known to TraceLens",
            calls=", ".join(calls[:3]),
        ),
        say("report the runtime and the names of its calls to the project"),
    )


def _unjudged(stall: Stall) -> Verdict:
    return stall.verdict if stall.verdict == "window_edge" else "unknown"
