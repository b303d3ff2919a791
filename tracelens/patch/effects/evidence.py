"""That something is a tensor, by what the text does with it: only where it cannot be an object of the project.

In: a name or a method, and all that the effects say it can stand for. Out: a `Kind`, or yes and no. A method says
nothing of an object whose class is the project's: it has a `backward`, a `log` or a `sum` of its own. Of what a library
makes it does, and of what nobody can tell where no class of the project has such a method.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache, cached_property

from tracelens.patch.effects import classes
from tracelens.patch.effects.analysis import Analysis
from tracelens.patch.effects.kind import FRACTION, TENSOR, Kind
from tracelens.patch.effects.memory import is_tensor
from tracelens.patch.effects.names import code_of
from tracelens.patch.effects.objects import (
    Activation,
    Class,
    Function,
    Instance,
    Method,
    Module,
    Name,
    Object,
    Thing,
    Unknown,
)
from tracelens.patch.effects.scopes import nodes_of
from tracelens.patch.effects.words import words

_SIZE = "size(…)"
_BRANCHES = (ast.If, ast.IfExp, ast.While)
_TENSORS_ONLY = words(
    f"{_SIZE} backward detach grad_fn is_cuda view_as expand_as unsqueeze masked_fill softmax log_softmax"
)
"""Members of torch's tensors that no other library's objects have (`size` is a number of arrays); modules have none."""
_NO_ARRAYS = _TENSORS_ONLY | words(
    "cuda cpu topk float double long sigmoid mul_ add_ div_ clamp_ permute contiguous gather half bfloat16"
    " requires_grad requires_grad_ relu tanh"
)
"""Members that arrays, numbers, lists and tables do not have: they tell tensors from other data of libraries. Tables of
pandas have `gt` and its like, arrays of NumPy 2 a `device`."""


class Evidence:
    """Asks one analysis."""

    def __init__(self, analysis: Analysis) -> None:
        self.analysis = analysis
        self.memory = analysis.memory

    def bases(self, one: Instance) -> tuple[Object, ...]:
        """The classes of an object."""
        return classes.order(one.made, self.memory, one.made.module)

    def of_name(self, unit: Module | Activation, node: ast.Name, bindings: int) -> Kind | None:
        """What a function says of a name by its uses: a tensor, and with a `backward` one of fractions."""
        used, backward = _uses(code_of(unit)).get(node.id, (frozenset[str](), ()))
        goes_back = any(self._goes_back(unit, call) for call in backward)
        words = used | ({"backward"} if goes_back else frozenset())
        if not self._tells(unit, node, words):
            return None
        return Kind(TENSOR, type=FRACTION if goes_back and bindings == 1 else "")

    def of_method(self, unit: Module | Activation, call: ast.Call) -> bool:
        """Whether something has a method that only tensors have: `model(x).detach()`."""
        assert isinstance(call.func, ast.Attribute)
        word = _SIZE if _asks_size(call) else call.func.attr
        return word in _NO_ARRAYS and self._tells(unit, call.func.value, frozenset({word}))

    def is_of_libraries(self, unit: Module | Activation, node: ast.expr, *methods: str) -> bool:
        """Whether no object that a value can be has such a method of the project."""
        objects = self.analysis.value(unit, node)
        if any(isinstance(one, Instance) for one in objects):
            return False
        hidden = any(isinstance(one, Unknown) for one in objects)
        return not hidden or not any(name in self._own_methods for name in methods)

    def _tells(self, unit: Module | Activation, node: ast.expr, words: frozenset[str]) -> bool:
        objects = self.analysis.value(unit, node)
        if any(isinstance(one, (Instance, Function, Method, Class, Module, Name)) for one in objects):
            return False  # `np.size(x, 0)`: a library is no tensor
        if any(isinstance(one, Thing) and one.kind not in ("data", "holder") for one in objects):
            return False
        sure = words & _TENSORS_ONLY - self._own_methods
        if not objects or any(isinstance(one, Unknown) or _is_holder(one) for one in objects):
            return bool(sure) and bool(objects)
        return bool(sure) or bool(words & _NO_ARRAYS and any(map(_is_data, objects)))

    def _goes_back(self, unit: Module | Activation, call: ast.Call) -> bool:
        """`loss.backward()`, or `accelerator.backward(loss)` of a library's object."""
        assert isinstance(call.func, ast.Attribute)
        return not call.args or self.is_of_libraries(unit, call.func.value, call.func.attr)

    @cached_property
    def _own_methods(self) -> frozenset[str]:
        """The names of all methods of the project's classes; of every one, where a class looks them up itself."""
        out: set[str] = set()
        for made in self.memory.objects(Class):
            if "autograd" not in classes.kinds(made, self.memory, made.module):
                out |= {name for name in self.memory.fields.get(made, {}) if not name.startswith("<")}
        out |= {_SIZE} & {f"{name}(…)" for name in out}
        return frozenset(out | (_TENSORS_ONLY if "__getattr__" in out else frozenset()))


def _asked_in(branch: ast.If | ast.IfExp | ast.While) -> Iterator[ast.AST]:
    """The uses of a name below a condition on it: `if torch.is_tensor(extra): extra.backward()` says nothing else."""
    asked = {part.id for part in ast.walk(branch.test) if isinstance(part, ast.Name)}
    for node in ast.walk(branch):
        owner = node.func if isinstance(node, ast.Call) else node
        named = [owner.value] if isinstance(owner, ast.Attribute) else []
        named += node.args[:1] if isinstance(node, ast.Call) else []
        if any(isinstance(one, ast.Name) and one.id in asked for one in named):
            yield node


def _perhaps(node: ast.AST) -> Iterator[ast.AST]:
    """What a statement or an operator runs only at times, or whose failure it takes: it says nothing either."""
    parts: list[ast.AST] = []
    if isinstance(node, ast.Try) and node.handlers:
        parts = [*node.body]
    elif isinstance(node, ast.BoolOp):
        parts = [*node.values[1:]]
    elif isinstance(node, ast.IfExp):
        parts = [node.body, node.orelse]
    for part in parts:
        yield from ast.walk(part)


def _asks_size(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr == "size" and bool(call.args)


def _surrounds(node: ast.AST) -> bool:
    """A `try` around a loop takes what ends the training, not what one batch does."""
    return isinstance(node, ast.Try) and any(isinstance(one, (ast.For, ast.While)) for one in ast.walk(node))


def _scaled(call: ast.Call) -> tuple[str, ast.Call] | None:
    """The name in `scaler.scale(loss).backward()`, and the call that scales it."""
    assert isinstance(call.func, ast.Attribute)
    inner = call.func.value
    if call.func.attr != "backward" or not isinstance(inner, ast.Call) or not isinstance(inner.func, ast.Attribute):
        return None
    first = inner.args[0] if inner.args else None
    return (first.id, inner) if inner.func.attr == "scale" and isinstance(first, ast.Name) else None


def _is_holder(one: Object) -> bool:
    return isinstance(one, Thing) and one.kind == "holder"


def _is_data(one: Object) -> bool:
    return is_tensor(one) or (isinstance(one, Thing) and one.kind == "data")


@cache
def _uses(code: ast.AST) -> dict[str, tuple[frozenset[str], tuple[ast.Call, ...]]]:
    """By name, the members that a function asks of it, and the calls that let it go backward."""
    used: dict[str, set[str]] = {}
    backward: dict[str, list[ast.Call]] = {}
    nodes = tuple(nodes_of(code))  # type: ignore[arg-type]
    asked_before = {part for node in nodes if isinstance(node, _BRANCHES) for part in _asked_in(node)}
    asked_before |= {part for node in nodes for part in _perhaps(node) if not _surrounds(node)}
    for node in (one for one in nodes if one not in asked_before):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            used.setdefault(node.value.id, set()).add(node.attr)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            first = node.args[0] if node.args else None
            if _asks_size(node) and isinstance(node.func.value, ast.Name):
                used.setdefault(node.func.value.id, set()).add(_SIZE)
            if node.func.attr == "backward" and first is None and isinstance(node.func.value, ast.Name):
                backward.setdefault(node.func.value.id, []).append(node)
            elif node.func.attr == "backward" and isinstance(first, ast.Name):
                backward.setdefault(first.id, []).append(node)
            elif (scaled := _scaled(node)) is not None:
                backward.setdefault(scaled[0], []).append(scaled[1])
    return {name: (frozenset(used.get(name, ())), tuple(backward.get(name, ()))) for name in {*used, *backward}}
