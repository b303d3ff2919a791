"""What attributes and elements of objects are: the definition that Python would find, for each possible object.

In: the objects that an expression can stand for. Out: the objects that its attribute or element can be; what is read
and stored is entered into the summary of the code that does it. Properties run: see `Dispatch`, which is made of this.
"""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from tracelens.messages import say
from tracelens.patch.effects import classes, vocabulary
from tracelens.patch.effects.callables import is_partial
from tracelens.patch.effects.durations import is_timed
from tracelens.patch.effects.holders import AS_DICT, HELD, SETTINGS, behind, is_holder, is_settings, named_by, owner_of
from tracelens.patch.effects.memory import (
    ANY_KEY,
    DATA,
    ELSEWHERE,
    NONE,
    PLAIN,
    REPLACED,
    SHARED,
    Memory,
    Objects,
    Unit,
)
from tracelens.patch.effects.objects import (
    READS,
    WRITES,
    Activation,
    Class,
    Container,
    Effect,
    Function,
    Instance,
    Method,
    Module,
    Name,
    Object,
    Plain,
    Super,
    Thing,
    Unknown,
)

RETURN = "<return>"
VIEW = "<view>"
"""The container that `.values()` and the like look at, also later."""
FACTORY = "<factory>"
STATE = "<state>"
FIELD = "field"
"""What `field(default_factory=f)` gives: each new object has what the function gives then."""
GETTER = "getter"
"""What `property(…)` gives: it stands in a class, and runs its functions for an object."""
FLUSHED = "<flushed>"
"""What of a file is on the disk."""
TEXT = "<text>"
"""What a progress bar says beside how far it is."""
COUNT = "n"
"""How far a progress bar is."""
REMADE = frozenset({"__dict__", "__init__", "__setstate__"})
"""Members of a library's object by which all of its attributes can be written."""
RATES = frozenset(f"['{name}']" for name in ("lr", "initial_lr", "lr_scale", "momentum", "weight_decay", "name"))
"""What groups of optimizers keep as numbers: who took one has it as it was."""
_SHOWN = frozenset({"property", "cached_property"})


@dataclass(frozen=True)
class Here:
    """A node, and the unit to whose summary its effects belong."""

    unit: Unit
    node: ast.AST

    @property
    def maker(self) -> object:
        """What tells the objects of one place apart: the object whose method makes them."""
        receiver = self.unit.receiver if isinstance(self.unit, Activation) else None
        return getattr(receiver, "site", receiver)


@dataclass(frozen=True)
class Arguments:
    """What a call hands over; `rest` is what `*` and `**` can bring along."""

    positional: tuple[Objects, ...] = ()
    named: Mapping[str, Objects] = field(default_factory=dict)
    rest: Objects = NONE

    @property
    def objects(self) -> Objects:
        return self.rest.union(*self.positional, *self.named.values())


class Libraries(Protocol):
    """What is known of libraries: see `library`."""

    def call(self, called: Name, given: Arguments, here: Here) -> Objects: ...
    def read(self, full: str, receiver: Object | None, here: Here) -> Objects: ...
    def passes(self, over: Thing | Name, here: Here) -> Objects: ...
    def through(self, objects: Objects, protocol: str, here: Here) -> Objects: ...


class Attributes(ABC):
    """The meaning of attributes, and what elements there are."""

    libraries: Libraries
    first: Callable[[Module], None]
    """Runs a module that is imported, unless it ran."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory

    @abstractmethod
    def invoke(self, called: Iterable[Object] | None, given: Arguments, here: Here) -> Objects:
        """What a call of any of these objects can give."""

    @abstractmethod
    def unknown(self, why: str, given: Objects, here: Here) -> Objects:
        """A call of what nobody can tell."""

    @abstractmethod
    def passes(self, objects: Iterable[Object], here: Here) -> Objects:
        """What a pass over an object gives, each time."""

    def load(self, objects: Iterable[Object], name: str, here: Here) -> Objects:
        """`object.name`."""
        return NONE.union(*(self._load(one, name, here) for one in self.with_behind(objects, here)))

    def with_behind(self, objects: Iterable[Object], here: Here) -> Objects:
        """The objects, and what may come out of those that only hold others: each once, however many hold it."""
        direct = frozenset(objects)
        return direct.union(*(self.held_behind(one, here) for one in direct))

    def _load(self, owner: Object, name: str, here: Here) -> Objects:
        out: Objects
        match owner:
            case Module() | Class() | Instance() if name == "__dict__":
                out = self.as_dict(owner, here)
            case Thing() if is_settings(owner):
                out = self.as_dict(owner, here) if name == "__dict__" else self._setting(owner, name, here)
            case Instance():
                out = self._of_instance(owner, name, here)
            case Class():
                out = self._of_class(owner, owner, name, here)
            case Super():
                out = self._above(owner, name, here)
            case Module():
                own = self._field(owner, name, here)
                hidden = NONE if own else self.memory.read(owner, "__getattr__", here.unit)
                out = own | self.invoke(hidden, Arguments((frozenset({PLAIN}),)), here)
            case Function() | Method() | Activation():
                out = self._field(owner, name, here)
            case Unknown():
                self.memory.effect(here.unit, here.node, Effect(READS, SHARED, name))
                out = self.memory.read(SHARED, name, here.unit) | {owner}
            case _:
                out = self._of_library(owner, name, here)
        return out

    def _setting(self, owner: Object, name: str, here: Here) -> Objects:
        """What a setting is; a part of them that can be anything, where the project says nothing of it."""
        own = self._field(owner, name, here) | self.memory.read(owner, "*", here.unit)
        own |= self.memory.read(SHARED, name, here.unit)
        if name.startswith("_") or (not own and self.memory.final):
            own |= self._member(f"<{SETTINGS}>.{name}", owner, here)
        return own

    def _of_library(self, owner: Object, name: str, here: Here) -> Objects:
        """A member of what a library made, beside what the project stored in it."""
        if isinstance(owner, Name):
            own = self._field(owner, name, here)
            if owner.receiver is not None and is_holder(owner.receiver):  # a part of it, as any other
                return own | self._of_library(owner.receiver, name, here)
            return own | self._member(f"{owner.full}.{name}", owner.receiver, here)
        if isinstance(owner, Thing):
            if name in REMADE:
                self.memory.effect(here.unit, here.node, Effect(WRITES, owner, "*"))
            own = self._field(owner, name, here)
            own |= self.memory.read(REPLACED, name, here.unit)
            if is_holder(owner) and vocabulary.knows(f"<data>.{name}"):  # it may be the array that it seems to be
                held = filter(_is_code, self.held_behind(owner, here))
                return own | self._member(f"<data>.{name}", owner, here) | frozenset(held)
            return own | self._member(f"<{owner.kind}>.{name}", owner, here)
        if isinstance(owner, Plain):
            member = self._member(f"<plain>.{name}", owner, here)
            return member | {owner} if is_timed(owner) else member
        known = vocabulary.knows(f"<list>.{name}") or name.startswith("__")
        return self._member(f"<list>.{name}", owner, here) if known else NONE

    def held_behind(self, owner: Object, here: Here) -> Objects:
        """What may come out of a library's object that only holds others, or of a part that nobody knows more of."""
        if not isinstance(owner, (Name, Thing)):
            return NONE
        entry = vocabulary.lookup(owner.full) if isinstance(owner, Name) else None
        if isinstance(owner, Name) and vocabulary.knows(owner.full) and entry is not None and entry.gives != "held":
            return NONE
        return behind(owner, self.memory, here.unit)

    def _member(self, full: str, receiver: Object | None, here: Here) -> Objects:
        return self.libraries.read(full, receiver, here)

    def _field(self, owner: Object, name: str, here: Here) -> Objects:
        self.memory.effect(here.unit, here.node, Effect(READS, owner, name))
        return self.memory.read(owner, name, here.unit)

    def _of_instance(self, owner: Instance, name: str, here: Here) -> Objects:
        own = self._field(owner, name, here)
        stored = own | self.memory.read(owner, "*", here.unit) | self.memory.read(SHARED, name, here.unit)
        order = classes.order(owner.made, self.memory, here.unit)
        known_module = "module" in classes.kinds(owner.made, self.memory, here.unit)
        if known_module and not vocabulary.knows(f"<module>.{name}") and (own or not self.memory.final):
            order = tuple(  # the object's own hides it, and what that is may not be told yet
                base for base in order if not (isinstance(base, Name) and base.full == "torch.nn.Module")
            )
        found = self.in_order(order, owner, name, here)
        if found is None and not own:
            hidden = self.in_order(classes.order(owner.made, self.memory, here.unit), owner, "__getattr__", here)
            found = self.invoke(hidden or NONE, Arguments((frozenset({PLAIN}),)), here)
        return stored | (found or NONE)

    def in_order(self, order: Iterable[Object], owner: Object, name: str, here: Here) -> Objects | None:
        """The first definition of a name in classes; None where there is none."""
        for base in order:
            if isinstance(base, Class):
                defined = self.memory.read(base, name, here.unit)
                if defined:
                    self.memory.effect(here.unit, here.node, Effect(READS, base, name))
                    return NONE.union(*(self._bound(one, owner, here) for one in defined))
            elif isinstance(base, Name):
                kind = classes.kind_of(base)
                if kind is None:
                    return self.memory.unknown(f"`{base.full}.{name}`")
                if kind and not name.startswith("__"):
                    return self._member(f"<{kind}>.{name}", owner, here)
            elif isinstance(base, Thing) and not name.startswith("__"):
                return self._member(f"<list>.{name}", owner, here) | self._field(owner, HELD, here)
            elif isinstance(base, Unknown):
                return frozenset({base})
        return None

    def _bound(self, defined: Object, owner: Object, here: Here) -> Objects:
        if not isinstance(defined, Function):
            return self._described(defined, owner, here)
        marks = classes.marks(defined)
        if "staticmethod" in marks:
            return frozenset({defined})
        if "classmethod" in marks:
            made = owner.made if isinstance(owner, Instance) else owner
            return frozenset({self.memory.make(Method, defined, made)})
        if isinstance(owner, Class):
            return frozenset({defined})
        bound = frozenset({self.memory.make(Method, defined, owner)})
        if marks & _SHOWN:
            return self.invoke(bound, Arguments(), here)
        return bound if defined.owner is not None else bound | {defined}

    def _described(self, defined: Object, owner: Object, here: Here) -> Objects:
        """What a class has that is no function: a descriptor, where its class is one, is asked for the value."""
        if isinstance(defined, Unknown):
            return self.unknown(defined.why, frozenset({owner}), here)
        if isinstance(defined, Instance):
            given = Arguments((frozenset({owner}), frozenset({PLAIN})))
            if "" in set(classes.kinds(defined.made, self.memory, here.unit)):
                self.unknown(f"`{defined.made.node.name}`", given.objects | {defined}, here)
            return frozenset({defined}) | self._special_of(defined, "__get__", given, here)
        if isinstance(defined, Thing) and defined.kind == GETTER:
            return self._got(defined, owner, here)
        is_field = isinstance(defined, Thing) and defined.kind == FIELD  # each object has its own
        return NONE if is_field else frozenset({defined})

    def _got(self, getter: Thing, owner: Object, here: Here) -> Objects:
        """What `property(…)` and the like give: whichever of their functions runs."""
        functions = self.memory.read(getter, HELD, here.unit)
        if isinstance(owner, Class):
            return functions | {getter}
        return self.invoke(functions, Arguments((frozenset({owner}),)), here)

    def _special_of(self, owner: Instance, name: str, given: Arguments, here: Here) -> Objects:
        order = classes.order(owner.made, self.memory, here.unit)
        defined = (self.memory.read(base, name, here.unit) for base in order if isinstance(base, Class))
        functions = next(filter(None, defined), NONE)
        bound = (self.memory.make(Method, one, owner) for one in functions if isinstance(one, Function))
        return self.invoke(frozenset(bound), given, here)

    def _of_class(self, made: Class, owner: Object, name: str, here: Here) -> Objects:
        found = self.in_order(classes.order(made, self.memory, here.unit), owner, name, here)
        return (found or NONE) | self._field(made, name, here).difference(
            one for one in self.memory.read(made, name, here.unit) if isinstance(one, Function)
        )

    def _above(self, owner: Super, name: str, here: Here) -> Objects:
        receiver = owner.receiver
        made = receiver.made if isinstance(receiver, Instance) else receiver
        if not isinstance(made, Class):
            return frozenset({receiver})
        order = list(classes.order(made, self.memory, here.unit))
        behind = order[order.index(owner.owner) + 1 :] if owner.owner in order else order
        found = self.in_order(behind, receiver, name, here)
        if found is None:
            kind = next((k for k in map(classes.kind_of, (b for b in behind if isinstance(b, Name))) if k), "")
            return frozenset({self.memory.make(Name, f"<{kind or 'plain'}>.{name}", receiver)})
        return found

    def store(self, objects: Iterable[Object], name: str, value: Objects, here: Here) -> None:
        """`object.name = value`; what is stored in an unknown object can turn up in every other."""
        for stored_in in objects:
            owner = owner_of(stored_in)
            if isinstance(owner, Plain):
                continue
            if owner is DATA:  # nobody can tell which object of a library it is, nor when it calls what it was given
                self.memory.effect(here.unit, here.node, Effect(WRITES, DATA, name))
                self.memory.write(ELSEWHERE, HELD, filter(_is_code, value))
                self.memory.write(DATA, name, filter(is_kept, value))
                continue
            target = SHARED if isinstance(owner, Unknown) else owner
            self.memory.write(target, name, value)
            self.memory.effect(here.unit, here.node, Effect(WRITES, target, name))
            if isinstance(owner, Thing):  # what a library's methods look at has no names here: `logger.disabled = True`
                self.memory.effect(here.unit, here.node, Effect(WRITES, target, STATE))
                self.memory.write(owner, HELD, filter(_is_code, value))
            self._replace(owner, name, value)
            self.store(self.held_behind(stored_in, here), name, value, here)
            if target is SHARED:
                self.memory.write(SHARED, ANY_KEY, value)
            if isinstance(owner, Instance):
                self._setters(owner, name, value, here)

    def _replace(self, owner: Object, name: str, value: Objects) -> None:
        """Let functions of the project that are put in the place of a library's run wherever that one may."""
        functions = frozenset(one for one in value if isinstance(one, (Function, Method)) or is_partial(one))
        if functions and isinstance(owner, Name):
            self.memory.write(REPLACED, name, functions)
            self.memory.write(REPLACED, HELD, functions)

    def _setters(self, owner: Instance, name: str, value: Objects, here: Here) -> None:
        for base in classes.order(owner.made, self.memory, here.unit):
            if isinstance(base, Class):
                for one in self.memory.read(base, name, here.unit) | self.memory.read(
                    base, f"{name}.setter", here.unit
                ):
                    if isinstance(one, Function) and "setter" in classes.marks(one):
                        self.invoke(frozenset({self.memory.make(Method, one, owner)}), Arguments((value,)), here)
                    elif isinstance(one, Thing) and one.kind == GETTER:
                        functions = self.memory.read(one, HELD, here.unit)
                        self.invoke(functions, Arguments((frozenset({owner}), value)), here)
                    elif isinstance(one, Instance):
                        self._special_of(one, "__set__", Arguments((frozenset({owner}), value)), here)
        own = self.in_order(classes.order(owner.made, self.memory, here.unit), owner, "__setattr__", here)
        self.invoke(own or NONE, Arguments((frozenset({PLAIN}), value)), here)

    # ------------------------------------------------------------------------------------------------------- items

    def elements(self, owner: Object, key: str, here: Here) -> Objects:
        """What an object holds under a key, or under all of them."""
        self.memory.effect(here.unit, here.node, Effect(READS, owner, key))
        named = named_by(owner)
        if named is not None:
            whole = key == ANY_KEY
            self.memory.effect(here.unit, here.node, Effect(READS, named, "" if whole else key[2:-2], deep=whole))
        for seen in self.memory.read(owner, VIEW, here.unit):
            self.memory.effect(here.unit, here.node, Effect(READS, seen, ANY_KEY))
        wanted = self.memory.keys(owner, here.unit) if key == ANY_KEY else (key, ANY_KEY)
        inside = NONE.union(*(self.memory.read(owner, name, here.unit) for name in wanted))
        if inside or not self.memory.final or not isinstance(owner, Container):
            return inside
        # nobody ever put anything in: what is done with the elements is never done
        return (
            self.memory.unknown(say("what unknown code puts in"))
            if self.memory.is_shared(owner)
            else frozenset({PLAIN})
        )

    def as_dict(self, owner: Object, here: Here) -> Objects:
        """`globals()`, `vars(owner)`, `owner.__dict__`: all fields by their names."""
        made = self.memory.make(Container, owner, AS_DICT)
        self.memory.write(made, ANY_KEY, self.everything(owner, here))
        return frozenset({made})

    def everything(self, owner: Object, here: Here) -> Objects:
        self.memory.effect(here.unit, here.node, Effect(READS, owner, "", deep=True))
        return NONE.union(*(self.memory.read(owner, name, here.unit) for name in self.memory.names(owner, here.unit)))


def is_kept(one: Object) -> bool:
    """Whether an object stays itself in a library's object that nobody can tell from others."""
    return isinstance(one, (Function, Method, Instance, Container)) or (isinstance(one, Thing) and one.kind != "data")


def _is_code(one: Object) -> bool:
    """Whether a library can call it."""
    return isinstance(one, (Function, Method, Instance)) or is_partial(one)
