"""Whether an object is the only one that its place makes while a loop runs, or one of many.

In: an analysis, a loop with its unit, and an object. Out: yes or no. Objects are told apart by the place that makes
them: two names for a list that `__init__` makes mean the same list where the class has one object, in whichever file
it is, and need not where a comprehension makes some of them.
"""

from __future__ import annotations

import ast
from functools import cached_property

from tracelens.patch.effects import syntax
from tracelens.patch.effects.analysis import Analysis
from tracelens.patch.effects.memory import Unit
from tracelens.patch.effects.names import code_of
from tracelens.patch.effects.objects import Activation, Callbacks, Class, Container, Instance, Module, Object, Thing
from tracelens.patch.effects.places import LOOPS, Loop, path_to
from tracelens.patch.effects.scopes import COMPREHENSIONS, FUNCTIONS

_MAKES = frozenset({"__init__", "__post_init__"})
_REPEATS = (*LOOPS, *COMPREHENSIONS)


class Identities:
    """Asks about the objects that one loop can meet."""

    def __init__(self, analysis: Analysis, unit: Module | Activation, loop: Loop) -> None:
        self.analysis = analysis
        self.unit = unit
        self._trees = [one.file.tree for one in analysis.memory.objects(Module) if one.file.tree is not None]
        self._around = frozenset(path_to(code_of(unit), loop)[:-1])
        self._asked: set[Object] = set()

    def is_one_of_many(self, one: Object | None) -> bool:
        """Whether the place that makes an object may make others while the loop runs."""
        site, maker = getattr(one, "site", None), getattr(one, "maker", None)
        if isinstance(site, Object):
            return not isinstance(site, Class) and self.is_one_of_many(site)
        if not isinstance(one, (Container, Instance, Thing)) or not isinstance(site, ast.AST):
            return False
        if isinstance(one, Instance) and not self._is_named(one, site):
            return True  # made by a factory
        path = next(filter(None, (path_to(tree, site) for tree in self._trees)), [])
        functions = [node for node in path[:-1] if isinstance(node, (ast.Module, *FUNCTIONS))]
        units = [unit for unit in self._units.get(functions[-1], ()) if _makes(unit, maker)] if functions else []
        unit = self.unit if self.unit in units else units[0] if len(units) == 1 else None
        return unit is None or self._is_repeated(path, unit) or self._runs_often(unit)

    def _is_named(self, one: Instance, site: ast.AST) -> bool:
        """Whether the place is a call of the class itself."""
        parts = syntax.walk(site.func) if isinstance(site, ast.Call) else ()
        names = {getattr(part, "id", getattr(part, "attr", "")) for part in parts}
        return one.made.node.name in names or bool(names & {"cls", "type"})

    @cached_property
    def _units(self) -> dict[ast.AST, list[Module | Activation]]:
        """By function, the ways in which it is called."""
        out: dict[ast.AST, list[Module | Activation]] = {}
        for one in self.analysis.memory.summaries:
            if isinstance(one, (Module, Activation)):
                out.setdefault(code_of(one), []).append(one)
        return out

    def _is_repeated(self, path: list[ast.AST], unit: Unit) -> bool:
        """Whether the last node runs more than once in one run of its function, as far as the loop can tell."""
        after = max((at for at, node in enumerate(path[:-1]) if isinstance(node, FUNCTIONS)), default=0)
        around = [node for node in path[after:-1] if isinstance(node, _REPEATS)]
        return any(node not in self._around or unit is not self.unit for node in around)

    def _runs_often(self, unit: Module | Activation) -> bool:
        """Whether a function may run more than once beside the loop; the loop's own does that as a whole."""
        if unit is self.unit or isinstance(unit, Module):
            return False
        if unit in self._asked:
            return True
        self._asked.add(unit)
        try:
            return self._is_called_often(unit)
        finally:
            self._asked.discard(unit)

    def _is_called_often(self, unit: Activation) -> bool:
        name = getattr(unit.function.node, "name", "")
        if name in _MAKES and isinstance(unit.receiver, Instance):
            return self.is_one_of_many(unit.receiver)
        callers = self.analysis.callers.get(unit, ())
        if len(callers) != 1 or isinstance(callers[0][0], Callbacks):
            return bool(callers)  # nobody calls it, or a library does
        caller, node = callers[0]
        assert isinstance(caller, (Module, Activation))
        return self._is_repeated(path_to(code_of(caller), node), caller) or self._runs_often(caller)


def _makes(unit: Module | Activation, maker: object) -> bool:
    """Whether an object of that maker can be made in the unit."""
    receiver = unit.receiver if isinstance(unit, Activation) else None
    own = getattr(receiver, "site", receiver)
    return maker is own or isinstance(maker, str) or maker is unit
