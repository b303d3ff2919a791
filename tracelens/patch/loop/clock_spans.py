"""Spans of time that a loop measures: which clock reads begin or end one, and which spans are shown in each batch.

In: the facts of a loop. Out: the clock reads that measure, in the order of the text, and which statements show a span
that has a place of the loop within it. By the text of the loop: a moment that is only printed measures nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import libcst as cst

from tracelens.patch.code.names import (
    KEPT_WALKS,
    assigned,
    dotted,
    is_output,
    key,
    method_of,
    rebound,
    root_key,
    targets,
    variables,
    walk,
)
from tracelens.patch.code.source import SourceFile
from tracelens.patch.loop import moments
from tracelens.patch.loop.facts import LoopFacts, facts_of, is_pure
from tracelens.patch.loop.loops import REMEMBERED, Loop, clock_reads
from tracelens.patch.loop.timing import synchronize_before

_SHOWS = re.compile(
    r"add_(scalars?|text)|set_(postfix|description)(_str)?|report_scalar|log(_\w+)?|write|display|track"
)
"""Methods that show a value to people: of bars, trackers, event files."""
_OF_CLOCKS = ("time.", "datetime.")


@dataclass(frozen=True)
class ClockSpans:
    """The spans of one loop. Positions are characters of the file."""

    facts: LoopFacts

    @cached_property
    def reads(self) -> tuple[cst.Call, ...]:
        """The calls that read a clock for a span, themselves or in a function or object of the file."""
        direct = {id(read): read for read in clock_reads(self.facts.loop, self.facts.names)}
        calls = [part for part in walk(self.facts.loop.body) if isinstance(part, cst.Call)]
        found = (call for call in calls if (self._measures(call) if id(call) in direct else self._of_object(call)))
        return tuple(sorted(found, key=self.start))

    def start(self, node: cst.CSTNode) -> int:
        return self.facts.source.span(node)[0]

    def measures(self, place: int) -> bool:
        """Whether a place of the loop is within any span that the loop measures, for all that is known."""
        reads = {id(read) for read in self.reads}
        parts = [part for part in walk(self.facts.loop.body) if isinstance(part, cst.BinaryOperation)]
        spans = (part for part in parts if isinstance(part.operator, cst.Subtract))
        return any(map(self._is_timer, self.reads)) or any(self._has_within(span, place, reads) for span in spans)

    def showing(self, place: int) -> Iterator[cst.Expr]:
        """The statements that show a duration which `place` is a part of."""
        tainted = self._durations(place)
        for leaf in self.facts.leaves:
            call = leaf.value if isinstance(leaf, cst.Expr) else None
            shown = call.args if isinstance(call, cst.Call) and self._shows(call) else ()
            if isinstance(leaf, cst.Expr) and any(self._is_duration(one, place, tainted) for one in shown):
                yield leaf

    def shown_in_each_batch(self, place: int) -> cst.CSTNode | None:
        """The first statement of every batch that shows such a duration."""
        return next((leaf for leaf in self.showing(place) if not self.facts.in_rare_branch(leaf)), None)

    def kept_of_each_batch(self, place: int) -> cst.CSTNode | None:
        """The first statement of every batch that puts such a duration into a list: each can be looked at by itself."""
        tainted = self._durations(place)
        for leaf in self.facts.leaves:
            call = leaf.value if isinstance(leaf, cst.Expr) else None
            method = method_of(call)
            kept = call.args if isinstance(call, cst.Call) and method == "append" else ()
            if any(self._is_duration(one, place, tainted) for one in kept) and not self.facts.in_rare_branch(leaf):
                return leaf
        return None

    def shows_single(self, leaf: cst.CSTNode, place: int) -> bool:
        """Whether a statement shows the time of one batch: a span that begins anew in each, or `meter.val`."""
        often = [one for one in self.facts.leaves if not self.facts.in_rare_branch(one)]
        fresh = {name for one in often for target, _ in assigned(one) if (name := root_key(target)) in self._moments}
        spans = ((target, value) for one in often for target, value in assigned(one) if _subtracts(value, fresh))
        single = {name for target, value in spans if (name := root_key(target)) not in {None, *_names(value)}}
        parts, timed = list(walk(leaf)), self._durations(place)
        last = (part for part in parts if isinstance(part, cst.Attribute) and part.attr.value == "val")
        named = any(isinstance(part, cst.Name) and part.value in single for part in parts)
        return named or any(root_key(part) in timed for part in last)

    def shows_any_single(self, leaf: cst.CSTNode) -> bool:
        """The same of any span, whatever is within it."""
        return any(self.shows_single(leaf, self.start(read) - 1) for read in self.reads)

    def loses(self, place: int, later: Iterable[int]) -> bool:
        """Whether a wait that goes from `place` to others, in few batches, changes a time that the loop measures."""
        _, last = self.facts.source.span(self.facts.loop)
        clocks = [self.start(read) for read in self.reads]
        if not clocks or not self.measures(place):
            return False
        passed = (not place <= one < last or any(place < clock < one for clock in clocks) for one in later)
        return self.shown_in_each_batch(place) is not None or any(passed)

    def waits_itself(self, read: cst.Call, place: int) -> bool:
        """Whether the GPU is done when a clock is read: it shows the same whoever waited before."""
        before = synchronize_before(self.facts, read)
        return before is not None and self.start(before) > place

    # ---------------------------------------------------------------------------------------- which reads measure

    def _of_object(self, call: cst.Call) -> bool:
        return not is_output(call, self.facts.names) and moments.may_look(call, self.facts)

    def _measures(self, read: cst.Call) -> bool:
        """Whether a moment is subtracted, kept for that, or handed to somebody who may do so."""
        source, names = self.facts.source, self.facts.names
        inner: cst.CSTNode = read
        for around in source.ancestors(read):
            if isinstance(around, cst.BinaryOperation) and isinstance(around.operator, cst.Subtract):
                other = around.right if inner is around.left else around.left
                if any(True for _ in variables(other)):
                    return True
            if isinstance(around, cst.Call) and inner is not around.func:
                full = names.qualified(around.func)
                if is_output(around, names):
                    return False
                if not is_pure(full) and not full.startswith(_OF_CLOCKS) and not full.endswith(".format"):
                    return True
            if isinstance(around, cst.BaseSmallStatement):
                bound = {root_key(target) for target in targets(around)}
                return bool(bound & _subtracted(source.module))
            inner = around
        return False

    # -------------------------------------------------------------------------------------------- what they measure

    @cached_property
    def _moments(self) -> Mapping[str, Sequence[int]]:
        """By name, where the loop reads the clock for the moment that the name stands for."""
        out: dict[str, list[int]] = {}
        reads = {id(read) for read in self.reads}
        for leaf in self.facts.leaves:
            if not isinstance(leaf, (cst.Assign, cst.AnnAssign)) or leaf.value is None:
                continue
            for target, value in assigned(leaf):
                name = root_key(target)
                told = [self.start(value)] if id(value) in reads else out.get(_name(value), [])
                if name is not None and told:
                    out.setdefault(name, []).extend(told)
        return out

    def _durations(self, place: int) -> frozenset[str]:
        """Names whose values are computed of a span with `place` in it."""
        out: set[str] = set()
        grown = True
        while grown:
            known = len(out)
            for leaf in self.facts.leaves:
                if isinstance(leaf, (cst.Assign, cst.AnnAssign, cst.AugAssign)) and leaf.value is not None:
                    if self._is_duration(leaf.value, place, out):
                        out |= {name for target in targets(leaf) if (name := root_key(target)) is not None}
                elif isinstance(leaf, cst.Expr) and isinstance(leaf.value, cst.Call):
                    out |= set(self._holder(leaf.value, place, out))
            grown = len(out) > known
        return frozenset(out)

    def _holder(self, call: cst.Call, place: int, known: set[str]) -> Iterator[str]:
        """The meter or list that is given a duration, or the timer that has taken one."""
        owner = call.func.value if isinstance(call.func, cst.Attribute) else None
        name = root_key(owner) if owner is not None else None
        if name is None or name in self.facts.names.imports or self._shows(call):
            return
        if any(self._is_duration(argument, place, known) for argument in call.args) or self._is_timer(call):
            yield name

    def _is_timer(self, call: cst.Call) -> bool:
        """Whether a call reads a clock behind its name: since when it measures is known to its object."""
        return any(call is read for read in self.reads) and not clock_read(call, self.facts)

    def _is_duration(self, node: cst.CSTNode, place: int, known: frozenset[str] | set[str]) -> bool:
        if any(key(variable) in known for variable in variables(node)):
            return True
        reads = {id(read) for read in self.reads}
        for part in walk(node):
            if isinstance(part, cst.BinaryOperation) and isinstance(part.operator, cst.Subtract):
                if self._has_within(part, place, reads):
                    return True
            elif isinstance(part, cst.Call) and self._is_timer(part):
                return True
        return False

    def _has_within(self, span: cst.BinaryOperation, place: int, reads: set[int]) -> bool:
        """Whether `stop - start` is a span with `place` in it; one that began before the loop has all in it."""
        own = [self.start(part) for part in walk(span.left) if id(part) in reads]
        named = [at for name in _names(span.left) for at in self._moments.get(name, ()) if at < self.start(span)]
        ends = own or named
        if not ends:
            return False
        end = max(ends)
        if any(self.start(read) == end and self.waits_itself(read, place) for read in self.reads):
            return False
        starts = [at for name in _names(span.right) for at in self._moments.get(name, ())]
        before = [at for at in starts if at < end]
        if before:
            return max(before) < place < end
        return not starts or place > max(starts) or place < end

    def _shows(self, call: cst.Call) -> bool:
        method = method_of(call)
        return is_output(call, self.facts.names) or bool(_SHOWS.fullmatch(method))


@lru_cache(maxsize=REMEMBERED)
def clock_spans(source: SourceFile, loop: Loop) -> ClockSpans:
    return ClockSpans(facts_of(source, loop))


def clock_read(call: cst.Call, facts: LoopFacts) -> bool:
    """Whether a call of the loop is one of a clock itself."""
    return any(call is read for read in clock_reads(facts.loop, facts.names))


def _subtracts(value: cst.BaseExpression, names: set[str | None]) -> bool:
    parts = (part for part in walk(value) if isinstance(part, cst.BinaryOperation))
    return any(isinstance(part.operator, cst.Subtract) and not names.isdisjoint(_names(part.right)) for part in parts)


def _name(node: cst.BaseExpression) -> str:
    return key(node) if isinstance(node, (cst.Name, cst.Attribute)) and dotted(node) else ""


def _names(node: cst.CSTNode) -> Iterator[str]:
    return (key(variable) for variable in variables(node))


@lru_cache(maxsize=KEPT_WALKS)
def _subtracted(module: cst.Module) -> frozenset[str]:
    """The names that a file subtracts from something, or something from."""
    out: set[str] = set()
    for part in walk(module):
        if isinstance(part, cst.BinaryOperation) and isinstance(part.operator, cst.Subtract):
            out |= set(_names(part))
        elif isinstance(part, cst.AugAssign) and isinstance(part.operator, cst.SubtractAssign):
            out |= {*_names(part.value), *rebound(part)}
    return frozenset(out)
