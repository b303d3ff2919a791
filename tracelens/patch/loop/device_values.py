"""Which values of a loop or a function are tensors on the GPU, by the text, and where the text waits for one of them.

In: a parsed file, statements in their order and the names that are on the GPU before. Out: the places that wait:
reads, copies to the host, conditions, scalars for an event file. Only what is on the GPU for certain enough counts:
what the text copies there, what is computed of that, and what the loop goes backward from. So a tensor of the host,
of which a read waits for nothing, is none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import libcst as cst

from tracelens.patch.code import formats
from tracelens.patch.code.names import assigned, dotted, method_of, root_key, targets, walk
from tracelens.patch.code.source import SourceFile
from tracelens.patch.effects.words import words
from tracelens.patch.loop.facts import head_parts
from tracelens.patch.loop.loops import BUILTINS
from tracelens.patch.loop.sites import is_copy_to_device, is_typed_copy, read_of

_OF_HOST = words(
    "size dim ndimension numel nelement item tolist cpu numpy type is_contiguous is_floating_point is_complex stride"
    " element_size get_device data_ptr storage backward keys register_hook is_tensor save"
)
"""Methods of tensors, and functions of torch, that give no tensor on the GPU."""
_PARTS = words("data grad T mT")
_SAME_PLACE = (cst.BinaryOperation, cst.Comparison)
_SETS_SCALAR = words("add_scalar log_metric")


@dataclass(frozen=True)
class DeviceValues:
    """The names of tensors on the GPU at one place after the other; `follow` goes through the statements once."""

    source: SourceFile
    trained: frozenset[str] = frozenset()
    """Names that the statements go backward from."""
    known: set[str] = field(default_factory=set)

    def follow(self, leaves: Iterable[cst.CSTNode]) -> Iterator[tuple[cst.CSTNode, Iterator[cst.BaseExpression]]]:
        """Each statement (a compound one for its head), with what of it waits."""
        for leaf in leaves:
            yield leaf, self._waits(leaf)
            self._bind(leaf)

    def on_device(self, node: cst.BaseExpression) -> bool:
        """Whether a value is a tensor on the GPU."""
        if isinstance(node, cst.Name):
            return node.value in self.known
        if isinstance(node, cst.Attribute):
            return root_of_self(node) in self.known or (node.attr.value in _PARTS and self.on_device(node.value))
        if isinstance(node, (cst.Subscript, *_SAME_PLACE)):
            return any(map(self.on_device, _operands(node)))
        if isinstance(node, cst.UnaryOperation) and not isinstance(node.operator, cst.Not):
            return self.on_device(node.expression)
        return isinstance(node, cst.Call) and self._is_made(node)

    def _is_made(self, call: cst.Call) -> bool:
        names, function = self.source.names, call.func
        method = function.attr.value if isinstance(function, cst.Attribute) else ""
        if is_copy_to_device(call) or is_typed_copy(call, names):
            return True
        if method in _OF_HOST or _goes_to_host(call):
            return False
        if isinstance(function, cst.Attribute) and self.on_device(function.value):
            return True
        computes = names.qualified(function).startswith("torch.") or self._is_object(function)
        return computes and any(self.on_device(argument.value) for argument in call.args)

    def _is_object(self, function: cst.BaseExpression) -> bool:
        """Whether an object is called, as a module and a loss are: no function, class or import, and no method."""
        names = self.source.names
        if isinstance(function, cst.Name):
            return function.value not in {*names.functions, *names.classes, *names.imports, *BUILTINS}
        return isinstance(function, cst.Attribute) and root_of_self(function) in names.attributes

    def _bind(self, leaf: cst.CSTNode) -> None:
        values = dict(assigned(leaf))
        given = {target: self.on_device(value) for target, value in values.items()}
        for target, here in given.items():
            for part in _names_in(target):
                trained = part in self.trained and read_of(values[target]) is None
                (self.known.add if here or trained else self.known.discard)(part)
        if isinstance(leaf, cst.AugAssign) and self.on_device(leaf.value):
            self.known.update(_names_in(leaf.target))
        elif isinstance(leaf, cst.For):
            self.known.difference_update(name for one in targets(leaf) for name in _names_in(one))

    # ------------------------------------------------------------------------------------------------ what waits

    def _waits(self, leaf: cst.CSTNode) -> Iterator[cst.BaseExpression]:
        if isinstance(leaf, (cst.Assert, cst.If, cst.While)):
            yield from (one for one in _asked(leaf.test) if self.on_device(one))
        for part in (one for head in head_parts(leaf) for one in walk(head)):
            if isinstance(part, cst.Call) and self._waits_itself(part):
                yield part
            shown = formats.values(part, formats.templates(self.source))
            yield from (value for value, _ in shown if self.on_device(value))

    def _waits_itself(self, call: cst.Call) -> bool:
        read = read_of(call)
        if read is not None:
            return self.on_device(read.tensor)
        function = call.func
        if not isinstance(function, cst.Attribute):
            return False
        if function.attr.value in _SETS_SCALAR:
            return len(call.args) > 1 and self.on_device(call.args[1].value)
        return _goes_to_host(call) and self.on_device(function.value)


def root_of_self(node: cst.Attribute) -> str:
    """`self.loss` of that attribute itself; "" for others."""
    return (root_key(node) or "") if dotted(node.value) in ("self", "cls") else ""


def _goes_to_host(call: cst.Call) -> bool:
    """`x.cpu()`, `x.to("cpu")`: a copy to the host."""
    first = call.args[0].value if len(call.args) == 1 else None
    to_host = isinstance(first, cst.SimpleString) and "cpu" in first.value
    return method_of(call) == "cpu" or (method_of(call) == "to" and to_host)


def _operands(node: cst.BinaryOperation | cst.Comparison | cst.Subscript) -> Iterator[cst.BaseExpression]:
    """What a value is computed of, and is on the GPU with."""
    yield node.value if isinstance(node, cst.Subscript) else node.left
    if isinstance(node, cst.Subscript):
        return
    if isinstance(node, cst.BinaryOperation):
        yield node.right
        return
    for part in node.comparisons:
        if isinstance(part.operator, (cst.Is, cst.IsNot, cst.In, cst.NotIn)):
            return
        yield part.comparator


def _asked(test: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """The values whose truth is always asked for: of `a and b` the first."""
    if isinstance(test, cst.BooleanOperation):
        yield from _asked(test.left)
    elif isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        yield from _asked(test.expression)
    elif isinstance(test, cst.Comparison) and any(
        isinstance(part.operator, (cst.Is, cst.IsNot, cst.In, cst.NotIn)) for part in test.comparisons
    ):
        return
    else:
        yield test


def _names_in(target: cst.BaseExpression) -> Iterator[str]:
    if isinstance(target, (cst.Tuple, cst.List)):
        yield from (name for element in target.elements for name in _names_in(element.value))
    elif isinstance(target, cst.Name):
        yield target.value
    elif isinstance(target, cst.Attribute) and (name := root_of_self(target)):
        yield name
