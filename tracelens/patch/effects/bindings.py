"""All that a variable, or an attribute of an object, is ever given: in whichever scope, function or file.

In: an analysis, and a variable by its frame. Out: `Binding`s; one without a value is one that the text does not show.
Python binds a name in many ways (`global`, `for`, `with`, `import`, another module's `train.loss = …`): whatever stores
it has entered so, and is found by that.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from tracelens.patch.effects.analysis import Analysis
from tracelens.patch.effects.memory import DATA, SHARED, Unit
from tracelens.patch.effects.names import code_of, module_of
from tracelens.patch.effects.objects import WRITES, Activation, Callbacks, Function, Method, Module, Object
from tracelens.patch.effects.places import path_to
from tracelens.patch.effects.scopes import defaults, parameters


@dataclass(frozen=True)
class Binding:
    """`value` is evaluated in `unit`; of several values at once it is the one at `part`.

    `loop`: it is what a pass over the value gives. `added`: the operation of an augmented assignment.
    """

    unit: Module | Activation
    value: ast.expr | None = None
    part: tuple[int, ...] = ()
    loop: bool = False
    added: ast.operator | None = None


class Bindings:
    """Asks one analysis."""

    def __init__(self, analysis: Analysis) -> None:
        self.analysis = analysis
        self.memory = analysis.memory

    def of_variable(self, home: Module | Activation, name: str) -> Sequence[Binding]:
        """Every binding of a variable; none for one that is hidden (`vars().update(…)`)."""
        hidden = self._by_anybody(name) if isinstance(home, Module) else False
        if hidden or self.memory.has(home, "*"):
            return ()
        out = [self._binding(unit, node) for unit, node in self._stored.get((home, name), ())]
        if isinstance(home, Activation) and name in parameters(home.function.node):
            out += self._handed(home, name)
        return out

    def are_of(self, home: Module | Activation, name: str) -> bool:
        """Whether all of a variable's bindings but those of its parameters stand in the code whose variable it is."""
        return all(unit is home for unit, _ in self._stored.get((home, name), ()))

    def of_attribute(self, owner: Object, name: str) -> Sequence[Binding]:
        """Every binding of an attribute."""
        if self._by_anybody(name) or self.memory.has(owner, "*"):
            return ()
        return [self._binding(unit, node) for unit, node in self._stored.get((owner, name), ())]

    def replaced(self, attribute: str) -> frozenset[Object]:
        """The objects whose attribute is given another value, not only changed in place: `weight.data -= step`."""
        stored = ((owner, places) for (owner, name), places in self._stored.items() if name == attribute)
        return frozenset(
            owner for owner, places in stored if any(self._binding(*place).added is None for place in places)
        )

    def _by_anybody(self, name: str) -> bool:
        """Whether an object of which nobody can tell what it is, and so any module, is given such an attribute."""
        return any((owner, one) in self._stored for owner in (SHARED, DATA) for one in (name, "*"))

    @cached_property
    def _stored(self) -> dict[tuple[Object, str], list[tuple[Unit, ast.AST]]]:
        out: dict[tuple[Object, str], list[tuple[Unit, ast.AST]]] = {}
        for unit, summary in self.memory.summaries.items():
            for node, effect in summary.effects:
                if effect.kind == WRITES and effect.target is not None:
                    out.setdefault((effect.target, effect.field), []).append((unit, node))
        return out

    # ------------------------------------------------------------------------------------------------ assignments

    def _binding(self, unit: Unit, node: ast.AST) -> Binding:
        if isinstance(unit, Callbacks):
            return Binding(next(iter(self.memory.objects(Module))))
        hidden = Binding(unit)
        tree = module_of(unit).file.tree
        path = path_to(tree, node) if tree is not None else []
        if not isinstance(node, (ast.Name, ast.Attribute)) or not path:
            return hidden
        part: tuple[int, ...] = ()
        for outer, inner in zip(reversed(path[:-1]), reversed(path[1:]), strict=True):
            if isinstance(outer, (ast.Tuple, ast.List)) and inner in outer.elts:
                part = (outer.elts.index(inner), *part)
                continue
            return self._assigned(unit, outer, inner, part) or hidden
        return hidden

    def _assigned(
        self, unit: Module | Activation, outer: ast.AST, inner: ast.AST, part: tuple[int, ...]
    ) -> Binding | None:
        match outer:
            case ast.Assign() if inner in outer.targets:
                return Binding(unit, outer.value, part)
            case ast.AnnAssign() | ast.NamedExpr() if inner is outer.target:
                return Binding(unit, outer.value, part)
            case ast.AugAssign() if inner is outer.target:
                return Binding(unit, outer.value, part, added=outer.op)
            case ast.For() if inner is outer.target:
                return Binding(unit, outer.iter, part, loop=True)
        return None

    # -------------------------------------------------------------------------------------------------- arguments

    def _handed(self, home: Activation, name: str) -> Iterator[Binding]:
        """What the calls of a function hand over under that name."""
        callers = self.analysis.callers.get(home, ())
        if not callers or any(isinstance(unit, Callbacks) for unit, _ in callers):
            yield Binding(home)
        for unit, node in callers:
            if not isinstance(unit, Callbacks):
                yield self._argument(unit, node, home, name)

    def _argument(self, unit: Module | Activation, node: ast.AST, home: Activation, name: str) -> Binding:
        hidden = Binding(unit)
        given = home.function.node.args
        if not isinstance(node, ast.Call) or not self._calls_only(unit, node, home.function):
            return hidden
        starred = any(isinstance(one, ast.Starred) for one in node.args)
        if starred or any(one.arg is None for one in node.keywords) or not isinstance(code_of(home), ast.FunctionDef):
            return hidden
        named = next((one.value for one in node.keywords if one.arg == name), None)
        if named is not None:
            return Binding(unit, named)
        ordered = [one.arg for one in (*given.posonlyargs, *given.args)][home.receiver is not None :]
        if name in ordered and ordered.index(name) < len(node.args):
            return Binding(unit, node.args[ordered.index(name)])
        return self._default(home, name) or hidden

    def _calls_only(self, unit: Module | Activation, node: ast.Call, function: Function) -> bool:
        """Whether the call names the function itself: no partial, no wrapper, no object that has it."""
        called = self.analysis.value(unit, node.func)
        own = (one.function if isinstance(one, Method) else one for one in called)
        return all(isinstance(one, Function) for one in own) and any(
            function is (one.function if isinstance(one, Method) else one) for one in called
        )

    def _default(self, home: Activation, name: str) -> Binding | None:
        """A constant that is taken where nothing is handed over."""
        value = next((default for one, default in defaults(home.function.node.args) if one.arg == name), None)
        return Binding(home, value) if isinstance(value, ast.Constant) else None
