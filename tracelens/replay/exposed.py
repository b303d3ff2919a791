"""What each wait really costs: step time with it minus step time without it, in the steady state.

In: a Tape. Out: ns per step, on the scale of the step time that predictions start from. A wait that lasts long may cost
nothing (the GPU was busy and its queue refills in time), and two that cost nothing alone may cost much together.
"""

from __future__ import annotations

from collections.abc import Collection

from tracelens.replay import edits
from tracelens.replay.items import Tape
from tracelens.replay.program import Program, compile_program
from tracelens.replay.steady import step_time


def of(tape: Tape) -> dict[str, int]:
    """Exposed cost of each Stall, every other wait left in place. Empty where streams wait for each other in a way
    that the trace does not tell: a zero found there would be no measurement."""
    if tape.unresolved_waits:
        return {}
    base = _time(tape, edits.apply(tape))
    return {name: _difference(tape, base, place.waits) for name, place in tape.stalls.items()}


def together(tape: Tape, stalls: Collection[str] | None = None) -> int | None:
    """Exposed cost of a set of Stalls removed at once; of all of them when none are named. None where unknown."""
    if tape.unresolved_waits:
        return None
    chosen = tape.stalls if stalls is None else stalls
    return _difference(tape, _time(tape, edits.apply(tape)), edits.stall_waits(tape, chosen))


def _difference(tape: Tape, base: float, waits: Collection[int]) -> int:
    if not waits:
        return 0
    without = _time(tape, edits.without(tape, waits))
    return max(0, round((base - without) / base * tape.base_ns))


def _time(tape: Tape, program: Program) -> float:
    return step_time(compile_program(program, tape.overhead.row_ns))
