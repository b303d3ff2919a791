"""Built-in and library functions whose meaning is more than an entry of the vocabulary can say.

In: a call of one of them. Out: the objects that it gives; effects are entered as for any call.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from tracelens.messages import say
from tracelens.patch.effects import classes, from_outside, partials, patched_before, settings, spawned
from tracelens.patch.effects.attributes import FIELD, FLUSHED, GETTER
from tracelens.patch.effects.callables import is_function
from tracelens.patch.effects.dispatch import HELD, Arguments, Here
from tracelens.patch.effects.holders import is_settings
from tracelens.patch.effects.implicit import within
from tracelens.patch.effects.library_calls import LibraryCall, constant, keyword
from tracelens.patch.effects.memory import ANY_KEY, DATA, HOOKS, NONE, PLAIN, REPLACED, SLICE, Memory, Objects
from tracelens.patch.effects.names import module_of
from tracelens.patch.effects.objects import (
    DISK_LOOK,
    DISK_READ,
    DISK_WRITE,
    NAMES,
    RAISES,
    READS,
    WRITES,
    Activation,
    Callbacks,
    Class,
    Container,
    Effect,
    Instance,
    Module,
    Name,
    Thing,
    Unknown,
)
from tracelens.patch.effects.screens import opens_screen, put_on_screen


def _lazy(call: LibraryCall) -> Objects:
    kind = {"enumerate": "numbered", "zip": "pairs"}.get(call.name.full.rpartition(".")[2], "lazy")
    return call.thing(kind, call.given.objects)


def _tuples(call: LibraryCall) -> Objects:
    """Tuples of elements, or of iterators over them: a tuple that may hold tuples."""
    thing = call.thing("pairs", call.given.objects)
    pair = call.memory.make(Container, call.here.node, "<pair>")
    call.memory.write(pair, ANY_KEY, {pair})
    return thing


def _repeat(call: LibraryCall) -> Objects:
    """The same object again and again."""
    again = call.dispatch.made(ANY_KEY, call.given.objects, Container, call.here.node, "<repeated>")
    return _lazy(replace(call, given=Arguments((again,))))


def _tee(call: LibraryCall) -> Objects:
    """A tuple of iterators over the same."""
    made = call.memory.make(Container, call.here.node, "<tee>")
    call.memory.write(made, ANY_KEY, _lazy(call))
    return frozenset({made})


def _register(call: LibraryCall) -> Objects:
    """A module's buffer or parameter is an attribute of it from then on."""
    value = NONE.union(*call.given.positional[1:], *call.given.named.values())
    if call.name.receiver is not None:
        call.dispatch.store({call.name.receiver}, constant(call.here.node, 0) or "*", value, call.here)
    return frozenset({PLAIN})


def _next(call: LibraryCall) -> Objects:
    if len(call.given.positional) == 1:
        call.memory.effect(call.here.unit, call.here.node, Effect(RAISES))
    return call.dispatch.passes(NONE.union(*call.given.positional[:1]), call.here).union(*call.given.positional[1:])


def _reduce(call: LibraryCall) -> Objects:
    """`reduce(f, over, first)`: `f` is called with what it gave before and each element."""
    function, over, *first = (*call.given.positional, call.given.rest, call.given.rest)
    elements = call.dispatch.passes(over, call.here)
    before = call.memory.make(Container, call.here.node, "<reduced>")
    call.memory.write(before, ANY_KEY, elements.union(*first, *call.given.named.values()))
    so_far = call.memory.read(before, ANY_KEY, call.here.unit)
    call.memory.write(before, ANY_KEY, call.dispatch.invoke(function, Arguments((so_far, elements)), call.here))
    return call.memory.read(before, ANY_KEY, call.here.unit)


def _as_record(call: LibraryCall) -> Objects:
    """`dataclasses.asdict(options)`: a dict, or a tuple, with copies; functions in it are the same."""
    made = call.memory.make(Container, call.here.node, call.here.maker)
    owners = call.given.objects
    for one in frozenset(owners).union(*(within(one, call.memory, call.here.unit) for one in owners)):
        if isinstance(one, Instance):
            call.memory.write(made, ANY_KEY, call.dispatch.everything(one, call.here) | {made})
    return frozenset({made})


def _record_anew(call: LibraryCall) -> Objects:
    """`point._replace(x=1)`, `Point._make([1, 2])`."""
    owner, given = call.name.receiver, call.given
    if isinstance(owner, Class):
        rest = call.dispatch.passes(given.objects, call.here)
        return call.dispatch.instantiate(owner, Arguments(rest=rest), call.here)
    if owner is None:
        return NONE
    for name, value in given.named.items():
        call.dispatch.store({owner}, name, value, call.here)
    for name in (HELD, ANY_KEY):
        call.memory.write(owner, name, given.objects)
    return frozenset({owner})


def _split_data(call: LibraryCall) -> Objects:
    """`random_split(data, [0.9, 0.1])`: a list of parts of the data set."""
    return call.dispatch.part(call.thing("loader", call.given.objects), call.here)


def _getattr(call: LibraryCall) -> Objects:
    owners = NONE.union(*call.given.positional[:1])
    name = constant(call.here.node, 1)
    out = NONE.union(*call.given.positional[2:])
    if name is not None:
        return out | call.dispatch.load(owners, name, call.here)
    for owner in owners:
        names = dict.fromkeys(call.memory.names(owner, call.here.unit))
        if isinstance(owner, Instance):
            names |= dict.fromkeys(classes.methods(owner.made, call.memory, call.here.unit))
        if isinstance(owner, Name):
            out |= call.dispatch.load({owner}, "any_of_them", call.here)
        if isinstance(owner, (Thing, Unknown)) and not is_settings(owner):
            out |= {owner}
        if is_settings(owner):
            out |= call.dispatch.load({owner}, "any_of_them", call.here)
        out |= NONE.union(*(call.dispatch.load({owner}, one, call.here) for one in names if one.isidentifier()))
    return out


def _stored_name(call: LibraryCall, position: int) -> str:
    """The attribute that is stored, by its place in the call; any, where it is no text or stands elsewhere."""
    as_written = len(call.given.positional) == len(getattr(call.here.node, "args", ()))  # no partial has some of them
    return (constant(call.here.node, position) if as_written else None) or "*"


def _setattr(call: LibraryCall) -> Objects:
    owners, _, value = (*call.given.positional, *(call.given.rest,) * 3)[:3]
    call.dispatch.store(owners, _stored_name(call, 1), value, call.here)
    return frozenset({PLAIN})


def _plain_setattr(call: LibraryCall) -> Objects:
    """`object.__setattr__(owner, name, value)`, or `super().__setattr__(name, value)`."""
    receiver, rest = call.name.receiver, (call.given.rest,) * 3
    given = (*(() if receiver is None else (frozenset({receiver}),)), *call.given.positional, *rest)
    name = _stored_name(call, 1 if receiver is None else 0)
    for owner in given[0]:
        call.memory.write(owner, name, given[2])
        call.memory.effect(call.here.unit, call.here.node, Effect(WRITES, owner, name))
    return frozenset({PLAIN})


def _type(call: LibraryCall) -> Objects:
    made = (one.made for one in call.given.objects if isinstance(one, Instance))
    return frozenset({*made, *(one for one in call.given.objects if isinstance(one, Unknown)), PLAIN})


def _globals(call: LibraryCall) -> Objects:
    unit = call.here.unit
    return NONE if isinstance(unit, Callbacks) else call.dispatch.as_dict(module_of(unit), call.here)


def _locals(call: LibraryCall) -> Objects:
    unit = call.here.unit
    return call.dispatch.as_dict(unit, call.here) if isinstance(unit, (Activation, Module)) else NONE


def _module_by_text(call: LibraryCall) -> Objects:
    """Any module of the project, or one that is not known."""
    call.memory.effect(call.here.unit, call.here.node, Effect(NAMES))
    return frozenset(call.memory.objects(Module)) | call.memory.unknown(say("a module that is imported by its text"))


def _vars(call: LibraryCall) -> Objects:
    if not call.given.objects:
        return _locals(call)
    fields = (Instance, Module, Class)
    for one in call.given.objects:  # who has the dict of a library's object can write all of its attributes
        if isinstance(one, Thing) and not is_settings(one):
            call.memory.effect(call.here.unit, call.here.node, Effect(WRITES, one, "*"))
    return NONE.union(
        *(
            call.dispatch.as_dict(o, call.here) if isinstance(o, fields) or is_settings(o) else {o}
            for o in call.given.objects
        )
    )


def _open(call: LibraryCall) -> Objects:
    mode = constant(call.here.node, 1) or keyword(call.here.node, "mode") or "r"
    for kind in (DISK_WRITE,) if set(mode) & set("wax+") else (DISK_READ, DISK_LOOK):
        call.memory.effect(call.here.unit, call.here.node, Effect(kind))
    made = call.memory.make(Thing, "file", call.here.node, call.here.maker)
    if opens_screen(call.here.node):
        put_on_screen(made, call.memory)
    return frozenset({made})


def _environment(kind: str, call: LibraryCall) -> Objects:
    environment = call.memory.make(Name, "os.environ", None)
    call.memory.effect(call.here.unit, call.here.node, Effect(kind, environment, "", deep=True))
    return frozenset({PLAIN})


def _flush(call: LibraryCall) -> Objects:
    """What was written is the same, before it and after it; what waits in a writer over the file would miss it."""
    if call.name.receiver is not None:
        call.memory.effect(call.here.unit, call.here.node, Effect(WRITES, call.name.receiver, FLUSHED))
    return frozenset({PLAIN})


def _gives_arguments(call: LibraryCall) -> Objects:
    return call.given.objects or call.thing("context")


def _getter(call: LibraryCall) -> Objects:
    """`property(f)`, `cached_property(f)`: runs the function whenever the attribute is looked up."""
    return call.thing(GETTER, filter(is_function, call.given.objects))


def _more_of_getter(call: LibraryCall) -> Objects:
    """`now.setter(f)` where `now` is a property."""
    assert call.name.receiver is not None
    call.memory.write(call.name.receiver, HELD, filter(is_function, call.given.objects))
    return frozenset({call.name.receiver})


def _hasattr(call: LibraryCall) -> Objects:
    _getattr(call)
    return frozenset({PLAIN})


def _partial(call: LibraryCall) -> Objects:
    return partials.made(call.given, call.memory, call.here)


def _wrapped(call: LibraryCall) -> Objects:
    """`torch.vmap(f)`: it calls the function, and gives something else than that does."""
    function = call.given.named.get("func", NONE)
    return partials.made(Arguments(call.given.positional[:1], rest=call.given.rest | function), call.memory, call.here)


def _call_partial(call: LibraryCall) -> Objects:
    assert call.name.receiver is not None
    return partials.called(call.name.receiver, call.given, call.dispatch, call.here)


def _field(call: LibraryCall) -> Objects:
    factory = call.given.named.get("default_factory", NONE)
    made = call.dispatch.invoke(factory, Arguments(), call.here)
    if factory:
        made |= call.thing(FIELD, factory)
    return made | call.given.named.get("default", NONE)


def _apply(call: LibraryCall) -> Objects:
    """`MyFunction.apply(x)`: runs `forward` now and `backward` with the loss."""
    owner = frozenset({call.name.receiver} if call.name.receiver is not None else ())
    context = frozenset({DATA})
    call.memory.write(HOOKS, HELD, call.dispatch.load(owner, "backward", call.here))
    return call.dispatch.invoke(
        call.dispatch.load(owner, "forward", call.here),
        Arguments((context, *call.given.positional), call.given.named, call.given.rest),
        call.here,
    )


def _new(call: LibraryCall) -> Objects:
    """`object.__new__(cls)`: what a class makes that decides itself what a new object is, is one object."""
    made = NONE.union(*call.given.positional[:1], {call.name.receiver} if call.name.receiver else NONE)
    return frozenset(call.memory.make(Instance, one, one, None) for one in made if isinstance(one, Class)) or frozenset(
        {DATA}
    )


_ARGUMENTS = (
    "builtins.staticmethod builtins.classmethod contextlib.contextmanager abc.abstractmethod"
    " contextlib.asynccontextmanager dataclasses.dataclass"
)
_WRAPPERS = (
    "torch.vmap torch.func.vmap torch.func.grad torch.func.grad_and_value torch.func.jacrev torch.func.jacfwd"
    " torch.func.hessian torch.func.functionalize"
)
_GETTERS = "builtins.property functools.cached_property abc.abstractproperty types.DynamicClassAttribute enum.property"
_CHANGES = ("update", "pop", "setdefault", "clear", "popitem")
_PASSES = "accumulate chain chain.from_iterable compress cycle dropwhile filterfalse islice starmap takewhile"
_TUPLES = "batched combinations combinations_with_replacement groupby pairwise permutations product zip_longest"
METHODS: Mapping[str, Callable[[LibraryCall], Objects]] = {
    "__new__": _new,
    "__setattr__": _plain_setattr,
    **from_outside.METHODS,
}
"""Of every class of a library."""
SPECIAL: Mapping[str, Callable[[LibraryCall], Objects]] = {
    **dict.fromkeys(
        ["os.getenv", "os.environ.get", "os.environ.copy", "os.environ.items"], partial(_environment, READS)
    ),
    **dict.fromkeys(
        ["os.putenv", "os.unsetenv", *(f"os.environ.{name}" for name in _CHANGES)], partial(_environment, WRITES)
    ),
    "builtins.getattr": _getattr,
    "builtins.hasattr": _hasattr,
    **dict.fromkeys(_GETTERS.split(), _getter),
    **dict.fromkeys((f"<{GETTER}>.{name}" for name in ("getter", "setter", "deleter")), _more_of_getter),
    "builtins.setattr": _setattr,
    "builtins.type": _type,
    "builtins.slice": lambda _: frozenset({SLICE}),
    "builtins.globals": _globals,
    "builtins.locals": _locals,
    "builtins.vars": _vars,
    "builtins.__import__": _module_by_text,
    "importlib.import_module": _module_by_text,
    "importlib.reload": _module_by_text,
    "builtins.open": _open,
    "builtins.next": _next,
    "functools.partial": _partial,
    **dict.fromkeys(_WRAPPERS.split(), _wrapped),
    "functools.reduce": _reduce,
    "torch.utils.data.random_split": _split_data,
    **dict.fromkeys(("dataclasses.asdict", "dataclasses.astuple"), _as_record),
    **dict.fromkeys(("<list>._replace", "<list>._make"), _record_anew),
    "<partial>.__call__": _call_partial,
    "dataclasses.field": _field,
    "<autograd>.apply": _apply,
    "<file>.flush": _flush,
    **dict.fromkeys(_ARGUMENTS.split(), _gives_arguments),
    **dict.fromkeys((f"builtins.{name}" for name in ("enumerate", "zip", "map", "filter", "reversed", "iter")), _lazy),
    **dict.fromkeys((f"itertools.{name}" for name in _PASSES.split()), _lazy),
    **dict.fromkeys((f"itertools.{name}" for name in _TUPLES.split()), _tuples),
    "itertools.repeat": _repeat,
    "itertools.tee": _tee,
    **settings.CALLS,
    **from_outside.CALLS,
    **spawned.CALLS,
    **patched_before.CALLS,
    **dict.fromkeys(("<module>.register_buffer", "<module>.register_parameter"), _register),
}


def mocked(given: Arguments, here: Here, memory: Memory) -> None:
    """`mock.patch("torch.stack", f)`, `mock.patch.object(torch, "stack", f)`."""
    memory.write(REPLACED, HELD, given.objects)
    texts = [one.value for one in getattr(here.node, "args", ()) if isinstance(one, ast.Constant)]
    if texts and isinstance(texts[0], str):
        module, _, name = texts[0].rpartition(".")
        owners = {memory.make(Name, module, None)} if module else given.positional[0]
        for owner in owners:
            memory.effect(here.unit, here.node, Effect(WRITES, owner, name))
