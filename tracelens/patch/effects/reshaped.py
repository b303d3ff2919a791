"""Which tensors may get another shape or type and stay the same objects: `x.unsqueeze_(0)`, `x.data = y`, `out=x`.

In: an analysis, and the bindings that it has found. Out: yes and no of an object. What is not told apart from others
counts as one: where one of such tensors is changed so, each of them may be.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cached_property, lru_cache

from tracelens.messages import say
from tracelens.patch.effects.analysis import Analysis
from tracelens.patch.effects.bindings import Bindings
from tracelens.patch.effects.kind import RESHAPE
from tracelens.patch.effects.memory import ANY_DATA
from tracelens.patch.effects.names import code_of
from tracelens.patch.effects.objects import Activation, Container, Module, Name, Object, Plain, Unknown, is_thing
from tracelens.patch.effects.places import KEPT_TREES
from tracelens.patch.effects.scopes import Code, nodes_of

_BY_TEXT = re.compile(rf"[\"']({'|'.join(sorted(RESHAPE))})[\"']|swap_tensors")
"""What a project says that looks a method up by its name, or exchanges what two tensors are."""
_OUT = "['out']"
"""What a dict has under that key."""


class Reshaped:
    """Asks one analysis."""

    def __init__(self, analysis: Analysis, bindings: Bindings) -> None:
        self.analysis = analysis
        self.memory = analysis.memory
        self._bindings = bindings

    def may_be(self, objects: Iterable[Object]) -> bool:
        """Whether what a variable stands for may be a tensor that is changed so."""
        found = self._found
        if not found:
            return False
        every = [one for one in objects if not isinstance(one, Plain)]
        hidden = any(isinstance(one, Unknown) for one in (*every, *found))
        for some, others in ((found, every), (every, found)):
            if ANY_DATA in some and any(is_thing(one, "data") for one in others):
                return True
        return hidden or not found.isdisjoint(every)

    @cached_property
    def _found(self) -> frozenset[Object]:
        """The objects that are changed so; an unknown one where it can be any."""
        if any(_BY_TEXT.search(one.file.text) for one in self.memory.objects(Module)):
            return self.memory.unknown(say("a tensor that is changed by a name"))
        units = [one for one in self.memory.summaries if isinstance(one, (Module, Activation))]
        changed = {one for unit in units for node in _owners(code_of(unit)) for one in self._told(unit, node)}
        changed |= {one for unit in units for node in _words(code_of(unit)) for one in self._handed(unit, node)}
        return frozenset(changed).union(self._bindings.replaced("data"))

    def _told(self, unit: Module | Activation, node: ast.expr) -> Iterator[Object]:
        """What such a mention is about: a method that torch itself has takes any tensor (`torch.Tensor.t_`)."""
        for one in self.analysis.value(unit, node) or self.memory.unknown(say("a tensor that nobody can tell")):
            if isinstance(one, Name):
                yield from self.memory.unknown(say("what is handed to a method of `{name}`", name=one.full))
            yield from self.memory.reach([one], through_unknown=False) if isinstance(one, Container) else [one]

    def _handed(self, unit: Module | Activation, node: ast.expr) -> Iterator[Object]:
        """What a function of torch is handed as `out` by `**words`."""
        for one in self.analysis.value(unit, node):
            yield from self.memory.content(one, _OUT)


@lru_cache(maxsize=KEPT_TREES)
def _words(code: Code) -> tuple[ast.expr, ...]:
    """What is handed over as `**words`."""
    calls = (one for one in nodes_of(code) if isinstance(one, ast.Call))
    return tuple(word.value for one in calls for word in one.keywords if word.arg is None)


@lru_cache(maxsize=KEPT_TREES)
def _owners(code: Code) -> tuple[ast.expr, ...]:
    """The expressions whose value is changed so."""
    return tuple(owner for node in nodes_of(code) for owner in _changed(node))


def _changed(node: ast.AST) -> Iterator[ast.expr]:
    if isinstance(node, ast.Attribute) and node.attr in RESHAPE:
        yield node.value
    elif isinstance(node, ast.Call):
        yield from (one.value for one in node.keywords if one.arg == "out")
