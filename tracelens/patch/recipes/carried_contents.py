"""What dicts that carry values are made of: reads, which keep their tensors, and numbers, names and texts beside them.

In: a dict as it is written. Out: entries of `Contents`: what was found so far. Apart from `carried_values`, which
follows where such dicts go.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import libcst as cst

from tracelens.messages import say
from tracelens.patch.code.names import parameters
from tracelens.patch.code.source import SourceFile
from tracelens.patch.loop.loops import RETURN_TENSOR, Blocked, Loop
from tracelens.patch.recipes.carried_forms import (
    has_reads,
    is_dict,
    is_item,
    key_of,
    values,
)
from tracelens.patch.recipes.carried_numbers import may_be_tensor
from tracelens.patch.recipes.passing_functions import function_called, parameter_of, renames
from tracelens.patch.recipes.project_calls import place


@dataclass(frozen=True)
class Shape:
    """What holds the tensors: it is one ("value"), a dict of them, or a list of such things."""

    kind: str
    part: Shape | None = None


VALUE, DICT = Shape("value"), Shape("dict")


class UsedAtOnce(Blocked):
    """The function itself needs the number of a read: nobody else gets it there."""


@dataclass(frozen=True, eq=False)
class Look:
    """An expression whose numbers are needed."""

    source: SourceFile
    node: cst.BaseExpression
    shape: Shape


@dataclass(frozen=True, eq=False)
class LastValue:
    """A name that a loop fills, and of which nobody looks at anything before the loop is over."""

    source: SourceFile
    loop: Loop
    name: str
    shape: Shape


@dataclass(eq=False)
class Contents:
    """The reads that keep their tensors, and what else is in the dicts that carry these."""

    reads: dict[cst.Call, SourceFile] = field(default_factory=dict)
    keys: set[str] = field(default_factory=set)
    others: dict[str, None] = field(default_factory=dict)
    """What else the dicts hold, which is taken for numbers and texts."""
    renamed: bool = False
    _held: set[cst.CSTNode] = field(default_factory=set)
    _done: set[cst.CSTNode] = field(default_factory=set)

    def named(self, source: SourceFile, name: cst.Name, shape: Shape) -> None:
        """Follow all that means the same variable."""
        raise NotImplementedError

    def _keep(self, source: SourceFile, call: cst.Call) -> None:
        tensor = root = cst.ensure_type(call.func, cst.Attribute).value
        while isinstance(root, (cst.Call, cst.Attribute, cst.Subscript)):
            if isinstance(root, cst.Call) and source.names.qualified(root.func).startswith("numpy."):
                raise Blocked(None, say("`{value}` is an array", value=source.code(tensor)), RETURN_TENSOR)
            root = root.func if isinstance(root, cst.Call) else root.value
        self.reads[call] = source
        self._held.add(call)

    def entries(self, source: SourceFile, made: cst.BaseExpression) -> None:
        """What a dict is made of: its reads keep their tensors as well."""
        if made in self._done:
            return
        self._done.add(made)
        if isinstance(made, cst.Dict):
            for element in made.elements:
                if isinstance(element, cst.DictElement):
                    self._entry(source, element.value, element.key)
                else:
                    self.entries(source, element.value)
        elif isinstance(made, cst.Call) and is_dict(made):
            for argument in made.args:
                if argument.keyword is not None:
                    self._entry(source, argument.value, argument.keyword)
                else:
                    self.entries(source, argument.value)
        elif made not in self._held:
            self._other_dict(source, made)

    def _other_dict(self, source: SourceFile, made: cst.BaseExpression) -> None:
        called = function_called(source, made) if isinstance(made, cst.Call) else None
        if isinstance(made, cst.Call) and called is not None:
            for argument in made.args:
                if renames(called[1], parameter_of(made, called[1], argument.value)):
                    self.renamed = True
                    self._held.add(made)
                    return self.entries(source, argument.value)
        if isinstance(made, cst.Name) and any(map(has_reads, values(source, made))):
            return self.named(source, made, DICT)
        self.others[" ".join(source.code(made).split())] = None
        return None

    def _entry(self, source: SourceFile, value: cst.BaseExpression, key: cst.CSTNode | None = None) -> None:
        if isinstance(value, cst.Call) and is_item(value):
            self._keep(source, value)
            self._add_key(key)
        elif isinstance(value, cst.Name) and any(map(is_item, values(source, value))):
            for read in filter(is_item, values(source, value)):
                self._keep(source, cst.ensure_type(read, cst.Call))
            self._add_key(key)
            self.named(source, value, VALUE)
        elif value not in self._held:
            if may_be_tensor(source, value):
                told = say("{place}: `{value}` is no number", place=place(source, value), value=source.code(value))
                raise Blocked(None, told, RETURN_TENSOR)
            self.others[" ".join(source.code(value).split())] = None

    def _key(self, target: cst.Subscript) -> None:
        key = key_of(target)
        if isinstance(key, str):
            self.keys.add(key)

    def _add_key(self, key: cst.CSTNode | None) -> None:
        if isinstance(key, cst.SimpleString) and isinstance(key.evaluated_value, str):
            self.keys.add(key.evaluated_value)
        elif isinstance(key, cst.Name):
            self.keys.add(key.value)

    def _starts(self, source: SourceFile, value: cst.BaseExpression, shape: Shape) -> None:
        """Another value of a name that carries: an empty list, a dict of numbers."""
        if shape == DICT and is_dict(value):
            return self.entries(source, value)
        if shape.kind == "list" and isinstance(value, cst.List) and not value.elements:
            return None
        told = say("{place}: `{value}` is no such value", place=place(source, value), value=source.code(value))
        raise Blocked(None, told, RETURN_TENSOR)

    def _is_dict(self, source: SourceFile, name: cst.Name) -> bool:
        function = source.innermost(cst.FunctionDef, name)
        if function is not None and name.value in parameters(function):
            return True
        given = values(source, name)
        return bool(given) and all(is_dict(one) or one in self._held for one in given)

    def _is_list(self, source: SourceFile, name: cst.Name) -> bool:
        given = values(source, name)
        return bool(given) and all(isinstance(one, cst.List) and not one.elements for one in given)
