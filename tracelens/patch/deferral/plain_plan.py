"""Which plans need no helper: their values wait in a list of detached tensors, which is read value by value.

In: a `Deferral`. Out: a `PlainPlan`, or None where the runtime has to look at values, or at how the loop is left, while
the script runs. Nothing wraps the loop's iterator here, so what waits when an exception leaves the loop is gone:
`lost` says whether anybody could miss it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import libcst as cst

from tracelens.messages import say
from tracelens.patch.code.names import walk, written
from tracelens.patch.code.outside import FILES, OUTPUT
from tracelens.patch.deferral import bar_texts, joined_runs, long_loops, shared_arrays, value_types
from tracelens.patch.deferral.arrays import may_be_array
from tracelens.patch.deferral.captures import Capture, is_rate
from tracelens.patch.deferral.function import DeferredFunction
from tracelens.patch.deferral.planning import Deferral, StatementRun
from tracelens.patch.deferral.proof import judged
from tracelens.patch.effects.words import words
from tracelens.patch.loop import bars, stream_order
from tracelens.patch.loop.facts import LoopFacts

_RAISES = say("it may raise, some batches later than it does now")
"""What the effects say of a check that would wait: it may do so for some batches, and not till the loop ends."""
_OF_TENSORS = words("item tolist")
"""Kinds of reads that a number does not have."""
_JUMPS = (cst.Break, cst.Continue, cst.Return, cst.Raise)


@dataclass(frozen=True)
class PlainPlan:
    """A deferral whose statements run later from lists. `lost` are keys of which an exception would lose values."""

    deferral: Deferral
    runs: tuple[StatementRun, ...]
    """One for each list: the statements of a loop are together, at the place of the last of them, where they can be."""
    lost: frozenset[str]
    texts: bool = False
    """Nothing waits: the text of a bar is set in fewer batches, of what these have."""

    @property
    def rates(self) -> tuple[str, ...]:
        """Learning rates that are kept, and taken for numbers."""
        return self._told(lambda one, facts: not (one.read or self._counts(one)) and is_rate(one.value, facts))

    @property
    def numbers(self) -> tuple[str, ...]:
        """Other values that are kept as they are, and taken for numbers or texts."""
        return self._told(lambda one, facts: not (one.read or self._counts(one) or is_rate(one.value, facts)))

    @property
    def whole(self) -> tuple[str, ...]:
        """Tensors that are kept with all their elements. Nobody knows how many there are; who makes a list of Python's
        numbers of them does not expect many, but whoever keeps an array may."""
        return self._told(
            lambda one, facts: one.read == "tolist" and not value_types.has_no_dimensions(one.value, facts)
        )

    @property
    def assumed(self) -> tuple[str, ...]:
        """Values that are taken for tensors because of their `item()`, which arrays have, too."""
        return self._told(lambda one, facts: bool(one.read) and not value_types.is_tensor(one.value, facts))

    @property
    def unchanged(self) -> tuple[str, ...]:
        """Of these, values of which one copy serves for reads on both sides of a training step."""
        return self._told(lambda one, _: one.likely)

    def _counts(self, capture: Capture) -> bool:
        return _is_number(capture, self.deferral)

    def _told(self, asked: Callable[[Capture, LoopFacts], bool]) -> tuple[str, ...]:
        if self.texts:
            return ()
        facts = self.deferral.facts
        captures = (capture for run in self.runs for capture in _captures(run))
        return tuple(dict.fromkeys(facts.source.code(one.value) for one in captures if asked(one, facts)))

    @property
    def proved(self) -> bool:
        """Whether nobody can tell the loop from the original."""
        return not any((self.texts, self.lost, self.rates, self.numbers, self.assumed, self.unchanged, self.whole))

    @property
    def below_conditions(self) -> bool:
        """Whether some of the lists do not grow in each batch, so that N of their values are more than N batches."""
        source, loop = self.deferral.facts.source, self.deferral.facts.loop
        above = (
            itertools.takewhile(lambda one: one is not loop, source.ancestors(run.statements[0])) for run in self.runs
        )
        return any(isinstance(one, (cst.If, cst.Try, cst.Match)) for ancestors in above for one in ancestors)

    @property
    def reads_every_n(self) -> bool:
        """Whether the lists are read every N batches; else where the script shows the results, or after the loop."""
        facts = self.deferral.facts
        moved = (statement for run in self.runs for statement in run.statements)
        if (
            self.lost
            or self.whole
            or self.deferral.bar is not None
            or any(reason.text == _RAISES for reason in judged(self.deferral).reasons)
            or any(bars.moves_bar(facts, statement) for statement in moved)
        ):
            return True
        places = self.deferral.places
        if any(_in_every_kth(facts, place.shows) for place in places.shown):
            return False
        if places.measured:
            return True
        return long_loops.may_be_endless(facts)


def plain_plan(deferral: Deferral) -> PlainPlan | None:
    """The plan without a helper, where one is enough."""
    facts = deferral.facts
    special = deferral.looks is not None or bool(facts.guards) or bool(facts.spans) or facts.loop.orelse is not None
    special = special or bool(stream_order.own(facts)) or not bar_texts.fits(deferral) or bool(deferral.places.behind)
    of_torch = any(full.partition(".")[0] == "torch" for full in facts.names.imports.values())
    if special or not of_torch or _may_be_caught(facts, deferral):
        return None
    statements = [statement for run in deferral.runs for statement in run.statements]
    if any(isinstance(node, cst.BaseSmallStatement) for node in (*statements, *deferral.drains)):
        return None  # within a line
    if bar_texts.is_text_alone(deferral):
        return PlainPlan(deferral, deferral.runs, frozenset(), texts=True)
    plan = _with_lists(deferral, likely=False)
    if plan is not None and (deferral.unproved or not plan.proved):  # then this is told, too
        plan = _with_lists(deferral, likely=True)
    return None if plan is None or any(_used_outside(facts, name) for name in unbound_names(plan)) else plan


def _with_lists(deferral: Deferral, likely: bool) -> PlainPlan | None:
    runs = joined_runs.lists(deferral, likely)
    kept = [run for run in runs if run is not None and all(_fits(deferral, capture) for capture in _captures(run))]
    read = all(any(capture.read for capture in run.captures) for run in kept)
    if len(kept) < len(runs) or not read:
        return None
    return PlainPlan(deferral, tuple(kept), _lost(deferral))


def _captures(run: StatementRun) -> Iterator[Capture]:
    return (capture for place in run.places for capture in place.captures)


def unbound_names(plan: PlainPlan) -> frozenset[str]:
    """Names that nothing in the loop's function binds any more once the statements are in a function of their own."""
    facts = plan.deferral.facts
    places = (place for run in plan.runs for place in run.places)
    gone = frozenset(node for place in places for statement in place.statements for node in walk(statement))
    return frozenset(name for run in plan.runs for name in DeferredFunction(facts, run, "", "").unbound(gone))


def _used_outside(facts: LoopFacts, name: str) -> bool:
    """Whether a name is mentioned outside of the loop, where it is not bound if the loop has made no pass."""
    inside = sum(isinstance(part, cst.Name) and part.value == name for part in walk(facts.loop))
    return sum(isinstance(part, cst.Name) and part.value == name for part in walk(facts.scope)) > inside


def _may_be_caught(facts: LoopFacts, deferral: Deferral) -> bool:
    """Whether an exception in the loop may be caught in its own function, where the results can be seen."""
    places = [facts.loop, *deferral.drains, *(run.statements[0] for run in deferral.runs)]
    around = {ancestor for place in places for ancestor in _in_function(facts, place)}
    suppressing = (n for n in around if isinstance(n, cst.With) and "suppress" in facts.source.code(n.items[0]))
    return any(isinstance(node, (cst.Try, cst.TryStar)) for node in around) or any(True for _ in suppressing)


def _in_function(facts: LoopFacts, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    for ancestor in facts.source.ancestors(node):
        if ancestor is facts.scope:
            return
        yield ancestor


def _in_every_kth(facts: LoopFacts, node: cst.CSTNode) -> bool:
    """Whether a statement stands below `if step % k == 0`, and below no other condition."""
    tests: list[cst.BaseExpression] = []
    for ancestor in facts.source.ancestors(node):
        if ancestor is facts.loop:
            break
        if isinstance(ancestor, cst.If):
            tests.append(ancestor.test)
    return len(tests) == 1 and any(isinstance(part, cst.Modulo) for part in walk(tests[0]))


def _fits(deferral: Deferral, capture: Capture) -> bool:
    """Whether a value can wait in a list as it is: a tensor of one number, a number, or what may be one."""
    facts = deferral.facts
    if not capture.read:
        return _is_number(capture, deferral) or is_rate(capture.value, facts) or _may_be_number(capture.value, facts)
    value, once = capture.value, len(capture.nodes) == 1
    read = capture.read in _OF_TENSORS and (value_types.went_back(value, facts) or not may_be_array(value, facts))
    tensor = value_types.is_tensor(value, facts) or read
    known = {
        "item": True,
        "number": value_types.is_real(value, facts),  # of a complex number `float(…)` makes another error
        "formatted": value_types.has_no_dimensions(value, facts),  # the text of a vector is more than its number
        "numpy": once  # each array is its own
        and value_types.has_no_dimensions(value, facts)
        and shared_arrays.stays(facts, value, capture.nodes),
        "tolist": once,  # and each list
    }
    return known.get(capture.read, False) and tensor


def _is_number(capture: Capture, deferral: Deferral) -> bool:
    """Whether a value is a number for certain: by what is known of it, or as the count of the batches of a bar."""
    facts, bar = deferral.facts, deferral.bar
    number = bars.number_of(facts, bar) if bar is not None else None
    own = number is not None and not number.splices and facts.source.code(capture.value) == number.name
    return own or value_types.is_number(capture.value, facts)


def _may_be_number(value: cst.BaseExpression, facts: LoopFacts) -> bool:
    """Whether a value is made by a call or a part of an object, and nothing says that it can be changed in place."""
    if isinstance(value, cst.Name):
        known = list(value_types.values_of(value.value, facts))
        changed = value.value in facts.mutated | facts.tensors
        return bool(known) and not changed and all(one is not None and _may_be_number(one, facts) for one in known)
    if value_types.is_number(value, facts) or joined_runs.is_size(value):
        return True
    made = isinstance(value, (cst.Call, cst.Attribute, cst.BinaryOperation))
    return made and not value_types.is_tensor(value, facts)


# ------------------------------------------------------------------------- what an exception would lose


def _lost(deferral: Deferral) -> frozenset[str]:
    """Results that somebody can look at after an exception has left the loop, or after the process has ended."""
    lines = deferral.state & {OUTPUT, FILES}
    statements = [statement for run in deferral.runs for statement in run.statements]
    seen = judged(deferral).seen_after_exceptions
    if seen == "lines" or any(bars.moves_bar(deferral.facts, statement) for statement in statements):
        lines |= {OUTPUT}  # what a bar showed last stays on the screen
    if seen != "results":
        return lines
    moved = [part for statement in statements for part in walk(statement)]
    leaves = [part for part in moved if isinstance(part, cst.BaseSmallStatement)]
    names = {name for leaf in leaves for name in written(leaf, deferral.facts.names)}
    return lines | (names or {OUTPUT})  # a function of the project may keep them anywhere
