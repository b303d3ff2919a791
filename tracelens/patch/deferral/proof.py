"""Whether a plan is proved: the question put to `effects`, about the statements exactly as they will be rewritten.

In: a `Deferral`. Out: what is not known of it, nothing where the effects of the project prove that its statements may
run later; raises `Blocked` with the first reason where a line of the project forbids it. Apart from planning.py because
that chooses statements by the text of one loop, and this knows what the rest of the project does.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import libcst as cst

from tracelens.messages import joined, say
from tracelens.patch.code.names import walk
from tracelens.patch.code.source import SourceFile
from tracelens.patch.effects.places import Span
from tracelens.patch.effects.question import Answer, Question
from tracelens.patch.effects.reasons import Reason
from tracelens.patch.loop.loops import Blocked

if TYPE_CHECKING:
    from tracelens.patch.deferral.planning import Deferral

MAX_SENTENCES = 3
"""Of what is not known, so many sentences are shown."""
_NOT_ASKED = say("what the rest of the project does in a batch is not looked at")
_BY_HAND = say("read the value every N batches")


class NotMovable(Blocked):
    """A line of the project forbids the plan; `at` is the line of the loop that leads to it."""

    def __init__(self, obstacle: str, at: int) -> None:
        super().__init__(None, obstacle, _BY_HAND)
        self.at = at


def unproved(deferral: Deferral) -> str:
    """What is not known of the plan, as one sentence; empty for a plan that is proved.

    Raises `Blocked` where a line of the project forbids it.
    """
    doubts = deferral.facts.doubts
    if doubts is not None and not doubts.asks_project:
        return joined("; ", [_NOT_ASKED, *deferral.doubts])
    answer = judged(deferral)
    reasons = [one for one in answer.reasons if not _accepted(one, deferral)]
    known = next((one for one in reasons if one.known), None)
    if known is not None:
        raise NotMovable(sentence(known, deferral.facts.source), known.at)
    told = {one: sentence(one, deferral.facts.source) for one in reasons}
    shown = [text for one, text in told.items() if one.kind == "time"][:1]  # a person reads that number
    said = list(dict.fromkeys([*shown, *deferral.doubts, *told.values()]))
    few = joined("; ", said[:MAX_SENTENCES])
    return (
        say("{few}, and {count} more", few=few, count=len(said) - MAX_SENTENCES) if len(said) > MAX_SENTENCES else few
    )


def judged(deferral: Deferral) -> Answer:
    """What the effects of the project say of the plan."""
    source = deferral.facts.source
    statements = [statement for run in deferral.runs for statement in run.statements]
    question = Question(
        source.path,
        source.line(deferral.facts.loop),
        later=tuple(source.place(node) for node in statements),
        kept=tuple(source.place(node) for node in _kept(deferral)),
        drained=(*((source.path, source.place(node)) for node in _drained(deferral)), *_shown(deferral)),
    )
    return source.effects.answer(question)


def sentence(reason: Reason, source: SourceFile) -> str:
    """The reason with its line, where that is in another file."""
    place = say("line {line}", line=reason.line) if reason.path == source.shown else f"{reason.path}:{reason.line}"
    return say("{reason} ({place})", reason=reason.text, place=place)


def _accepted(reason: Reason, deferral: Deferral) -> bool:
    """What the plan itself takes care of: guards that leave the loop, times that events measure."""
    if deferral.facts.guards and reason.kind == "leaves":
        return True
    return bool(deferral.facts.spans) and reason.kind == "time"


def _kept(deferral: Deferral) -> Iterator[cst.CSTNode]:
    """What is evaluated where the statements stand: places that become names, and names that stay."""
    for run in deferral.runs:
        stay = {capture.name for capture in run.captures if not capture.nodes}
        yield from (node for capture in run.captures for node in capture.nodes)
        for statement in run.statements:
            yield from (node for node in walk(statement) if isinstance(node, cst.Name) and node.value in stay)


def _drained(deferral: Deferral) -> Iterator[cst.CSTNode]:
    """The statements before which all that waits runs, with those that follow in their block until something waits."""
    source = deferral.facts.source
    moved = {node for run in deferral.runs for statement in run.statements for node in walk(statement)}
    for drain in deferral.drains:
        yield drain
        line = source.parent(drain) if isinstance(drain, cst.BaseSmallStatement) else drain
        block = source.parent(line) if line is not None else None
        siblings = list(block.body) if isinstance(block, cst.IndentedBlock) else []
        for node in (
            siblings[siblings.index(line) + 1 :] if isinstance(line, cst.BaseStatement) and line in siblings else ()
        ):
            if any(part in moved for part in walk(node)):
                break
            yield node


def _shown(deferral: Deferral) -> Iterator[tuple[Path, Span]]:
    """The places at which the loop's iterator shows the results, before which all that waits runs."""
    looks = deferral.looks
    if looks is not None:
        path, _, _ = looks.place.rpartition(":")
        root = deferral.facts.source.root
        yield from ((root / path, Span(first, 0, last + 1, 0)) for first, last in looks.lines)
