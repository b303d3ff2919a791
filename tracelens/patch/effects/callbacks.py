"""What a library calls of the project: hooks, handlers, `forward`, `__getitem__`, `collate_fn`, `__str__` …

In: what a library's function is given, or its object holds. Out: a unit that stands for all those calls, whose summary
has an edge to each function that can be meant. It is looked at again whenever memory grew.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from tracelens.patch.effects import classes
from tracelens.patch.effects.callables import is_function, is_partial
from tracelens.patch.effects.dispatch import HELD, RETURN, Arguments, Dispatch, Here
from tracelens.patch.effects.memory import ANY_KEY, DATA, ELSEWHERE, NONE, SHARED, Memory, Objects, SeenFields
from tracelens.patch.effects.objects import (
    Callbacks,
    Class,
    Container,
    Generator,
    Instance,
    Name,
    Object,
    Plain,
    Thing,
    Unknown,
)
from tracelens.patch.effects.vocabulary import Entry

NOWHERE = ast.Pass()
"""The place of what a library calls."""
_TEXT = ("__str__", "__repr__", "__format__")
_NUMBERS = ("__len__", "__bool__", "__int__", "__float__", "__hash__", "__abs__", "__round__", "__index__")
_SAVED = ("__deepcopy__", "__copy__", "__getstate__", "__setstate__", "__reduce__")
_ACTIVE = (Generator, Instance)
_CALLED = ("__call__", "forward", "__getitem__", "__len__", "__iter__", "__next__")


class CallbackRules:
    """Enters what libraries call back."""

    def __init__(self, memory: Memory, dispatch: Dispatch) -> None:
        self.memory = memory
        self.dispatch = dispatch
        self._known: dict[Callbacks, dict[Object, None]] = {}

    def enter(self, entry: Entry, called: Name, given: Arguments, here: Here) -> Objects:
        """Enter what the library may call of what it holds and is given; gives what those calls give."""
        receiver = called.receiver
        if not entry.calls:
            return NONE
        if entry.calls == "async":
            own = frozenset({receiver}) if isinstance(receiver, Instance) else NONE
            self.memory.write(ELSEWHERE, HELD, given.objects | own)
            return NONE
        if isinstance(receiver, Instance):
            return self._own(entry, called, receiver, given, here)
        objects = given.objects | ({receiver} if isinstance(receiver, Thing) else NONE)
        return self.through(frozenset(filter(acts, objects)), entry.calls, here)

    def _own(self, entry: Entry, called: Name, receiver: Instance, given: Arguments, here: Here) -> Objects:
        """A library's method on an object of the project: it calls what the class overrides, and what it was given."""
        last = called.full.rpartition(".")[2]
        objects = frozenset(filter(acts, given.objects))
        if not called.full.startswith("<module>"):
            objects |= self.memory.read(receiver, HELD, here.unit) | {receiver}
        elif last in ("__call__", "forward", "generate"):
            own = self.dispatch.load({receiver}, "forward", here)  # the library's own, where the class has none
            return self.dispatch.invoke((one for one in own if not isinstance(one, Name)), given, here)
        return self.through(objects, entry.calls, here)

    def through(self, objects: Objects, protocol: str, here: Here) -> Objects:
        """Enter the calls that a library makes which has these objects."""
        if protocol not in ("all", "unknown"):
            objects = frozenset(one for one in objects if _is_active(one) or isinstance(one, Container))
        if not any(_is_active(one) or isinstance(one, (Container, Thing, Unknown, Name)) for one in objects):
            return NONE
        if protocol == "all" and not any(self._has_active(one, here) for one in objects):
            return NONE  # a layer of torch, numbers: asked again once one of them gets something that can be called
        holder = self.memory.make(Container, here.node, "<call>")
        self.memory.write(holder, ANY_KEY, objects)
        unit = self.memory.make(Callbacks, holder, protocol)
        self.memory.calls(here.unit, here.node, unit)
        return self.memory.read(unit, RETURN, here.unit)

    def _has_active(self, one: Object, here: Here) -> bool:
        return _is_active(one) or bool(self.memory.found(one, _search_active, here.unit))

    def look_around(self, unit: Callbacks) -> None:
        """Find what can be called by now through a holder, and enter it."""
        objects: Iterable[Object] = self.memory.reach([unit.holder]) if unit.protocol == "unknown" else self._near(unit)
        known = self._known.setdefault(unit, {})
        for one in [one for one in objects if _is_active(one) and one not in known]:
            known[one] = None
            self._enter(unit, one)

    def look_again(self, unit: Callbacks) -> None:
        """Enter again what is known to be called: what that gives may have grown."""
        for one in tuple(self._known.get(unit, ())):
            self._enter(unit, one)

    def _enter(self, unit: Callbacks, one: Object) -> None:
        given = Arguments(rest=self._handed_back(unit))
        self.memory.write(unit, RETURN, self._called_back(one, unit.protocol, given, Here(unit, NOWHERE)))

    def _handed_back(self, unit: Callbacks) -> Objects:
        """What a library gives to what it calls: tensors, and what it was given for that."""
        if unit.protocol == "unknown":
            return frozenset({SHARED})
        if unit.protocol != "later":
            return frozenset({DATA})
        others = (one for one in self._near(unit) if not is_function(one))
        return frozenset(one for one in others if one is not unit.holder) | {DATA}

    def _near(self, unit: Callbacks) -> list[Object]:
        """What the library has: what it is handed, what its own objects hold, and what is within lists of these.

        It goes on through objects of the library, never through those of the project, nor through the arguments that a
        function has been given: these it can only call.
        """
        further = (Container,) if unit.protocol not in ("all", "later") else (Container, Thing)
        out: dict[Object, None] = {}
        waiting: list[Object] = [unit.holder]
        while waiting:
            one = waiting.pop()
            if one in out or (one is not unit.holder and not (_is_active(one) or isinstance(one, further))):
                continue
            out[one] = None
            if one is unit.holder or (isinstance(one, further) and not is_partial(one)):
                fields = self.memory.fields.get(one, {})
                waiting += [
                    held for name, inside in fields.items() if name == HELD or name.startswith("[") for held in inside
                ]
        return list(out)

    def _called_back(self, one: Object, protocol: str, given: Arguments, here: Here) -> Objects:
        called = is_function(one) and not isinstance(one, Class)
        if called and protocol in ("all", "functions", "pass", "unknown", "later"):
            return self.dispatch.invoke({one}, given, here)
        if isinstance(one, Generator) and protocol in ("all", "pass", "unknown", "later"):
            return self.dispatch.passes({one}, here)
        if isinstance(one, Class) and protocol == "unknown":
            return self.dispatch.instantiate(one, given, here)
        if not isinstance(one, Instance):
            return NONE
        return NONE.union(*(self._method(one, name, given, here) for name in self._names(one, protocol, here)))

    def _method(self, one: Instance, name: str, given: Arguments, here: Here) -> Objects:
        return self.dispatch.special({one}, (name,), given, here)

    def _names(self, one: Instance, protocol: str, here: Here) -> tuple[str, ...]:
        """The methods of an object that a library may call."""
        memory = self.memory
        known = {
            "text": _TEXT,
            "numbers": _NUMBERS,
            "copies": _SAVED,
            "pass": (*_CALLED[2:], "__lt__", "__add__", "__radd__"),
        }
        if protocol in known:
            return known[protocol]
        kinds = set(classes.kinds(one.made, memory, here.unit))
        if protocol == "special":
            return tuple(name for name in classes.methods(one.made, memory, here.unit) if name.startswith("__"))
        if protocol in ("functions", "later") and "mode" not in kinds:
            return ("__call__", "forward", "run")
        if protocol == "unknown" or "" in kinds or kinds - {"module", "data", "list"}:
            made = [
                name
                for name in classes.methods(one.made, memory, here.unit)
                if name not in ("__init__", "__new__", "__del__")
            ]
            return tuple(made)
        return _CALLED


def _search_active(start: Object, fields: SeenFields) -> Objects:
    """What a library can call that has an object: as `CallbackRules.look_around` finds it."""
    seen, waiting = {start}, [start]
    while waiting:
        one = waiting.pop()
        if not isinstance(one, (Container, Thing)) or is_partial(one):
            continue
        names = [name for name in fields.names(one) if name == HELD or name.startswith("[")]
        for held in NONE.union(*(fields.read(one, name) for name in names)):
            if _is_active(held):
                return frozenset({held})
            if held not in seen:
                seen.add(held)
                waiting.append(held)
    return NONE


def _is_active(one: Object) -> bool:
    return isinstance(one, _ACTIVE) or is_function(one)


def acts(one: Object) -> bool:
    """Whether an object has content, or is a library's function that others notice."""
    return has_content(one) or is_function(one)


def has_content(one: Object) -> bool:
    """Whether an object can be changed or can do something."""
    return (
        not isinstance(one, Plain) and one is not DATA and not (isinstance(one, Name) and one.receiver in (None, DATA))
    )
