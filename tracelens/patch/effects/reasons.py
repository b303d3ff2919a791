"""Why a move is not proved: what a reason is about, and how certain it is. Whether a place is declined follows from it.

In: what stays in the loop, and the effect of the moved statements that it meets. Out: `About`s and certainties.

Objects are told apart by the place that makes them. One that was made by the same place may be another one, in a
function that the loop calls: an obstacle that is about one of many is suspected there. In which file the function
stands decides nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tracelens.messages import say
from tracelens.patch.effects.classes import is_of_kind
from tracelens.patch.effects.dispatch import HELD, STATE, TEXT
from tracelens.patch.effects.identity import Identities
from tracelens.patch.effects.memory import ANY_KEY, WEIGHTS
from tracelens.patch.effects.objects import Class, Container, Effect, Instance, Name, Object, Thing

ReasonKind = Literal["leaves", "block", "moment", "object", "output", "time", "hidden"]
"""leaves: it ends the loop. block: a block around it is over. moment: it is bound to it. object: others meet what it
reads or changes. output: so do lines and files. time: a duration has the wait in it. hidden: what cannot be seen."""
Certainty = Literal["known", "suspected"]
"""known: there is an obstacle. suspected: there may be one, which nobody can tell from the text."""
AboutKind = Literal["code", "clock", "object", "one of many", "of a library", "gone through", "line", "files"]
"""code: what the text says. object: a variable, an object of the project, a part that has a name, the only list that
its place makes. one of many: a list or a text whose place makes others. of a library: a file, a writer, a tensor.
gone through: a loader, a data set."""
_MANY = frozenset({"data", "writer", "logger", "file", "stream", "accelerator"})
"""Kinds of objects of a library of which a project has many, or which are one here."""
_WHOLE = ("", STATE, ANY_KEY, HELD)


@dataclass(frozen=True, order=True)
class About:
    """What a reason is about; `name`: in words, where it is an object."""

    kind: AboutKind
    name: str = ""


CODE, CLOCKS, LINES, FILES = About("code"), About("clock"), About("line"), About("files")


@dataclass(frozen=True, order=True)
class Distance:
    """Where an obstacle stands, seen from the loop."""

    outside: bool = False
    """In a function that the loop calls, or in what it goes through."""
    below_bar: bool = False
    """The loop goes through a progress bar, which has what it shows the progress of: its text is no part of that."""


@dataclass(frozen=True)
class Reason:
    """Why a move is not proved. `text` is for people: nothing is decided by it."""

    certainty: Certainty
    kind: ReasonKind
    about: About
    text: str
    path: str
    line: int
    at: int = 0
    """The line of the loop that leads to it."""

    @property
    def known(self) -> bool:
        return self.certainty == "known"

    @property
    def order(self) -> tuple[object, ...]:
        """Obstacles first, and those by their lines; no two reasons have the same."""
        return not self.known, self.line, self.text, self.kind, self.about, self.path, self.at


def not_known(text: str, path: str, line: int) -> Reason:
    """The reason that something cannot be seen."""
    return Reason("suspected", "hidden", CODE, text, path, line)


def certainty(about: About, distance: Distance, known: bool = True) -> Certainty:
    """How certain an obstacle of that kind is; `known`: nobody doubts that it is met at all."""
    another = {
        "one of many": distance.outside,
        "of a library": distance.outside,
        "files": distance.outside,
        "gone through": distance.below_bar,
    }
    return "known" if known and not another.get(about.kind, False) else "suspected"


def about_of(effect: Effect, identities: Identities) -> About:
    """The variable, the object or the part of one that an effect is about."""
    target, whole = effect.target, effect.field in _WHOLE
    if is_of_kind(target, "loader", identities.analysis.memory, identities.unit):
        return About("gone through", described(effect))
    if isinstance(target, Thing) and target.kind in _MANY and whole and target is not WEIGHTS:
        return About("of a library", described(effect))
    told_apart = isinstance(target, (Instance, Class, Thing, Name)) or not whole
    if (told_apart and effect.field != TEXT) or not identities.is_one_of_many(target):
        return About("object", described(effect))
    return About("one of many", described(effect))


def described(effect: Effect) -> str:
    """A variable or a part of an object, for people."""
    if effect.field in _WHOLE:
        return _object(effect.target)
    if isinstance(effect.target, (Instance, Class)):
        return say("`{field}` of {object}", field=effect.field, object=_object(effect.target))
    return f"`{effect.field.strip('[]')}`"


def _object(target: Object | None) -> str:
    match target:
        case Instance():
            return say("a `{name}`", name=target.made.node.name)
        case Class():
            return say("the class `{name}`", name=target.node.name)
        case Thing():
            return say("the model's weights") if target is WEIGHTS else say("the {kind}", kind=target.kind)
        case Name():
            return say("the {name}", name=target.full.strip("<>"))
        case Container():
            return say("the same list or dict")
        case _:
            return say("the same object")
