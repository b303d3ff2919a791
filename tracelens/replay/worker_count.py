"""How many DataLoader workers a loop needs: the numbers that more-workers Edits ask for.

In: a ReplayTrace. Out: the numbers that pay, none where more workers bring nothing. `loader_workers` only rewrites a
ReplayTrace; this module replays the whole loop.
"""

from __future__ import annotations

from functools import lru_cache

from tracelens.model import Edit
from tracelens.replay import edits
from tracelens.replay.loader_workers import workers_with_a_core
from tracelens.replay.program import compile_program
from tracelens.replay.replay_trace import ReplayTrace
from tracelens.replay.steady_state import step_time

MOST_WORKERS = 32
"""More than any loader in the corpus of public scripts asks for; memory and start time grow with each."""
ANSWERS = 4
"""Traces whose answer is kept: owners and the plan ask the same of one."""
WORTH_SHARE = 0.01
"""Twice the workers must shorten the step by 1 %: below, the range of the replay holds no gain."""


def recommended(trace: ReplayTrace) -> int | None:
    """The present number, doubled as often as that still pays; None where it does not, or where nothing is known."""
    return max(paying(trace), default=None)


@lru_cache(maxsize=ANSWERS)
def paying(trace: ReplayTrace) -> tuple[int, ...]:
    """The present number doubled, and doubled again, as long as each shortens the step by what is worth having."""
    now = trace.loader.workers
    if now is None or trace.unresolved_waits:
        return ()
    wanted, taken, out = now, _step(trace, ()), []
    while 2 * wanted <= MOST_WORKERS:
        more = max(1, 2 * wanted)
        if wanted and workers_with_a_core(trace, more) <= workers_with_a_core(trace, wanted):
            break  # no core is left for them
        shorter = _step(trace, (Edit("more-workers", workers=more),))
        if shorter > taken * (1 - WORTH_SHARE):
            break
        wanted, taken = more, shorter
        out.append(more)
    return tuple(out)


def _step(trace: ReplayTrace, chosen: tuple[Edit, ...]) -> float:
    return step_time(compile_program(edits.apply(trace, chosen), trace.overhead.row_ns))
