"""How many DataLoader workers a loop needs: the number that a more-workers Edit asks for.

In: a ReplayTrace. Out: a number, or None where more workers bring nothing. `loader_workers` only rewrites a
ReplayTrace; this module replays the whole loop.
"""

from __future__ import annotations

from tracelens.model import Edit
from tracelens.replay import edits
from tracelens.replay.loader_workers import workers_with_a_core
from tracelens.replay.program import compile_program
from tracelens.replay.replay_trace import ReplayTrace
from tracelens.replay.steady_state import step_time

MOST_WORKERS = 32
"""More than any loader in the corpus of public scripts asks for; memory and start time grow with each."""
WORTH_SHARE = 0.01
"""Twice the workers must shorten the step by 1 %: below, the range of the replay holds no gain."""


def recommended(trace: ReplayTrace) -> int | None:
    """The present number, doubled as often as that still pays; None where it does not, or where nothing is known."""
    now = trace.loader.workers
    if now is None or trace.unresolved_waits:
        return None
    wanted, taken = now, _step(trace, ())
    while 2 * wanted <= MOST_WORKERS:
        more = max(1, 2 * wanted)
        if wanted and workers_with_a_core(trace, more) <= workers_with_a_core(trace, wanted):
            break  # no core is left for them
        shorter = _step(trace, (Edit("more-workers", workers=more),))
        if shorter > taken * (1 - WORTH_SHARE):
            break
        wanted, taken = more, shorter
    return wanted if wanted > now else None


def _step(trace: ReplayTrace, chosen: tuple[Edit, ...]) -> float:
    return step_time(compile_program(edits.apply(trace, chosen), trace.overhead.row_ns))
