"""What a library calls of the project: hooks, handlers, `forward`, `__getitem__`, `collate_fn`, `__str__` …

In: what a library's function is given, or its object holds. Out: a unit that stands for all those calls, whose summary
has an edge to each function that can be meant. It is looked at again whenever memory grew.
"""

from __future__ import annotations

import ast

from tracelens.patch.effects import implicit
from tracelens.patch.effects.callables import is_function, is_picker, is_unknown_function
from tracelens.patch.effects.classes import is_of_kind
from tracelens.patch.effects.dispatch import HELD, RETURN, Arguments, Dispatch, Here
from tracelens.patch.effects.memory import ANY_KEY, DATA, ELSEWHERE, NONE, SHARED, Memory, Objects
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
)
from tracelens.patch.effects.vocabulary import Entry

NOWHERE = ast.Pass()
"""The place of what a library calls."""


class CallbackRules:
    """Enters what libraries call back."""

    def __init__(self, memory: Memory, dispatch: Dispatch) -> None:
        self.memory = memory
        self.dispatch = dispatch
        self._known: dict[Callbacks, dict[Object, bool]] = {}
        self._computing: set[Object] = set()
        """Modules whose `forward` is asked for at present, the one within the other."""

    def enter(self, entry: Entry, called: Name, given: Arguments, here: Here) -> Objects:
        """Enter what the library may call of what it holds and is given; gives what those calls give."""
        receiver, protocol = called.receiver, implicit.protocol_of(entry, called.full, here.node)
        if protocol == "nothing":
            return NONE
        if protocol == "async":
            own = frozenset({receiver}) if isinstance(receiver, Instance) else NONE
            self.memory.write(ELSEWHERE, HELD, given.objects | own)
            return NONE
        if isinstance(receiver, Instance):
            return self._own(protocol, called, receiver, given, here)
        own = frozenset({receiver}) if isinstance(receiver, (Thing, Container)) else NONE
        if called.full.startswith("<module>.") and protocol == implicit.IMPLICIT:
            return self.through(own, implicit.MODULE, here) | self.through(given.objects, protocol, here)
        return self.through(given.objects | own, protocol, here)

    def _own(self, protocol: str, called: Name, receiver: Instance, given: Arguments, here: Here) -> Objects:
        """A library's method on an object of the project: it calls what the class overrides, and what it was given."""
        last = called.full.rpartition(".")[2]
        objects = frozenset(filter(acts, given.objects))
        if not called.full.startswith("<module>"):
            objects |= self.memory.read(receiver, HELD, here.unit) | {receiver}
        elif last in ("__call__", "forward", "generate"):
            return self._forward(receiver, given, here)
        else:
            self.through(frozenset({receiver}), implicit.MODULE, here)
        return self.through(objects, protocol, here)

    def _forward(self, receiver: Instance, given: Arguments, here: Here) -> Objects:
        """What a module computes; one that is an attribute `forward` of another has one in turn, or is the other."""
        if receiver in self._computing:
            return NONE
        self._computing.add(receiver)
        own = self.dispatch.load({receiver}, "forward", here)  # the library's own, where the class has none
        out = self.dispatch.invoke((one for one in own if not isinstance(one, Name)), given, here)
        self._computing.discard(receiver)
        return out

    def through(self, objects: Objects, protocol: str, here: Here) -> Objects:
        """Enter the calls that a library makes which has these objects."""
        active = NONE.union(*(implicit.acting(one, self.memory, here.unit) for one in objects))
        loaded = frozenset(filter(implicit.is_loaded, active))
        if protocol not in implicit.CALLING:
            active = frozenset(one for one in active if isinstance(one, Instance))
        if protocol == implicit.PASS:
            active |= frozenset(filter(is_unknown_function, objects))
        results = NONE.union(*(self._through_loaded(one, protocol, here) for one in loaded))
        if not active - loaded:
            return results  # a layer of torch, numbers: asked again once one of them gets something that can be called
        holder = self.memory.make(Container, here.node, "<call>")
        self.memory.write(holder, ANY_KEY, objects)
        unit = self.memory.make(Callbacks, holder, protocol)
        self.memory.calls(here.unit, here.node, unit)
        return results | self.memory.read(unit, RETURN, here.unit)

    def _through_loaded(self, loaded: Object, protocol: str, here: Here) -> Objects:
        """What a library or Python runs of what comes out of a file: the same wherever it is handed over.

        A pass over it gives a part of it, which may be anything again.
        """
        unit = self.memory.make(Callbacks, loaded, protocol)
        self.memory.calls(here.unit, here.node, unit)
        parts = frozenset({loaded} if protocol in (implicit.PASS, implicit.BATCHES) else ())
        return parts | self.memory.read(unit, RETURN, here.unit)

    def look_around(self, unit: Callbacks) -> None:
        """Find what can be called by now through a holder, and enter it."""
        known = self._known.setdefault(unit, {})
        for one, deep in self._has(unit).items():
            if one not in known:
                known[one] = deep
                self._enter(unit, one)

    def _has(self, unit: Callbacks) -> dict[Object, bool]:
        """What can act, and whether it is only an attribute of something."""
        if unit.protocol == "unknown":
            return dict.fromkeys(filter(implicit.is_active, self.memory.reach([unit.holder])), False)
        out = dict.fromkeys(self._near(unit), False)
        if unit.protocol == implicit.PASS:
            direct = self.memory.read(unit.holder, ANY_KEY, unit)
            out.update(dict.fromkeys(filter(is_unknown_function, direct), False))
        if unit.protocol == "later":
            return out
        objects = [one for one in out if isinstance(one, Instance)]
        for one in [inner for outer in objects for inner in implicit.within(outer, self.memory, unit)]:
            out.setdefault(one, True)
        return out

    def look_again(self, unit: Callbacks) -> None:
        """Enter again what is known to be called: what that gives may have grown."""
        for one in tuple(self._known.get(unit, ())):
            self._enter(unit, one)

    def _enter(self, unit: Callbacks, one: Object) -> None:
        given = Arguments(rest=self._handed_back(unit))
        self.memory.write(unit, RETURN, self._called_back(unit, one, given, Here(unit, NOWHERE)))

    def _handed_back(self, unit: Callbacks) -> Objects:
        """What a library gives to what it calls: tensors, and what it was given for that."""
        if unit.protocol == "unknown":
            return frozenset({SHARED})
        if unit.protocol == implicit.BATCHES:
            return frozenset({DATA})
        return implicit.handed(unit.holder, self.memory, unit) | {DATA}

    def _near(self, unit: Callbacks) -> Objects:
        """What the library has: what it is handed, what its own objects hold, and what is within lists of these."""
        return implicit.acting(unit.holder, self.memory, unit)

    def _called_back(self, unit: Callbacks, one: Object, given: Arguments, here: Here) -> Objects:
        protocol = unit.protocol
        calls = protocol in implicit.CALLING
        if isinstance(one, Class):
            return self._made_of(unit, one, given, here)
        if implicit.is_loaded(one):
            return self._of_file(unit, one, here)
        if protocol == implicit.PASS and is_picker(one):
            self.dispatch.invoke({one}, given, here)
            return NONE  # a part of what is gone through
        if calls and (is_function(one) or is_unknown_function(one)):
            return self.dispatch.invoke({one}, given, here)
        if calls and isinstance(one, (Generator, Thing)):
            made = self.dispatch.passes({one}, here)
            self.memory.write(unit.holder, ANY_KEY, filter(implicit.is_active, made))
            return made
        return self._methods(unit, one, given, here) if isinstance(one, Instance) else NONE

    def _made_of(self, unit: Callbacks, one: Class, given: Arguments, here: Here) -> Objects:
        """What a library may make of a class that it is handed by a name: `json.dumps(rows, cls=Encoder)`."""
        if unit.protocol not in (implicit.IMPLICIT, "unknown"):
            return NONE
        made = self.dispatch.instantiate(one, given, here)
        self.memory.write(unit.holder, ANY_KEY, made)
        return made

    def _of_file(self, unit: Callbacks, one: Object, here: Here) -> Objects:
        """What runs of the project's classes where an object that comes out of a file may be of any of them.

        What that gives is data, beside the objects of the project that can do something.
        """
        if unit.holder is not one:
            return self._through_loaded(one, unit.protocol, here)
        data, names = Arguments(rest=frozenset({DATA})), implicit.of_loaded(unit.protocol)
        results = self.dispatch.special(self.dispatch.of_files(names), names, data, here)
        return NONE.union(*(implicit.acting(each, self.memory, here.unit) for each in results))

    def _methods(self, unit: Callbacks, one: Instance, given: Arguments, here: Here) -> Objects:
        deep = self._known[unit].get(one, False)
        names = implicit.methods(one, unit.protocol, self.memory, unit, deep=deep)
        if is_of_kind(one, "module", self.memory, unit) and unit.protocol != "unknown":
            given = Arguments(rest=self._to_compute_with(unit))
        if unit.protocol in (implicit.IMPLICIT, implicit.PASS, "unknown"):
            for name in tuple(implicit.getters(one.made, self.memory, unit)):
                self.dispatch.load({one}, name, here)
        out = NONE.union(*(self.dispatch.special({one}, (name,), given, here) for name in names))
        self.memory.write(unit.holder, ANY_KEY, (each for each in out if isinstance(each, Generator)))  # gone through
        return out

    def _to_compute_with(self, unit: Callbacks) -> Objects:
        """What a library that has a module hands it: tensors, and the lists and objects that the call was given; not
        other parts of the model, and not all that the library keeps."""
        direct = self.memory.read(unit.holder, ANY_KEY, unit)
        return frozenset(one for one in direct if self._is_batch(one, unit)) | {DATA}

    def _is_batch(self, one: Object, unit: Callbacks) -> bool:
        if isinstance(one, Container):
            inside = self.memory.read(one, ANY_KEY, unit)
            return not any(is_of_kind(each, "module", self.memory, unit) for each in inside)
        return isinstance(one, Instance) and not is_of_kind(one, "module", self.memory, unit)


def acts(one: Object) -> bool:
    """Whether an object has content, or is a library's function that others notice."""
    return has_content(one) or is_function(one)


def has_content(one: Object) -> bool:
    """Whether an object can be changed or can do something."""
    return (
        not isinstance(one, Plain) and one is not DATA and not (isinstance(one, Name) and one.receiver in (None, DATA))
    )
