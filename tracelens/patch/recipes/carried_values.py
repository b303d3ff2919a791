"""Where the numbers go that a function gives to its callers: through dicts, lists and names, to whoever looks at them.

In: reads of a step function. Out: `Carried`: the reads that can keep the tensor, and each look, where the number is
read instead. What only carries a value (a dict that is filled, a list that grows, a function that renames keys) looks
at nothing; all else is a look. `Blocked` with the place where it cannot be followed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice

import libcst as cst

from tracelens.messages import say
from tracelens.patch.code.names import dotted, parameters, walk
from tracelens.patch.code.source import SourceFile
from tracelens.patch.loop.loops import RETURN_TENSOR, Blocked, Loop, loops_around, own_nodes
from tracelens.patch.recipes import carried_looks
from tracelens.patch.recipes.carried_attributes import mentions
from tracelens.patch.recipes.carried_contents import DICT, VALUE, Contents, LastValue, Look, Shape, UsedAtOnce
from tracelens.patch.recipes.carried_forms import (
    always_returns,
    binding,
    given_to,
    is_item,
    is_label,
    is_target,
    key_of,
    only_fills,
    parts_of,
    places,
)
from tracelens.patch.recipes.passing_functions import function_called, parameter_of, renames
from tracelens.patch.recipes.project_calls import calls_of, place, used_calls_of

_SILENT = frozenset({"keys", "clear"})
"""Methods of a dict that look at none of its values."""


@dataclass(eq=False)
class Carried(Contents):
    """What was found so far of the reads of one function, and of those that go the same way."""

    looks: list[Look] = field(default_factory=list)
    lasts: dict[tuple[Loop, str], LastValue] = field(default_factory=dict)
    loops: dict[Loop, SourceFile] = field(default_factory=dict)
    """The loops that call such a function."""
    givers: dict[str, None] = field(default_factory=dict)
    _bound: list[tuple[SourceFile, cst.Assign, Shape]] = field(default_factory=list)
    _keyed: list[tuple[SourceFile, cst.Subscript]] = field(default_factory=list)
    """Values that are taken out of a dict by a key; that has to be one of a tensor."""
    _behind: set[cst.CSTNode] = field(default_factory=set)
    """Places behind a loop that has the last values: these are numbers there."""

    def follow(self, source: SourceFile, call: cst.Call) -> None:
        """Follow a read, which keeps the tensor from now on."""
        if call not in self.reads:
            self._keep(source, call)
            self._holds(source, call, VALUE)

    def finish(self) -> None:
        """Raise `Blocked` where a name that carries the values has others as well, of another kind."""
        while self._bound:
            source, node, shape = self._bound.pop()
            if node.value not in self._held:
                self._starts(source, node.value, shape)
        for source, asked in self._keyed:
            key = key_of(asked)
            if self.others and (self.renamed or not isinstance(key, str) or key not in self.keys):
                told = say("{place}: `{code}` may be no tensor", place=place(source, asked), code=source.code(asked))
                raise Blocked(None, told, RETURN_TENSOR)

    # --------------------------------------------------------------------------------- what becomes of a value

    def _holds(self, source: SourceFile, node: cst.BaseExpression, shape: Shape) -> None:
        """An expression gives the tensors: into what?"""
        self._held.add(node)
        parent = source.parent(node)
        if isinstance(parent, cst.Expr):
            return
        if isinstance(parent, cst.Arg):
            self._argument(source, parent, node, shape)
        elif isinstance(parent, cst.Return):
            self._returned(source, node, shape)
        elif isinstance(parent, cst.Assign) and len(parent.targets) == 1:
            self._assigned(source, parent.targets[0].target, shape)
        elif (isinstance(parent, cst.DictElement) and parent.value is node and shape == VALUE) or (
            isinstance(parent, cst.StarredDictElement) and shape == DICT
        ):
            self._dict(source, parent)
        elif isinstance(parent, cst.Element) and isinstance(source.parent(parent), cst.Tuple) and shape == VALUE:
            self._one_of_several(source, cst.ensure_type(source.parent(parent), cst.Tuple), parent)
        elif not self._part(source, node, parent, shape):
            self._look(source, node, shape)

    def _dict(self, source: SourceFile, element: cst.BaseDictElement) -> None:
        made = source.parent(element)
        if isinstance(made, cst.Dict):
            self.entries(source, made)
            self._once(source, made, DICT)

    def _once(self, source: SourceFile, node: cst.BaseExpression, shape: Shape) -> None:
        if node not in self._held:
            self._holds(source, node, shape)

    def _look(self, source: SourceFile, node: cst.BaseExpression, shape: Shape) -> None:
        if node in self.reads:
            told = say("{place}: the function itself uses the value", place=place(source, node))
            raise UsedAtOnce(None, told, RETURN_TENSOR)
        parent = source.parent(node)
        stored = isinstance(parent, (cst.AugAssign, cst.AnnAssign, cst.NamedExpr)) and parent.target is node
        if (
            stored
            or isinstance(parent, (cst.Del, cst.Return, cst.Yield))
            or (isinstance(parent, cst.AugAssign) and shape != VALUE)
        ):
            self._stop(source, node)
        if shape != VALUE:
            carried_looks.check(source, node)
        if not any(one.node is node for one in self.looks):
            self.looks.append(Look(source, node, shape))

    def _argument(self, source: SourceFile, argument: cst.Arg, node: cst.BaseExpression, shape: Shape) -> None:
        call = source.parent(argument)
        if not isinstance(call, cst.Call):
            return self._look(source, node, shape)
        func, alone = call.func, isinstance(source.parent(call), cst.Expr)
        if dotted(func) == "dict" and (
            (argument.keyword and shape == VALUE) or (argument.star == "**" and shape == DICT)
        ):
            self.entries(source, call)
            return self._once(source, call, DICT)
        if dotted(func) == "len" and shape != VALUE:
            return None
        if isinstance(func, cst.Attribute) and isinstance(func.value, cst.Name) and alone and not argument.keyword:
            if func.attr.value == "update" and shape == DICT and self._is_dict(source, func.value):
                return self.named(source, func.value, DICT)
            if func.attr.value == "append" and self._is_list(source, func.value):
                return self.named(source, func.value, Shape("list", shape))
        return self._handed(source, call, node, shape)

    def _handed(self, source: SourceFile, call: cst.Call, node: cst.BaseExpression, shape: Shape) -> None:
        """A function of the project gets a dict: it may give the same values back, or only add to it."""
        called = function_called(source, call) if shape == DICT else None
        name = parameter_of(call, called[1], node) if called is not None else ""
        if called is not None and name:
            if renames(called[1], name):
                self.renamed = True
                return self._holds(source, call, DICT)
            uses = [one for one in own_nodes(called[1]) if isinstance(one, cst.Name) and one.value == name]
            if uses and all(only_fills(called[0], one) for one in uses):
                for one in uses:
                    self._used(called[0], one, DICT)
                return None
        return self._look(source, node, shape)

    def _returned(self, source: SourceFile, node: cst.BaseExpression, shape: Shape, number: int | None = None) -> None:
        function = source.innermost(cst.FunctionDef, node)
        returns = [one for one in own_nodes(function) if isinstance(one, cst.Return)] if function is not None else []
        if function is None or (len(returns) > 1 and shape != DICT) or not always_returns(function.body):
            raise Blocked(
                None,
                say("{place}: the function returns at several places, or not always", place=place(source, node)),
                RETURN_TENSOR,
            )
        for one in returns:
            if one.value not in self._held and shape == DICT:
                self._starts_again(source, one)
        if function in self._done:
            return
        self.givers[function.name.value] = None
        self._done |= {function} if number is None else set()
        for found in used_calls_of(source, function):
            self._around(found.source, found.call)
            if number is None:
                self._holds(found.source, found.call, shape)
            else:
                self._unpacked(found.source, found.call, number)

    def _starts_again(self, source: SourceFile, returned: cst.Return) -> None:
        """What the function gives at another place: a dict as well."""
        if isinstance(returned.value, cst.Name):
            self.named(source, returned.value, DICT)
        elif returned.value is None:
            self._stop(source, returned)
        else:
            self._starts(source, returned.value, DICT)

    def _unpacked(self, source: SourceFile, call: cst.Call, number: int) -> None:
        """`loss, accuracy = step(x)`, or `result = step(x)` and `result[0]`: the part of the result with the value."""
        if isinstance(source.parent(call), cst.Expr):
            return
        target = given_to(source, call)
        picked = parts_of(source, target, number) if isinstance(target, cst.Name) else None
        if picked is not None:
            self._held.add(call)
            for one in picked:
                self._used(source, one, VALUE)
            return
        parts = target.elements if isinstance(target, cst.Tuple) else ()
        plain = number < len(parts) and not any(isinstance(one, cst.StarredElement) for one in parts)
        if not plain or not isinstance(parts[number].value, cst.Name):
            told = say("{place} does not take the results apart", place=place(source, call))
            raise Blocked(None, told, RETURN_TENSOR)
        self._held.add(call)
        self.named(source, cst.ensure_type(parts[number].value, cst.Name), VALUE)

    def _around(self, source: SourceFile, call: cst.Call) -> None:
        for loop in islice(loops_around(source, call), 1):
            self.loops[loop] = source

    def _one_of_several(self, source: SourceFile, made: cst.Tuple, part: cst.BaseElement) -> None:
        if not isinstance(source.parent(made), cst.Return):
            return self._look(source, part.value, VALUE)
        self._held.add(made)
        return self._returned(source, made, VALUE, list(made.elements).index(part))

    def _assigned(self, source: SourceFile, target: cst.BaseExpression, shape: Shape) -> None:
        if isinstance(target, cst.Name):
            self.named(source, target, shape)
        elif isinstance(target, cst.Subscript) and isinstance(target.value, cst.Name) and shape == VALUE:
            self._key(target)
            if not self._is_dict(source, target.value):
                self._stop(source, target)
            self.named(source, target.value, DICT)
        elif isinstance(target, cst.Attribute) and shape == VALUE:
            self._attribute(source, target)
        else:
            told = say("{place} keeps it in `{name}`", place=place(source, target), name=source.code(target))
            raise Blocked(None, told, RETURN_TENSOR)

    def _attribute(self, source: SourceFile, attribute: cst.Attribute) -> None:
        """An object that keeps the last value, until somebody asks for it."""
        function = source.innermost(cst.FunctionDef, attribute)
        if function is None or attribute in self._done:
            return
        self.givers[function.name.value] = None
        found = mentions(source, attribute)
        self._done |= {one.node for one in found}
        for called in used_calls_of(source, function):
            self._around(called.source, called.call)
        for one in found:
            if one.stored is None:
                self._used(one.source, one.node, VALUE)
            elif is_item(one.stored.value):
                self._keep(one.source, cst.ensure_type(one.stored.value, cst.Call))
            else:
                self._stop(one.source, one.node)

    # ------------------------------------------------------------------------------------------- what names mean

    def named(self, source: SourceFile, name: cst.Name, shape: Shape) -> None:
        """Follow all that means the same variable."""
        if name in self._behind:
            self._stop(source, name)
        if name in self._done:
            return None
        parameter = source.innermost(cst.FunctionDef, name)
        if parameter is not None and name.value in parameters(parameter):
            return self._parameter(source, parameter, name.value, shape)
        found = places(source, name)
        if found is None:
            told = say("{place}: who uses `{name}` cannot be told", place=place(source, name), name=name.value)
            raise Blocked(None, told, RETURN_TENSOR)
        self._done |= set(found)
        last = self._last(source, found, name, shape)
        for one in found:
            if is_target(source, one):
                self._binding(source, one, shape)
            elif last is None or source.span(one)[0] < source.span(last)[1]:
                self._used(source, one, shape)
        return None

    def _binding(self, source: SourceFile, name: cst.Name, shape: Shape) -> None:
        """A place that gives the name a value, which has to be of the same kind."""
        statement = binding(source, name)
        several = next((one for one in source.ancestors(name) if isinstance(one, cst.BaseSmallStatement)), None)
        if statement is not None:
            self._bound.append((source, statement, shape))
        elif not isinstance(several, cst.Assign) or several.value not in self._held:
            self._stop(source, name)

    def _stop(self, source: SourceFile, node: cst.CSTNode) -> None:
        raise Blocked(None, say("{place} cannot be followed", place=place(source, node)), RETURN_TENSOR)

    def _last(self, source: SourceFile, found: tuple[cst.Name, ...], name: cst.Name, shape: Shape) -> Loop | None:
        """The loop that fills a name that is bound above it, and in which nobody looks at it."""
        loop, outer, *_ = (*loops_around(source, name), None, None)
        if loop is None or loop.orelse is not None or shape == VALUE:
            return None
        start, end = source.span(loop)
        inside = [one for one in found if start <= source.span(one)[0] < end]
        behind = [one for one in found if source.span(one)[0] >= end]
        first = source.span(outer)[0] if outer is not None else 0
        bound = any(binding(source, one) is not None and first <= source.span(one)[0] < start for one in found)
        caught = any(isinstance(one, cst.Try) for one in source.ancestors(loop))
        if caught or not bound or not behind or not all(only_fills(source, one) for one in inside):
            return None
        self._behind |= set(behind)
        self.lasts[loop, name.value] = LastValue(source, loop, name.value, shape)
        return loop

    def _parameter(self, source: SourceFile, function: cst.FunctionDef, name: str, shape: Shape) -> None:
        """A dict that the callers hand over, and that the function only fills."""
        uses = [one for one in walk(function.body) if isinstance(one, cst.Name) and one.value == name]
        if shape != DICT or not all(only_fills(source, one) for one in uses):
            told = say("{place} uses `{name}`, which was handed over", place=place(source, function), name=name)
            raise Blocked(None, told, RETURN_TENSOR)
        self._done |= set(uses)
        for one in uses:
            self._used(source, one, DICT)
        self.givers[function.name.value] = None
        for found in calls_of(source, function):
            given = [one.value for one in found.call.args if parameter_of(found.call, function, one.value) == name]
            if len(given) != 1 or not isinstance(given[0], cst.Name):
                told = say("{place} does not hand over a dict of its own", place=place(found.source, found.call))
                raise Blocked(None, told, RETURN_TENSOR)
            self._around(found.source, found.call)
            self.named(found.source, given[0], DICT)

    def _used(self, source: SourceFile, node: cst.BaseExpression, shape: Shape) -> None:
        """One place that has the value: what it does with it."""
        if shape == VALUE or not self._part(source, node, source.parent(node), shape):
            self._holds(source, node, shape)

    def _part(self, source: SourceFile, node: cst.BaseExpression, parent: cst.CSTNode | None, shape: Shape) -> bool:
        """Methods and parts of a dict or a list; False for any other use."""
        if shape == VALUE:
            return False
        if isinstance(parent, cst.Attribute) and parent.value is node:
            return self._method(source, parent, shape)
        if isinstance(parent, cst.Subscript) and parent.value is node:
            self._subscript(source, node, parent, shape)
            return True
        if isinstance(parent, (cst.For, cst.CompFor)) and parent.iter is node and shape.part is not None:
            return self._passed(source, parent, shape.part)
        if isinstance(parent, cst.ComparisonTarget) and isinstance(parent.operator, (cst.In, cst.NotIn)):
            return shape == DICT
        truth = isinstance(parent, (cst.If, cst.While)) and parent.test is node
        return truth or (isinstance(parent, cst.UnaryOperation) and isinstance(parent.operator, cst.Not))

    def _method(self, source: SourceFile, attribute: cst.Attribute, shape: Shape) -> bool:
        name, call = attribute.attr.value, source.parent(attribute)
        if not isinstance(call, cst.Call) or call.func is not attribute:
            return False
        alone = isinstance(source.parent(call), cst.Expr)
        if name in _SILENT or (name == "append" and shape.kind == "list" and alone):
            return name != "append" or call.args[0].value in self._held
        if name == "update" and shape == DICT and alone:
            for argument in call.args:
                if argument.keyword is not None:
                    self._entry(source, argument.value)
                else:
                    self.entries(source, argument.value)
            return True
        return False

    def _subscript(self, source: SourceFile, node: cst.BaseExpression, parent: cst.Subscript, shape: Shape) -> None:
        above = source.parent(parent)
        key = key_of(parent)
        if isinstance(above, cst.AssignTarget):
            statement = cst.ensure_type(source.parent(above), cst.Assign)
            if statement.value not in self._held:
                self._entry(source, statement.value)
        elif isinstance(above, cst.Del):
            pass
        elif shape.part is not None and key is not None and not isinstance(key, str):
            self._used(source, parent, shape.part)
        elif shape != DICT:
            self._look(source, node, shape)
        else:
            self._keyed.append((source, parent))
            self._used(source, parent, VALUE)

    def _passed(self, source: SourceFile, loop: cst.For | cst.CompFor, part: Shape) -> bool:
        """`for log in logs`: each of them is what the list holds."""
        if not isinstance(loop.target, cst.Name):
            return False
        around = source.parent(loop) if isinstance(loop, cst.CompFor) else loop.body
        if around is None or (isinstance(loop, cst.CompFor) and loop.inner_for_in is not None):
            return False
        name = loop.target.value
        uses = [n for n in walk(around) if isinstance(n, cst.Name) and n.value == name and n is not loop.target]
        plain = [n for n in uses if not is_label(source, n)]
        if isinstance(loop, cst.For) and any(isinstance(source.parent(n), cst.AssignTarget) for n in plain):
            return False
        for one in plain:
            self._done.add(one)
            self._used(source, one, part)
        return True
