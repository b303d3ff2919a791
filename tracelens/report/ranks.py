"""The ranks of a job side by side: who is slow, and for whom the others wait.

In: a Diagnosis. Out: `RankComparison` for the template; None with a single rank. Ranks of one job finish each step
together, so equal step times hide a slow one: it is the rank that waits least in collectives.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from tracelens.messages import say
from tracelens.model import Diagnosis, RankTimes
from tracelens.report.formatting import milliseconds, percent, says

MOST_ROWS = 64
"""Above it: a map of all ranks and a table of the slowest."""
SLOWEST_ROWS = 8
STRAGGLES = 0.05
"""Of the step: recordings of one rank differ by a few percent from one to the next."""
CELLS_PER_ROW = 32


@dataclass(frozen=True, slots=True)
class RankRow:
    name: str
    step: str
    busy: str
    alone: str
    note: str
    width: float
    """Length of the bar, 0 to 100."""


@dataclass(frozen=True, slots=True)
class RankCell:
    x: int
    y: int
    level: int
    """0 (fastest) to 4."""
    title: str


@dataclass(frozen=True, slots=True)
class RankComparison:
    sentence: str
    rows: tuple[RankRow, ...]
    cells: tuple[RankCell, ...]
    left_out: int

    def has_word(self, column: Literal["busy", "alone", "note"]) -> bool:
        """Whether any rank says something in this column."""
        return says(getattr(row, column) for row in self.rows)


def compare_ranks(diagnosis: Diagnosis) -> RankComparison | None:
    """None for a job of one rank."""
    ranks = sorted(diagnosis.ranks, key=lambda rank: (rank.rank is None, rank.rank or 0))
    if len(ranks) < 2:
        return None
    middle = statistics.median(rank.median_ns for rank in ranks)
    late = find_straggler(ranks)
    slowest = sorted(ranks, key=lambda rank: -rank.median_ns)
    shown = ranks if len(ranks) <= MOST_ROWS else slowest[:SLOWEST_ROWS]
    if late is not None and late not in shown:
        shown = [*shown, late]
    most = slowest[0].median_ns
    rows = tuple(_row(rank, late, slowest[0], most) for rank in shown)
    cells = () if len(ranks) <= MOST_ROWS else tuple(_cells(ranks, middle, most))
    return RankComparison(_sentence(ranks, late, middle), rows, cells, len(ranks) - len(shown))


def find_straggler(ranks: Sequence[RankTimes]) -> RankTimes | None:
    """The rank that the others wait for; None where none stands out."""
    middle = statistics.median(rank.median_ns for rank in ranks)
    slowest = max(ranks, key=lambda rank: rank.median_ns)
    if slowest.median_ns > middle * (1 + STRAGGLES):
        return slowest
    waiting = [rank for rank in ranks if rank.communication_ns is not None]
    if len(waiting) < len(ranks):
        return None
    least = min(waiting, key=lambda rank: rank.communication_ns or 0)
    usual = statistics.median(rank.communication_ns or 0 for rank in waiting)
    return least if usual - (least.communication_ns or 0) > middle * STRAGGLES else None


def _row(rank: RankTimes, late: RankTimes | None, slowest: RankTimes, most: int) -> RankRow:
    note = say("the others wait for it") if rank is late else say("longest step") if rank is slowest else ""
    return RankRow(
        name=_name(rank),
        step=milliseconds(rank.median_ns),
        busy=percent(rank.gpu_busy_share),
        alone=milliseconds(rank.communication_ns),
        note=note,
        width=round(100 * rank.median_ns / max(most, 1), 1),
    )


def _cells(ranks: Sequence[RankTimes], middle: float, most: int) -> list[RankCell]:
    spread = max(most - middle, middle * STRAGGLES)
    out = []
    for index, rank in enumerate(ranks):
        level = min(4, max(0, round(4 * (rank.median_ns - middle) / spread)))
        title = say("{rank}: {time}", rank=_name(rank), time=milliseconds(rank.median_ns))
        out.append(RankCell(index % CELLS_PER_ROW, index // CELLS_PER_ROW, level, title))
    return out


def _name(rank: RankTimes) -> str:
    return say("rank unknown") if rank.rank is None else say("rank {rank}", rank=rank.rank)


def _sentence(ranks: Sequence[RankTimes], late: RankTimes | None, middle: float) -> str:
    slowest, fastest = max(rank.median_ns for rank in ranks), min(rank.median_ns for rank in ranks)
    spread = say(
        "{count} ranks, {low} to {high} per step, median {middle}.",
        count=len(ranks),
        low=milliseconds(fastest),
        high=milliseconds(slowest),
        middle=milliseconds(middle),
    )
    if late is None:
        return say("{ranks} No rank stands out by more than {share}.", ranks=spread, share=percent(STRAGGLES))
    told = {"ranks": spread, "rank": late.rank, "share": percent(late.median_ns / middle - 1)}
    if late.median_ns > middle * (1 + STRAGGLES):
        return say("{ranks} Rank {rank} is a straggler: its step is {share} longer.", **told)
    return say("{ranks} Rank {rank} waits least in collectives: the others wait for it.", **told)
