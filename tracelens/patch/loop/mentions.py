"""What the text of a statement touches, in a loop: names, without objects of which it asks nothing that changes.

In: the statements of a loop. Out: keys. `data.to(opt.device)` does not touch what `opt.losses.update(value)` changes:
no line of the loop stores `device`, and no line that could run later mentions it, so its value is the same whenever
it is looked at. Nor does a condition that asks what an object is, not what is in it: `writer is not None`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import libcst as cst

from tracelens.patch.code.names import (
    WHOLE_SELF,
    FileNames,
    dotted,
    key,
    rebound,
    root_key,
    targets,
    touched,
    variables,
    walk,
    written,
)
from tracelens.patch.code.outside import BESIDES
from tracelens.patch.effects.words import words
from tracelens.patch.loop.sites import reads_in

_FILLS = words("copyto put place putmask fill_diagonal shuffle heappush heappop heapify insort")


@dataclass(frozen=True, eq=False)
class Mentions:
    """Of one loop. `leaves`: its small statements, and the compound ones for their heads, each with what is evaluated.

    `varying`: the names that the loop binds.
    """

    leaves: Sequence[tuple[cst.CSTNode, Sequence[cst.CSTNode]]]
    names: FileNames
    varying: frozenset[str]

    def told(self, part: cst.CSTNode) -> frozenset[str]:
        """The keys that a piece of code touches."""
        found = touched(part, self.names)
        return found - (asked_only(part) - self._bound) - (self._only_read(part) - self.varying)

    def _only_read(self, part: cst.CSTNode) -> frozenset[str]:
        """The names that it mentions nowhere but for attributes with one value as long as the loop runs."""
        settled = Counter(one for one, attribute in _attributes(part) if self._is_settled(one, attribute))
        mentioned = Counter(key(one) for one in variables(part))
        return frozenset(name for name, times in settled.items() if mentioned[name] == times)

    def _is_settled(self, owner: str, attribute: str) -> bool:
        return attribute not in self._changed and (owner, attribute) not in self._late

    @cached_property
    def _bound(self) -> frozenset[str]:
        stored = (target for leaf, _ in self.leaves for target in targets(leaf) if isinstance(target, cst.Attribute))
        return self.varying.union(key(one) for target in stored for one in variables(target) if one is target)

    @cached_property
    def _changed(self) -> frozenset[str]:
        """The attributes that are stored or called, of whatever object: one may have several names."""
        found: list[cst.BaseExpression] = []
        for leaf, parts in self.leaves:
            found += targets(leaf)
            found += (node.func for part in parts for node in walk(part) if isinstance(node, cst.Call))
        return frozenset(name for one in found for name in _on_the_way(one))

    @cached_property
    def _late(self) -> frozenset[tuple[str, str]]:
        """What lines mention that may run later: they read a value, show or change something, or use what those made.

        What such a line looks at may be looked at later, so whoever else has that object stays in order with it.
        """
        out, results, waiting = set[tuple[str, str]](), set[str](), [part for _, parts in self.leaves for part in parts]
        grown = True
        while grown:
            late = [part for part in waiting if self._acts(part) or touched(part, self.names) & results]
            waiting = [part for part in waiting if part not in late]
            for part in late:
                mentioned = set(_attributes(part))
                out |= mentioned
                results |= written(part, self.names) - BESIDES - {owner for owner, _ in mentioned}
            grown = bool(late)
        return frozenset(out)

    def _acts(self, part: cst.CSTNode) -> bool:
        changes = written(part, self.names) - rebound(part)
        return bool(changes) or any(True for _ in reads_in(part))


def _attributes(part: cst.CSTNode) -> Iterator[tuple[str, str]]:
    """The attributes of plain names: `device` of `opt`, in `opt.device.type`; those of `self` are told apart anyway."""
    for node in walk(part):
        if isinstance(node, cst.Attribute) and isinstance(node.value, cst.Name) and key(node.value) not in WHOLE_SELF:
            yield node.value.value, node.attr.value


def _on_the_way(node: cst.BaseExpression) -> Iterator[str]:
    """The attributes through which something is stored or called: `b` and `c` of `a.b(x.y)[0].c`."""
    while isinstance(node, (cst.Attribute, cst.Subscript, cst.Call)):
        if isinstance(node, cst.Attribute):
            yield node.attr.value
        node = node.func if isinstance(node, cst.Call) else node.value


def filled(leaf: cst.CSTNode) -> frozenset[str]:
    """What a library's function fills that is handed it: `np.copyto(buffer, x)`, `np.add(a, b, out=buffer)`."""
    roots: set[str | None] = set()
    for node in walk(leaf) if isinstance(leaf, cst.BaseSmallStatement) else ():
        if isinstance(node, cst.Call):
            last = dotted(node.func).rpartition(".")[2]
            given = (
                node.args[:1] if last in _FILLS else [a for a in node.args if a.keyword and a.keyword.value == "out"]
            )
            roots |= {root_key(argument.value) for argument in given}
    return frozenset(root for root in roots if root is not None)


_ASK = words("hasattr isinstance callable issubclass")
SAME = (cst.Is, cst.IsNot)


def asked_only(condition: cst.CSTNode) -> frozenset[str]:
    """The keys that the condition mentions nowhere but in such questions."""
    asked = Counter(key(one) for part in walk(condition) for one in _objects(part))
    mentioned = Counter(key(one) for one in variables(condition))
    return frozenset(name for name, times in asked.items() if mentioned[name] == times)


def _objects(node: cst.CSTNode) -> Iterator[cst.Name | cst.Attribute]:
    asked: list[cst.BaseExpression] = []
    if isinstance(node, cst.Call) and dotted(node.func) in _ASK and node.args:
        asked = [node.args[0].value]
    elif isinstance(node, cst.Comparison) and all(isinstance(one.operator, SAME) for one in node.comparisons):
        asked = [node.left, *(one.comparator for one in node.comparisons)]
    for one in asked:
        yield from (variable for variable in variables(one) if variable is one)
