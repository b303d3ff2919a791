"""The exposed cost of each wait: step time with it minus step time without it, in the steady state.

In: a ReplayTrace. Out: ns per step on the scale of `ReplayTrace.base_ns`. A long wait may cost nothing, because the GPU
was busy and its queue refills in time; two waits that cost nothing alone may cost much together.
"""

from __future__ import annotations

from collections.abc import Collection

from tracelens.replay import baseline, edit_sites, edits
from tracelens.replay.program import compile_program
from tracelens.replay.replay_trace import ReplayTrace
from tracelens.replay.steady_state import step_time


def per_stall(trace: ReplayTrace) -> dict[str, int]:
    """Exposed cost in ns per step of each Stall, every other wait left in place.

    Empty where streams wait for each other in a way that the trace does not show: the replay would be too fast.
    """
    if trace.unresolved_waits:
        return {}
    return {name: _difference(trace, place.waits) for name, place in trace.stalls.items()}


def together(trace: ReplayTrace, stalls: Collection[str] | None = None) -> int | None:
    """Exposed cost of a set of Stalls removed at once; of all of them when none are named. None where unknown."""
    if trace.unresolved_waits:
        return None
    chosen = trace.stalls if stalls is None else stalls
    return _difference(trace, edit_sites.stall_waits(trace, chosen))


def _difference(trace: ReplayTrace, waits: Collection[int]) -> int:
    if not waits:
        return 0
    base = baseline.step_ns(trace)
    without = step_time(compile_program(edits.without(trace, waits), trace.overhead.row_ns))
    return max(0, round((base - without) / base * trace.base_ns))
