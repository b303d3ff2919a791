"""What a value of the project certainly is: followed through all bindings of its names, calls and functions.

In: an analysis, and an expression of one of its functions. Out: a `Kind`. Lines of plain torch cannot look at values
while the script runs, so that only values whose kind is proved may wait in them as they are, or in one stack.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache

from tracelens.patch.effects import kind as kind_of
from tracelens.patch.effects import made_by_python, made_by_torch
from tracelens.patch.effects.analysis import Analysis
from tracelens.patch.effects.bindings import Binding, Bindings
from tracelens.patch.effects.certain_uses import own_path
from tracelens.patch.effects.evidence import Evidence
from tracelens.patch.effects.holders import HELD, is_settings
from tracelens.patch.effects.kept_as_made import KeptAsMade
from tracelens.patch.effects.kind import (
    FULL,
    ON_HOST,
    PYTHON,
    TENSOR,
    TENSORS,
    UNKNOWN,
    Kind,
    computed,
    meet,
    of_method,
    signed,
)
from tracelens.patch.effects.memory import HOOKS, LAYER, TooLarge
from tracelens.patch.effects.names import code_of, home
from tracelens.patch.effects.objects import (
    Activation,
    Class,
    Function,
    Instance,
    Method,
    Module,
    Name,
    Object,
    Plain,
    Thing,
)
from tracelens.patch.effects.operators import OPERATORS
from tracelens.patch.effects.places import KEPT_TREES
from tracelens.patch.effects.reshaped import Reshaped
from tracelens.patch.effects.scopes import Code, nodes_of

Place = Module | Activation
_Variable = tuple[Object, str]
MAX_STEPS = 2_000
"""Expressions that one question may lead to: a loss of ten functions leads to some hundred."""
_HOST = (ast.List, ast.Tuple, ast.Set, ast.Dict, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_SIGNS = {"truediv": "/", "mod": "%", "matmul": "@", "and": "&", "or": "|", "xor": "^", "pow": "**"}
_OWN_ACCESS = ("__setattr__", "__getattribute__", "__getattr__")


class _TooLong(Exception):
    """The question leads too far."""


class Kinds:
    """Asks one analysis; what it finds is kept."""

    def __init__(self, analysis: Analysis) -> None:
        self.analysis = analysis
        self.memory = analysis.memory
        self._bindings = Bindings(analysis)
        self._evidence = Evidence(analysis)
        self._modules = KeptAsMade(analysis)
        self._reshaped = Reshaped(analysis, self._bindings)
        self._assumed: dict[_Variable, Kind | None] = {}
        """Variables that are being followed, with what they are found to be so far; None: nothing yet."""
        self._leant_on: set[_Variable] = set()
        """Of these, the ones that were asked for since."""
        self._settled: dict[_Variable, Kind | None] = {}
        """Variables whose kind was found without an assumption about any other."""
        self._known: dict[tuple[Place, ast.expr], Kind] = {}
        self._steps = 0

    def asked(self, unit: Place, node: ast.expr) -> Kind:
        """What the expression certainly is."""
        if (unit, node) not in self._known:
            self._steps = 0
            self._assumed.clear()
            self._leant_on.clear()
            try:
                found = UNKNOWN if self._has_own_tensors else self._kind(unit, node) or UNKNOWN
            except (_TooLong, TooLarge, RecursionError):
                found = UNKNOWN
            self._known[unit, node] = found
        return self._known[unit, node]

    @cached_property
    def _has_own_tensors(self) -> bool:
        """Whether the project says itself what torch's functions do with its objects."""
        defined = ("__torch_function__", "__torch_dispatch__")
        return any(self.memory.has(one, name) for one in self.memory.objects(Class) for name in defined)

    def _kind(self, unit: Place, node: ast.expr | None) -> Kind | None:
        """None for what leads back to a variable that is being followed: it adds nothing."""
        self._steps += 1
        if self._steps > MAX_STEPS:
            raise _TooLong
        if node is None:
            return UNKNOWN
        if isinstance(node, _HOST):
            return ON_HOST
        return _KINDS.get(type(node), Kinds._not_known)(self, unit, node)

    def _not_known(self, *_: object) -> Kind:
        return UNKNOWN

    # ------------------------------------------------------------------------------------------------ expressions

    def _constant(self, _: Place, node: ast.Constant) -> Kind:
        types = {bool: kind_of.TRUTH, int: kind_of.WHOLE, float: kind_of.FRACTION, str: "", bytes: ""}
        known = types.get(type(node.value))  # not a complex number, which makes complex ones of fractions
        return PYTHON._replace(type=known) if known is not None else UNKNOWN

    def _text(self, *_: object) -> Kind:
        return PYTHON

    def _operation(self, unit: Place, node: ast.BinOp) -> Kind | None:
        left, right = self._kind(unit, node.left), self._kind(unit, node.right)
        return self._together(unit, (node.left, left), type(node.op), (node.right, right))

    def _together(
        self,
        unit: Place,
        left: tuple[ast.expr, Kind | None],
        operator: type[ast.operator],
        right: tuple[ast.expr, Kind | None],
    ) -> Kind | None:
        if left[1] is None or right[1] is None:
            return None
        name = OPERATORS[operator]
        found = computed(left[1], _SIGNS.get(name, name), right[1])
        others = [node for node, one in (left, right) if not one or not one.what]
        if found.what or len(others) != 1 or TENSOR not in (left[1].what, right[1].what):
            return found
        return FULL if self._evidence.is_of_libraries(unit, others[0], f"__{name}__", f"__r{name}__") else UNKNOWN

    def _sign(self, unit: Place, node: ast.UnaryOp) -> Kind | None:
        if isinstance(node.op, ast.Not):
            return PYTHON._replace(type=kind_of.TRUTH)
        found = self._kind(unit, node.operand)
        return signed(found, "+" if isinstance(node.op, ast.UAdd) else "-") if found is not None else None

    def _comparison(self, unit: Place, node: ast.Compare) -> Kind | None:
        if isinstance(node.ops[0], (ast.Is, ast.IsNot, ast.In, ast.NotIn)):
            return PYTHON._replace(type=kind_of.TRUTH)
        sides = [node.left, *node.comparators]
        found = [self._kind(unit, one) for one in sides]
        if len(sides) != 2 or None in found:
            return UNKNOWN if len(sides) != 2 else None
        told = [one for one in found if one is not None]
        hidden = [node for node, one in zip(sides, told, strict=True) if not one.what]
        methods = ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__")
        if all(self._evidence.is_of_libraries(unit, one, *methods) for one in hidden):
            return kind_of.compared(told)
        return UNKNOWN

    def _choice(self, unit: Place, node: ast.IfExp) -> Kind | None:
        return _common([self._kind(unit, node.body), self._kind(unit, node.orelse)])

    def _either(self, unit: Place, node: ast.BoolOp) -> Kind | None:
        return _common([self._kind(unit, one) for one in node.values])

    def _walrus(self, unit: Place, node: ast.NamedExpr) -> Kind | None:
        return self._kind(unit, node.value)

    def _subscript(self, unit: Place, node: ast.Subscript) -> Kind | None:
        if isinstance(node.value, ast.Attribute) and node.value.attr == "shape":
            return UNKNOWN if isinstance(node.slice, ast.Slice) else self._size(unit, node.value.value)
        owner = self._kind(unit, node.value)
        if owner is not None and owner.what == TENSORS:
            return UNKNOWN if isinstance(node.slice, ast.Slice) else FULL
        return Kind(TENSOR, False, owner.type) if owner is not None and owner.what == TENSOR else UNKNOWN

    def _size(self, unit: Place, node: ast.expr) -> Kind:
        """`x.shape[0]`: a number of a tensor, an array or a setting; a model's `shape` may be a parameter."""
        found = self._kind(unit, node)
        if found is not None and found.what in (TENSOR, kind_of.ARRAY):
            return PYTHON._replace(type=kind_of.WHOLE)
        return PYTHON if self._evidence.is_data(unit, node) else UNKNOWN

    # ------------------------------------------------------------------------------------------- names, attributes

    def _name(self, unit: Place, node: ast.Name) -> Kind | None:
        where = home(node.id, unit, self.memory)
        if not isinstance(where, (Module, Activation)) or not own_path(code_of(unit), node):
            return UNKNOWN
        found = self._variable((where, node.id), lambda: self._bindings.of_variable(where, node.id))
        if found is None or found.what:
            return found
        own = where is unit and self._bindings.are_of(unit, node.id)
        return (self._evidence.of_name(unit, node) if own else None) or found

    def _attribute(self, unit: Place, node: ast.Attribute) -> Kind | None:
        owner = self._kind(unit, node.value)
        if owner is not None and owner.what == TENSOR:
            known = {"data": owner._replace(own=False), "device": Kind(kind_of.DEVICE), "ndim": PYTHON}
            return known.get(node.attr, FULL if node.attr in ("T", "mT", "real", "imag", "grad") else UNKNOWN)
        if owner is not None and owner.what == TENSORS and node.attr in ("values", "indices"):
            return FULL
        objects = self.analysis.value(unit, node.value)
        if objects and all(map(is_settings, objects)):
            plain = all(isinstance(one, Plain) for one in self.analysis.value(unit, node))
            return PYTHON if plain else UNKNOWN
        full = [one.full for one in self.analysis.value(unit, node) if isinstance(one, Name)]
        if len(full) == 1 and len(self.analysis.value(unit, node)) == 1:
            return kind_of.dtype(full[0])
        if objects and all(self._has_plainly(one, node.attr) for one in objects):
            return _common([self._stored(one, node.attr) for one in objects])
        return UNKNOWN

    def _has_plainly(self, one: Object, name: str) -> bool:
        """Whether an object of the project has the attribute by assignments alone, which all are seen."""
        if not isinstance(one, Instance):
            return False
        bases = [base for base in self._evidence.bases(one) if isinstance(base, Class)]
        own = any(self.memory.has(base, each) for base in bases for each in (name, *_OWN_ACCESS))
        return not own and not self._is_quoted(name)

    def _is_quoted(self, name: str) -> bool:
        """Whether a text of the project names the attribute: `register_buffer("total", …)`, `setattr`."""
        return any(re.search(rf"[\"']{re.escape(name)}[\"']", one.file.text) for one in self.memory.objects(Module))

    def _stored(self, owner: Object, name: str) -> Kind | None:
        return self._variable((owner, name), lambda: self._bindings.of_attribute(owner, name))

    def _variable(self, variable: _Variable, bindings: Callable[[], Sequence[Binding]]) -> Kind | None:
        """What all bindings have in common: assumed of the variable itself where they mention it, until that holds."""
        if variable in self._assumed:
            self._leant_on.add(variable)
            return self._assumed[variable]
        if variable not in self._settled:
            before, self._leant_on = self._leant_on, set()
            found = self._followed(variable, bindings())
            self._leant_on.discard(variable)
            if not self._leant_on:
                self._settled[variable] = found
            self._leant_on |= before
        else:
            found = self._settled[variable]
        return found if found is not None or self._assumed else UNKNOWN

    def _followed(self, variable: _Variable, every: Sequence[Binding]) -> Kind | None:
        found = None
        self._assumed[variable] = None
        while every:
            new = _common([self._bound(one, variable) for one in every])
            new = self._kept(new, variable) if new is not None else None
            if new == found or new is None:
                break
            found = self._assumed[variable] = new if found is None else meet([found, new])
        del self._assumed[variable]
        return found

    def _kept(self, found: Kind, variable: _Variable) -> Kind:
        """What is left of it once a variable has it: others may have it too, and change it later."""
        changed = found.what == TENSOR and self._reshaped.may_be(self.memory.content(*variable))
        return FULL if changed else found._replace(own=False)

    def _bound(self, one: Binding, variable: _Variable) -> Kind | None:
        if one.value is None:
            return UNKNOWN
        if one.loop:
            return PYTHON._replace(type=kind_of.WHOLE) if self._counts(one) else UNKNOWN
        found = self._part(one.unit, one.value, one.part)
        if one.added is None or found is None:
            return found
        before = self._assumed[variable]
        return self._together(one.unit, (one.value, before), type(one.added), (one.value, found))

    def _counts(self, one: Binding) -> bool:
        """Whether a pass counts: `for i in range(…)`, `for i, … in tqdm(enumerate(loader))`."""
        items, called = one.value, ""
        while isinstance(items, ast.Call):
            called = self._full(one.unit, items)
            if not (called.startswith("tqdm.") and called.endswith(".tqdm")) or not items.args:
                break
            items = items.args[0]
        wanted = ("builtins.range", "tqdm.trange", "tqdm.auto.trange") if not one.part else ("builtins.enumerate",)
        return called in wanted and one.part in ((), (0,))

    def _part(self, unit: Place, node: ast.expr, part: tuple[int, ...]) -> Kind | None:
        """A value, or one of several that are assigned at once."""
        if not part:
            return self._kind(unit, node)
        if isinstance(node, (ast.Tuple, ast.List)) and not any(isinstance(one, ast.Starred) for one in node.elts):
            return self._part(unit, node.elts[part[0]], part[1:]) if part[0] < len(node.elts) else UNKNOWN
        if isinstance(node, ast.Call):
            several = self._kind(unit, node)
            return FULL if several is not None and several.what == TENSORS else self._returned(unit, node, part)
        return UNKNOWN

    # ------------------------------------------------------------------------------------------------------ calls

    def _call(self, unit: Place, node: ast.Call) -> Kind | None:
        if isinstance(node.func, ast.Attribute):
            owner = self._kind(unit, node.func.value)
            if owner is None:
                return None
            method = node.func.attr
            if owner.what != TENSOR and self._evidence.of_method(unit, node):
                owner = FULL
            if owner.what == TENSOR:
                given = [self._kind(unit, one) or UNKNOWN for one in node.args]
                return of_method(owner, method, given, [one.arg or "**" for one in node.keywords])
        called = [one for one in self.analysis.value(unit, node.func) if not isinstance(one, Plain)]
        if not called:
            return UNKNOWN
        if all(isinstance(one, (Function, Method, Instance)) for one in called):
            return self._returned(unit, node, ())
        return _common([self._of_library(unit, node, one) for one in called])

    def _full(self, unit: Place, node: ast.Call) -> str:
        called = self.analysis.value(unit, node.func)
        return next((one.full for one in called if isinstance(one, Name) and len(called) == 1), "")

    def _of_library(self, unit: Place, node: ast.Call, called: Object) -> Kind | None:
        if isinstance(called, Thing) and not self._modules.gives_as_torch(called):
            return UNKNOWN
        if called is LAYER:
            return FULL
        if isinstance(called, Thing):
            return made_by_torch.by_loss(called, self.memory, self._modules.reduces_as_told(called))
        if not isinstance(called, Name) or called.receiver is not None:
            return UNKNOWN
        found = [self._kind(unit, one) for one in node.args]
        given = [one for one in found if one is not None]
        if len(given) < len(found):
            return None
        own = made_by_python.by_function(called.full, given, bool(node.keywords))
        return own if own.what else made_by_torch.by_function(called.full, node, given)

    def _returned(self, unit: Place, node: ast.Call, part: tuple[int, ...]) -> Kind | None:
        """What functions of the project return."""
        called = [one for one in self.analysis.value(unit, node.func) if not isinstance(one, Plain)]
        functions = {one.function if isinstance(one, Method) else one for one in called}
        if any(isinstance(one, Instance) for one in called) and self.memory.has(HOOKS, HELD):
            return UNKNOWN
        units = [
            one
            for at, one in self.memory.summary(unit).calls
            if at is node and isinstance(one, Activation) and self._runs(one, functions)
        ]
        if not units or not all(isinstance(one, (Function, Instance)) for one in functions):
            return UNKNOWN
        return _common([found for one in units for found in self._results(one, part)])

    def _runs(self, unit: Activation, functions: set[Object]) -> bool:
        by_object = any(isinstance(one, Instance) for one in functions)
        return unit.function in functions or (by_object and getattr(unit.function.node, "name", "") == "forward")

    def _results(self, unit: Activation, part: tuple[int, ...]) -> Iterator[Kind | None]:
        code = unit.function.node
        if isinstance(code, ast.Lambda):
            yield self._part(unit, code.body, part)
            return
        ends = _ends(code)
        for one in ends:
            yield self._part(unit, one.value, part) if isinstance(one, ast.Return) and one.value else UNKNOWN
        if isinstance(code, ast.AsyncFunctionDef) or not any(isinstance(one, ast.Return) for one in ends):
            yield UNKNOWN


@lru_cache(maxsize=KEPT_TREES)
def _ends(code: Code) -> tuple[ast.Return | ast.Yield | ast.YieldFrom, ...]:
    """Where a function returns, or stops for a while."""
    return tuple(one for one in nodes_of(code) if isinstance(one, (ast.Return, ast.Yield, ast.YieldFrom)))


def _common(kinds: Sequence[Kind | None]) -> Kind | None:
    """What all of them have in common, apart from those that add nothing."""
    known = [one for one in kinds if one is not None]
    return meet(known) if known else None


_KINDS: Mapping[type[ast.expr], Callable[..., Kind | None]] = {
    ast.Constant: Kinds._constant,
    ast.JoinedStr: Kinds._text,
    ast.Name: Kinds._name,
    ast.Attribute: Kinds._attribute,
    ast.Subscript: Kinds._subscript,
    ast.Call: Kinds._call,
    ast.BinOp: Kinds._operation,
    ast.UnaryOp: Kinds._sign,
    ast.Compare: Kinds._comparison,
    ast.IfExp: Kinds._choice,
    ast.BoolOp: Kinds._either,
    ast.NamedExpr: Kinds._walrus,
}
