"""Attributes that keep a value for others: `self.last_loss = loss.item()`, which `self.log_step` shows now and then.

In: the place that stores it. Out: all other places of the project that store it or look at it; `Blocked` where
somebody may find it in another way, as by the object's `__dict__`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import libcst as cst

from tracelens.messages import say
from tracelens.patch.code.names import dotted, walk
from tracelens.patch.code.source import SourceFile
from tracelens.patch.loop.loops import RETURN_TENSOR, Blocked
from tracelens.patch.recipes.carried_forms import binding
from tracelens.patch.recipes.project_calls import files_with, is_looked_up, is_object, near, place

_SEES_ALL = re.compile(
    r"__dict__|\bvars\(|\bpickle\b|\bdeepcopy\(|(?<!def )\b(save|dump|copy)\(\s*self\b|__getattr|__setattr|__slots__"
)
"""Signs that a file which has the attribute takes an object for all that is in it."""
_SEES_OTHERS = re.compile(r"(?<!args)(?<!opt)(?<!cfg)\.__dict__|\bvars\((?!\w*(args|opt|parse|conf|hparams|cfg|FLAGS))")
"""The same in a file near it; what is asked of command lines is no such sign."""


@dataclass(frozen=True)
class Mention:
    """A place with the attribute."""

    source: SourceFile
    node: cst.Attribute

    @property
    def stored(self) -> cst.Assign | None:
        """The statement that stores a value there."""
        return binding(self.source, self.node)


def mentions(source: SourceFile, attribute: cst.Attribute) -> tuple[Mention, ...]:
    """All places that mean the attribute of such an object."""
    owner, name = source.innermost(cst.ClassDef, attribute), attribute.attr.value
    if owner is None or dotted(attribute.value) != "self":
        told = say("{place} keeps it in `{name}`", place=place(source, attribute), name=source.code(attribute))
        raise Blocked(None, told, RETURN_TENSOR)
    project = source.project
    others = map(project.file, near(source))
    seen = next((one.path for one in others if one is not None and _SEES_OTHERS.search(one.text)), None)
    if seen is not None:
        raise Blocked(None, say("{path} may see all that is in the object", path=seen.name), RETURN_TENSOR)
    out: list[Mention] = []
    for file in files_with(source, name):
        if _SEES_ALL.search(file.text):
            told = say("{path} may see all that is in the object", path=file.shown)
            raise Blocked(None, told, RETURN_TENSOR)
        for node in walk(file.module):
            if isinstance(node, cst.SimpleString) and node.evaluated_value == name and is_looked_up(file, node):
                told = say("{place} has `{name}` as a text", place=place(file, node), name=name)
                raise Blocked(None, told, RETURN_TENSOR)
            if isinstance(node, cst.Attribute) and node.attr.value == name and _is_of(file, node, source, owner):
                out.append(Mention(file, node))
            elif isinstance(node, cst.Name) and node.value == name and _is_in_class(file, node):
                told = say("{place} has `{name}` for the whole class", place=place(file, node), name=name)
                raise Blocked(None, told, RETURN_TENSOR)
    return tuple(out)


def _is_of(file: SourceFile, node: cst.Attribute, source: SourceFile, owner: cst.ClassDef) -> bool:
    mine = is_object(file, node.value, source, owner)
    if mine is None:
        told = say("whether `{call}` at {place} is it cannot be told", call=file.code(node), place=place(file, node))
        raise Blocked(None, told, RETURN_TENSOR)
    return mine


def _is_in_class(file: SourceFile, node: cst.Name) -> bool:
    """Whether a name stands in the body of a class itself: a default, or a property of the name."""
    for ancestor in file.ancestors(node):
        if isinstance(ancestor, cst.FunctionDef):
            if ancestor.name is not node:
                return False
        elif isinstance(ancestor, cst.ClassDef):
            return not isinstance(file.parent(node), cst.Attribute)
    return False
