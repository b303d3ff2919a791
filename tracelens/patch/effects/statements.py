"""What statements do: assignments, loops, blocks, definitions, imports.

In: the body of a module or function. Out: nothing; variables, effects and calls are entered into memory.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from tracelens.messages import say
from tracelens.patch.effects import classes, implicit, names, syntax
from tracelens.patch.effects.classes import marks
from tracelens.patch.effects.dispatch import HELD, RETURN, STATE, Arguments, Dispatch
from tracelens.patch.effects.expressions import STAR, Expressions
from tracelens.patch.effects.helper_file import RUNTIME
from tracelens.patch.effects.memory import ANY_KEY, BASES, CLASS, DATA, MEMBERS, NONE, PLAIN, RAISED, Objects, is_tensor
from tracelens.patch.effects.objects import (
    RAISES,
    WRITES,
    Activation,
    Class,
    Container,
    Effect,
    Frame,
    Function,
    Instance,
    Module,
    Name,
    Object,
    Part,
    Thing,
)
from tracelens.patch.effects.project import Project

_MARKED = frozenset({"property", "cached_property", "setter", "getter", "deleter", "staticmethod", "classmethod"})
_CHANGED_IN_PLACE = (Container, Instance, Thing)


class Statements(Expressions):
    """Runs the statements of one unit. `alone`: without those within others."""

    def __init__(
        self, unit: Module | Activation, frame: Frame, dispatch: Dispatch, project: Project, *, alone: bool = False
    ) -> None:
        super().__init__(unit, frame, dispatch)
        self.project = project
        self.alone = alone

    def run(self, body: Iterable[ast.stmt]) -> None:
        for statement in () if self.alone else body:
            self.look_at(self.memory.waiting.part(self.unit, self.frame, statement))

    def look_at(self, part: Part) -> None:
        """Run one statement."""
        waiting = self.memory.waiting
        outer, waiting.present = waiting.present, part
        waiting.parts.pop(part, None)
        _KINDS.get(type(part.statement), Statements._nothing)(self, part.statement)
        waiting.present = outer

    def _nothing(self, node: ast.stmt) -> None:
        """`pass`, `break`, `global` …"""

    def _expression(self, node: ast.Expr) -> None:
        self.value(node.value)

    def _assign(self, node: ast.Assign) -> None:
        if isinstance(node.value, ast.Tuple) and self._side_by_side(node, node.value):
            return
        value = self.value(node.value)
        for target in node.targets:
            self.assign(target, value)

    def _side_by_side(self, node: ast.Assign, value: ast.Tuple) -> bool:
        """`a, b = x, y`: each name gets its own."""
        target = node.targets[0]
        same = isinstance(target, ast.Tuple) and len(node.targets) == 1 and len(target.elts) == len(value.elts)
        if not same or not isinstance(target, ast.Tuple):
            return False
        if any(isinstance(one, ast.Starred) for one in (*target.elts, *value.elts)):
            return False
        values = [self.value(one) for one in value.elts]
        for name, one in zip(target.elts, values, strict=True):
            self.assign(name, one)
        return True

    def _annotated(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.assign(node.target, self.value(node.value))

    def _augmented(self, node: ast.AugAssign) -> None:
        before = self._before(node.target)
        given = self._operand(node.value)
        here = self.here(node)
        changed = frozenset(one for one in before - {DATA} if isinstance(one, _CHANGED_IN_PLACE))
        if PLAIN in before:  # of a number it makes another one
            if PLAIN in given and not any(map(_is_told_apart, before | given)):
                self.memory.summary(self.unit).doubtful.add(node)  # adding numbers calls nothing
            likely = {(node, one) for one in changed if not _is_told_apart(one)}
            self.memory.summary(self.unit).may_change |= likely
        lists = any(isinstance(one, Container) for one in changed)
        added = self.dispatch.passes(given, here) if lists else NONE
        for one in changed:
            for name in (ANY_KEY, STATE):
                self.memory.effect(self.unit, node, Effect(WRITES, one, name))
            if isinstance(one, Container):
                self.memory.write(one, ANY_KEY, added)
        names = {"Add": "__iadd__", "Sub": "__isub__", "Mult": "__imul__", "Div": "__itruediv__"}
        own = self.dispatch.special(before, (names.get(type(node.op).__name__, "__iadd__"),), Arguments((given,)), here)
        self.assign(node.target, own | changed | self.operation(before, type(node.op), given, node))

    def _before(self, target: ast.expr) -> Objects:
        """What an augmented assignment's target stands for before it."""
        if isinstance(target, ast.Name):
            return self.name(target.id, target)
        if isinstance(target, ast.Attribute):
            return self.dispatch.load(self.value(target.value), target.attr, self.here(target))
        assert isinstance(target, ast.Subscript)
        return self._subscript(target)

    def _delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            if isinstance(target, ast.Name):
                self.bind(target.id, NONE, target)
            elif isinstance(target, ast.Subscript):
                owners = self.value(target.value)
                self.value(target.slice)
                self.dispatch.store_item(owners, names.key(target), NONE, self.here(target))
                self.dispatch.special(owners, ("__delitem__",), Arguments((frozenset({PLAIN}),)), self.here(target))
            elif isinstance(target, ast.Attribute):
                self.dispatch.store(self.value(target.value), target.attr, NONE, self.here(target))

    # -------------------------------------------------------------------------------------------------------- blocks

    def _for(self, node: ast.For) -> None:
        over = self.value(node.iter)
        self.assign(node.target, self.dispatch.rounds(over, self.here(node)))
        self.run(node.body)
        self.run(node.orelse)

    def _while(self, node: ast.While) -> None:
        self.truth(node.test)
        self.run(node.body)
        self.run(node.orelse)

    def _if(self, node: ast.If) -> None:
        outside, self.ends_nothing = self.ends_nothing, not any(map(_may_end, syntax.walk(node)))
        self.truth(node.test)
        self.ends_nothing = outside
        self.run(node.body)
        self.run(node.orelse)

    def _with(self, node: ast.With) -> None:
        for item in node.items:
            entered = self.dispatch.enter(self.value(item.context_expr), self.here(item.context_expr))
            if item.optional_vars is not None:
                self.assign(item.optional_vars, entered)
        self.run(node.body)

    def _try(self, node: ast.Try) -> None:
        self.run(node.body)
        for handler in node.handlers:
            self.value(handler.type)
            if handler.name:
                raised = self.memory.read(RAISED, HELD, self.unit) | {PLAIN}
                groups = isinstance(node, ast.TryStar)
                self.bind(handler.name, self._kept_in(handler, raised) if groups else raised, handler)
            self.run(handler.body)
        self.run(node.orelse)
        self.run(node.finalbody)

    def _kept_in(self, node: ast.AST, objects: Objects) -> Objects:
        """A library's exception that has the objects."""
        return self.dispatch.made(HELD, objects - {PLAIN}, Thing, "holder", node, self.here(node).maker)

    def _match(self, node: ast.Match) -> None:
        value = self.value(node.subject)
        self.dispatch.libraries.through(value, implicit.PASS, self.here(node.subject))
        for case in node.cases:
            for part in syntax.walk(case.pattern):
                name = getattr(part, "name", None) or getattr(part, "rest", None)
                if isinstance(name, str):
                    self.bind(name, value | self.unpacked(value, node), part)
            if case.guard is not None:
                self.truth(case.guard)
            self.run(case.body)

    def _return(self, node: ast.Return) -> None:
        value = self.value(node.value) if node.value is not None else frozenset({PLAIN})
        self.memory.write(self.unit, RETURN, value)
        if isinstance(self.unit, Activation) and self.memory.scope(self.unit.function.node).generator:
            self.memory.write(RAISED, HELD, self._kept_in(node, value))  # as the value of a `StopIteration`

    def _raise(self, node: ast.Raise) -> None:
        raised = self.value(node.exc)
        for one in [one for one in raised if isinstance(one, Class)]:
            raised |= self.dispatch.instantiate(one, Arguments(), self.here(node))
        raised |= self.value(node.cause)
        self.memory.write(RAISED, HELD, (one for one in raised if isinstance(one, (Instance, Thing))))
        self._run(raised, implicit.TEXT, node)  # whoever handles it, or the end of the process, shows it
        self.memory.effect(self.unit, node, Effect(RAISES))

    def _assert(self, node: ast.Assert) -> None:
        self.truth(node.test)
        checks_type = isinstance(node.test, ast.Call) and getattr(node.test.func, "id", "") == "isinstance"
        said = self.value(node.msg)
        self._run(said, implicit.TEXT, node)
        if said - {PLAIN}:
            self.memory.write(RAISED, HELD, self._kept_in(node, said))
        if not checks_type:
            self.memory.effect(self.unit, node, Effect(RAISES))

    # --------------------------------------------------------------------------------------------------- definitions

    def _define(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        made = self.function(node)
        value: Objects = frozenset({made})
        for decorator in reversed(node.decorator_list):
            called = self.value(decorator)
            if not marks(made) & _MARKED or any(isinstance(one, (Class, Function, Instance)) for one in called):
                value |= self.dispatch.invoke(called, Arguments((value,)), self.here(decorator)) - {PLAIN}
        if "setter" in marks(made):
            self.memory.write(self.frame, f"{node.name}.setter", value)
        else:
            self.bind(node.name, value, node)

    def _define_class(self, node: ast.ClassDef) -> None:
        made = self.memory.make(Class, node, self.frame, _module(self.frame))
        for number, base in enumerate(node.bases):
            self.memory.write(made, f"{BASES}{number}", self.value(base))
        for keyword in node.keywords:
            self.value(keyword.value)
        inside = Statements(self.unit, made, self.dispatch, self.project, alone=self.alone)
        inside.run(node.body)
        self._enumerate(made)
        value: Objects = frozenset({made})
        for decorator in reversed(node.decorator_list):
            value |= self.dispatch.invoke(self.value(decorator), Arguments((value,)), self.here(decorator)) - {PLAIN}
        self.bind(node.name, value, node)

    def _enumerate(self, made: Class) -> None:
        """The members of an enumeration are objects of its class, each with its value."""
        bases = [one.full for one in classes.order(made, self.memory, self.unit) if isinstance(one, Name)]
        if not any(base.startswith("enum.") for base in bases):
            return
        for part in made.node.body:
            for target in part.targets if isinstance(part, ast.Assign) else ():
                if isinstance(target, ast.Name) and not target.id.startswith("_"):
                    member = self.memory.make(Instance, made, target, None)
                    value = self.memory.read(made, target.id, self.unit) - {member}
                    for name in ("value", "_value_"):
                        self.memory.write(member, name, value)
                    self.memory.write(member, "name", {PLAIN})
                    self.memory.write(member, CLASS, {made})
                    self.memory.write(made, MEMBERS, {member})
                    self.memory.write(made, target.id, {member})

    # ------------------------------------------------------------------------------------------------------- imports

    def _import(self, node: ast.Import) -> None:
        for alias in node.names:
            module = self._imported(alias.name, 0, node)
            first = alias.name.partition(".")[0]
            self.bind(alias.asname or first, module if alias.asname else self._imported(first, 0, node), node)

    def _imported(self, name: str, dots: int, node: ast.stmt) -> Objects:
        """The module of that name, which runs where it is the project's; a library's by its name."""
        path = self.project.module(name, dots, self._path)
        file = self.project.file(path) if path is not None else None
        if name == "__main__":
            return frozenset(self.memory.objects(Module))
        if path is None and not dots:
            return frozenset({self.memory.make(Name, name, None)})
        if file is None or file.tree is None:
            return self.memory.unknown(say("the module `{name}`", name=name or "."))
        module = self.memory.make(Module, file)
        if module is not self.unit:
            self.memory.calls(self.unit, node, module)
            self.dispatch.first(module)
        outer, _, last = name.rpartition(".")
        for one in self._imported(outer, dots, node) if outer else ():
            if isinstance(one, Module):
                self.memory.write(one, last, {module})
        return frozenset({module})

    def _import_from(self, node: ast.ImportFrom) -> None:
        name = node.module or ""
        module = self._imported(name, node.level, node)
        for alias in node.names:
            if alias.name == "*":
                self._import_all(module)
                continue
            inner = f"{name}.{alias.name}" if name else alias.name
            path = self.project.module(inner, node.level, self._path)
            if path is None and alias.name == RUNTIME:  # the helpers of an earlier patch, in their package
                self.bind(alias.asname or RUNTIME, frozenset({self.memory.make(Name, RUNTIME, None)}), node)
                continue
            value = self._imported(inner, node.level, node) if path is not None else NONE
            if path is None or (path.is_file() and not _is_folder(module)):
                value |= self.dispatch.load(module, alias.name, self.here(node))
            if path is None and _is_folder(module):  # a library of the same name as a folder of the project
                value |= {self.memory.make(Name, inner, None)}
            self.bind(alias.asname or alias.name, value, node)

    def _import_all(self, modules: Objects) -> None:
        for module in modules:
            if isinstance(module, Module):
                for known in self.memory.names(module, self.unit):
                    self.memory.write(self.frame, known, self.memory.read(module, known, self.unit))
            else:
                self.memory.write(self.frame, STAR, {module})

    @property
    def _path(self) -> Path:
        return _module(self.frame).file.path


def _is_folder(modules: Objects) -> bool:
    return any(isinstance(one, Module) and one.file.path.suffix != ".py" for one in modules)


def _module(frame: Frame) -> Module:
    if isinstance(frame, Module):
        return frame
    return frame.function.module if isinstance(frame, Activation) else frame.module


def _may_end(node: ast.AST) -> bool:
    """Whether a node ends a loop or a function, or keeps a constant, by which somebody else may."""
    kept = isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
    return kept or isinstance(node, (ast.Break, ast.Return, ast.Raise))


_KINDS: Mapping[type[ast.stmt], Callable[..., None]] = {
    ast.Expr: Statements._expression,
    ast.Assign: Statements._assign,
    ast.AnnAssign: Statements._annotated,
    ast.AugAssign: Statements._augmented,
    ast.Delete: Statements._delete,
    ast.For: Statements._for,
    ast.AsyncFor: Statements._for,
    ast.While: Statements._while,
    ast.If: Statements._if,
    ast.With: Statements._with,
    ast.AsyncWith: Statements._with,
    ast.Try: Statements._try,
    ast.TryStar: Statements._try,
    ast.Match: Statements._match,
    ast.Return: Statements._return,
    ast.Raise: Statements._raise,
    ast.Assert: Statements._assert,
    ast.FunctionDef: Statements._define,
    ast.AsyncFunctionDef: Statements._define,
    ast.ClassDef: Statements._define_class,
    ast.Import: Statements._import,
    ast.ImportFrom: Statements._import_from,
}


def _is_told_apart(one: Object) -> bool:
    """Whether it is an object of the project's class or a tensor that others may have, which a sum changes for them."""
    return isinstance(one, Instance) or is_tensor(one)
