"""Readable names for the values that statements are handed when they run later.

In: the expression that a value comes from. Out: a name such as `loss_value`, and the same with a number where that is
taken.
"""

from __future__ import annotations

import re
from collections.abc import Container

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
    stem = "_".join(words[-2:] if not read or isinstance(node, cst.Call) else words[-1:]) or "batch"
    suffix = _RESULT_NAMES.get(read, "")
    stem = "seconds" if stem == "time_time" else stem
    name = re.sub(r"\W+", "_", f"{stem}_{suffix}" if suffix else stem).strip("_")
    return name if name.isidentifier() else f"value_{len(name)}"


def _naming(node: cst.CSTNode) -> list[cst.Name]:
    if isinstance(node, (cst.Name, cst.Attribute)):
        return [node] if isinstance(node, cst.Name) else [*_naming(node.value), node.attr]
    if isinstance(node, cst.Subscript):
        index = node.slice[0].slice
        if isinstance(index, cst.Index) and isinstance(index.value, cst.SimpleString):
            return [cst.Name(re.sub(r"\W", "_", index.value.raw_value) or "value")]
        return _naming(node.value)
    if isinstance(node, cst.Call):
        argument = _naming(node.args[0].value) if isinstance(node.func, cst.Name) and node.args else []
        return [*_naming(node.func), *argument][:2] if argument else _naming(node.func)
    return _naming(node.left) if isinstance(node, cst.BinaryOperation) else []
