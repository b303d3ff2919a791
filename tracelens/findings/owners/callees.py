"""What a line calls, by its text: `gc.collect`, `json.dumps`, `copy.deepcopy`.

In: Owners, and the text of the files that their lines are in. Out: the same Owners with `callee`, where the line's own
statement makes one call that stands out. Only names are looked at; what they are bound to at run time is not known.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from tracelens.model import Location, Owner, Owners

COLLECT = "gc.collect"
CUDA = "torch.cuda"
EMPTY_CACHE = f"{CUDA}.empty_cache"
_EMPTIES = re.compile(r"torch\.(?:cuda|accelerator|xpu|mps)(?:\.memory)?\.empty_cache")
_HEAVY = (
    "gc.collect",
    "json.dump",
    "pickle.dump",
    "copy.deepcopy",
    "torch.save",
    "torch.load",
    EMPTY_CACHE,
    "time.sleep",
    "state_dict",
    "print",
)
"""Calls that are named before the call around them: `log.write(json.dumps(row))` is about the dump."""


def with_callees(owners: Owners, texts: Mapping[str, str]) -> Owners:
    """The same Owners; host lines say what they call, and so do lines that empty the cache of GPU memory."""
    trees: dict[str, ast.Module | None] = {}
    for path, text in texts.items():
        try:
            trees[path] = ast.parse(text)
        except (SyntaxError, ValueError, RecursionError):
            trees[path] = None
    named = []
    for owner in owners.owners:
        one_line = owner.kind in ("host_line", "allocator") and owner.locations and owner.reason is None
        tree = trees.get(owner.locations[0].path) if one_line else None
        called = call_at(tree, owner.locations[0]) if tree is not None else None
        named.append(owner if called is None or not _better(called, owner) else replace(owner, callee=called))
    return replace(owners, owners=tuple(named))


def _better(called: str, owner: Owner) -> bool:
    """A name from the source goes before none, and what asks for a collection, or frees the cache of GPU memory, before
    what that runs. Of other calls for memory the driver's call says more."""
    if owner.kind == "allocator":
        return called == EMPTY_CACHE
    return owner.callee is None or called in (COLLECT, EMPTY_CACHE)


def call_at(tree: ast.Module, location: Location) -> str | None:
    """The dotted name of the call that stands out on a line; None where there is none."""
    if location.line is None:
        return None
    aliases = dict(_aliases(tree))
    nodes = sorted(_calls(tree, location.line), key=lambda node: _is_chained(node.func))
    calls = [name for node in nodes if (name := _dotted(node.func, aliases))]
    heavy = next((name for name in calls for word in _HEAVY if name.endswith(word) or name.startswith(word)), None)
    return heavy or (calls[0] if calls else None)


def _calls(tree: ast.Module, line: int) -> Iterator[ast.Call]:
    """Calls that are written on a line, the outer ones first; not those of functions that are defined there."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node.func.end_lineno == line:
            yield node


def _aliases(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Local name to what it imports, or to torch's module of a device: `getattr(torch, kind)`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and _is_device_module(node.value):
            yield node.targets[0].id, CUDA
        elif isinstance(node, ast.Import):
            yield from ((alias.asname, alias.name) for alias in node.names if alias.asname)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from ((alias.asname or alias.name, f"{node.module}.{alias.name}") for alias in node.names)


def _is_device_module(node: ast.expr) -> bool:
    called = _dotted(node.func, {}) if isinstance(node, ast.Call) else None
    if called == "getattr" and isinstance(node, ast.Call) and node.args:
        return _dotted(node.args[0], {}) == "torch"
    return called == "torch.get_device_module"


def _is_chained(node: ast.expr) -> bool:
    """A method of what another call returns: `model(x).sum()` is about the model."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return not isinstance(node, ast.Name)


def _dotted(node: ast.expr, aliases: Mapping[str, str]) -> str | None:
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if isinstance(node, ast.Name):
        parts.append(aliases.get(node.id, node.id))
    name = ".".join(reversed(parts))
    return EMPTY_CACHE if _EMPTIES.fullmatch(name) else name or None
