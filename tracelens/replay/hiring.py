"""How many DataLoader workers a loop needs: the number that a more-workers Edit asks for.

In: a Tape. Out: a number, or None where more of them bring nothing. Apart from `workers`, which only rewrites a Tape:
this asks the whole replay.
"""

from __future__ import annotations

from tracelens.model import Edit
from tracelens.replay import edits
from tracelens.replay.items import Tape
from tracelens.replay.program import compile_program
from tracelens.replay.steady import step_time
from tracelens.replay.workers import useful

MOST_WORKERS = 32
"""More than any loader in the corpus of public scripts asks for; memory and start time grow with each."""
WORTH_SHARE = 0.01
"""Twice the workers must shorten the step by 1 %: below, the range of the replay holds no gain."""


def enough(tape: Tape) -> int | None:
    """The present number, doubled as often as that still pays; None where it does not, or where nothing is known."""
    now = tape.loader.workers
    if now is None or tape.unresolved_waits:
        return None
    wanted, taken = now, _step(tape, ())
    while 2 * wanted <= MOST_WORKERS:
        more = max(1, 2 * wanted)
        if wanted and useful(tape, more) <= useful(tape, wanted):
            break  # no core is left for them
        shorter = _step(tape, (Edit("more-workers", workers=more),))
        if shorter > taken * (1 - WORTH_SHARE):
            break
        wanted, taken = more, shorter
    return wanted if wanted > now else None


def _step(tape: Tape, chosen: tuple[Edit, ...]) -> float:
    return step_time(compile_program(edits.apply(tape, chosen), tape.overhead.row_ns))
