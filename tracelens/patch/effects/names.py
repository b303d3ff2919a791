"""Which variable a name means, as Python resolves it: local, of a function around, of the module, or built in.

In: a name, and the frame in which it stands. Out: the frame whose field it is and the field; None for a builtin.
"""

from __future__ import annotations

import ast
import builtins

from tracelens.patch.effects.memory import ANY_KEY, Memory
from tracelens.patch.effects.objects import Activation, Class, Frame, Function, Module
from tracelens.patch.effects.scopes import Code


def home(name: str, frame: Frame, memory: Memory) -> Frame | None:
    """The frame of which a name is a variable; None where no code binds it."""
    if isinstance(frame, Module):
        return _of_module(name, frame, memory)
    scope = memory.scope(code_of(frame))
    if name in scope.own:
        return frame
    if name in scope.module:
        return module_of(frame)
    outer = parent(frame)
    while isinstance(outer, Class):
        outer = parent(outer)
    return home(name, outer, memory)


def _of_module(name: str, module: Module, memory: Memory) -> Module | None:
    tree = module.file.tree
    bound = tree is not None and name in memory.scope(tree).own
    known = memory.fields.get(module, {})
    hidden = ("*" in known or "<star>" in known) and not hasattr(builtins, name)
    return module if bound or name in known or hidden else None


def code_of(frame: Frame) -> Code:
    if isinstance(frame, Activation):
        return frame.function.node
    if isinstance(frame, Class):
        return frame.node
    assert frame.file.tree is not None
    return frame.file.tree


def parent(frame: Activation | Class) -> Frame:
    return frame.function.frame if isinstance(frame, Activation) else frame.frame


def module_of(frame: Frame) -> Module:
    if isinstance(frame, Module):
        return frame
    return frame.function.module if isinstance(frame, Activation) else frame.module


def key(node: ast.Subscript) -> str:
    """The field of an element: by its key, where that is a constant text, or a number in a tuple."""
    value = node.slice.value if isinstance(node.slice, ast.Constant) else None
    numbered = isinstance(value, int) and isinstance(node.ctx, ast.Load)
    return f"[{value!r}]" if isinstance(value, str) or numbered else ANY_KEY


def first_parameter(function: Function) -> str:
    """The name that a method has for its object; empty where it has none."""
    arguments = (*function.node.args.posonlyargs, *function.node.args.args)
    return arguments[0].arg if arguments else ""
