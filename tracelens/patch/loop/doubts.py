"""Obstacles that the text of one file only suggests: with them a plan is not proved, and they are told.

In: the facts of a loop, and an obstacle. Out: the obstacle raised, or noted where the plan may leave something open.
Apart because a name that could mean a call that looks at the results is no reason to leave a place as it is for good:
what is known of the whole project is asked afterwards, and `verify` on the run.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from tracelens.messages import say
from tracelens.patch.loop.loops import REMEMBERED, Blocked, Suspected

if TYPE_CHECKING:
    from tracelens.patch.loop.facts import LoopFacts


class Doubts:
    """The sentences that are noted while one plan is made; each is kept once.

    `asks_project`: what the rest of the project does is asked of its effects. Not where the loop is that of another
    function: an answer about one function's body would not be worth its time, which a large project has not.
    """

    def __init__(self, asks_project: bool = True) -> None:
        self.asks_project = asks_project
        self._noted: dict[str, None] = {}

    def note(self, sentence: str) -> None:
        self._noted[sentence] = None

    def clear(self) -> None:
        self._noted.clear()

    @property
    def sentences(self) -> tuple[str, ...]:
        return tuple(self._noted)


def doubt(facts: LoopFacts, suspected: Suspected) -> None:
    """Note a suspected obstacle; raises it where nothing may be left open."""
    if facts.doubts is None:
        raise suspected
    node = suspected.node
    said = suspected.obstacle
    if node is not None and node in facts.source.spans:
        said = say("{obstacle} (line {line})", obstacle=said, line=facts.source.line(node))
    facts.doubts.note(said)


def met_behind(facts: LoopFacts, blocked: Blocked) -> None:
    """Raise the obstacle that a call meets behind its name; where few objects are told apart, it is only suspected.

    A name stands for many things there, and a call of one for calls of all: the text of the files is asked, too, what
    the functions of that name do.
    """
    hardly_told = facts.reached is not None and facts.reached.is_coarse
    if not hardly_told or not (facts.doubts is None or facts.doubts.asks_project):
        raise blocked
    doubt(facts, blocked.suspected())


@lru_cache(maxsize=REMEMBERED)
def by_text(facts: LoopFacts) -> LoopFacts:
    """The same facts, by which a statement stays where it is unless its own text touches a result."""
    return replace(doubting(facts), by_text=True)


@lru_cache(maxsize=REMEMBERED)
def doubting(facts: LoopFacts) -> LoopFacts:
    """The same facts, by which suspected obstacles are noted instead of raised."""
    return facts if facts.doubts is not None else replace(facts, doubts=Doubts())
