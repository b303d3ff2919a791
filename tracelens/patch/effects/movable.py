"""Whether statements of a loop may run later: after the rest of their batch and of the batches that follow.

In: the effects of a project, and a `Question`. Out: an `Answer`, proved or with the reasons why not. Statements that
run later keep their order among themselves; they may not meet what stays in the loop, nor what runs between batches.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tracelens.patch.effects import names
from tracelens.patch.effects.analysis import Analysis
from tracelens.patch.effects.callbacks import ELSEWHERE
from tracelens.patch.effects.deeds import Deed, Deeds
from tracelens.patch.effects.dispatch import HELD, STATE
from tracelens.patch.effects.kept import evaluated_in_place
from tracelens.patch.effects.memory import ANY_KEY, SHARED, Memory
from tracelens.patch.effects.names import code_of
from tracelens.patch.effects.objects import (
    CLOCK,
    COLLECTIVE,
    DISK_READ,
    DISK_WRITE,
    NAMES,
    OUTPUT,
    RAISES,
    RANDOM,
    READS,
    SUSPENDS,
    UNKNOWN,
    WRITES,
    Activation,
    Callbacks,
    Class,
    Container,
    Effect,
    Instance,
    Module,
    Name,
    Object,
    Plain,
    Thing,
    Unknown,
)
from tracelens.patch.effects.places import Loop, Span, function_of, loop_at, nodes_in, path_to, span_of
from tracelens.patch.effects.statements import Statements

Tier = Literal["safe", "checked", "refused"]
ReasonKind = Literal["leaves", "block", "moment", "object", "output", "time", "hidden"]
"""leaves: it ends the loop. block: a block around it is over. moment: it is bound to it. object: others meet what it
reads or changes. output: so do lines and files. time: a duration has the wait in it. hidden: what cannot be seen."""
_LEAVES = (ast.Break, ast.Continue, ast.Return, ast.Yield, ast.YieldFrom, ast.Await)


@dataclass(frozen=True)
class Question:
    """`later`: statements of the loop in `path` that starts at `line`.

    `kept`: what in them is evaluated where it stands; None for all that has nothing to do with what they change.
    `drained`: statements, of any file, before which all that waits has run.
    """

    path: Path
    line: int
    later: tuple[Span, ...]
    kept: tuple[Span, ...] | None = None
    drained: tuple[tuple[Path, Span], ...] = ()
    column: int | None = None


@dataclass(frozen=True, order=True)
class Reason:
    """Why a move is not proved; `known`: there is an obstacle, rather than something that is not known."""

    known: bool
    kind: ReasonKind
    text: str
    path: str
    line: int


@dataclass(frozen=True)
class Answer:
    """`safe`: proved; `checked`: not proved, but no obstacle is known; `refused`: there is one."""

    tier: Tier
    reasons: tuple[Reason, ...]


def judge(analysis: Analysis, question: Question) -> Answer:
    """The answer for the loop, in all the ways in which its function is called."""
    memory, project = analysis.memory, analysis.project
    file = project.file(question.path)
    if file is None or file.tree is None:
        raise ValueError(f"{question.path} cannot be parsed")
    loop = loop_at(file.tree, question.line, question.column)
    if loop is None:
        raise ValueError(f"no loop starts at {question.path}:{question.line}")
    code = function_of(file.tree, loop)
    units = [one for one in memory.summaries if isinstance(one, (Module, Activation)) and code_of(one) is code]
    reasons = {reason for unit in units for reason in _Judge(analysis, question, unit, loop).reasons()}
    if not units:
        reasons = {Reason(False, "hidden", "who runs the loop is not known", file.shown, loop.lineno)}
    ordered = tuple(sorted(reasons, key=lambda one: (not one.known, one.line, one.text)))
    tier: Tier = "refused" if any(one.known for one in ordered) else "checked" if ordered else "safe"
    return Answer(tier, ordered)


class _Judge:
    """The question for one unit: the loop's function as called with one receiver, or its module."""

    def __init__(self, analysis: Analysis, question: Question, unit: Module | Activation, loop: Loop) -> None:
        self.analysis, self.question, self.unit, self.loop = analysis, question, unit, loop
        self.memory = memory = analysis.memory
        self.shown = names.module_of(unit).file.shown
        self.statements = [node for span in question.later for node in nodes_in(loop, span)]
        self.kept = question.kept if question.kept is not None else evaluated_in_place(self.statements)
        self.deeds = Deeds(memory, unit, question.drained)
        self.moved = self.deeds.chosen_deeds(self._is_later)
        anytime = memory.make(Callbacks, ELSEWHERE, "all")
        self.staying = [*self.deeds.chosen_deeds(self._stays), *self.deeds.behind(loop, anytime)]

    # --------------------------------------------------------------------------------------------------------- pieces

    def _is_later(self, node: ast.AST) -> bool:
        return any(span.holds(node) for span in self.question.later) and not self._is_kept(node)

    def _is_kept(self, node: ast.AST) -> bool:
        return any(span.holds(node) for span in self.kept)

    def _stays(self, node: ast.AST) -> bool:
        """Whether a node runs in the loop, between two batches included, where the statement stands that waits."""
        path = names.module_of(self.unit).file.path
        if any(path == where and span.holds(node) for where, span in self.question.drained):
            return False
        return (node is self.loop or self._in_loop(node)) and not self._is_later(node)

    def _in_loop(self, node: ast.AST) -> bool:
        parts = [*self.loop.body, self.loop.test if isinstance(self.loop, ast.While) else self.loop.target]
        spans = (span_of(part) for part in parts)
        return any(span is not None and span.holds(node) for span in spans)

    # -------------------------------------------------------------------------------------------------------- reasons

    def reasons(self) -> Iterator[Reason]:
        """All that speaks against the move."""
        yield from self._of_the_text()
        yield from self._of_the_moment()
        yield from self._of_objects()
        yield from self._of_lines()
        yield from self._of_time()

    def _reason(self, kind: ReasonKind, text: str, deed: Deed, known: bool = True) -> Reason:
        path, line = deed.place
        return Reason(known, kind, text, path or self.shown, line)

    def _of_the_text(self) -> Iterator[Reason]:
        """Statements that end something, and blocks around them that are over when they run."""
        for statement in self.statements:
            if any(isinstance(part, _LEAVES) for part in ast.walk(statement)):
                yield Reason(
                    True,
                    "leaves",
                    "it leaves the loop, or hands control to somebody else",
                    self.shown,
                    _line(statement),
                )
            for block in path_to(self.loop, statement)[1:-1]:
                if isinstance(block, (ast.Try, ast.TryStar)) and (block.handlers or block.finalbody):
                    yield Reason(True, "block", "it runs where an exception may be caught", self.shown, _line(block))
                if isinstance(block, (ast.With, ast.AsyncWith)) and not all(map(self._is_plain_block, block.items)):
                    yield Reason(
                        True,
                        "block",
                        "the `with` block around it is over when it runs",
                        self.shown,
                        _line(block),
                    )

    def _is_plain_block(self, item: ast.withitem) -> bool:
        """Whether a `with` block changes nothing for statements that only look at numbers."""
        given = Statements(self.unit, self.unit, self.analysis.dispatch, self.analysis.project).value(item.context_expr)
        return bool(given) and all(
            isinstance(one, Plain) or (isinstance(one, Thing) and one.kind == "context") for one in given
        )

    def _of_the_moment(self) -> Iterator[Reason]:
        """What binds a statement to the moment at which it stands."""
        for deed in self.moved:
            kind = deed.effect.kind
            if kind in (RANDOM, CLOCK, COLLECTIVE, NAMES, SUSPENDS):
                yield self._reason("moment", f"it {kind}", deed)
            elif kind == RAISES:
                yield self._reason("moment", "it may raise, some batches later than it does now", deed, known=False)
            elif kind == UNKNOWN:
                yield self._reason("moment", f"what {_why(deed)} does is not known", deed, known=False)
        for deed in self.staying:
            if deed.effect.kind == NAMES:
                yield self._reason("moment", "the loop looks names up by their text", deed)
            elif deed.effect.kind == SUSPENDS and deed.unit is self.unit:
                yield self._reason("moment", "the loop hands control to its caller, who may look at anything", deed)

    def _of_objects(self) -> Iterator[Reason]:
        """Variables and objects that both touch, and one of them changes."""
        own = Touched([one for one in self.moved if not isinstance(one.effect.target, Unknown)], self.memory)
        for deed in self.staying:
            met = own.meets(deed)
            if met is not None:
                yield self._met(deed, met)

    def _met(self, deed: Deed, what: Effect) -> Reason:
        name = described(what)
        if deed.effect.target is SHARED:
            unknown = next((one for one in self.staying if one.effect.kind == UNKNOWN and one.at is deed.at), None)
            who = _why(unknown) if unknown is not None else "unknown code"
            return self._reason("object", f"{who} is not known, and was handed what holds {name}", deed)
        if deed.at is self.loop:
            return self._reason("object", f"the loop's iterator {_verb(deed)} {name} between two batches", deed)
        return self._reason("object", f"`{_text(deed.at)}` {_verb(deed)} {name}", deed)

    def _of_lines(self) -> Iterator[Reason]:
        """Lines on the screen keep their order, and what reads a file finds what was written before."""
        for moved, other, text in (
            (OUTPUT, OUTPUT, "writes lines of its own"),
            (DISK_WRITE, DISK_READ, "looks at files"),
        ):
            if not any(deed.effect.kind == moved for deed in self.moved):
                continue
            for deed in self.staying:
                if deed.effect.kind == other:
                    yield self._reason("output", f"{self._who(deed)} {text}", deed)
                elif deed.effect.kind == UNKNOWN and moved == OUTPUT:
                    yield self._reason(
                        "output", f"whether {_why(deed)} writes lines of its own is not known", deed, known=False
                    )

    def _who(self, deed: Deed) -> str:
        return "the loop's iterator" if deed.at is self.loop else f"`{_text(deed.at)}`"

    def _of_time(self) -> Iterator[Reason]:
        for deed in self.staying:
            if deed.effect.kind == CLOCK:
                yield self._reason(
                    "time", "a time is measured in the loop, and the wait that goes is a part of it", deed, known=False
                )


class Touched:
    """What the statements that run later read and change, by object."""

    def __init__(self, deeds: Iterable[Deed], memory: Memory) -> None:
        self._memory = memory
        self._read: dict[Object, dict[str, Effect]] = {}
        self._written: dict[Object, dict[str, Effect]] = {}
        for deed in deeds:
            effect = deed.effect
            if effect.kind not in (READS, WRITES) or effect.target is None:
                continue
            table = self._written if effect.kind == WRITES else self._read
            for one in memory.reach([effect.target], through_unknown=False) if effect.deep else (effect.target,):
                table.setdefault(one, {})["" if effect.deep else effect.field] = effect

    def meets(self, deed: Deed) -> Effect | None:
        """The effect that one of what stays in the loop may not pass."""
        effect = deed.effect
        if effect.kind not in (READS, WRITES) or effect.target is None:
            return None
        tables = (self._written, self._read) if effect.kind == WRITES else (self._written,)
        if effect.deep:
            reached = self._memory.reach([effect.target])
            return next((e for one in reached for t in tables for e in t.get(one, {}).values()), None)
        for table in tables:
            for name, own in table.get(effect.target, {}).items():
                if _same_field(name, effect.field):
                    return own
        return None


def _same_field(one: str, other: str) -> bool:
    if one == other or "" in (one, other) or "*" in (one, other):
        return True
    return ANY_KEY in (one, other) and one.startswith("[") and other.startswith("[")


def described(effect: Effect) -> str:
    """A variable or a part of an object, for people."""
    if effect.field in ("", STATE, ANY_KEY, HELD):
        return f"{_object(effect.target)}"
    if isinstance(effect.target, (Instance, Class)):
        return f"`{effect.field}` of {_object(effect.target)}"
    return f"`{effect.field.strip('[]')}`"


def _object(target: Object | None) -> str:
    match target:
        case Instance():
            return f"a `{target.made.node.name}`"
        case Class():
            return f"the class `{target.node.name}`"
        case Thing():
            return f"the {target.kind}"
        case Name():
            return f"the {target.full.strip('<>')}"
        case Container():
            return "the same list or dict"
        case _:
            return "the same object"


def _why(deed: Deed) -> str:
    return deed.effect.target.why if isinstance(deed.effect.target, Unknown) else "a function"


def _verb(deed: Deed) -> str:
    return "changes" if deed.effect.kind == WRITES else "looks at"


def _text(node: ast.AST) -> str:
    text = " ".join(ast.unparse(node).split()) if isinstance(node, (ast.expr, ast.stmt)) else ""
    return text if len(text) <= 60 else f"{text[:57]}…"


def _line(node: ast.AST) -> int:
    return int(getattr(node, "lineno", 0))
