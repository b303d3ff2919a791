"""The number behind `args.workers`: the default of the command-line option that holds it.

In: a parsed file and an expression. Out: the literal in its `add_argument(…)`; None where the file does not show that
the option's value, and nothing else, arrives there.
"""

from __future__ import annotations

import libcst as cst

from tracelens.patch.code.names import dotted, targets, walk
from tracelens.patch.code.source import SourceFile


def default_of(source: SourceFile, value: cst.BaseExpression) -> cst.Integer | None:
    """The literal that decides `args.workers` or `int(args.workers)` where the command line does not."""
    if isinstance(value, cst.Call) and dotted(value.func) == "int" and len(value.args) == 1:
        value = value.args[0].value
    if not (isinstance(value, cst.Attribute) and isinstance(value.value, cst.Name)):
        return None
    name = value.attr.value
    nodes = list(walk(source.module))
    if not _holds_parsed(nodes, value.value.value) or any(_sets(node, name) for node in nodes):
        return None
    made = [node for node in nodes if isinstance(node, cst.Call) and _destination(node) == name]
    defaults = [argument.value for call in made for argument in call.args if _keyword(argument) == "default"]
    literal = defaults[0] if len(made) == len(defaults) == 1 else None
    return literal if isinstance(literal, cst.Integer) else None


def _holds_parsed(nodes: list[cst.CSTNode], name: str) -> bool:
    """Whether all that the file binds to the name is what a parser made of the command line."""
    values = [
        node.value for node in nodes if isinstance(node, cst.Assign) and any(dotted(t) == name for t in targets(node))
    ]
    parsed = [isinstance(one, cst.Call) and dotted(one.func).rpartition(".")[2] == "parse_args" for one in values]
    return bool(parsed) and all(parsed)


def _sets(node: cst.CSTNode, name: str) -> bool:
    """Whether the option's value, or its default, is set once more: `args.workers = 4`, `set_defaults(workers=4)`."""
    if isinstance(node, (cst.Assign, cst.AugAssign, cst.AnnAssign)):
        return any(isinstance(target, cst.Attribute) and target.attr.value == name for target in targets(node))
    if not isinstance(node, cst.Call):
        return False
    called = dotted(node.func).rpartition(".")[2]
    return called == "setattr" or (called == "set_defaults" and any(_keyword(one) in (name, "") for one in node.args))


def _destination(call: cst.Call) -> str:
    """The attribute in which `add_argument("-j", "--num-workers", …)` puts its value; empty for other calls."""
    if dotted(call.func).rpartition(".")[2] != "add_argument":
        return ""
    given = next((one.value for one in call.args if _keyword(one) == "dest"), None)
    if given is not None:
        return str(given.evaluated_value) if isinstance(given, cst.SimpleString) else ""
    unnamed = (one.value for one in call.args if one.keyword is None)
    words = [str(one.evaluated_value) for one in unnamed if isinstance(one, cst.SimpleString)]
    chosen = next((word for word in words if word.startswith("--")), words[0] if words else "")
    return chosen.lstrip("-").replace("-", "_")


def _keyword(argument: cst.Arg) -> str:
    return argument.keyword.value if argument.keyword is not None else ""
