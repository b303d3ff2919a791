"""The objects that a program can have, as far as its text tells them apart, and the effects that code has on them.

In: the places in the text at which objects are made. Out: one value per place (and receiver), compared by identity.
An object's content is kept apart, in `Memory`: objects never change.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeGuard, TypeVar

from tracelens.messages import say
from tracelens.patch.effects.project import ProjectFile
from tracelens.patch.effects.scopes import Function as FunctionNode


@dataclass(frozen=True, eq=False, repr=False)
class Object:
    """Whatever a name can stand for. Sets have their objects in the order of `number`, the same one in each process."""

    number = 0

    def __hash__(self) -> int:
        return self.number


_Any = TypeVar("_Any", bound=Object)


def numbered(one: _Any, number: int) -> _Any:
    """The object, with its number: none else of an analysis has it. To be given before the object is in any set."""
    object.__setattr__(one, "number", number)
    return one


@dataclass(frozen=True, eq=False, repr=False)
class Plain(Object):
    """Numbers, texts, None: what cannot be changed and does nothing."""


@dataclass(frozen=True, eq=False, repr=False)
class Slice(Plain):
    """What takes a part of a list: `slice(0, 2)`, `0:2`."""


@dataclass(frozen=True, eq=False, repr=False)
class Moment(Plain):
    """What a clock said; `read`: the place that asked it."""

    read: ast.AST


@dataclass(frozen=True, eq=False, repr=False)
class Duration(Plain):
    """The time between two moments, or what is computed of it, by the places that read the clock."""

    first: ast.AST
    last: ast.AST


@dataclass(frozen=True, eq=False, repr=False)
class Unknown(Object):
    """What nobody can tell; `why` says what it is, for people. All of them see whatever was handed to any of them."""

    why: str


@dataclass(frozen=True, eq=False, repr=False)
class Module(Object):
    """A module of the project; its fields are its global names."""

    file: ProjectFile


@dataclass(frozen=True, eq=False, repr=False)
class Class(Object):
    """A class of the project; its fields are the names of its body. `frame`: where it is defined."""

    node: ast.ClassDef
    frame: Frame
    module: Module


@dataclass(frozen=True, eq=False, repr=False)
class Function(Object):
    """A function or lambda of the project. `owner` is the class in whose body it stands."""

    node: FunctionNode
    frame: Frame
    module: Module
    owner: Class | None


@dataclass(frozen=True, eq=False, repr=False)
class Method(Object):
    """A function with its first argument."""

    function: Function
    receiver: Object


@dataclass(frozen=True, eq=False, repr=False)
class Activation(Object):
    """The variables of a function: its fields are its local names.

    Told apart by the receiver of a method, and for other functions by the place of the call.
    """

    function: Function
    receiver: Object | None
    site: object


@dataclass(frozen=True, eq=False, repr=False)
class Instance(Object):
    """An object of a class of the project, by the place that makes it."""

    made: Class
    site: object
    maker: object


@dataclass(frozen=True, eq=False, repr=False)
class Container(Object):
    """A list, dict, set, tuple or generator, by the place that makes it."""

    site: object
    maker: object


@dataclass(frozen=True, eq=False, repr=False)
class Generator(Object):
    """What a call of a generator function gives: its body runs when it is gone through."""

    activation: Activation


@dataclass(frozen=True, eq=False, repr=False)
class Name(Object):
    """A module, class or function of a library, or a builtin, by its full name; or a member of a library's object."""

    full: str
    receiver: Object | None = None


@dataclass(frozen=True, eq=False, repr=False)
class Thing(Object):
    """An object that a library made, by the word of the vocabulary for what it is and the place that makes it."""

    kind: str
    site: object
    maker: object


def is_thing(one: object, *kinds: str) -> TypeGuard[Thing]:
    """Whether it is a library's object of one of these kinds."""
    return isinstance(one, Thing) and one.kind in kinds


@dataclass(frozen=True, eq=False, repr=False)
class Super(Object):
    """`super()` in a method of `owner`."""

    owner: Class
    receiver: Object


@dataclass(frozen=True, eq=False, repr=False)
class Callbacks(Object):
    """Stands for all that a library may call of the project when it is given `holder`; `protocol` says which."""

    holder: Object
    protocol: str


Frame = Module | Activation | Class
"""What a name can be a variable of."""
Unit = Module | Activation | Callbacks
"""What is looked at as a whole: a module's statements, a function, or what a library may call."""
Objects = frozenset[Object]


@dataclass(frozen=True, eq=False)
class Part:
    """One statement of a unit without those within it, in the unit's own frame or that of a class in it."""

    unit: Module | Activation
    frame: Frame
    statement: ast.stmt
    number: int

    def __hash__(self) -> int:
        return self.number


Reader = Unit | Part
"""Who is looked at again when what it read can be more."""


class Effect(NamedTuple):
    """What a piece of code does. `deep`: not only this field but all that can be reached from the object."""

    kind: str
    target: Object | None = None
    field: str = ""
    deep: bool = False


@dataclass(eq=False)
class UnitSummary:
    """What one unit does itself, with the node that does it, and what it calls.

    `doubtful`: nodes that call what may as well be a method of a tensor; `may_change`: nodes with the objects that they
    change in place, where that is only likely.
    """

    effects: dict[tuple[Any, Effect], None] = field(default_factory=dict)
    calls: dict[tuple[Any, Unit], None] = field(default_factory=dict)
    doubtful: set[Any] = field(default_factory=set)
    may_change: set[tuple[Any, Object]] = field(default_factory=set)


READS, WRITES = "reads", "writes"
OUTPUT = say("prints")
TRACKED = say("tells an event file or an experiment tracker")
"""No line among those on the screen, but who looks after the process finds it, as with a file."""
BAR = say("draws a progress bar")
DISK_READ, DISK_WRITE = say("reads files"), say("writes files")
DISK_LOOK = say("reads or copies what stands in a file")
"""Beside DISK_READ, where the file may be one that the script itself writes: no picture, no table of a data set."""
RANDOM = say("draws random numbers")
CLOCK = say("reads a clock")
COLLECTIVE = say("waits for other ranks")
RAISES = say("raises")
WAITS = say("waits for the GPU")
UNKNOWN = say("is unknown")
GENERAL = say("is known by a pattern only")
QUEUED = say("is sent by a thread of the tracker, which a signal ends at once")
SETS = say("changes a setting of the process")
NAMES = say("sees every name")
SHOWS = say("shows a duration")
LOG_FILE, LOG_FILES = "<log file>", "<log files>"
"""Opens a file for the lines of loggers, or several that come and go: those of every logger, which are one here."""
SUSPENDS = say("hands control to its caller")
