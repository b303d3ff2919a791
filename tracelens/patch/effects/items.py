"""What elements of objects are: `object[key]`, read and stored.

In: the objects that an expression can stand for, and a key. Out: the objects that the element can be; apart from
`attributes`, because a key says less than a name.
"""

from __future__ import annotations

from collections.abc import Iterable

from tracelens.patch.effects import classes, vocabulary
from tracelens.patch.effects.attributes import FACTORY, RATES, Arguments, Attributes, Here, is_kept
from tracelens.patch.effects.holders import HELD, is_holder, named_by, owner_of
from tracelens.patch.effects.implicit import LOADED, is_loaded
from tracelens.patch.effects.memory import (
    ANY_KEY,
    DATA,
    KEYS,
    MEMBERS,
    NONE,
    PART,
    PLAIN,
    SHARED,
    SLICE,
    WEIGHTS,
    Objects,
)
from tracelens.patch.effects.objects import (
    READS,
    WRITES,
    Class,
    Container,
    Effect,
    Instance,
    Module,
    Name,
    Object,
    Plain,
    Slice,
    Thing,
    Unknown,
)

_MAKES_SLICES = frozenset({"numpy.s_", "numpy.index_exp"})
_OF_OBJECTS = ("item", "tolist")
"""What gives the objects that an array has, where it has some."""
_GONE_THROUGH = ("loader", "module", "lazy", "pairs", "numbered")


def keys_of(key: str, index: Objects) -> tuple[str, ...]:
    """The key of an element by its text, or a part by what the index can stand for, or both."""
    if all(isinstance(one, Slice) for one in index) and index:
        return (PART,)
    return (key, PART) if any(isinstance(one, (Slice, Unknown)) for one in index) else (key,)


_GOING_THROUGH = ("__iter__", "__getitem__", "__next__")


class Items(Attributes):
    """The meaning of elements, and of attributes."""

    def _of_library(self, owner: Object, name: str, here: Here) -> Objects:
        return self._of_loaded(owner, name, here) if is_loaded(owner) else super()._of_library(owner, name, here)

    def _of_loaded(self, owner: Object, name: str, here: Here) -> Objects:
        """An attribute of what comes out of a file: a class's own; what it is used as, where the name tells; a part."""
        own = self._field(owner, name, here) | self.load(self.of_files((name,)), name, here)
        entry = vocabulary.lookup(f"<module>.{name}")
        if vocabulary.knows(f"<list>.{name}") or name in _OF_OBJECTS:
            return own | self._member(f"<{LOADED}>.{name}", owner, here)
        if entry is not None and entry.gives == "self":
            return own | self._member(f"<module>.{name}", owner, here)
        if vocabulary.knows(f"<data>.{name}"):
            return own | self._member(f"<data>.{name}", DATA, here)
        known = vocabulary.knows(f"<module>.{name}")
        return own | (self._member(f"<module>.{name}", owner, here) if known else {owner})

    def of_files(self, names: Iterable[str]) -> Objects:
        """What a file may hold that has one of these: objects of the project's classes, those that it makes itself."""
        made = {one for one in self.memory.objects(Class) if any(self.memory.has(one, name) for name in names)}
        known = [one for one in self.memory.objects(Instance) if one.made in made]
        others = set(made).difference(one.made for one in known)
        return frozenset((*known, *(self.memory.make(Instance, one, LOADED, None) for one in others)))

    def item(self, objects: Iterable[Object], key: str, here: Here) -> Objects:
        """`object[key]`; `key` is `ANY_KEY` where it is not a constant text, `PART` where it is a slice."""
        direct = frozenset(objects)
        things = (self.held_behind(one, here) for one in direct if isinstance(one, Thing) and one is not DATA)
        return NONE.union(*(self._item(owner, key, here) for owner in direct.union(*things)))

    def part(self, inside: Objects, here: Here) -> Objects:
        """A list of its own, with these elements."""
        return self.made(ANY_KEY, inside, Container, here.node, here.maker)

    def made(self, field: str, inside: Iterable[Object], kind: type[Container | Thing], *parts: object) -> Objects:
        """The object of these parts, which has the others in a field."""
        one = self.memory.make(kind, *parts)
        self.memory.write(one, field, inside)
        return frozenset({one})

    def _item(self, owner: Object, key: str, here: Here) -> Objects:
        out = NONE
        match owner:
            case Container() if key == PART:
                out = self.part(self.elements(owner, ANY_KEY, here), here)
            case Container():
                out = self.elements(owner, key, here) | self._made_by_factory(owner, here)
            case Instance():
                out = self._of_instances(owner, key, here)
            case Thing():
                out = self._of_things(owner, key, here)
            case Unknown():
                self.memory.effect(here.unit, here.node, Effect(READS, SHARED, _field(key)))
                out = self.memory.shared(_field(key), here.unit) | {owner}
            case Class():  # a member of an enumeration, or a generic class
                out = self.memory.read(owner, MEMBERS, here.unit) | {owner}
            case Plain():
                out = frozenset({owner})
            case Module():
                out = self.everything(owner, here)
            case Name() if owner.full in _MAKES_SLICES:
                out = frozenset({SLICE, DATA})
            case Name():
                self.memory.effect(here.unit, here.node, Effect(READS, owner, _field(key)))
                out = self.libraries.passes(owner, here) | self.held_behind(owner, here)
        return out

    def _of_instances(self, owner: Instance, key: str, here: Here) -> Objects:
        method = self.in_order(classes.order(owner.made, self.memory, here.unit), owner, "__getitem__", here)
        if method:
            return self.invoke(method, Arguments((_index(key),)), here)
        out = self.elements(owner, _field(key), here)
        kinds = set(classes.kinds(owner.made, self.memory, here.unit))
        if {"loader", "module", "list"} & kinds:
            out |= self.elements(owner, HELD, here)
        known_index = key not in (ANY_KEY, PART)
        if "list" not in kinds and (known_index or self.has_no_parts(owner, here)):
            out |= {owner}  # it is one of several in a tuple, `prepare(model, data)[0]`
        return out | self.part(out, here) if key == PART else out

    def has_no_parts(self, owner: Instance, here: Here) -> bool:
        """Whether the classes of the project say of no way to go through it."""
        order = classes.order(owner.made, self.memory, here.unit)
        bases = [one for one in order if isinstance(one, Class)]
        return not any(self.memory.has(one, name) for one in bases for name in _GOING_THROUGH)

    def _of_things(self, owner: Thing, key: str, here: Here) -> Objects:
        key = _field(key)
        if owner is DATA:
            return self.memory.read(owner, key, here.unit) | self.memory.read(owner, ANY_KEY, here.unit) | {owner}
        out = self.elements(owner, key, here)
        if is_loaded(owner):
            return out | self.memory.read(owner, HELD, here.unit) | self.libraries.passes(owner, here)
        if owner.kind == "data":  # a view; of what an optimizer has, what has a name is a number
            return out | {PLAIN if owner is WEIGHTS and key in RATES else owner}
        if is_holder(owner):
            return out | self.memory.read(owner, HELD, here.unit) | {owner}
        out |= self._member(f"<{owner.kind}>.__getitem__", owner, here)
        return out | self.libraries.passes(owner, here) if owner.kind in _GONE_THROUGH else out

    def _made_by_factory(self, owner: Container, here: Here) -> Objects:
        """What a `defaultdict` makes where it has no such key."""
        factory = self.memory.read(owner, FACTORY, here.unit)
        made = self.invoke(factory, Arguments(), here)
        if factory:
            self.memory.effect(here.unit, here.node, Effect(WRITES, owner, ANY_KEY))
        self.memory.write(owner, ANY_KEY, made)
        return made

    def store_item(self, objects: Iterable[Object], key: str, value: Objects, here: Here) -> None:
        """`object[key] = value`."""
        if key == PART:
            self._store_part(objects, value, here)
            return
        for stored_in in objects:
            owner = owner_of(stored_in)
            if isinstance(owner, Plain):
                continue
            target = SHARED if isinstance(owner, Unknown) else owner
            if isinstance(owner, Instance):
                method = self.in_order(classes.order(owner.made, self.memory, here.unit), owner, "__setitem__", here)
                self.invoke(method or NONE, Arguments((frozenset({PLAIN}), value)), here)
            self.store_item(self.held_behind(stored_in, here), key, value, here)
            named = named_by(owner)
            if named is not None:
                target, key = named, key[2:-2] if key.startswith("['") else "*"
            number = target is WEIGHTS and key in RATES
            self.memory.write(target, key, NONE if number else filter(is_kept, value) if target is DATA else value)
            if isinstance(target, Thing) and key.startswith("['"):  # `vars(settings)["name"]`
                self.memory.write(target, key[2:-2], filter(is_kept, value))
            self.memory.effect(here.unit, here.node, Effect(WRITES, target, key))

    def keep_keys(self, objects: Iterable[Object], keys: Objects) -> None:
        """A pass over a dict gives its keys: objects of the project, functions, tuples of such."""
        kept = frozenset(one for one in keys if is_kept(one) or isinstance(one, Class))
        for owner in objects if kept else ():
            if isinstance(owner, (Container, Instance)):
                self.memory.write(owner, KEYS, kept)

    def _store_part(self, objects: Iterable[Object], value: Objects, here: Here) -> None:
        """`object[:2] = value`: a list gets the elements of the value, a tensor its numbers."""
        for owner in objects:
            lists = isinstance(owner, Container)
            given = NONE if lists else value
            if not (isinstance(owner, Thing) and owner.kind == "data"):
                given |= self.passes(value, here)
            self.store_item((owner,), ANY_KEY, given, here)


def _field(key: str) -> str:
    return ANY_KEY if key == PART else key


def _index(key: str) -> Objects:
    """What a `__getitem__` of the project is handed."""
    return frozenset({SLICE if key == PART else PLAIN})
