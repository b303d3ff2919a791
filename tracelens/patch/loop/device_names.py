"""How a file can say on which type of device its forward pass runs.

In: a parsed file and a forward pass. Out: an expression, `device.type` or `"cuda"`; "" where nothing tells it.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator
from typing import Literal

from tracelens.patch.code import devices
from tracelens.patch.code.source import SourceFile
from tracelens.patch.effects import syntax
from tracelens.patch.effects.places import last_name
from tracelens.patch.loop.forward_pass import ForwardPass
from tracelens.patch.loop.module_calls import module_calls
from tracelens.patch.loop.project_trees import dotted, full_name, own_tree
from tracelens.patch.loop.training_loops import function_around

Kind = Literal["device", "text", "other"]
_TYPES = frozenset({"cuda", "cpu", "mps", "xpu"})
"""Devices without a number: torch.autocast takes the type alone."""
_MEANS_CUDA = re.compile(r"""['"]cuda|torch\.cuda\.""")
"""What says that a file is for a GPU; a setting such as torch.backends.cuda says nothing of where it runs."""
_MAKERS = ("torch.device", "torch.accelerator.current_accelerator")


def device_type(source: SourceFile, found: ForwardPass) -> str:
    """A name of the file for it; else what its text says; else the type of what the model is given."""
    for name in _in_reach(source, found):
        kinds = set(_kinds(source, name))
        if "device" in kinds and "other" not in kinds:
            return f"{name}.type"
        if kinds == {"text"}:
            return name
    if ".cuda(" in source.text:
        return '"cuda"'
    if devices.only_cpu(source):
        return '"cpu"'
    modules = module_calls(source)
    calls = (part for one in found.statements for part in syntax.walk(one) if isinstance(part, ast.Call))
    given = (call.args[0] for call in calls if call.args and modules.called(call) is call.func)
    name = next((one.id for one in given if isinstance(one, ast.Name) and one.id not in dir(builtins)), "")
    if name:
        return f"{name}.device.type"
    return '"cuda"' if _MEANS_CUDA.search(source.text) else ""


def _in_reach(source: SourceFile, found: ForwardPass) -> Iterator[str]:
    """Names of devices that the statement can use: of its function, its object or its file."""
    tree = own_tree(source)
    function = function_around(tree, found.backward)
    names = set(_bound_here(tree))
    if function is not None:
        names |= set(_bound_here(function))
        used = (dotted(node) for node in syntax.walk(function) if isinstance(node, ast.Attribute))
        names |= {name for name in used if name.startswith("self.") and name.count(".") == 1}
    yield from sorted(name for name in names if "device" in name.lower())


def _bound_here(scope: ast.AST) -> Iterator[str]:
    """Names that a function or a file binds itself, its parameters among them."""
    if isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef):
        yield from (one.arg for one in (*scope.args.posonlyargs, *scope.args.args, *scope.args.kwonlyargs))
        parts: list[ast.stmt] = scope.body
    else:
        body: list[ast.stmt] = getattr(scope, "body", [])
        parts = [one for one in body if not isinstance(one, ast.FunctionDef | ast.ClassDef)]
    for part in parts:
        for node in syntax.walk(part):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                yield node.id


def _kinds(source: SourceFile, name: str) -> Iterator[Kind]:
    """What each statement of the project makes of a name."""
    last = name.rpartition(".")[2]
    for tree in source.trees.values():
        for node in syntax.walk(tree):
            if isinstance(node, ast.arg) and node.arg == last and node.annotation is not None:
                yield "device" if full_name(tree, node.annotation) == "torch.device" else "other"
            targets = node.targets if isinstance(node, ast.Assign) else ()
            if isinstance(node, ast.Assign) and any(last_name(target) == last for target in targets):
                yield from _kinds_of(tree, node.value, last)


def _kinds_of(tree: ast.Module, value: ast.AST, last: str) -> Iterator[Kind]:
    if isinstance(value, ast.IfExp):
        yield from _kinds_of(tree, value.body, last)
        yield from _kinds_of(tree, value.orelse, last)
    elif isinstance(value, ast.Name) and value.id == last:
        return  # handed on under its own name: another statement says what it is
    elif isinstance(value, ast.Constant):
        yield "text" if value.value in _TYPES else "other"
    elif isinstance(value, ast.Call):
        yield "device" if full_name(tree, value.func) in _MAKERS else "other"
    else:  # `next(model.parameters()).device`, and not `args.device`, which may be a text
        asked = isinstance(value, ast.Attribute) and value.attr == "device" and isinstance(value.value, ast.Call)
        yield "device" if asked else "other"
