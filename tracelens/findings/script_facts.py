"""What the text of a training script says about its loop, by its syntax tree; nothing is run or imported.

In: Python source of any quality. Out: ScriptFacts, or None where the text does not parse. Only this one file is read:
what is absent here may be done in a module that the script imports.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

READS = frozenset({"item", "cpu", "tolist", "numpy"})
"""Methods of a tensor that bring its value to the host."""


@dataclass(frozen=True, slots=True)
class ScriptFacts:
    """Calls by their last name, constant keywords of the loader, flags that are set, and conditions like `% K`."""

    calls: frozenset[str]
    loader: Mapping[str, object] | None
    """Keywords of the first DataLoader(...) whose values are constants; None without a DataLoader."""
    non_blocking: bool
    flags: frozenset[str]
    """Attributes that are set to True, for example `benchmark` of `torch.backends.cudnn.benchmark = True`."""
    reads_every: int | None
    """K of an `if … % K` that guards a read."""
    steps_every: int | None
    """K of an `if … % K` that guards `.step()`: gradient accumulation."""


def read_script_facts(source: str) -> ScriptFacts | None:
    """The facts, or None where the source does not parse."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    constants = dict(_constants(tree))
    return ScriptFacts(
        calls=frozenset(name for call in calls if (name := _name(call.func))),
        loader=next((_keywords(call, constants) for call in calls if _name(call.func) == "DataLoader"), None),
        non_blocking=any(_keywords(call, constants).get("non_blocking") is True for call in calls),
        flags=frozenset(_flags(tree)),
        reads_every=_guarded(tree, READS, constants),
        steps_every=_guarded(tree, frozenset({"step"}), constants),
    )


def _name(node: ast.expr) -> str:
    """The last part of a dotted name."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _constants(tree: ast.AST) -> Iterator[tuple[str, object]]:
    """Names bound to a constant once or more, and the defaults of argparse options."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            for target in node.targets:
                yield _name(target), node.value.value
        elif isinstance(node, ast.Call) and _name(node.func) == "add_argument" and node.args:
            flag, default = node.args[-1], next((word.value for word in node.keywords if word.arg == "default"), None)
            if isinstance(flag, ast.Constant) and isinstance(default, ast.Constant):
                yield str(flag.value).lstrip("-").replace("-", "_"), default.value


def _value(node: ast.expr, constants: Mapping[str, object]) -> object:
    """A constant, or what a name was bound to; None where that is not known."""
    if isinstance(node, ast.Constant):
        return node.value
    return constants.get(_name(node)) if isinstance(node, ast.Name | ast.Attribute) else None


def _keywords(call: ast.Call, constants: Mapping[str, object]) -> dict[str, object]:
    return {word.arg: _value(word.value, constants) for word in call.keywords if word.arg is not None}


def _flags(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and node.value.value is True:
            yield from (_name(target) for target in node.targets if isinstance(target, ast.Attribute))


def _guarded(tree: ast.AST, methods: frozenset[str], constants: Mapping[str, object]) -> int | None:
    """The first K of an `if … % K …:` whose body calls one of the methods."""
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and (interval := _modulus(node.test, constants)) is not None:
            inside = (part for line in node.body for part in ast.walk(line))
            if any(isinstance(part, ast.Call) and _name(part.func) in methods for part in inside):
                return interval
    return None


def _modulus(test: ast.expr, constants: Mapping[str, object]) -> int | None:
    for part in ast.walk(test):
        if isinstance(part, ast.BinOp) and isinstance(part.op, ast.Mod):
            value = _value(part.right, constants)
            if isinstance(value, int) and not isinstance(value, bool) and value > 1:
                return value
    return None
