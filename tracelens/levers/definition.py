"""The rule of one lever, as frozen values.

In: nothing. Out: the types that `rules` fills, and that `chosen` and `states` read.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal, get_args

from tracelens.edit_kinds import EditKind
from tracelens.messages import entry
from tracelens.model import LeverEffect, LeverFamily, OwnerKind, Toggle

Takes = Literal["nothing", "integer", "choice", "place"]
TAKES: tuple[Takes, ...] = get_args(Takes)
LeverNeed = Literal["gpu", "loader", "workers", "kept-iterator", "convolutions", "pytorch-1"]
LEVER_NEEDS: tuple[LeverNeed, ...] = get_args(LeverNeed)
FLAGS = ("tf32", "cudnn-benchmark", "matmul-precision", "anomaly-detection")
"""Settings of torch that a toggle of kind `flag` may name."""


@dataclass(frozen=True, slots=True)
class LeverValue:
    """What may follow `id=`. `usual` are the values that are tried where the user names none."""

    takes: Takes = "nothing"
    low: int = 0
    high: int = 0
    choices: tuple[str, ...] = ()
    usual: tuple[str, ...] = ()
    optional: bool = False
    """The lever may be named without a value."""

    @property
    def form(self) -> str:
        """As the user types it after the id: `=N`, `[=reduce-overhead|max-autotune]`, or nothing."""
        words = {
            "nothing": "",
            "integer": "=N",
            "choice": "=" + "|".join(self.choices),
            "place": "=FILE:LINE",
        }[self.takes]
        return f"[{words}]" if self.optional else words


@dataclass(frozen=True, slots=True)
class DoneWhen:
    """Where a Run tells that the loop has the lever already: an item of the inventory, a variable of the environment,
    or a setting of torch as the recording found it.

    `equals` are the values that it then has, "unset" for one that is not set; without any it only has to be
    set.
    """

    inventory: str | None = None
    variable: str | None = None
    setting: str | None = None
    equals: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LeverReference:
    """Who says so: a document, and where in it."""

    text: str
    url: str = ""


@dataclass(frozen=True, slots=True)
class LeverRule:
    """One lever of `rules/levers/`."""

    id: str
    family: LeverFamily
    title: str
    owners: tuple[OwnerKind, ...]
    """Kinds of owners whose time it can shorten."""
    callees: tuple[str, ...]
    """Where not empty, only owners that call one of these."""
    needs: tuple[LeverNeed, ...]
    value: LeverValue
    toggles: tuple[Toggle, ...]
    """A value of "{value}" stands for what the user typed. Empty: it cannot be tried, only done by hand."""
    effect: LeverEffect
    """What it may do to numbers: nothing, another rounding, other samples or another order, another training."""
    text: str
    """What to write; {value} stands for the value."""
    when: str
    """When it applies, for people."""
    cost: str
    caution: str
    code: str = ""
    """Where not empty, only owners whose line matches this regular expression."""
    recipe: EditKind | None = None
    """The kind of Edit that writes it into the script; None where it is written by hand."""
    interval: int = 0
    """N of its Edit, where that has one; 0 takes the N of the plan."""
    done_when: DoneWhen | None = None
    before: str = ""
    after: str = ""
    guide: str = ""
    """The section of the training speed guide that it comes from."""
    references: tuple[LeverReference, ...] = ()

    @property
    def form(self) -> str:
        """As the user types it."""
        return f"{self.id}{self.value.form}"


@dataclass(frozen=True, slots=True)
class ChosenLever:
    """A lever with its value: what is tried."""

    rule: LeverRule
    value: str = ""

    @property
    def id(self) -> str:
        return f"{self.rule.id}={self.value}" if self.value else self.rule.id

    @property
    def text(self) -> str:
        return entry(self.rule.text, self.value)

    @property
    def toggles(self) -> tuple[Toggle, ...]:
        """With the value put in; a number where the lever takes one."""
        typed: str | int = int(self.value) if self.rule.value.takes == "integer" and self.value else self.value
        return tuple(replace(t, value=typed) if t.value == "{value}" else t for t in self.rule.toggles)


def by_id(rules: Iterable[LeverRule], lever_id: str) -> LeverRule | None:
    """The rule with this id."""
    return next((rule for rule in rules if rule.id == lever_id), None)
