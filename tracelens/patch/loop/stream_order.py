"""The streams of a loop's own: what a wait of the host orders among them, and the lines that order it without.

In: the facts of a loop, and waits that are taken out of it. Out: their streams, and for each wait the lines that take
its place; raises `Blocked` where a stream may be used in a way that the loop's function does not show.

A host that waits for a stream issues all that follows, on whatever stream, after the end of what the stream was given.
Without the wait, each other stream is told to wait for it. Memory is then used again as late as before, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import libcst as cst

from tracelens.messages import say
from tracelens.patch.code.names import method_of, targets, walk
from tracelens.patch.code.source import SourceFile
from tracelens.patch.effects.words import words
from tracelens.patch.loop.facts import LoopFacts
from tracelens.patch.loop.loops import REMEMBERED, SIDE_STREAMS, Blocked, Loop, own_nodes, scope_of, side_work

_STREAM = "torch.cuda.Stream"
_CONTEXT = "torch.cuda.stream"
_EVENT = "torch.cuda.Event"
_ELSEWHERE = words("torch.cuda.set_stream torch.cuda.ExternalStream torch.cuda.StreamContext")
_CURRENT = words("torch.cuda.current_stream torch.cuda.default_stream")
_OF_STREAM = words("synchronize wait_stream wait_event record_event")
_WITH_STREAM = words("wait_stream record wait record_stream")
_SIDE = say("the file uses side streams, and")
_BY_HAND = say("make the streams in the function of the loop, and use each by its name")


@dataclass(frozen=True)
class OwnStream:
    """One stream, by its name in the loop's function. `perhaps`: it is None where there is no GPU."""

    name: str
    perhaps: bool


def check(facts: LoopFacts) -> None:
    """Raise `Blocked` unless all streams of the file are those of the loop's own function."""
    own(facts)


def own(facts: LoopFacts) -> tuple[OwnStream, ...]:
    """The streams of the file beside the current one; raises `Blocked`."""
    if all(meaning != SIDE_STREAMS for _, meaning in side_work(facts.names, facts.source.module)):
        return ()
    return _own(facts.source, facts.loop)


def lines(facts: LoopFacts, wait: cst.CSTNode) -> tuple[str, ...]:
    """What takes the place of a wait: the call of a synchronize, or a read, which waits for its own stream."""
    streams = own(facts)
    if not streams:
        return ()
    every = {"": f"{cuda(facts)}.current_stream()"} | {one.name: one.name for one in streams}
    owner = _owner(wait)
    if owner is not None and _EVENT in facts.names.made_by(owner):
        event = facts.source.code(owner)
        on = _recorded_on(facts, event)
        pairs = [(name, f"wait_event({event})", name) for name in every if name != on]
    else:
        pairs = [
            (other, f"wait_stream({every[name]})", f"{name} {other}")
            for name in _waited_for(facts, wait, frozenset(every))
            for other in every
            if other != name
        ]
    guarded = {one.name for one in streams if one.perhaps}
    out: list[str] = []
    for name, call, needed in pairs:
        tests = [f"{part} is not None" for part in needed.split() if part in guarded]
        out += [f"if {' and '.join(tests)}:", f"\t{every[name]}.{call}"] if tests else [f"{every[name]}.{call}"]
    return tuple(out)


def owner(facts: LoopFacts, call: cst.Call) -> str:
    """`done` of `done.synchronize()`, where that is an event or a stream; else ""."""
    found = _owner(call)
    known = facts.names.made_by(found) if found is not None else frozenset()
    return facts.source.code(found) if found is not None and known & {_EVENT, _STREAM, *_CURRENT} else ""


def is_event(facts: LoopFacts, call: cst.Call) -> bool:
    """Whether a synchronize waits for an event."""
    found = _owner(call)
    return found is not None and _EVENT in facts.names.made_by(found)


def place(facts: LoopFacts, node: cst.CSTNode) -> cst.CSTNode:
    """The statement behind which the lines go: where the loop's stream is the current one again."""
    chosen: cst.CSTNode | None = None
    for part in (node, *facts.source.ancestors(node)):
        if part is facts.loop:
            break
        on_stream = isinstance(part, cst.With) and _context(facts.source, part) is not None
        whole = isinstance(part, (cst.SimpleStatementLine, cst.BaseCompoundStatement))
        if on_stream or (chosen is None and whole and isinstance(facts.source.parent(part), cst.IndentedBlock)):
            chosen = part
    return facts.loop if chosen is None else chosen


def enters_stream(facts: LoopFacts, item: cst.BaseExpression) -> bool:
    """Whether the head of a `with` block issues the work of the block to another stream."""
    return _calls(facts.source, item, _CONTEXT)


def _owner(wait: cst.CSTNode) -> cst.BaseExpression | None:
    """`done` of `done.synchronize()`."""
    called = wait.func if isinstance(wait, cst.Call) else None
    return called.value if isinstance(called, cst.Attribute) and called.attr.value == "synchronize" else None


def _waited_for(facts: LoopFacts, wait: cst.CSTNode, every: frozenset[str]) -> list[str]:
    """Names of the streams that the host waits for; "" is the loop's own current stream."""
    names, owner = facts.names, _owner(wait)
    if isinstance(wait, cst.Call) and owner is not None and names.qualified(wait.func).endswith("cuda.synchronize"):
        return sorted(every)
    if isinstance(owner, cst.Name) and owner.value in every:
        return [owner.value]
    if owner is not None and not isinstance(owner, cst.Call):
        return sorted(every)  # a stream that is the current one somewhere
    for part in facts.source.ancestors(wait):
        named = _context(facts.source, part) if isinstance(part, cst.With) else None
        if named is not None:
            return [named]
        if part is facts.loop:
            break
    return [""]


def _recorded_on(facts: LoopFacts, event: str) -> str | None:
    """The one stream on which an event is recorded everywhere in the file, None where that is not certain."""
    known: set[str | None] = set()
    for node in walk(facts.source.module):
        method = node.func if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) else None
        records = method is not None and method.attr.value == "record" and facts.source.code(method.value) == event
        if isinstance(node, cst.Call) and records:
            given = node.args[0].value if len(node.args) == 1 else None
            known.add(given.value if isinstance(given, cst.Name) else None)
    return known.pop() if len(known) == 1 else None


def cuda(facts: LoopFacts) -> str:
    """`torch.cuda`, as the file calls it."""
    made = next(node for node in walk(facts.source.module) if _calls(facts.source, node, _STREAM))
    return facts.source.code(cst.ensure_type(made, cst.Call).func).removesuffix(".Stream")


@lru_cache(maxsize=REMEMBERED)
def _own(source: SourceFile, loop: Loop) -> tuple[OwnStream, ...]:
    scope = scope_of(source, loop)
    inside = set(own_nodes(scope))
    found: list[OwnStream] = []
    for node in walk(source.module):
        full = source.names.qualified(node.func) if isinstance(node, cst.Call) else ""
        if full in _ELSEWHERE:
            raise Blocked(node, say("{side} changes which is the current one", side=_SIDE), _BY_HAND)
        if full == _STREAM:
            if not source.code(cst.ensure_type(node, cst.Call).func).endswith(".Stream"):
                raise Blocked(
                    node, say("`Stream` is imported by itself"), say("import torch, and write torch.cuda.Stream()")
                )
            found.append(_made(source, loop, node, inside))
    known = {one.name for one in found}
    if len(known) < len(found):
        raise Blocked(None, say("{side} one name stands for two of them", side=_SIDE), _BY_HAND)
    for node in walk(source.module):
        if _calls(source, node, _CONTEXT) and not _enters(source, node, known, inside):
            raise Blocked(
                node, say("{side} work is issued to one that the loop's function does not make", side=_SIDE), _BY_HAND
            )
    for node in walk(scope):  # names of a function mean nothing outside
        if isinstance(node, cst.Name) and node.value in known and not _is_label(source, node):
            _check_use(source, node, inside)
    return tuple(found)


def _made(source: SourceFile, loop: Loop, call: cst.CSTNode, inside: set[cst.CSTNode]) -> OwnStream:
    """The name that a new stream gets, once and before the loop."""
    above = list(source.ancestors(call))
    statement = next((part for part in above if isinstance(part, cst.BaseSmallStatement)), None)
    obstacle = say("{side} one is made where no name tells which it is", side=_SIDE)
    if statement is None or call not in inside or not isinstance(statement, cst.Assign):
        raise Blocked(call, obstacle, _BY_HAND)
    if any(isinstance(part, (cst.For, cst.While, cst.BaseComp)) for part in above) and not _around(above, loop, source):
        raise Blocked(call, obstacle, _BY_HAND)
    value, named = statement.value, list(targets(statement))
    values = [element.value for element in value.elements] if isinstance(value, cst.Tuple) else [value]
    if len(statement.targets) != 1 or len(values) != len(named):
        raise Blocked(call, obstacle, _BY_HAND)
    for target, made in zip(named, values, strict=True):
        choice = isinstance(made, cst.IfExp) and call in (made.body, made.orelse)
        other = [part for part in (made.body, made.orelse) if part is not call] if isinstance(made, cst.IfExp) else []
        none = all(isinstance(part, cst.Name) and part.value == "None" for part in other)
        if isinstance(target, cst.Name) and (made is call or (choice and none)):
            return OwnStream(target.value, choice)
    raise Blocked(call, obstacle, _BY_HAND)


def _around(above: list[cst.CSTNode], loop: Loop, source: SourceFile) -> bool:
    """Whether the loops around a statement are all around the training loop too, which runs after it."""
    loops = [part for part in above if isinstance(part, (cst.For, cst.While, cst.BaseComp))]
    return all(part in set(source.ancestors(loop)) for part in loops)


def _enters(source: SourceFile, node: cst.CSTNode, known: set[str], inside: set[cst.CSTNode]) -> bool:
    """Whether `torch.cuda.stream(…)` is the head of a block of the loop's function, with one of its streams."""
    call = cst.ensure_type(node, cst.Call)
    given = call.args[0].value if len(call.args) == 1 else None
    named = isinstance(given, cst.Name) and given.value in known
    return named and node in inside and isinstance(source.parent(node), cst.WithItem)


def _check_use(source: SourceFile, node: cst.Name, inside: set[cst.CSTNode]) -> None:
    """Raise `Blocked` where a stream may be used by others: it is kept, handed on or bound again."""
    parent = source.parent(node)
    above = source.parent(parent) if parent is not None else None
    if isinstance(parent, cst.Attribute) and isinstance(above, cst.Call) and parent.attr.value in _OF_STREAM:
        allowed = True
    elif isinstance(parent, cst.Arg) and isinstance(above, cst.Call):
        method = method_of(above)
        allowed = method in _WITH_STREAM or source.names.qualified(above.func) == _CONTEXT
    elif isinstance(parent, (cst.Comparison, cst.If, cst.BooleanOperation, cst.UnaryOperation)):
        allowed = True
    else:
        statement = next((a for a in source.ancestors(node) if isinstance(a, cst.BaseSmallStatement)), None)
        bound = isinstance(statement, cst.Assign) and any(part is node for part in targets(statement))
        allowed = bound and _STREAM in {source.names.qualified(c.func) for c in _called(statement)}
    if not allowed or node not in inside:
        raise Blocked(node, say("{side} `{name}` may be used by other code", side=_SIDE, name=node.value), _BY_HAND)


def _called(statement: cst.CSTNode | None) -> Iterator[cst.Call]:
    return (part for part in walk(statement) if isinstance(part, cst.Call)) if statement is not None else iter(())


def _context(source: SourceFile, node: cst.With) -> str | None:
    """The name of the stream of `with torch.cuda.stream(compute):`, None for another block."""
    for item in node.items:
        if _calls(source, item.item, _CONTEXT):
            given = cst.ensure_type(item.item, cst.Call).args[0].value
            return given.value if isinstance(given, cst.Name) else None
    return None


def _calls(source: SourceFile, node: cst.CSTNode, full: str) -> bool:
    return isinstance(node, cst.Call) and source.names.qualified(node.func) == full


def _is_label(source: SourceFile, node: cst.Name) -> bool:
    """Whether a name is that of an attribute, of a keyword or of a method."""
    parent = source.parent(node)
    if isinstance(parent, cst.FunctionDef) and parent.name is node:
        block = source.parent(parent)
        return block is not None and isinstance(source.parent(block), cst.ClassDef)
    return (isinstance(parent, cst.Attribute) and parent.attr is node) or (
        isinstance(parent, cst.Arg) and parent.keyword is node
    )
