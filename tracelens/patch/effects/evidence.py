"""That something is a tensor, by what the text does with it: only where it cannot be an object of the project.

In: a name or a method, and all that the effects say it can stand for. Out: a `Kind`, or yes and no. A method says
nothing of an object whose class is the project's: it has a `backward`, a `log` or a `sum` of its own. Of what a library
makes it does, and of what nobody can tell where no class of the project has such a method.
"""

from __future__ import annotations

import ast
from functools import cached_property, partial

from tracelens.patch.effects import classes, syntax
from tracelens.patch.effects.analysis import Analysis
from tracelens.patch.effects.certain_uses import Path, ends_errors, mentions
from tracelens.patch.effects.holders import is_holder
from tracelens.patch.effects.kind import FRACTION, TENSOR, Kind
from tracelens.patch.effects.names import code_of
from tracelens.patch.effects.objects import (
    Activation,
    Callbacks,
    Class,
    Container,
    Function,
    Generator,
    Instance,
    Method,
    Module,
    Name,
    Object,
    Thing,
    Unknown,
    is_thing,
)
from tracelens.patch.effects.places import path_to
from tracelens.patch.effects.words import words

Unit = Module | Activation
_NO_TENSORS = (Instance, Function, Method, Class, Module, Name, Container, Generator)
_BARE = words("backward detach contiguous sigmoid relu cpu float double long half bfloat16")
"""Methods of tensors that are called without a position: `engine.backward(loss)` says nothing of the engine."""
_BY_DIMENSION = words("size unsqueeze softmax log_softmax permute")
"""Methods that are told a dimension, by a number that stands there or by `dim=`: `helper.softmax(scores)` is none."""
_WITH_OTHERS = words("view_as expand_as masked_fill cuda mul_ add_ div_ clamp_ requires_grad_")
_ATTRIBUTES = words("grad_fn requires_grad")
_TENSORS_ONLY = words("size backward detach grad_fn view_as expand_as unsqueeze masked_fill softmax log_softmax")
"""Members that tell a tensor from whatever nobody knows more of.

A word stays where nothing else that is called so has a number to read (`item`, `tolist`, `numpy`, `float()`), so that a
value that is read and has the member is a tensor. `size(0)`: arrays and tables have a number or a method without
arguments of that name, graphs are no numbers. `backward()`, `grad_fn`: what has a graph of gradients. `detach()`:
streams, sockets, finalizers and connections have it, and none is a number. `view_as`, `expand_as`, `unsqueeze`,
`masked_fill`: words of torch alone (NumPy has `expand_dims`, `reshape`, `where`). `softmax(1)`, `log_softmax(1)`: for
arrays they are functions. Not among them: `is_cuda`, which packed sequences and storages have, and a storage has
`tolist`. Libraries that copy torch's tensors have all of these: see `_LIKE_TORCH`.
"""
_DATA_TENSORS = _TENSORS_ONLY | words(
    "cuda cpu float double long half bfloat16 sigmoid relu mul_ add_ div_ clamp_ permute contiguous requires_grad"
    " requires_grad_"
)
"""Members that tell tensors from the other data of known libraries: arrays, numbers, lists and tables.

The same rule; what else of torch has `cpu`, `float` and their like (modules, packed sequences) has no number to read.
`contiguous` is no method of a `memoryview`. Not among them: `tanh` (sparse matrices and series of polars), `gather`
(series of polars), `topk` (arrays of dask), `gt` and its like (tables of pandas), `device` (arrays of NumPy 2).
"""
_LIKE_TORCH = words(
    "paddle tinygrad mxnet oneflow mindspore jittor megengine chainer nnabla eagerpy tensordict torchrl torch_geometric"
    " torch_sparse pytorch3d dgl"
)
"""Libraries whose objects have the same members; in a project that imports one no use says anything."""


class Evidence:
    """Asks one analysis."""

    def __init__(self, analysis: Analysis) -> None:
        self.analysis = analysis
        self.memory = analysis.memory
        self._caught: dict[Unit, bool] = {}
        self._of_names: dict[tuple[Unit, ast.Name], Kind | None] = {}

    def bases(self, one: Instance) -> tuple[Object, ...]:
        """The classes of an object."""
        return classes.order(one.made, self.memory, one.made.module)

    def of_name(self, unit: Unit, node: ast.Name) -> Kind | None:
        """What the certain uses of a variable's value say of it: a tensor, and with a `backward` one of fractions."""
        if (unit, node) not in self._of_names:
            self._of_names[unit, node] = self._of_name(unit, node)
        return self._of_names[unit, node]

    def _of_name(self, unit: Unit, node: ast.Name) -> Kind | None:
        code = code_of(unit)
        told = [_told(path) for path in mentions(code, node, partial(self._keeps_errors, unit), self._is_caught(unit))]
        goes_back = any(call is not None and self._goes_back(unit, call) for _, call in told)
        used = frozenset(word for word, _ in told) | ({"backward"} if goes_back else frozenset())
        return Kind(TENSOR, type=FRACTION if goes_back else "") if self._tells(unit, node, used) else None

    def of_method(self, unit: Unit, call: ast.Call) -> bool:
        """Whether something has a method that only tensors have: `model(x).detach()`."""
        assert isinstance(call.func, ast.Attribute)
        word = call.func.attr
        return _asks_tensor(call, word) and self._tells(unit, call.func.value, frozenset({word}))

    def is_of_libraries(self, unit: Unit, node: ast.expr, *methods: str) -> bool:
        """Whether no object that a value can be has such a method of the project."""
        objects = self.analysis.value(unit, node)
        if any(isinstance(one, Instance) for one in objects):
            return False
        hidden = any(isinstance(one, Unknown) for one in objects)
        return not hidden or not any(name in self._own_methods for name in methods)

    def is_data(self, unit: Unit, node: ast.expr) -> bool:
        """Whether something is nothing but data of libraries: tensors, arrays, and batches of them."""
        objects = self.analysis.value(unit, node)
        return bool(objects) and all(is_thing(one, "data") for one in objects)

    def _tells(self, unit: Unit, node: ast.expr, words: frozenset[str]) -> bool:
        objects = self.analysis.value(unit, node)
        if any(isinstance(one, _NO_TENSORS) for one in objects):
            return False  # `np.size(x, 0)`: a library is no tensor
        others = any(isinstance(one, Thing) and one.kind not in ("data", "holder") for one in objects)
        if others or self._has_others_like_torch:
            return False
        sure = words & _TENSORS_ONLY - self._own_methods
        if not objects or any(isinstance(one, Unknown) or is_holder(one) for one in objects):
            return bool(sure) and bool(objects)
        return bool(sure) or bool(words & _DATA_TENSORS and any(is_thing(one, "data") for one in objects))

    def _goes_back(self, unit: Unit, call: ast.Call) -> bool:
        """`loss.backward()`, or `accelerator.backward(loss)` of a library's object."""
        assert isinstance(call.func, ast.Attribute)
        return not call.args or self.is_of_libraries(unit, call.func.value, call.func.attr)

    def _keeps_errors(self, unit: Unit, block: ast.With | ast.AsyncWith) -> bool:
        """Torch's contexts take no exception; of others that is not known."""
        calls = [one.context_expr for one in block.items]
        called = [self.analysis.value(unit, one.func) if isinstance(one, ast.Call) else None for one in calls]
        return all(found and all(map(_is_context, found)) for found in called)

    def _is_caught(self, unit: Unit) -> bool:
        if unit not in self._caught:
            self._caught[unit] = self._ends_in_a_loop(unit)
        return self._caught[unit]

    def _ends_in_a_loop(self, unit: Unit) -> bool:
        """Whether a loop around any call that leads to the unit goes on after an exception in it."""
        seen: dict[Module | Activation | Callbacks, None] = {unit: None}
        waiting: list[Module | Activation | Callbacks] = [unit]
        while waiting:
            for caller, node in self.analysis.callers.get(waiting.pop(), ()):
                if not isinstance(caller, Callbacks) and ends_errors(path_to(code_of(caller), node)):
                    return True
                waiting += [] if caller in seen else [caller]
                seen[caller] = None
        return False

    @cached_property
    def _has_others_like_torch(self) -> bool:
        return any(not _roots(one.file.tree).isdisjoint(_LIKE_TORCH) for one in self.memory.objects(Module))

    @cached_property
    def _own_methods(self) -> frozenset[str]:
        """The names of all methods of the project's classes; of every one, where a class looks them up itself."""
        out: set[str] = set()
        for made in self.memory.objects(Class):
            if "autograd" not in classes.kinds(made, self.memory, made.module):
                out |= {name for name in self.memory.fields.get(made, {}) if not name.startswith("<")}
        return frozenset(out | (_TENSORS_ONLY if "__getattr__" in out else frozenset()))


def _roots(tree: ast.AST | None) -> frozenset[str]:
    """The libraries that a file imports."""
    nodes = tuple(syntax.walk(tree)) if tree is not None else ()
    modules = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    modules += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom) and not node.level]
    return frozenset(one.partition(".")[0] for one in modules)


def _asks_tensor(call: ast.Call, word: str) -> bool:
    """Whether a method is called as a tensor's method of that name is."""
    if word in _BARE:
        return not call.args
    if word in _BY_DIMENSION:
        return _is_whole(call.args[0]) if call.args else any(one.arg == "dim" for one in call.keywords)
    return word in _WITH_OTHERS


def _is_whole(node: ast.expr) -> bool:
    node = node.operand if isinstance(node, ast.UnaryOp) else node
    return isinstance(node, ast.Constant) and type(node.value) is int


def _told(path: Path) -> tuple[str, ast.Call | None]:
    """The member that is asked of a name, and the call that lets its value go backward.

    `loss.backward()`, `accelerator.backward(loss)`, `scaler.scale(loss).backward()`: the call that scales.
    """
    around: list[ast.AST | None] = [None, None, None, *path]
    outermost, outer, parent, name = around[-4:]
    if isinstance(parent, ast.Attribute) and isinstance(parent.ctx, ast.Load):
        call = outer if isinstance(outer, ast.Call) and outer.func is parent else None
        told = parent.attr in _ATTRIBUTES or (call is not None and _asks_tensor(call, parent.attr))
        return parent.attr if told else "", call if told and parent.attr == "backward" else None
    if not isinstance(parent, ast.Call) or parent.args[:1] != [name] or not isinstance(parent.func, ast.Attribute):
        return "", None
    scaled = parent.func.attr == "scale" and isinstance(outer, ast.Attribute) and outer.attr == "backward"
    scaled = scaled and isinstance(outermost, ast.Call) and outermost.func is outer
    return "", parent if scaled or parent.func.attr == "backward" else None


def _is_context(one: Object) -> bool:
    return isinstance(one, Name) and one.receiver is None and one.full.startswith("torch.")
