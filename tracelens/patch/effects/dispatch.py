"""What calls, passes and `with` blocks run: the function that Python would find, for each possible object.

In: the objects that are called, and what they are given. Out: the objects that come back. What runs is entered into
the summary of the caller; what belongs to a library is handed to `Library`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from tracelens.patch.effects import classes, durations, vocabulary
from tracelens.patch.effects.attributes import FIELD, RETURN, STATE, TEXT, Arguments, Here
from tracelens.patch.effects.callables import is_function
from tracelens.patch.effects.holders import AS_DICT, HELD, MODULES, SETTINGS
from tracelens.patch.effects.implicit import LAZY, acting, is_loaded
from tracelens.patch.effects.items import Items
from tracelens.patch.effects.memory import (
    ANY_KEY,
    CLASS,
    DATA,
    IN_PLACE_LAYER,
    KEYS,
    LAYER,
    MEMBERS,
    NONE,
    PLAIN,
    RAISED,
    REPLACED,
    SHARED,
    Objects,
)
from tracelens.patch.effects.objects import (
    READS,
    UNKNOWN,
    WRITES,
    Activation,
    Callbacks,
    Class,
    Container,
    Effect,
    Function,
    Generator,
    Instance,
    Method,
    Module,
    Name,
    Object,
    Plain,
    Thing,
    Unknown,
    is_thing,
)

__all__ = ["HELD", "RETURN", "STATE", "TEXT", "Arguments", "Dispatch", "Here"]


_OF_PARTS = (*LAZY, "data", "bar", "file")


class Dispatch(Items):
    """The meaning of calls and passes, and of attributes."""

    def invoke(self, called: Iterable[Object] | None, given: Arguments, here: Here) -> Objects:
        """What a call of any of these objects can give."""
        objects, out = tuple(called or ()), NONE
        if len(objects) > 1 and any(map(_is_of_tensor, objects)) and not all(map(_is_of_tensor, objects)):
            self.memory.summary(here.unit).doubtful.add(here.node)
        if objects and all(map(_is_of_data, objects)) and any(map(_changes_data, objects)):
            self.memory.effect(here.unit, here.node, Effect(WRITES, DATA, STATE))
        for one in objects:
            out |= self._invoke(one, given, here)
        return out

    def _invoke(self, called: Object, given: Arguments, here: Here) -> Objects:
        out = NONE
        match called:
            case Function():
                out = self.run(called, None, given, here)
            case Method():
                out = self.run(called.function, called.receiver, given, here)
            case Class():
                out = self.instantiate(called, given, here)
            case Name():
                out = self.libraries.call(called, given, here)
            case Thing() if called.kind in LAZY:  # a function that a context manager decorates
                out = self.passes({called}, here)
            case Thing() if is_loaded(called):
                tensors = frozenset(one for one in given.objects if is_thing(one, "data"))
                results = self.invoke(self.of_files(("forward", "__call__")), given, here)
                out = tensors.union({DATA}, *(acting(one, self.memory, here.unit) for one in results))
            case Thing():
                out = self.libraries.call(self.memory.make(Name, f"<{called.kind}>.__call__", called), given, here)
            case Instance():
                out = self._call_instance(called, given, here)
            case Generator():  # a context manager that decorates a function
                out = self.made(HELD, given.objects | {called}, Thing, "lazy", called, here.node)
            case Unknown():
                out = self.unknown(called.why, given.objects, here)
        return out

    def _call_instance(self, called: Instance, given: Arguments, here: Here) -> Objects:
        order = classes.order(called.made, self.memory, here.unit)
        method = self.in_order(order, called, "__call__", here)
        if method:
            return self.invoke(method, given, here)
        out = NONE
        for kind in classes.kinds(called.made, self.memory, here.unit):
            if not kind:
                out |= self.unknown(f"`{called.made.node.name}`", given.objects | {called}, here)
            else:
                out |= self.libraries.call(self.memory.make(Name, f"<{kind}>.__call__", called), given, here)
        return out

    def run(self, function: Function, receiver: Object | None, given: Arguments, here: Here) -> Objects:
        """A call of a function of the project."""
        if not _fits(function, receiver, given):
            return NONE  # Python would raise a TypeError: it is one of several things that a name can stand for
        activation = self.memory.make(Activation, function, receiver, here.node if receiver is None else None)
        self._bind(activation, given)
        if self.memory.scope(function.node).generator:
            return frozenset({self.memory.make(Generator, activation)})
        self.memory.calls(here.unit, here.node, activation)
        return self.memory.read(activation, RETURN, here.unit)

    def _bind(self, activation: Activation, given: Arguments) -> None:
        function, memory = activation.function, self.memory
        arguments = function.node.args
        names = [one.arg for one in (*arguments.posonlyargs, *arguments.args)]
        own = names[:1] if activation.receiver is not None else []
        handed = (
            (frozenset({activation.receiver}), *given.positional) if own and activation.receiver else given.positional
        )
        for name in (*names[len(own) :], *(one.arg for one in arguments.kwonlyargs)):  # `*rest` is never the object
            default = memory.fields.get(function, {}).get(f"<default>{name}", ())
            memory.write(activation, name, given.named.get(name, NONE) | given.rest | frozenset(default))
        for name, value in zip(names, handed, strict=False):
            memory.write(activation, name, value)
        more = NONE.union(*handed[len(names) :]) | given.rest
        if arguments.vararg is not None:
            self._gather(activation, arguments.vararg, more)
        if arguments.kwarg is not None:
            others = (value for name, value in given.named.items() if name not in names)
            self._gather(activation, arguments.kwarg, given.rest.union(*others))

    def _gather(self, activation: Activation, parameter: ast.arg, objects: Objects) -> None:
        self.memory.write(activation, parameter.arg, self.made(ANY_KEY, objects, Container, parameter, activation))

    def instantiate(self, made: Class, given: Arguments, here: Here) -> Objects:
        """An object of a class: `__new__`, `__init__` or the fields of a dataclass, `__post_init__`."""
        order = classes.order(made, self.memory, here.unit)
        own_new = self.in_order((base for base in order if isinstance(base, Class)), made, "__new__", here)
        one_of_all = bool(own_new or made.node.keywords) or "module" in classes.kinds(made, self.memory, here.unit)
        instance = self.memory.make(
            Instance, made, made if one_of_all else here.node, None if one_of_all else here.maker
        )
        self.memory.write(instance, CLASS, {made})
        out: Objects = frozenset({instance})
        if own_new:
            out |= self.invoke(
                own_new, Arguments((frozenset({made}), *given.positional), given.named, given.rest), here
            )
        init = self.in_order(order, instance, "__init__", here)
        if init:
            self.invoke(init, given, here)
        else:
            self._fill(instance, order, given, here)
        kinds = set(classes.kinds(made, self.memory, here.unit))
        if "mode" in kinds:
            self.memory.write(REPLACED, HELD, {instance})
        if "" in kinds:
            self.share(given.objects | {instance})
        after = self.in_order(order, instance, "__post_init__", here)
        self.invoke(after, Arguments(), here)
        self.special({instance}, ("__del__",), Arguments(), here)  # what a loop makes also ends there
        return out

    def _fill(self, instance: Instance, order: Iterable[Object], given: Arguments, here: Here) -> None:
        """The fields of an object whose class has no `__init__` in the project."""
        bases = [base for base in order if isinstance(base, Class)]
        names = [
            part.target.id
            for base in reversed(bases)
            for part in base.node.body
            if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name)
        ]
        for name, value in (*zip(names, given.positional, strict=False), *given.named.items()):
            self.store({instance}, name, value, here)
        if not names and given.objects:  # an exception
            content = (one for one in given.objects if not isinstance(one, Plain))
            self.memory.write(instance, "args", self.made(HELD, content, Thing, "holder", instance, "args"))
        for base in bases:
            for name in names:
                for one in self.memory.read(base, name, here.unit):
                    if isinstance(one, Thing) and one.kind == FIELD:
                        made = self.invoke(self.memory.read(one, HELD, here.unit), Arguments(), here)
                        self.store({instance}, name, made, here)
        for name in names if given.rest else ():
            self.store({instance}, name, given.rest, here)
        if any(True for kind in classes.kinds(instance.made, self.memory, here.unit)):
            self.memory.write(instance, HELD, given.objects)
            self.memory.write(instance, ANY_KEY, given.objects)

    # ------------------------------------------------------------------------------------------------ other meanings

    def passes(self, objects: Iterable[Object], here: Here) -> Objects:
        """What a pass over an object gives, each time."""
        out = NONE
        for owner in objects:
            match owner:
                case Container():
                    out |= self.elements(owner, ANY_KEY, here) | self.memory.read(owner, KEYS, here.unit)
                case Generator():
                    self.memory.calls(here.unit, here.node, owner.activation)
                    out |= self.memory.read(owner, ANY_KEY, here.unit)
                case Instance():
                    out |= self._pass_instance(owner, here)
                case Thing() | Name():
                    out |= self.libraries.passes(owner, here)
                case Unknown():
                    out |= self.unknown(owner.why, NONE, here)
                case Module() | Activation():
                    out |= self.everything(owner, here)
                case Class():  # the members of an enumeration
                    out |= self.memory.read(owner, MEMBERS, here.unit) | {PLAIN}
                case _:
                    out |= {owner if isinstance(owner, Plain) else PLAIN}
        return out

    def parts_of(self, owner: Object, here: Here) -> Objects:
        """What an object is taken apart into; one without parts is one of several in a tuple: `prepare(net, data)`."""
        whole = isinstance(owner, (Function, Method)) or (isinstance(owner, Thing) and owner.kind not in _OF_PARTS)
        if isinstance(owner, Instance):
            whole = self.has_no_parts(owner, here)
        return self.passes({owner}, here) | ({owner} if whole else NONE)

    def called_ones(self, objects: Iterable[Object], here: Here) -> Objects:
        """The functions among what is handed to something that goes through the rest, such as an enumeration."""
        return frozenset(
            one
            for one in filter(is_function, objects)
            if not (isinstance(one, Class) and self.memory.read(one, MEMBERS, here.unit))
        )

    def rounds(self, objects: Objects, here: Here) -> Objects:
        """What a `for` gives: of `vars(object)` the names alone, of all else what a pass gives."""
        names = frozenset(one for one in objects if isinstance(one, Container) and one.maker == AS_DICT)
        for one in names:
            self.elements(one, ANY_KEY, here)
        return self.passes(objects - names, here) | ({PLAIN} if names else NONE)

    def _pass_instance(self, owner: Instance, here: Here) -> Objects:
        order = classes.order(owner.made, self.memory, here.unit)
        going = self.invoke(self.in_order(order, owner, "__iter__", here), Arguments(), here)
        out = self.invoke(self.in_order(order, owner, "__next__", here), Arguments(), here)
        others = [one for one in going if not (isinstance(one, Instance) and one.made is owner.made)]
        same = [one for one in going if isinstance(one, Instance) and one.made is owner.made and one is not owner]
        out |= self.passes(others, here)
        out |= NONE.union(*(self.invoke(self._load(one, "__next__", here), Arguments(), here) for one in same))
        if not going:
            out |= self.item({owner}, ANY_KEY, here) | self.memory.read(owner, KEYS, here.unit)
            for kind in classes.kinds(owner.made, self.memory, here.unit):
                member = self.memory.make(Name, f"<{kind}>.__next__", owner)
                out |= (
                    self.libraries.passes(member, here)
                    if kind
                    else self.unknown(f"`{owner.made.node.name}`", frozenset({owner}), here)
                )
        return out

    def special(self, objects: Iterable[Object], names: Iterable[str], given: Arguments, here: Here) -> Objects:
        """The special methods that an operator or a built-in function calls on objects of the project."""
        out = NONE
        for owner in objects:
            if isinstance(owner, Instance):
                order = [base for base in classes.order(owner.made, self.memory, here.unit) if isinstance(base, Class)]
                for name in names:
                    for method in self.in_order(order, owner, name, here) or ():
                        out |= self._invoke(method, _fitting(method, given), here)
        return out

    def together(self, left: Objects, right: Objects, here: Here) -> Objects:
        """What a library's operator makes of objects with data of two sets, or modules: `first + second` has both."""
        modules = any(isinstance(one, Thing) and one.maker == MODULES for one in left | right)
        modules |= self._are(left, "module", here) and self._are(right, "module", here)
        modules &= not any(isinstance(one, Thing) and one.kind == "data" for one in left)  # a layer's output, if at all
        if not modules and not (self._are(left, "loader", here) and self._are(right, "loader", here)):
            return NONE
        content = (one for one in left | right if not isinstance(one, Plain) and one is not DATA)
        kind, maker = ("module", MODULES) if modules else ("loader", here.maker)
        return self.made(HELD, content, Thing, kind, here.node, maker)

    def _are(self, objects: Objects, kind: str, here: Here) -> bool:
        """Whether one of the objects is of a library's class of that kind, or of one that is made of it."""
        told_apart = objects - {LAYER, IN_PLACE_LAYER}
        return any(classes.is_of_kind(one, kind, self.memory, here.unit) for one in told_apart)

    def look_into(self, objects: Iterable[Object], here: Here) -> None:
        """What is shown, compared or computed with is read, with all that a list of it holds."""
        for one in objects:
            if isinstance(one, Container) or (
                isinstance(one, Thing) and one.kind in ("data", "holder", SETTINGS) and one is not DATA
            ):
                self.memory.effect(here.unit, here.node, Effect(READS, one, "", deep=True))

    def enter(self, objects: Iterable[Object], here: Here) -> Objects:
        """What `with object as name` gives; its end runs as well."""
        out = NONE
        nothing: Objects = frozenset({PLAIN})
        for owner in objects:
            if isinstance(owner, Instance):
                own = self.special({owner}, ("__enter__", "__aenter__"), Arguments(), here)
                out |= own or {owner}  # a library's gives the object, as nearly all do
                raised = self.memory.read(RAISED, HELD, here.unit) | nothing
                self.special({owner}, ("__exit__", "__aexit__"), Arguments((nothing, raised, nothing)), here)
                if "" in set(classes.kinds(owner.made, self.memory, here.unit)):
                    out |= self.unknown(f"`{owner.made.node.name}`", frozenset({owner}), here)
            elif isinstance(owner, Generator):
                out |= self.passes({owner}, here)
            elif isinstance(owner, Unknown):
                out |= self.unknown(owner.why, NONE, here)
            elif isinstance(owner, (Thing, Container)):
                out |= {owner}
        return out

    def unknown(self, why: str, given: Objects, here: Here) -> Objects:
        """A call of what nobody can tell: it may do anything with what unknown code was ever handed."""
        self.share(given)
        for effect in durations.shown(given, self.memory):
            self.memory.effect(here.unit, here.node, effect)
        self.memory.effect(here.unit, here.node, Effect(UNKNOWN, self.memory.make(Unknown, why)))
        self.memory.calls(here.unit, here.node, self.memory.make(Callbacks, SHARED, "unknown"))
        return self.memory.unknown(why)

    def share(self, objects: Objects) -> None:
        """Let unknown code have these objects."""
        self.memory.write(
            SHARED, ANY_KEY, (one for one in objects if not isinstance(one, (Plain, Unknown)) and one is not DATA)
        )


def _fitting(called: Object, given: Arguments) -> Arguments:
    """What Python itself hands over: as many arguments as the method takes, `__format__` one and `__str__` none."""
    function, receiver = (called.function, called.receiver) if isinstance(called, Method) else (called, None)
    fits = not isinstance(function, Function) or _fits(function, receiver, given)
    return given if fits else Arguments(rest=given.objects)


def _fits(function: Function, receiver: Object | None, given: Arguments) -> bool:
    """Whether a call hands over what the function must have; what `*` and `**` bring along fits anything."""
    if given.rest:
        return True
    arguments = function.node.args
    names = [one.arg for one in (*arguments.posonlyargs, *arguments.args)]
    handed = len(given.positional) + (receiver is not None)
    if handed > len(names) and arguments.vararg is None:
        return False
    needed = names[handed : len(names) - len(arguments.defaults)]
    needed += [one.arg for one, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if value is None]
    return all(name in given.named for name in needed)


def _is_of_data(one: Object) -> bool:
    """Whether something that is called is a method of what nobody tells from other data: a list of `text.split()`."""
    return isinstance(one, Name) and (one.receiver is DATA or isinstance(one.receiver, Plain))


def _changes_data(one: Object) -> bool:
    entry = vocabulary.lookup(one.full) if isinstance(one, Name) and one.receiver is DATA else None
    return entry is not None and entry.changes == "self"


def _is_of_tensor(one: Object) -> bool:
    """Whether something that is called is a method of a tensor."""
    return isinstance(one, Name) and one.full.startswith("<data>.")
