"""Waits of a line in which no value is read: the text of a tensor itself, and shapes that depend on values.

In: a parsed file and a line at which a wait was recorded. Out: what waits there, and what to do by hand; None for
other lines. Nothing of this can be deferred: the text is more than a number, and a shape is needed at once.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from tracelens.messages import say
from tracelens.patch.code import formats
from tracelens.patch.code.names import dotted, is_output, last_name, method_of, walk
from tracelens.patch.code.source import SourceFile
from tracelens.patch.effects.words import words
from tracelens.patch.loop.sites import is_tensor, tensor_names

_SHAPED_BY_VALUES = words("nonzero masked_select unique unique_consecutive argwhere")
_COMPARES = words("eq ne gt lt ge le isnan isinf isfinite bool logical_and logical_or logical_not")
_RESHAPES = words("unsqueeze squeeze expand expand_as view reshape flatten repeat to cuda")
_SHAPE_BY_HAND = say("keep the shape: torch.where, or a product with the mask, whose zeros the loss leaves out")


def why(source: SourceFile, line: int) -> tuple[str, str] | None:
    """What waits on that line, and what to do by hand."""
    masks = _masks(source)
    for node in _on(source, line):
        if isinstance(node, cst.Subscript) and any(_is_mask(index, masks) for index in _indices(node)):
            return _shaped(source, node)
        if isinstance(node, cst.Call) and last_name(node.func) in _SHAPED_BY_VALUES:
            return _shaped(source, node)
    shown = next(_shown(source, line), None)
    if shown is None:
        return next(_on_the_host(source, line), None)
    text = source.code(shown)
    obstacle = say(
        "the text of the tensor `{text}` itself is written: more than its number (type, device, graph)", text=text
    )
    return obstacle, say("write `{text}.item()`, which can wait, or do this every N batches", text=text)


def _shaped(source: SourceFile, node: cst.BaseExpression) -> tuple[str, str]:
    text = " ".join(source.code(node).split())
    return say(
        "the shape of `{text}` depends on values, which the host must know before it goes on", text=text
    ), _SHAPE_BY_HAND


def _on_the_host(source: SourceFile, line: int) -> Iterator[tuple[str, str]]:
    """Yields obstacle and advice for each `.cpu()` and `.numpy()` of the line whose tensor the host computes with."""
    for node in _on(source, line):
        if isinstance(node, cst.Call) and not node.args and last_name(node.func) in ("cpu", "numpy"):
            text = " ".join(source.code(node).split())
            yield (
                say("`{text}` is used on the host in the same batch", text=text),
                say("compute with it on the GPU, or every N batches"),
            )


def _shown(source: SourceFile, line: int) -> Iterator[cst.BaseExpression]:
    """Tensors whose own text a line writes: `print(loss)`, `str(loss)`, `"%s" % loss`."""
    tensors = tensor_names(source)
    for node in _on(source, line):
        given: list[cst.BaseExpression] = []
        if isinstance(node, cst.Call) and (is_output(node, source.names) or dotted(node.func) in ("str", "repr")):
            given = [argument.value for argument in node.args]
        elif isinstance(node, cst.BinaryOperation):
            given = [value for value, letter in formats.percent(node) if letter in "sra"]
        elif isinstance(node, cst.FormattedStringExpression) and node.conversion is not None:
            given = [node.expression]
        for value in given:
            if is_tensor(value, tensors):
                yield value


def _on(source: SourceFile, line: int) -> Iterator[cst.CSTNode]:
    """The parts of the statements on a line."""
    for node in walk(source.module):
        if isinstance(node, cst.BaseSmallStatement) and source.covers(node, line):
            yield from walk(node)


def _masks(source: SourceFile) -> frozenset[str]:
    """Names of comparisons: tensors of truth values, where they are tensors."""
    assigned = [node for node in walk(source.module) if isinstance(node, cst.Assign)]
    found: frozenset[str] = frozenset()
    for _ in range(2):  # `positive = target > 0`, and then `mask = positive.unsqueeze(2).expand_as(boxes)`
        masks = (node for node in assigned if _compares(node.value) or _reshapes(node.value, found))
        found = frozenset(t.target.value for node in masks for t in node.targets if isinstance(t.target, cst.Name))
    return found


def _reshapes(node: cst.BaseExpression, masks: frozenset[str]) -> bool:
    while isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value in _RESHAPES:
        node = node.func.value
        if isinstance(node, cst.Name):
            return node.value in masks
    return False


def _compares(node: cst.BaseExpression) -> bool:
    if isinstance(node, cst.Call):
        return method_of(node) in _COMPARES
    if isinstance(node, cst.BinaryOperation):
        return isinstance(node.operator, (cst.BitAnd, cst.BitOr)) and _compares(node.left)
    if isinstance(node, cst.UnaryOperation):
        return isinstance(node.operator, cst.BitInvert) and _compares(node.expression)
    return isinstance(node, cst.Comparison)


def _is_mask(node: cst.BaseExpression, masks: frozenset[str]) -> bool:
    if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.BitInvert):
        return True  # `x[~own]`: whole numbers are not inverted to count with them
    inverted = node.expression if isinstance(node, cst.UnaryOperation) else node
    return _compares(inverted) or (isinstance(inverted, cst.Name) and inverted.value in masks)


def _indices(node: cst.Subscript) -> Iterator[cst.BaseExpression]:
    return (part.slice.value for part in node.slice if isinstance(part.slice, cst.Index))
