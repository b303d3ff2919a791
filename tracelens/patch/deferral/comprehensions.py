"""Comprehensions that read a value per element: `{name: part.item() for name, part in losses.items()}`.

In: the comprehension. Out: what is evaluated where its statement stands, with each read pending, and what is computed
of it later. Raises `Blocked` where the comprehension does more than go through something once.

Where the element is the read itself, the whole comprehension is kept. Else the parts of its elements are: of
`f"{name} {part.item():.3f}" for name, part in losses.items()` a list of pairs of the name and the pending read.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import libcst as cst

from tracelens.messages import say
from tracelens.patch.code.names import dotted, method_of, variables, walk
from tracelens.patch.code.source import SourceFile
from tracelens.patch.effects.words import words
from tracelens.patch.loop import host
from tracelens.patch.loop.facts import LoopFacts, is_pure
from tracelens.patch.loop.loops import Blocked
from tracelens.patch.loop.sites import Read, read_of, reads_in

_GOES_THROUGH = words("sum min max list tuple sorted set any all dict frozenset join")
"""What a generator is handed to: it takes all elements at once, or may, since reading them changes nothing."""
_BY_HAND = say("write it as a loop")


Comprehension = cst.ListComp | cst.SetComp | cst.DictComp | cst.GeneratorExp


def pending(source: SourceFile, node: cst.CSTNode, ahead: str) -> str:
    """The text of a node with each read turned into a pending one."""
    start, end = source.span(node)
    pieces, position = [], start
    for read in sorted(reads_in(node), key=lambda read: source.span(read.node)):
        first, last = source.span(read.node)
        if first < position:
            continue  # inside the one before
        pieces += [source.text[position:first], f"{ahead}.{read.kind}({source.code(read.tensor)})"]
        position = last
    return "".join([*pieces, source.text[position:end]])


def check(comprehension: Comprehension, facts: LoopFacts) -> None:
    """Raise `Blocked` unless the elements can be kept and the rest be computed of them later."""
    head = _head(comprehension)
    inner = head.inner_for_in is not None or any(
        isinstance(part, (cst.BaseComp, cst.NamedExpr, cst.Lambda, cst.Await)) and part is not comprehension
        for part in walk(comprehension)
    )
    if inner or head.asynchronous is not None:
        raise Blocked(comprehension, say("a comprehension within another computes with the value"), _BY_HAND)
    outside = [head.iter, *(condition.test for condition in head.ifs)]
    if any(True for part in outside for _ in reads_in(part)):
        raise Blocked(comprehension, say("the value decides what the comprehension goes through"), _BY_HAND)
    if isinstance(comprehension, cst.GeneratorExp):
        _check_generator(comprehension, facts)
    if isinstance(comprehension, cst.SetComp) and _is_read(comprehension.elt):
        raise Blocked(comprehension, say("a set of values has no order to read them in"), say("make it a list"))
    if not _is_whole(comprehension):
        _check_elements(comprehension, facts)


def argument(source: SourceFile, comprehension: Comprehension, ahead: str) -> str:
    """What is evaluated where the statement stands."""
    if _is_whole(comprehension):
        text = pending(source, comprehension, ahead)
        return f"[{text}]" if isinstance(comprehension, cst.GeneratorExp) else text
    head = _head(comprehension)
    parts = [
        *_needed(comprehension),
        *(f"{ahead}.{one.kind}({source.code(one.tensor)})" for one in _reads(comprehension)),
    ]
    kept = f"({', '.join(parts)})" if len(parts) > 1 else f"({parts[0]},)"
    start, end = source.span(head)
    return f"[{kept} {source.text[start:end].strip()}]"


def later(comprehension: Comprehension, name: str) -> cst.BaseExpression:
    """What takes the place of the comprehension in the statement that runs later."""
    if _is_whole(comprehension):
        return cst.Name(name)
    taken = {part.value for part in walk(comprehension) if isinstance(part, cst.Name)}
    free = (one for one in _value_names() if one not in taken)
    given = {id(one.node): new for one, new in zip(_reads(comprehension), free, strict=False)}
    names = [*_needed(comprehension), *given.values()]
    elements = [cst.Element(cst.Name(one)) for one in names]
    head = _head(comprehension).with_changes(target=cst.Tuple(elements, lpar=[], rpar=[]), iter=cst.Name(name), ifs=[])
    new = comprehension.visit(_Named(given))
    assert isinstance(new, Comprehension)
    return new.with_changes(for_in=head)


def _value_names() -> Iterator[str]:
    """`value`, `value_2`, …"""
    yield "value"
    yield from (f"value_{number}" for number in count(2))


class _Named(cst.CSTTransformer):
    def __init__(self, names: dict[int, str]) -> None:
        super().__init__()
        self._names = names

    def on_leave(self, original_node: cst.CSTNode, updated_node: cst.CSTNode) -> cst.CSTNode:  # type: ignore[override]
        name = self._names.get(id(original_node))
        return updated_node if name is None else cst.Name(name)


def _check_generator(comprehension: cst.GeneratorExp, facts: LoopFacts) -> None:
    """A generator is gone through once, at once, and by something that does no more."""
    call = next((a for a in facts.source.ancestors(comprehension) if isinstance(a, cst.Call)), None)
    takes = call is not None and any(argument.value is comprehension for argument in call.args)
    method = call is not None and isinstance(call.func, cst.Attribute)
    called = dotted(call.func).rpartition(".")[2] if call is not None else ""
    if call is not None and isinstance(call.func, cst.Attribute):
        called = call.func.attr.value
    known = called == "join" if method else called in _GOES_THROUGH and called not in facts.names.functions
    if not takes or not known or not host.repeats(_head(comprehension).iter, facts):
        raise Blocked(comprehension, say("a generator may stop early, or run later"), say("make it a list"))


def _check_elements(comprehension: Comprehension, facts: LoopFacts) -> None:
    """What is computed with the values needs nothing else of its batch, and calls nothing that does more."""
    kept = {id(part) for one in _reads(comprehension) for part in walk(one.node)}
    own = _own(comprehension)
    for value in _elements(comprehension):
        chosen = (part for part in walk(value) if isinstance(part, (cst.IfExp, cst.BooleanOperation)))
        if any(True for part in chosen for _ in reads_in(part)):  # the others may have no such value
            raise Blocked(comprehension, say("the comprehension reads some of its values only"), _BY_HAND)
        for part in walk(value):
            if id(part) in kept:
                continue
            if isinstance(part, cst.Name) and part.value in facts.varying - own:
                raise Blocked(
                    comprehension, say("the comprehension needs `{part}` of its batch", part=part.value), _BY_HAND
                )
            if isinstance(part, cst.Call):
                method = method_of(part)
                if not is_pure(facts.names.qualified(part.func)) and method != "format":
                    raise Blocked(
                        comprehension,
                        say("the value goes into `{call}(…)`", call=dotted(part.func) or method),
                        _BY_HAND,
                    )


def _needed(comprehension: Comprehension) -> list[str]:
    """Names that the head binds and the elements need beside what is read."""
    kept = {id(part) for one in _reads(comprehension) for part in walk(one.node)}
    found = (v for value in _elements(comprehension) for v in variables(value) if id(v) not in kept)
    used = {v.value if isinstance(v, cst.Name) else "" for v in found}
    return sorted(_own(comprehension) & used)


def _reads(comprehension: Comprehension) -> list[Read]:
    """The reads in the elements, the outermost of each."""
    out: list[Read] = []
    for value in _elements(comprehension):
        inside: set[int] = set()
        for one in reads_in(value):
            if id(one.node) not in inside:
                out.append(one)
                inside |= {id(part) for part in walk(one.node)}
    return out


def _elements(comprehension: Comprehension) -> Iterator[cst.BaseExpression]:
    if isinstance(comprehension, cst.DictComp):
        yield comprehension.key
        yield comprehension.value
    elif isinstance(comprehension, (cst.ListComp, cst.SetComp, cst.GeneratorExp)):
        yield comprehension.elt


def _is_whole(comprehension: Comprehension) -> bool:
    """Whether the element, or the value of a dict, is the read itself, and no key is."""
    *keys, value = _elements(comprehension)
    return _is_read(value) and not any(True for key in keys for _ in reads_in(key))


def _is_read(node: cst.BaseExpression) -> bool:
    """A read, or one of what is a tensor: `value.item() if torch.is_tensor(value) else value`."""
    if isinstance(node, cst.IfExp) and isinstance(node.orelse, cst.Name):
        read = read_of(node.body)
        own = read is not None and read.node is node.body and dotted(read.tensor) == node.orelse.value
        return own and _asks_for_tensor(node.test, node.orelse.value)
    found = read_of(node)
    return found is not None and found.node is node


def _asks_for_tensor(test: cst.BaseExpression, name: str) -> bool:
    """`torch.is_tensor(value)`, `isinstance(value, torch.Tensor)`."""
    if not isinstance(test, cst.Call) or not test.args or dotted(test.args[0].value) != name:
        return False
    kinds = [dotted(argument.value) for argument in test.args[1:]]
    asked = dotted(test.func)
    return (asked == "torch.is_tensor" and not kinds) or (asked == "isinstance" and kinds == ["torch.Tensor"])


def _own(comprehension: Comprehension) -> frozenset[str]:
    return frozenset(v.value for v in variables(_head(comprehension).target) if isinstance(v, cst.Name))


def _head(comprehension: Comprehension) -> cst.CompFor:
    return comprehension.for_in
