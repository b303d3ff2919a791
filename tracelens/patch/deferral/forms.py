"""Which form a deferral takes: lines of plain torch where they are enough, else the runtime's `DeferredReads`.

In: a loop and the statements whose reads should wait. Out: the plan, with its `PlainPlan` where there is one. Raises
`Blocked`. Of the plain ones the first is taken that leaves what the script shows every K batches where it stands: a
line printed there is printed before anything can end the process.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import libcst as cst

from tracelens.patch.deferral.plain_plan import PlainPlan, plain_plan
from tracelens.patch.deferral.planning import Deferral, plan, plan_between
from tracelens.patch.deferral.waiting import only_waiting
from tracelens.patch.loop.facts import LoopFacts
from tracelens.patch.loop.loops import Blocked


@dataclass(frozen=True)
class Wish:
    """`plain`: without a helper where that is possible. `every_n`: also in forms that read every N batches.

    Else values are read once they have arrived, for which plain lines have a place where the script shows its results,
    or after the loop. `unproved`: also where that is not proved to be the same. `lossy`: of these also where an
    exception or a signal loses values.
    """

    plain: bool
    every_n: bool
    unproved: bool
    lossy: bool

    def allows(self, reads: PlainPlan) -> bool:
        """Whether the values may wait in this way."""
        often = self.every_n or not reads.reads_every_n
        return often and (reads.proved or (self.unproved and (self.lossy or not reads.lost)))


def planned(facts: LoopFacts, seeds: Sequence[cst.CSTNode], wish: Wish) -> tuple[Deferral, PlainPlan | None]:
    """The plan for the statements in `seeds`, and how it is written without a helper."""
    made: list[PlainPlan] = []
    for make in (plan_between, plan) if wish.plain else ():
        try:
            reads = plain_plan(only_waiting(make(facts, seeds)))
        except Blocked:
            continue
        if reads is not None and wish.allows(reads):
            made.append(reads)
    if made:
        chosen = min(
            made, key=lambda reads: bool(reads.deferral.unproved) or not reads.proved
        )  # the first that is proved
        return chosen.deferral, chosen
    return plan(facts, seeds), None
