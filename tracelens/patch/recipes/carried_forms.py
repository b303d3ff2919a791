"""How code names and fills what carries values: dicts, lists, parameters; asked of places, without following them.

In: a file and a place. Out: what the place is. Apart from `carried_values`, which follows the values.
"""

from __future__ import annotations

import libcst as cst

from tracelens.patch.code import names
from tracelens.patch.code.names import dotted, method_of, walk
from tracelens.patch.code.source import SourceFile
from tracelens.patch.loop.loops import Scope, own_nodes, scope_of
from tracelens.patch.loop.name_webs import web
from tracelens.patch.loop.sites import read_of

_FILLS = frozenset({"update", "append"})


def is_item(node: cst.CSTNode) -> bool:
    """`loss.item()`: the only read that any object can be asked for later without a change."""
    found = read_of(node)
    return method_of(node) == "item" and found is not None and found.kind == "item" and found.node is node


def always_returns(body: cst.BaseSuite) -> bool:
    """Whether control comes to no end of a block: its last statement returns or raises, on every way."""
    last = body.body[-1]
    if isinstance(last, cst.SimpleStatementLine):
        return isinstance(last.body[-1], (cst.Return, cst.Raise))
    if isinstance(last, cst.With):
        return always_returns(last.body)
    return isinstance(last, cst.If) and _if_returns(last)


def _if_returns(node: cst.If) -> bool:
    """The same of all that an `if` chooses from."""
    other = node.orelse
    if other is None or not always_returns(node.body):
        return False
    return always_returns(other.body) if isinstance(other, cst.Else) else _if_returns(other)


def only_fills(source: SourceFile, node: cst.CSTNode) -> bool:
    """`log.update(…)`, `logs.append(…)`, `log["x"] = …`, each a statement of its own."""
    parent = source.parent(node)
    if isinstance(parent, cst.Subscript):
        return parent.value is node and isinstance(source.parent(parent), cst.AssignTarget)
    call = source.parent(parent) if isinstance(parent, cst.Attribute) and parent.attr.value in _FILLS else None
    return isinstance(call, cst.Call) and call.func is parent and isinstance(source.parent(call), cst.Expr)


def binding(source: SourceFile, place: cst.BaseExpression) -> cst.Assign | None:
    """The statement that gives a name or an attribute its value by `name = …`."""
    target = source.parent(place)
    statement = source.parent(target) if isinstance(target, cst.AssignTarget) else None
    return statement if isinstance(statement, cst.Assign) and len(statement.targets) == 1 else None


def places(source: SourceFile, name: cst.Name) -> tuple[cst.Name, ...] | None:
    """All places that mean the same variable, in its function; None where that cannot be told."""
    scope = scope_of(source, name)
    bindings = [
        node
        for node in own_nodes(scope)
        if isinstance(node, cst.Name) and node.value == name.value and is_target(source, node)
    ]
    for one in bindings:
        found = web(source, scope, one)
        if found is not None and any(name is each for each in found):
            return found
    return _all_places(scope, name.value) if bindings else None


def _all_places(scope: Scope, name: str) -> tuple[cst.Name, ...] | None:
    """All places of a function with the name, as if they were one variable; None where others may see it."""
    if not isinstance(scope, cst.FunctionDef) or name in names.parameters(scope):
        return None
    own = own_nodes(scope)
    if any(isinstance(node, cst.Call) and dotted(node.func) in ("locals", "vars", "eval", "exec") for node in own):
        return None
    apart: set[cst.CSTNode] = set()
    for node in own:
        if isinstance(node, (cst.FunctionDef, cst.ClassDef, cst.Lambda, cst.Global, cst.Nonlocal)):
            if any(isinstance(one, cst.Name) and one.value == name for one in walk(node)):
                return None
        elif isinstance(node, cst.BaseComp) and name in _bound_in(node.for_in):
            apart |= set(walk(node))
    labels = (cst.Attribute, cst.Arg)
    named = [node for node in own if isinstance(node, cst.Name) and node.value == name and node not in apart]
    taken = {part.attr if isinstance(part, cst.Attribute) else part.keyword for part in own if isinstance(part, labels)}
    return tuple(node for node in named if node not in taken)


def _bound_in(loop: cst.CompFor) -> frozenset[str]:
    inner = _bound_in(loop.inner_for_in) if loop.inner_for_in is not None else frozenset()
    return inner | {node.value for node in walk(loop.target) if isinstance(node, cst.Name)}


def values(source: SourceFile, name: cst.Name) -> list[cst.BaseExpression]:
    """What a name is given in its function by `name = …`."""
    return names.values_assigned((name.value,), own_nodes(scope_of(source, name)))


def is_dict(value: cst.BaseExpression) -> bool:
    """`{…}` or `dict(…)`."""
    return isinstance(value, cst.Dict) or (isinstance(value, cst.Call) and dotted(value.func) == "dict")


def has_reads(value: cst.BaseExpression) -> bool:
    return is_dict(value) and any(is_item(node) for node in walk(value))


def key_of(subscript: cst.Subscript) -> str | int | None:
    """The text or the number in brackets; None for anything that is worked out."""
    part = subscript.slice[0].slice if len(subscript.slice) == 1 else None
    value = part.value if isinstance(part, cst.Index) else None
    if isinstance(value, cst.SimpleString):
        text = value.evaluated_value
        return text if isinstance(text, str) else None
    if isinstance(value, cst.UnaryOperation) and isinstance(value.operator, cst.Minus):
        value = value.expression
    return value.evaluated_value if isinstance(value, cst.Integer) else None


def given_to(source: SourceFile, call: cst.Call) -> cst.BaseExpression | None:
    """What gets the result of a call by a statement of its own: `loss, accuracy = step(x)`."""
    statement = source.parent(call)
    alone = isinstance(statement, cst.Assign) and len(statement.targets) == 1
    return statement.targets[0].target if isinstance(statement, cst.Assign) and alone else None


def parts_of(source: SourceFile, name: cst.Name, number: int) -> tuple[cst.Subscript, ...] | None:
    """The places that take one part of a tuple with a name of its own, `metrics[0]`; None for any other use of it."""
    found = places(source, name) or ()
    subscripts = [source.parent(one) for one in found if one is not name]
    parts = [one for one in subscripts if isinstance(one, cst.Subscript) and _is_plain_number(source, one)]
    if not found or len(parts) < len(subscripts) or any(one.value not in found for one in parts):
        return None
    return tuple(one for one in parts if key_of(one) == number)


def _is_plain_number(source: SourceFile, subscript: cst.Subscript) -> bool:
    """Whether a part is looked at, from the front; nothing is stored in its place."""
    index = subscript.slice[0].slice
    stored = isinstance(source.parent(subscript), (cst.AssignTarget, cst.Del))
    return not stored and isinstance(index, cst.Index) and isinstance(index.value, cst.Integer)


def is_label(source: SourceFile, name: cst.Name) -> bool:
    """Whether a name is that of an attribute or of an argument, and no variable."""
    parent = source.parent(name)
    attribute = isinstance(parent, cst.Attribute) and parent.attr is name
    return attribute or (isinstance(parent, cst.Arg) and parent.keyword is name)


def is_target(source: SourceFile, name: cst.CSTNode) -> bool:
    """Whether a place gives the name a value."""
    parent = source.parent(name)
    if isinstance(parent, cst.Element):
        parent = source.parent(source.parent(parent) or parent)
    if isinstance(parent, (cst.For, cst.AnnAssign, cst.AugAssign, cst.NamedExpr)):
        return parent.target is name
    return isinstance(parent, (cst.AssignTarget, cst.AsName))
