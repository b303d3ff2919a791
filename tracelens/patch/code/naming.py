"""Readable names for the values that statements are handed when they run later.

In: the expression that a value comes from. Out: a name such as `loss_value`, and the same with a number where that is
taken.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Sequence

import libcst as cst

_RESULT_NAMES = {
    "item": "value",
    "number": "value",
    "formatted": "value",
    "tolist": "list",
    "numpy": "array",
    "host": "on_host",
    "values": "on_host",
}

_COUNTER = re.compile(r"(\w*_)?(epoch|step|iter|iteration|it|i|idx|index|batch_idx|batch_index|n_iter|round)s?")
"""Names of counters: a product and a sum of several of them is the number of the step."""
_RATES = {"get_last_lr": "lr", "get_lr": "lr"}
_SAYS_NOTHING = frozenset({"self", "torch", "F", "np", "numpy", "cls"})
"""Owners whose name says nothing of a value."""
_CONVERTS = frozenset({"float", "double", "half", "long", "int", "detach", "clone", "cpu", "data", "squeeze"})
"""What makes another tensor of the same numbers."""


def unused_name(wanted: str, *taken: Container[str]) -> str:
    """`wanted`, or `wanted_2`, `wanted_3`, … where names are taken already."""
    name, number = wanted, 2
    while any(name in names for names in taken):
        name, number = f"{wanted}_{number}", number + 1
    return name


def take_name(wanted: str, taken: Container[str], used: set[str]) -> str:
    """An unused name for `wanted`, which is used from now on."""
    name = unused_name(wanted, taken, used)
    used.add(name)
    return name


def name_for(node: cst.CSTNode, read: str) -> str:
    """A readable name for a value: `loss_value` for `loss`, `images_size` for `images.size(0)`."""
    if read in ("choice", "elapsed"):
        return "value" if read == "choice" else "seconds"
    if isinstance(node, (cst.ListComp, cst.SetComp, cst.DictComp, cst.GeneratorExp)):
        first = next((p.value for p in _naming(node.for_in.iter)), "")
        return f"{first}_values" if first else "values"
    words = [p.value for p in _naming(node)]
    if not read and isinstance(node, cst.BinaryOperation):
        return _computed(node, words)
    stem = "_".join(words[-2:] if not read or isinstance(node, cst.Call) else words[-1:]) or "batch"
    suffix = _RESULT_NAMES.get(read, "")
    stem = "seconds" if stem == "time_time" else stem
    name = re.sub(r"\W+", "_", f"{stem}_{suffix}" if suffix else stem).strip("_")
    return name if name.isidentifier() else f"value_{len(name)}"


def _computed(node: cst.BinaryOperation, words: Sequence[str]) -> str:
    """A name for what is computed of numbers, which is none of them: `epoch * len(loader) + i` is no `epoch`."""
    inside = {part.value for part in _names_in(node)}
    if len(inside) > 1 and any(_COUNTER.fullmatch(name) for name in inside):
        return "step"
    if isinstance(node.operator, cst.Divide):
        return f"{words[-1]}_ratio" if words else "ratio"
    if isinstance(node.operator, (cst.Add, cst.Subtract)) and len(inside) == 1 and len(words[-1]) > 1:
        return f"{words[-1]}_number"
    return "number"


def _names_in(node: cst.CSTNode) -> Iterator[cst.Name]:
    if isinstance(node, cst.Name):
        yield node
    for child in node.children:
        yield from _names_in(child)


def _naming(node: cst.CSTNode) -> list[cst.Name]:
    """The words that say what a value is, the last ones best."""
    if isinstance(node, cst.Name):
        return [node]
    if isinstance(node, cst.Attribute):
        return _attribute(node)
    if isinstance(node, cst.Subscript):
        index = node.slice[0].slice
        if isinstance(index, cst.Index) and isinstance(index.value, cst.SimpleString):
            return [cst.Name(re.sub(r"\W", "_", index.value.raw_value) or "value")]
        return _naming(node.value)
    if isinstance(node, cst.Call):
        argument = _naming(node.args[0].value) if isinstance(node.func, cst.Name) and node.args else []
        return [*_naming(node.func), *argument][:2] if argument else _naming(node.func)
    return _naming(node.left) if isinstance(node, cst.BinaryOperation) else []


def _attribute(node: cst.Attribute) -> list[cst.Name]:
    if node.attr.value in _RATES:
        return [cst.Name(_RATES[node.attr.value])]
    owner = [] if isinstance(node.value, cst.Name) and node.value.value in _SAYS_NOTHING else _naming(node.value)
    return owner if node.attr.value in _CONVERTS else [*owner, node.attr]
