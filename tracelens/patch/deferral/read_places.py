"""Where values that wait are read beside the clocks of their loop: before the clock that would have seen the wait.

In: what runs later in a loop, and the statements before which it must have run. Out: `ReadPlaces`; raises `Blocked`
where a time that people see would be another one. A read that waits takes its wait with it: behind the clock that
followed it in its own batch the wait would be a part of the next span, such as the "data time" of the next batch, or of
none. Single times are those of batches without a wait and of some with all of it, which a mean does not show and a line
of every batch does.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import libcst as cst

from tracelens.messages import say
from tracelens.patch.code.names import meets, touched, walk, written
from tracelens.patch.deferral import value_types
from tracelens.patch.deferral.captures import Capture
from tracelens.patch.loop.batch_numbers import own_number
from tracelens.patch.loop.clock_spans import ClockSpans, clock_spans
from tracelens.patch.loop.facts import LoopFacts, is_pure
from tracelens.patch.loop.loops import Blocked
from tracelens.patch.loop.sites import is_tensor, tensor_names

if TYPE_CHECKING:
    from tracelens.patch.deferral.planning import StatementRun

_NO_WAIT = frozenset({"", "choice", "elapsed"})
_BY_HAND = say("time N batches as a whole, and read their values before the clock")
_ENDS = (cst.Return, cst.Raise)
"""Before them the rest is read, as behind the loop: it is of fewer batches than are read together."""


@dataclass(frozen=True)
class ReadPlace:
    """What waits is read above `statement`. `shows`: what it is read for.

    `tests`: conditions that hold then, all of them; none: always. `before`: those that hold in the batch before, in
    which it is read as well, so that the wait in the time of a batch that is shown is its own.
    """

    statement: cst.CSTNode
    shows: cst.CSTNode
    tests: tuple[str, ...] = ()
    before: tuple[str, ...] = ()

    @property
    def test(self) -> str:
        """The condition as one; empty: always."""
        both = [one for one in self.tests if one in self.before]
        ways = (" and ".join(one for one in tests if one not in both) for tests in (self.tests, self.before))
        either = " or ".join(filter(None, ways))
        return " and ".join([*both, f"({either})"] if both and either else both or [either])


@dataclass(frozen=True)
class ReadPlaces:
    """`shown`: where it is read for the lines that show the results.

    `clock`: the statement that reads the clock next, above which N batches are read together; None where that may be
    done at the end of the batch. `measured`: the wait is a part of what the loop measures, so that not all of it may
    come after the loop.
    """

    shown: tuple[ReadPlace, ...]
    clock: cst.CSTNode | None = None
    measured: bool = False
    single: bool = False
    """Each batch takes a time of its own, so that one of them has the wait of all that is read then."""
    behind: tuple[ReadPlace, ...] = ()
    """Where results are shown of which some stand behind the clock above which the others are read: these run there."""


def once(facts: LoopFacts, places: Sequence[ReadPlace], runs: Sequence[StatementRun]) -> tuple[ReadPlace, ...]:
    """Without places of a block where nothing waits any more: all was read above, and nothing was kept since."""
    source, kept = facts.source, [facts.source.span(one)[0] for run in runs for one in run.statements]
    read_at: dict[cst.CSTNode | None, int] = {}
    out = []
    for place in sorted(dict.fromkeys(places), key=lambda place: source.span(place.statement)[0]):
        block, start = source.parent(place.statement), source.span(place.statement)[0]
        last = read_at.get(block)
        if last is not None and not any(last <= at < start for at in kept):
            continue
        out.append(place)
        if not place.test:
            read_at[block] = start
    return tuple(out)


def read_places(facts: LoopFacts, runs: Sequence[StatementRun], drains: Sequence[cst.CSTNode]) -> ReadPlaces:
    """The places for what `runs` keep, of which all has run before each of `drains`. Raises `Blocked`."""
    plain = ReadPlaces(tuple(ReadPlace(node, node) for node in drains))
    waits = [run for run in runs if any(_waits(facts, one) for one in run.captures)]
    clocks = clock_spans(facts.source, facts.loop)
    if facts.spans or not waits or not clocks.reads:
        return plain
    first = _next_clock(clocks, waits)
    places = tuple(_places(facts, waits))
    measured = any(map(clocks.measures, places))
    showing = _showing(facts, clocks, places)
    if first is None:
        above = () if measured else tuple(_above_first_clock(facts, clocks, drains))
        return replace(plain, shown=(*above, *plain.shown), measured=measured, single=measured)
    single = not facts.in_rare_branch(first)
    shown = [_place(facts, clocks, first, one) for one in (*drains, *showing)]
    if single:
        shown = [_with_batch_before(facts, place) for place in shown]
        _check_single(clocks, shown, places[0])
    clock = _top(facts, first, waits[-1].statements[-1])
    passed = (place.shows for place in shown[: len(drains)] if _is_passed(facts, runs, place))
    behind = tuple(ReadPlace(node, node) for node in passed)
    return ReadPlaces(tuple(_without_parts(shown)), clock, measured, single, behind)


def _is_passed(facts: LoopFacts, runs: Sequence[StatementRun], place: ReadPlace) -> bool:
    """Whether something that runs later stands between a place and what it reads for, so that it is not read there."""
    first, last = (facts.source.span(node)[0] for node in (place.statement, place.shows))
    return any(first <= facts.source.span(one)[0] < last for run in runs for one in run.statements)


def _above_first_clock(facts: LoopFacts, clocks: ClockSpans, drains: Sequence[cst.CSTNode]) -> Iterator[ReadPlace]:
    """Where the batches before one that shows a time of its own are read: above its first clock, since what it waits
    for within its times, such as a copy that blocks, would be all of them. Where nobody knows there that the batch will
    be shown, the hunk says what it may change."""
    for drain in drains:
        if clocks.shows_any_single(drain):
            with contextlib.suppress(Blocked):
                place = _place(facts, clocks, clocks.reads[0], drain)
                if place.statement is not drain and place.tests:
                    yield place


def _check_single(clocks: ClockSpans, shown: Sequence[ReadPlace], place: int) -> None:
    """Raise `Blocked` where the time of one batch is shown, and the wait for those before it would be a part of it."""
    alone = (one.shows for one in shown if not one.before)
    told = next((node for node in alone if clocks.shows_single(node, place)), None)
    if told is not None:
        line = clocks.facts.source.line(told)
        why = say("line {line} shows the time of one batch, which would hold the wait for several", line=line)
        raise Blocked(told, why, _BY_HAND)


def _without_parts(shown: Sequence[ReadPlace]) -> Iterator[ReadPlace]:
    """Each place once, without those of which another condition at the same statement is a part."""
    for place in dict.fromkeys(shown):
        others = (one for one in shown if one.statement is place.statement and one.test != place.test)
        if not any(set(one.tests) <= set(place.tests) for one in others):
            yield place


def _showing(facts: LoopFacts, clocks: ClockSpans, places: Sequence[int]) -> list[cst.CSTNode]:
    """The lines that show durations with the wait in them. Raises `Blocked` where each batch has such a line."""
    often = next((one for one in map(clocks.shown_in_each_batch, places) if one is not None), None)
    if often is not None:
        line = facts.source.line(often)
        told = say("line {line} shows a duration of each batch, and the wait for the value is a part of it", line=line)
        raise Blocked(often, told, _BY_HAND)
    kept = next((one for one in map(clocks.kept_of_each_batch, places) if one is not None), None)
    if kept is not None:
        line = facts.source.line(kept)
        told = say("line {line} keeps the time of each batch, and the wait for the value is a part of it", line=line)
        raise Blocked(kept, told, _BY_HAND)
    found = dict.fromkeys(one for place in places for one in clocks.showing(place))
    lines = (facts.source.parent(one) for one in found)
    return [line for line in lines if isinstance(line, cst.SimpleStatementLine)]


def _waits(facts: LoopFacts, capture: Capture) -> bool:
    if capture.read in ("number", "formatted"):
        value = capture.value
        return value_types.is_tensor(value, facts) or is_tensor(value, tensor_names(facts.source))
    return capture.read not in _NO_WAIT


def _places(facts: LoopFacts, runs: Sequence[StatementRun]) -> Iterator[int]:
    """Where the reads stand, in characters of the file."""
    captures = (one for run in runs for one in run.captures if _waits(facts, one))
    yield from (facts.source.span(node)[0] for one in captures for node in one.nodes or (one.value,))


def _next_clock(clocks: ClockSpans, runs: Sequence[StatementRun]) -> cst.Call | None:
    """The clock that is read next behind all reads in their batch. Raises `Blocked` where that is not the same one."""
    facts = clocks.facts
    places = sorted(_places(facts, runs))
    end = max(facts.source.span(run.statements[-1])[1] for run in runs)
    between = [one for one in clocks.reads if places[0] < clocks.start(one) < end]
    told = next((one for one in between if not clocks.waits_itself(one, places[-1])), None)
    if told is not None:
        line = facts.source.line(told)
        raise Blocked(
            told,
            say("the clock is read in line {line}, behind the value and before it could be read", line=line),
            _BY_HAND,
        )
    behind = (one for one in clocks.reads if clocks.start(one) >= end)
    return next((one for one in behind if not clocks.waits_itself(one, places[-1])), None)


def _place(facts: LoopFacts, clocks: ClockSpans, clock: cst.Call, drain: cst.CSTNode) -> ReadPlace:
    """Where what waits is read for a drain: above it, or above the statement that reads the clock before it."""
    start = facts.source.span(drain)[0]
    if start <= clocks.start(clock) or any(isinstance(part, _ENDS) for part in walk(drain)):
        return ReadPlace(drain, drain)
    statement = _top(facts, clock, drain)
    tests = list(_tests(facts, drain, statement))
    parts = [part for test in tests for part in _conjuncts(test)]
    known = [part for part in parts if _is_known(facts, part, statement, drain)]
    if tests and not known and not facts.in_rare_branch(statement):
        line = facts.source.line(drain)
        told = say("line {line} shows the results, and whether it is due is known only behind the clock", line=line)
        raise Blocked(drain, told, _BY_HAND)
    texts = map(facts.source.code, known)
    return ReadPlace(statement, drain, tuple(f"({text})" if "\n" in text else text for text in texts))


def _with_batch_before(facts: LoopFacts, place: ReadPlace) -> ReadPlace:
    """The same, read in the batch before as well, where the loop's own count of its batches tells which that is."""
    loop = facts.loop
    number = own_number(loop, loop.iter) if isinstance(loop, cst.For) else None
    if number is None or not place.tests:
        return place
    before = tuple(_in_next_batch(test, number.name) for test in place.tests)
    return replace(place, before=before) if before != place.tests else place


def _in_next_batch(test: str, name: str) -> str:
    """A condition as it will be in the next batch: `(i + 1) % 10 == 0` of `i % 10 == 0`."""
    changed = cst.parse_expression(test).visit(_NextNumber(name))
    return cst.Module([]).code_for_node(changed) if isinstance(changed, cst.CSTNode) else test


class _NextNumber(cst.CSTTransformer):
    """Puts the number of the next batch in the place of that of a batch."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.BaseExpression:  # noqa: N802
        return cst.parse_expression(f"({self._name} + 1)") if original_node.value == self._name else updated_node

    def leave_BinaryOperation(  # noqa: N802 - LibCST's name
        self, original_node: cst.BinaryOperation, updated_node: cst.BinaryOperation
    ) -> cst.BaseExpression:
        left, right = original_node.left, original_node.right
        adds = isinstance(original_node.operator, cst.Add) and isinstance(left, cst.Name) and left.value == self._name
        if not adds or not isinstance(right, cst.Integer):
            return updated_node
        return original_node.with_changes(right=cst.Integer(str(right.evaluated_value + 1)))

    def leave_Attribute(  # noqa: N802 - LibCST's name
        self, original_node: cst.Attribute, updated_node: cst.Attribute
    ) -> cst.Attribute:
        return updated_node.with_changes(attr=original_node.attr)


def _top(facts: LoopFacts, clock: cst.CSTNode, other: cst.CSTNode) -> cst.CSTNode:
    """The statement that reads the clock, in the innermost block that has the other statement as well."""
    around = {id(node) for node in (other, *facts.source.ancestors(other))}
    current: cst.CSTNode = clock
    for above in facts.source.ancestors(clock):
        if id(above) in around and isinstance(above, (cst.IndentedBlock, cst.Module)):
            return current
        current = above
    return current


def _tests(facts: LoopFacts, drain: cst.CSTNode, statement: cst.CSTNode) -> Iterator[cst.BaseExpression]:
    """The conditions below which a drain stands, within the block of the statement; raises `Blocked` for others."""
    block = facts.source.parent(statement)
    below = drain
    for above in facts.source.ancestors(drain):
        if above is block:
            return
        if isinstance(above, cst.If):
            if above.body is not below:
                raise Blocked(
                    above, say("the results are shown where a condition does not hold, behind the clock"), _BY_HAND
                )
            yield above.test
        elif isinstance(above, (cst.For, cst.While, cst.Try, cst.TryStar)):
            raise Blocked(above, say("the results are shown within a block behind the clock"), _BY_HAND)
        below = above


def _conjuncts(test: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """The parts of `a and b`: what waits may also be read where only one of them holds."""
    if isinstance(test, cst.BooleanOperation) and isinstance(test.operator, cst.And):
        yield from _conjuncts(test.left)
        yield from _conjuncts(test.right)
    else:
        yield test


def _is_known(facts: LoopFacts, test: cst.BaseExpression, begin: cst.CSTNode, end: cst.CSTNode) -> bool:
    """Whether a condition has its value already above `begin`: nothing before `end` changes what it is about."""
    calls = (part for part in walk(test) if isinstance(part, cst.Call))
    binds = any(isinstance(part, (cst.NamedExpr, cst.Await)) for part in walk(test))
    if binds or not all(is_pure(facts.names.qualified(call.func)) for call in calls):
        return False
    source, asked = facts.source, touched(test, facts.names)
    first, last = source.span(begin)[0], source.span(end)[0]
    between = [leaf for leaf in facts.leaves if first <= source.span(leaf)[0] < last]
    changed = (written(leaf, facts.names) | facts.behind(leaf).changed for leaf in between)
    return not any(meets(asked, one) for one in changed)
