"""Values that a line shows and that are numbers already, by the text: whoever made them has waited, or nobody had to.

In: the reads of a plan. Out: whether none of them waits: then nothing is gained when they run later. What is formatted
is taken for a tensor otherwise (`f"{loss:.2f}"`), since its text does not say.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from tracelens.patch.code import formats
from tracelens.patch.code.names import dotted
from tracelens.patch.deferral import value_types
from tracelens.patch.effects.file_text import SETTINGS
from tracelens.patch.loop.facts import LoopFacts, is_pure
from tracelens.patch.loop.loops import own_nodes
from tracelens.patch.loop.sites import Site, read_of
from tracelens.patch.recipes.called_functions import called_function

MOST_STEPS = 6
"""Names and calls that are followed from one value; a longer way is not known."""


def waits_for_nothing(facts: LoopFacts, site: Site) -> bool:
    """Whether a place only shows numbers."""
    read = read_of(site.node)
    if read is not None:
        return read.kind == "number" and _Known(facts).is_number(read.tensor)
    if isinstance(site.node, cst.FormattedStringExpression):
        return _Known(facts).is_number(site.node.expression)
    shown = [value for value, _ in formats.values(site.node, formats.templates(site.source))]
    return bool(shown) and all(map(_Known(facts).is_number, shown))


@dataclass(frozen=True)
class _Known:
    facts: LoopFacts
    steps: int = MOST_STEPS

    def is_number(self, node: cst.BaseExpression) -> bool:
        read = read_of(node)
        if read is not None or isinstance(node, (cst.BaseNumber, cst.BaseString)):
            return read is None or read.kind != "number"
        if isinstance(node, (cst.BinaryOperation, cst.UnaryOperation)):
            parts = [node.left, node.right] if isinstance(node, cst.BinaryOperation) else [node.expression]
            return all(map(self.is_number, parts))
        if isinstance(node, cst.Name):
            return node.value in self.facts.numbers or self._all(value_types.values_of(node.value, self.facts))
        if isinstance(node, (cst.Attribute, cst.Subscript)):
            return _is_setting(node) or (isinstance(node, cst.Subscript) and self._all(self._elements(node)))
        return isinstance(node, cst.Call) and self._is_result(node)

    def _all(self, values: Iterator[cst.BaseExpression | None]) -> bool:
        further = _Known(self.facts, self.steps - 1)
        found = list(values)
        return self.steps > 0 and bool(found) and all(one is not None and further.is_number(one) for one in found)

    def _is_result(self, call: cst.Call) -> bool:
        return is_pure(self.facts.names.qualified(call.func)) and all(self.is_number(one.value) for one in call.args)

    def _elements(self, node: cst.Subscript) -> Iterator[cst.BaseExpression | None]:
        """What `result["loss"]` may be, of a function that returns a dict in its text."""
        index = node.slice[0].slice
        asked = index.value if isinstance(index, cst.Index) and isinstance(index.value, cst.SimpleString) else None
        results = value_types.values_of(node.value.value, self.facts) if isinstance(node.value, cst.Name) else ()
        for value in results:
            called = called_function(self.facts.source, value) if isinstance(value, cst.Call) else None
            for given in _returned(called.function) if called is not None else [None]:
                yield _element(given, asked.evaluated_value) if asked is not None else None


def _is_setting(node: cst.BaseExpression) -> bool:
    """`self.config["lambda"]["kl"]`, `args.rate`: of what a script is told, nothing is computed on a GPU."""
    while isinstance(node, cst.Subscript):
        node = node.value
    return not SETTINGS.isdisjoint(dotted(node).split("."))


def _returned(function: cst.FunctionDef) -> Iterator[cst.BaseExpression | None]:
    """What a function returns, or what the name was given that it returns."""
    made = [part for part in own_nodes(function) if isinstance(part, cst.Assign)]
    for part in own_nodes(function):
        if not isinstance(part, cst.Return):
            continue
        value = part.value
        named = [
            one.value for one in made if isinstance(value, cst.Name) and dotted(one.targets[0].target) == value.value
        ]
        yield named[0] if len(named) == 1 else value


def _element(value: cst.BaseExpression | None, key: object) -> cst.BaseExpression | None:
    """The part of a dict display, where it is a read of its own."""
    for one in value.elements if isinstance(value, cst.Dict) else ():
        if (
            isinstance(one, cst.DictElement)
            and isinstance(one.key, cst.SimpleString)
            and one.key.evaluated_value == key
        ):
            return one.value if read_of(one.value) is not None else None
    return None
