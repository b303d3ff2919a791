"""Whether a value lies on the same device in each batch, so that the values of several batches can be stacked.

In: an expression and the facts of its loop. Out: yes, or not known; what is not known is read value by value. A value
is on the device of what it is computed with: the same models, and data that nobody moves by a name that changes. Where
the project itself can name several GPUs, a model may do so inside, which no text of the loop tells.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

import libcst as cst

from tracelens.patch.code import devices
from tracelens.patch.code.names import method_of, rebound, root_key, targets, walk
from tracelens.patch.code.source import PARSED_FILES, SourceFile
from tracelens.patch.deferral import value_types
from tracelens.patch.effects.kind import OF_TENSORS
from tracelens.patch.effects.words import words
from tracelens.patch.loop.facts import LoopFacts

_MOVES = words("to cuda cpu xpu npu hpu")
_PROCESS = r"(?!(?:[\w.]*\.)?\w*(?:rank|gpu|gpu_id|device_id)\s*[})])"
"""One for each process: `rank`, `args.gpu`."""
_SEVERAL = re.compile(
    rf"""cuda:\{{{_PROCESS}|cuda:["']\s*[+%]|cuda:%|torch\.device\(\s*["']cuda["']\s*,\s*{_PROCESS}[^)\s]"""
    rf"""|\.cuda\(\s*{_PROCESS}(?!non_blocking|device\b|[\w.]*\.device\b|0\s*\))[^)\s]|(device|gpu)s\s*\[(?!\s*0\s*\])"""
    r"""|\.to\(\s*[\w.]+\s*\[|cuda:[1-9]|device_map|\bin\s+(enumerate\(\s*)?[\w.]*(devices|gpus)\b""",
    re.IGNORECASE,
)


def is_certain(value: cst.BaseExpression, facts: LoopFacts) -> bool:
    """Whether all values of the loop are certainly on one device."""
    if devices.only_cpu(facts.source):
        return True
    return not (_names_several(facts.source) or any(map(_moves_in_place, facts.leaves))) and _Chain(facts).holds(value)


def _moves_in_place(leaf: cst.CSTNode) -> bool:
    """Whether a statement moves a model: `model.cpu()`, whose result nobody takes."""
    return isinstance(leaf, cst.Expr) and method_of(leaf.value) in _MOVES


@lru_cache(maxsize=PARSED_FILES)
def _names_several(source: SourceFile) -> bool:
    return _SEVERAL.search(source.project_text) is not None or _SEVERAL.search(source.text) is not None


class _Chain:
    """What the loop computes a value with, name by name."""

    def __init__(self, facts: LoopFacts) -> None:
        self.facts = facts
        self.known: set[str] = set()
        loops = (one for one in (facts.loop, *walk(facts.loop.body)) if isinstance(one, cst.For))
        self.passed = {name.value for one in loops for name in targets(one) if isinstance(name, cst.Name)}

    def holds(self, value: cst.CSTNode) -> bool:
        """Whether the same device comes of an expression in each batch."""
        return all(self._keeps(part) for part in walk(value)) and all(
            self._follows(name) for name in sorted(_names(value)) if name in self.facts.varying
        )

    def _keeps(self, part: cst.CSTNode) -> bool:
        if isinstance(part, (cst.IfExp, cst.BooleanOperation)):
            return False
        if isinstance(part, cst.Subscript):
            return not self._varies(*part.slice) or self._is_data(part.value)
        if not isinstance(part, cst.Call):
            return True
        named = [one.value for one in part.args if one.keyword is not None and one.keyword.value == "device"]
        if method_of(part) in _MOVES:
            named = [one.value for one in part.args]
        chooses = any(value_types.is_number(one.value, self.facts) and self._varies(one) for one in part.args)
        chooses = chooses and method_of(part) not in OF_TENSORS
        return not chooses and not any(map(self._varies, named)) and not self._is_chosen(part.func)

    def _is_chosen(self, func: cst.BaseExpression) -> bool:
        """Whether what is called is another in each batch: `for model in models`, but not a method of a tensor."""
        if isinstance(func, cst.Attribute) and func.attr.value in OF_TENSORS | _MOVES | {"backward", "items", "get"}:
            return False
        return root_key(func) in self.passed or (isinstance(func, cst.Attribute) and self._is_chosen(func.value))

    def _is_data(self, owner: cst.BaseExpression) -> bool:
        """Whether a part of it is one of a tensor, or of what a batch brings."""
        return value_types.is_tensor(owner, self.facts) or root_key(owner) in self.passed

    def _varies(self, *nodes: cst.CSTNode) -> bool:
        return any(name in self.facts.varying for node in nodes for name in _names(node))

    def _follows(self, name: str) -> bool:
        """Whether all that the loop binds a name to has one device: in a branch only what is made as elsewhere."""
        if name in self.known:
            return True
        self.known.add(name)
        binding = [leaf for leaf in self.facts.leaves if name in rebound(leaf)]
        given = [one.value for one in binding if isinstance(one, (cst.Assign, cst.AugAssign, cst.AnnAssign))]
        values = [one for one in given if one is not None]
        others = [one for one in binding if not isinstance(one, (cst.Assign, cst.AugAssign, cst.AnnAssign, cst.For))]
        if others or not all(map(self.holds, values)):
            return False
        branches = [one for one in binding if self._in_branch(one)]
        return not branches or len({self._made_with(one) for one in binding}) == 1

    def _in_branch(self, leaf: cst.CSTNode) -> bool:
        around = self.facts.source.ancestors(leaf)
        within = iter(lambda: next(around), self.facts.loop)
        return any(isinstance(one, (cst.If, cst.Else, cst.Try, cst.While, cst.Match)) for one in within)

    def _made_with(self, leaf: cst.CSTNode) -> frozenset[str]:
        """What of outside of the loop a statement uses."""
        return frozenset(name for name in _names(leaf) if name not in self.facts.varying)


def _names(node: cst.CSTNode) -> frozenset[str]:
    """The variables in an expression, without those that are asked for their own device or size."""
    return frozenset(_variables(node))


def _variables(node: cst.CSTNode) -> Iterator[str]:
    if isinstance(node, cst.Name):
        yield node.value
        return
    if isinstance(node, cst.Attribute):
        if node.attr.value not in ("device", "dtype", "shape"):
            yield from _variables(node.value)
        return
    for child in node.children:
        if isinstance(node, cst.Arg) and child is node.keyword:
            continue
        yield from _variables(child)
