"""Settings: what a parser of the command line gives, and a namespace that a project fills itself.

In: a call of a parser's method or of a namespace's class. Out: objects. All that one parser gives is one object, whose
attributes are what the project says of them: defaults, choices, what the type makes of a text, and what is assigned.
An attribute of which it says nothing is a number or a text, as the command line has no other values.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping

from tracelens.patch.effects.classes import is_of_kind
from tracelens.patch.effects.dispatch import HELD, Arguments
from tracelens.patch.effects.holders import SETTINGS
from tracelens.patch.effects.library_calls import LibraryCall, constant, keyword
from tracelens.patch.effects.memory import ANY_KEY, NONE, PLAIN, Memory, Objects
from tracelens.patch.effects.objects import Container, Object, Thing

PARSER = "parser"
ANY_NAME = "*"
_ONE = ("?", "0", "None")
"""With these numbers of arguments a setting is no list."""


def settings_of(parser: Object, memory: Memory) -> Thing:
    """What a parser gives: one object, however often it parses."""
    return memory.make(Thing, SETTINGS, parser, None)


def _argument(call: LibraryCall) -> Objects:
    """A parser's argument: its default, its choices, and what its type makes of a text."""
    named, parser, here = call.given.named, call.name.receiver, call.here
    assert parser is not None
    nothing = frozenset[Object]({PLAIN})
    made = call.dispatch.invoke(named.get("type", NONE), Arguments((nothing,)), here)
    settings = settings_of(parser, call.memory)
    actions = call.dispatch.invoke(named.get("action", NONE) - {PLAIN}, Arguments(rest=nothing), here)
    parsed = Arguments((frozenset({parser}), frozenset({settings}), nothing, nothing))
    call.dispatch.special(actions, ("__call__",), parsed, here)
    chosen = call.dispatch.passes(named.get("choices", NONE) - {PLAIN}, here)
    value = nothing.union(made, chosen, call.given.rest, *(named.get(one, NONE) for one in ("default", "const")))
    if _is_list(here.node):
        several = call.memory.make(Container, here.node, SETTINGS)
        call.memory.write(several, ANY_KEY, value)
        value |= {several}
    call.dispatch.store({settings}, _name(here.node), value, here)
    return frozenset({parser})


def _is_list(node: ast.AST) -> bool:
    """Whether a setting may be a list: of one that cannot be told it is assumed."""
    words = {one.arg: one.value for one in node.keywords} if isinstance(node, ast.Call) else {}
    number, action = words.get("nargs"), words.get("action")
    if None in words or (number is not None and str(getattr(number, "value", "many")) not in _ONE):
        return True
    return action is not None and not str(getattr(action, "value", "append")).startswith(("store", "count", "help"))


def _name(node: ast.AST) -> str:
    """The attribute in which an argument turns up; `ANY_NAME` where its text is not written there."""
    words = {one.arg for one in node.keywords} if isinstance(node, ast.Call) else set[str | None]()
    if "dest" in words:
        return keyword(node, "dest") or ANY_NAME
    arguments = node.args if isinstance(node, ast.Call) else []
    texts = [constant(node, number) for number in range(len(arguments))]
    if None in words or not texts or None in texts:
        return ANY_NAME
    known = [one for one in texts if one is not None]
    long = next((one for one in known if not one.startswith("-") or one.startswith("--")), known[0])
    return long.lstrip("-").replace("-", "_") or ANY_NAME


def _defaults(call: LibraryCall) -> Objects:
    """`parser.set_defaults(run=train)`"""
    assert call.name.receiver is not None
    _fill(settings_of(call.name.receiver, call.memory), call)
    return frozenset({PLAIN})


def _fill(settings: Thing, call: LibraryCall) -> None:
    for name, value in call.given.named.items():
        call.dispatch.store({settings}, name, value, call.here)
    if call.given.rest:
        call.dispatch.store({settings}, ANY_NAME, call.given.rest, call.here)


def _parse(call: LibraryCall) -> Objects:
    """What a parser and those that it was made of give; into another object where it is handed one."""
    parser, here, memory = call.name.receiver, call.here, call.memory
    assert parser is not None
    out = frozenset[Object](settings_of(one, memory) for one in _parsers(parser, call))
    into = call.given.named.get("namespace", NONE).union(*call.given.positional[1:], call.given.rest) - {PLAIN}
    for one in out if into else ():
        for name in memory.names(one, here.unit):
            call.dispatch.store(into, name, memory.read(one, name, here.unit), here)
    return out | into


def _parse_known(call: LibraryCall) -> Objects:
    """The settings, and a list of texts."""
    made = call.memory.make(Container, call.here.node, call.here.maker)
    texts = call.memory.make(Container, call.here.node, SETTINGS)
    call.memory.write(texts, ANY_KEY, {PLAIN})
    call.memory.write(made, "[0]", _parse(call))
    call.memory.write(made, "[1]", {texts})
    return frozenset({made})


def _parsers(parser: Object, call: LibraryCall) -> Iterable[Object]:
    """A parser and its `parents`."""
    seen: dict[Object, None] = {}
    waiting = [parser]
    while waiting:
        one = waiting.pop()
        if one not in seen:
            seen[one] = None
            held = call.memory.read(one, HELD, call.here.unit)
            listed = call.dispatch.passes((other for other in held if isinstance(other, Container)), call.here)
            waiting += [one for one in held | listed if is_of_kind(one, PARSER, call.memory, call.here.unit)]
    return tuple(seen)


def _namespace(call: LibraryCall) -> Objects:
    """`Namespace(rate=0.1)`"""
    made = call.memory.make(Thing, SETTINGS, call.here.node, call.here.maker)
    _fill(made, call)
    if call.given.positional:  # a dict, since Python 3.13
        inside = call.dispatch.item(call.given.positional[0], ANY_KEY, call.here)
        call.dispatch.store({made}, ANY_NAME, inside, call.here)
    return frozenset({made})


CALLS: Mapping[str, Callable[[LibraryCall], Objects]] = {
    f"<{PARSER}>.add_argument": _argument,
    f"<{PARSER}>.set_defaults": _defaults,
    **dict.fromkeys((f"<{PARSER}>.{name}" for name in ("parse_args", "parse_intermixed_args")), _parse),
    **dict.fromkeys(
        (f"<{PARSER}>.{name}" for name in ("parse_known_args", "parse_known_intermixed_args")), _parse_known
    ),
    **dict.fromkeys(("argparse.Namespace", "types.SimpleNamespace"), _namespace),
}
