"""Which code writes into a tensor's memory: a copy from that memory must have finished before.

In: a piece of code and the expressions that stand for the memory, as text (`x`, `batch["x"]`, `self.buffer`). Out:
whether it may write there. A name that is bound anew is no write; functions of the file are looked into, one level.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import libcst as cst

from tracelens.patch.code.names import FileNames, dotted, method_of, targets, walk
from tracelens.patch.effects.words import words

_VIEWS = words(
    "view reshape squeeze unsqueeze transpose permute narrow select flatten detach numpy expand chunk t pop popleft get"
)
_KEEPS = words("append appendleft add insert put setdefault")
_FIRST_ARGUMENT = words("numpy.copyto random.shuffle numpy.random.shuffle")


def text_of(node: cst.CSTNode) -> str:
    """The code of an expression without its spaces: equal for equal expressions."""
    return "".join(cst.Module([]).code_for_node(node).split())


def writes_into(node: cst.CSTNode, memory: Collection[str], known: FileNames) -> bool:
    """Whether a statement or call, by itself, may write into the memory."""
    if isinstance(node, cst.AugAssign):
        return any(text in memory for text in _shown_by(node.target))
    if isinstance(node, (cst.Assign, cst.AnnAssign)):
        parts = (target.value for target in targets(node) if isinstance(target, cst.Subscript))
        return any(text in memory for part in parts for text in _shown_by(part))
    return isinstance(node, cst.Call) and (_method_writes(node, memory) or _is_handed_on(node, memory, known))


def shows(node: cst.BaseExpression, memory: Collection[str]) -> bool:
    """Whether an expression, or a part of it, stands for the memory or a view of it: `[x]`, `x[0]`."""
    return any(
        text in memory for part in walk(node) if isinstance(part, cst.BaseExpression) for text in _shown_by(part)
    )


def views(scope: cst.CSTNode, memory: Collection[str]) -> frozenset[str]:
    """The memory, and names that the code binds to views of it, or to what holds it: `a = x.numpy()`, `b = x[0]`,
    `kept.append(x)`, `for one in kept`."""
    out, size = set(memory), -1
    while size != len(out):
        size = len(out)
        for node in walk(scope):
            out |= {text_of(one) for one in _bound(node, out)}
    return frozenset(out)


def _bound(node: cst.CSTNode, memory: Collection[str]) -> Iterator[cst.BaseExpression]:
    """What a piece of code binds to a view of the memory, or stores one in."""
    if isinstance(node, cst.Assign) and any(text in memory for text in _shown_by(node.value)):
        yield from (target if isinstance(target, cst.Name) else _stored_in(target) for target in targets(node))
    elif isinstance(node, (cst.For, cst.CompFor)) and any(text in memory for text in _shown_by(node.iter)):
        yield from (part for part in walk(node.target) if isinstance(part, cst.Name))
    elif isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and method_of(node) in _KEEPS:
        given = (text for argument in node.args for text in _shown_by(argument.value))
        yield from [node.func.value] if any(text in memory for text in given) else []


def _stored_in(target: cst.BaseExpression) -> cst.BaseExpression:
    """The list of `kept[0] = x`; the attribute itself of `self.last = x`."""
    while isinstance(target, cst.Subscript):
        target = target.value
    return target


def _method_writes(call: cst.Call, memory: Collection[str]) -> bool:
    """`x.mul_(2)`, `x[0].fill_(1)`."""
    if not isinstance(call.func, cst.Attribute):
        return False
    method = call.func.attr.value
    in_place = method.endswith("_") and not method.startswith("_")
    return in_place and any(text in memory for text in _shown_by(call.func.value))


def _is_handed_on(call: cst.Call, memory: Collection[str], known: FileNames) -> bool:
    """`f(…, out=x)`, `np.copyto(x, …)`; `fill(x)`, where the file's own `fill` writes into what it is given."""
    full = known.qualified(call.func)
    for number, argument in enumerate(call.args):
        if not any(text in memory for text in _shown_by(argument.value)):
            continue
        if (argument.keyword is not None and argument.keyword.value == "out") or _is_in_place(call):
            return True
        if full in _FIRST_ARGUMENT and number == 0:
            return True
        definitions = known.functions.get(dotted(call.func), ())
        if any(_writes_parameter(definition, number, argument, known) for definition in definitions):
            return True
    return False


def _is_in_place(call: cst.Call) -> bool:
    """`relu(x, inplace=True)`."""
    named = (argument for argument in call.args if argument.keyword is not None)
    return any(one.keyword.value == "inplace" and text_of(one.value) != "False" for one in named if one.keyword)


def _writes_parameter(definition: cst.FunctionDef, number: int, argument: cst.Arg, known: FileNames) -> bool:
    parameters = [parameter.name.value for parameter in definition.params.params]
    named = argument.keyword.value if argument.keyword is not None else None
    name = named or (parameters[number] if number < len(parameters) else "")
    shallow = FileNames(known.imports, {}, frozenset())
    same = views(definition.body, {name})
    return bool(name) and any(writes_into(part, same, shallow) for part in walk(definition.body))


def _shown_by(node: cst.BaseExpression) -> Iterator[str]:
    """The expressions whose memory this one shows: `x.view(-1)[0]`, `x.view(-1)`, `x`."""
    while True:
        yield text_of(node)
        if isinstance(node, cst.Subscript) or (isinstance(node, cst.Attribute) and node.attr.value in ("data", "T")):
            node = node.value
        elif isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and method_of(node) in _VIEWS:
            node = node.func.value
        else:
            return
