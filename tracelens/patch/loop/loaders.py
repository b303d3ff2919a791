"""The loader behind a loop: the expression in the `for` line, and the `DataLoader(…)` call that made it.

In: a parsed file and a loop. Out: nodes. Followed through names, `self` attributes, parameters of functions of the
same file and functions that return a loader; None as soon as two answers are possible.
"""

from __future__ import annotations

import libcst as cst

from tracelens.patch.code.names import (
    FileNames,
    dotted,
    method_of,
    parameters,
    root_key,
    targets,
    values_assigned,
    walk,
)
from tracelens.patch.code.source import SourceFile
from tracelens.patch.effects.words import words
from tracelens.patch.loop.loops import own_nodes, scope_of

_WRAPPERS = words("enumerate tqdm tqdm.tqdm tqdm.auto.tqdm tqdm.notebook.tqdm rich.progress.track iter")
_WRAPPING_METHODS = frozenset({"log_every", "over", "track"})
_DEEPEST = 4
"""Names followed one after the other; real scripts need two (a parameter, then a variable)."""


def loader_of(loop: cst.For, names: FileNames) -> cst.BaseExpression | None:
    """`loader` of `for i, batch in enumerate(tqdm(loader))`; None where the loop runs over something else."""
    node = loop.iter
    while isinstance(node, cst.Call) and node.args:
        full = names.qualified(node.func)
        if full not in _WRAPPERS and method_of(node) not in _WRAPPING_METHODS:
            return node if is_data_loader(node, names) or full.endswith(".prefetch") else None
        node = node.args[0].value
    return node if isinstance(node, (cst.Name, cst.Attribute)) else None


def is_data_loader(call: cst.Call, names: FileNames) -> bool:
    if dotted(call.func) in names.classes or dotted(call.func) in names.functions:
        return False  # the file's own, whatever it imports under that name
    return names.qualified(call.func) in (
        "torch.utils.data.DataLoader",
        "torch.utils.data.dataloader.DataLoader",
        "DataLoader",
    )


def construction(source: SourceFile, names: FileNames, loader: cst.BaseExpression) -> cst.Call | None:
    """The one `DataLoader(…)` call that makes this loader, if the file shows it."""
    found = constructions(source, names, loader)
    return found[0] if len(found) == 1 else None


def constructions(source: SourceFile, names: FileNames, loader: cst.BaseExpression) -> tuple[cst.Call, ...]:
    """The `DataLoader(…)` calls that make it: one per branch, where a resumed training has a loader of its own."""
    return tuple({id(call): call for call in _constructions(source, names, loader, _DEEPEST)}.values())


def keyword(call: cst.Call, name: str, position: int) -> cst.BaseExpression | None:
    """An argument by its name or its position."""
    for number, argument in enumerate(call.args):
        if argument.keyword is not None and argument.keyword.value == name:
            return argument.value
        if argument.keyword is None and not argument.star and number == position:
            return argument.value
    return None


def has_hidden_arguments(call: cst.Call) -> bool:
    return any(argument.star for argument in call.args)


def _constructions(source: SourceFile, names: FileNames, node: cst.BaseExpression, depth: int) -> list[cst.Call]:
    if depth == 0:
        return []
    if isinstance(node, cst.Call):
        if is_data_loader(node, names):
            return [node]
        return _returned(source, names, node, depth)
    text = dotted(node)
    if not text:
        return []
    values = _assigned(source, node, text)
    if not values and isinstance(node, cst.Name):
        values = _passed(source, node)
    return [call for value in values for call in _constructions(source, names, value, depth - 1)]


def _assigned(source: SourceFile, node: cst.BaseExpression, text: str) -> list[cst.BaseExpression]:
    """What the name is assigned: in its own function first, else at the top of the file; an attribute anywhere."""
    places = [source.module] if "." in text else [scope_of(source, node), source.module]
    for place in places:
        nodes = walk(place) if "." in text else own_nodes(place)
        values = values_assigned((text,), nodes)
        if values or (isinstance(place, cst.FunctionDef) and text in parameters(place)):
            return values
    return []


def _passed(source: SourceFile, node: cst.Name) -> list[cst.BaseExpression]:
    """What the file's own calls hand to the parameter."""
    scope = scope_of(source, node)
    if not isinstance(scope, cst.FunctionDef):
        return []
    order = [parameter.name.value for parameter in scope.params.params]
    if node.value not in order:
        return []
    position = order.index(node.value)
    is_method = any(isinstance(ancestor, cst.ClassDef) for ancestor in source.ancestors(scope))
    out = []
    for call in source.calls.get(scope.name.value, ()):
        if is_method or isinstance(call.func, cst.Name):  # not model.train()
            shift = 1 if order[0] == "self" and isinstance(call.func, cst.Attribute) else 0
            value = keyword(call, node.value, position - shift)
            if value is None:
                return []
            out.append(value)
    return out


def _returned(source: SourceFile, names: FileNames, call: cst.Call, depth: int) -> list[cst.Call]:
    definitions = names.functions.get(dotted(call.func), ())
    if len(definitions) != 1:
        return []
    values = [n.value for n in own_nodes(definitions[0]) if isinstance(n, cst.Return) and n.value is not None]
    return [found for value in values for found in _constructions(source, names, value, depth - 1)]


def batch_names(loop: cst.For) -> frozenset[str]:
    """Names that stand for a batch or a part of it as the loader gave it."""
    out = {t.value for t in targets(loop) if isinstance(t, cst.Name)}
    text = cst.Module([]).code_for_node(loop.iter)
    if "enumerate(" in text and isinstance(loop.target, cst.Tuple):
        first = loop.target.elements[0].value
        out -= {first.value} if isinstance(first, cst.Name) else set()
    size = -1
    while size != len(out):  # a comprehension's inner names stand before those that they are parts of
        size = len(out)
        for node in own_nodes(loop.body):
            if isinstance(node, cst.Assign) and _part_of(node.value, out):
                out |= {t.value for t in targets(node) if isinstance(t, cst.Name)}
            if isinstance(node, (cst.For, cst.CompFor)) and _part_of(node.iter, out):
                out |= {v.value for v in walk(node.target) if isinstance(v, cst.Name)}
    return frozenset(out)


def whole_of(loop: cst.For, name: str) -> tuple[str, ...]:
    """What a loop or comprehension within the loop takes the name from, and so on: v, t, targets."""
    out = [name]
    for _ in range(_DEEPEST):
        for node in own_nodes(loop.body):
            over = isinstance(node, (cst.For, cst.CompFor)) and out[-1] in {
                v.value for v in walk(node.target) if isinstance(v, cst.Name)
            }
            if over and isinstance(node, (cst.For, cst.CompFor)):
                root = root_key(node.iter)
                if root is not None and root not in out:
                    out.append(root)
    return tuple(out)


def _part_of(node: cst.BaseExpression, names: set[str]) -> bool:
    """`batch`, `batch[0]`, `batch.x`, `batch.items()`."""
    while isinstance(node, (cst.Subscript, cst.Attribute, cst.Call)):
        if isinstance(node, cst.Call):
            method = node.func.attr.value if isinstance(node.func, cst.Attribute) else ""
            if method not in ("items", "values", "keys"):
                return False
            node = node.func
        else:
            node = node.value
    return isinstance(node, cst.Name) and node.value in names
