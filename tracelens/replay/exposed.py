"""What each wait really costs: step time with it minus step time without it, in the steady state.

In: a Tape. Out: ns per step, on the scale of the step time that predictions start from. A wait that lasts long may cost
nothing (the GPU was busy and its queue refills in time), and two that cost nothing alone may cost much together.
"""

from __future__ import annotations

from collections.abc import Collection

from tracelens.replay import before, edits, places
from tracelens.replay.items import Tape
from tracelens.replay.program import compile_program
from tracelens.replay.steady import step_time


def of(tape: Tape) -> dict[str, int]:
    """Exposed cost of each Stall, every other wait left in place. Empty where streams wait for each other in a way
    that the trace does not tell: a zero found there would be no measurement."""
    if tape.unresolved_waits:
        return {}
    return {name: _difference(tape, place.waits) for name, place in tape.stalls.items()}


def together(tape: Tape, stalls: Collection[str] | None = None) -> int | None:
    """Exposed cost of a set of Stalls removed at once; of all of them when none are named. None where unknown."""
    if tape.unresolved_waits:
        return None
    chosen = tape.stalls if stalls is None else stalls
    return _difference(tape, places.stall_waits(tape, chosen))


def _difference(tape: Tape, waits: Collection[int]) -> int:
    if not waits:
        return 0
    base = before.step_ns(tape)
    without = step_time(compile_program(edits.without(tape, waits), tape.overhead.row_ns))
    return max(0, round((base - without) / base * tape.base_ns))
