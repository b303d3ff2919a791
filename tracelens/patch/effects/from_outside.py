"""What comes into a program from outside: objects that are made of a file's content, or that a repository gives.

In: a call that reads some. Out: data where the format has nothing else; otherwise `loaded`, which may be any object of
the project's classes, also in its parts, until it is used as data.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping

from tracelens.patch.effects import implicit
from tracelens.patch.effects.callables import is_function
from tracelens.patch.effects.dispatch import HELD
from tracelens.patch.effects.implicit import LOADED, is_loaded
from tracelens.patch.effects.library_calls import LibraryCall
from tracelens.patch.effects.memory import DATA, NONE, PLAIN, Objects
from tracelens.patch.effects.objects import DISK_READ, Effect, Name, Thing

_PLAIN_YAML = frozenset(
    f"yaml.{name}" for name in ("SafeLoader", "CSafeLoader", "BaseLoader", "CBaseLoader", "FullLoader", "CFullLoader")
)
"""Loaders of PyYAML that make lists, dicts, numbers and texts. A text may name a function for the full ones, which
nobody writes into the settings of a training."""
_BUFFER = 2
"""The position of the buffer among those of `numpy.ndarray`."""
_PICKLES = 2
"""The position of `allow_pickle` among NumPy's arguments."""


def _anything(call: LibraryCall) -> Objects:
    call.memory.effect(call.here.unit, call.here.node, Effect(DISK_READ))
    return frozenset({call.memory.make(Thing, LOADED, LOADED, None)})


def _data(call: LibraryCall) -> Objects:
    """Lists, dicts and arrays, which are told apart from others: a part of them is the same under two names."""
    call.memory.effect(call.here.unit, call.here.node, Effect(DISK_READ))
    return call.thing("data")


def _state(call: LibraryCall, of: str) -> Name:
    return call.memory.make(Name, f"<{of}>", None)


def _torch_load(call: LibraryCall) -> Objects:
    """With `weights_only=True` tensors, and objects of the classes that the project says are safe."""
    tensors = _constant(_word(call, "weights_only"), True)
    allowed = call.memory.read(_state(call, "safe globals"), HELD, call.here.unit)
    return _data(call) if tensors and not allowed else _anything(call)


def _allow(call: LibraryCall) -> Objects:
    """`torch.serialization.add_safe_globals([Model])`"""
    call.memory.write(_state(call, "safe globals"), HELD, call.given.objects | {PLAIN})
    return call.thing("context")


def _numpy_load(call: LibraryCall) -> Objects:
    """With `mmap_mode="r+"` the array is the file: whatever has that open is written to."""
    second = call.here.node.args[1:2] if isinstance(call.here.node, ast.Call) else []
    mode = _word(call, "mmap_mode") or next(iter(second), None)
    told = mode is None and not call.given.rest  # not by `**options`
    if not told and not any(_constant(mode, one) for one in (None, "r", "c")):
        return call.dispatch.unknown("`numpy.load`", NONE, call.here)
    word = _word(call, "allow_pickle")
    hidden = bool(call.given.rest) or len(call.given.positional) > _PICKLES
    return _data(call) if not hidden and (word is None or _constant(word, False)) else _anything(call)


def _array_over(call: LibraryCall) -> Objects:
    """`numpy.ndarray(shape, buffer=shared.buf)` is the memory of another, `numpy.ndarray(shape)` has its own."""
    known = {"shape", "dtype", "strides", "order"}
    plain = len(call.given.positional) <= _BUFFER and not call.given.rest and call.given.named.keys() <= known
    if not plain:
        return call.dispatch.unknown("`numpy.ndarray`", call.given.objects, call.here)
    return call.thing("data")


def _yaml_load(call: LibraryCall) -> Objects:
    """What functions of the project make of a text, where it has a loader or constructors of its own, is theirs."""
    loaders = call.given.named.get("Loader", NONE).union(*call.given.positional[1:2], call.given.rest)
    own = [one for one in loaders if not (isinstance(one, Name) and one.full in _PLAIN_YAML)]
    constructors = call.memory.read(_state(call, "constructors"), HELD, call.here.unit)
    made = call.dispatch.libraries.through(call.given.objects | constructors, implicit.IMPLICIT, call.here)
    return _anything(call) | made if own or constructors else _data(call)


def _constructor(call: LibraryCall) -> Objects:
    """`yaml.add_constructor("!model", make)`"""
    call.memory.write(_state(call, "constructors"), HELD, filter(is_function, call.given.objects))
    return frozenset({PLAIN})


def _hub_load(call: LibraryCall) -> Objects:
    """A model of somebody else's repository, or what a function of a folder gives."""
    source = _word(call, "source")
    if source is None or _constant(source, "github"):
        return call.thing("module")
    return _anything(call)


def _tensor_data(call: LibraryCall) -> Objects:
    """`TensorDataset(x, y)` takes tensors, also where they come out of a file."""
    return call.thing("loader", (one for one in call.given.objects - {PLAIN, DATA} if not is_loaded(one)))


def _word(call: LibraryCall, name: str) -> ast.expr | None:
    words = call.here.node.keywords if isinstance(call.here.node, ast.Call) else ()
    return next((one.value for one in words if one.arg == name), None)


def _constant(node: ast.expr | None, value: object) -> bool:
    return isinstance(node, ast.Constant) and node.value == value


CALLS: Mapping[str, Callable[[LibraryCall], Objects]] = {
    "torch.load": _torch_load,
    **dict.fromkeys((f"torch.serialization.{name}" for name in ("add_safe_globals", "safe_globals")), _allow),
    "numpy.load": _numpy_load,
    **dict.fromkeys(("numpy.ndarray", "numpy.recarray", "numpy.rec.recarray", "numpy.chararray"), _array_over),
    **dict.fromkeys(("yaml.load", "yaml.load_all"), _yaml_load),
    "torch.hub.load": _hub_load,
    "torch.utils.data.TensorDataset": _tensor_data,
}
METHODS: Mapping[str, Callable[[LibraryCall], Objects]] = dict.fromkeys(
    ("add_constructor", "add_multi_constructor"), _constructor
)
"""Of every loader."""
