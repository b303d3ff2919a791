"""What can be changed in a training, and what is known of each change on one Run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from tracelens.model.source import Location

LeverFamily = Literal[
    "scheme", "loader", "precision", "compile", "optimizer", "host", "allocator", "environment", "batch"
]
LeverState = Literal["measured", "predicted", "not_tried", "done", "not_applicable"]
LeverEffect = Literal["none", "rounding", "samples", "training"]
LEVER_EFFECTS: tuple[LeverEffect, ...] = get_args(LeverEffect)
LeverNumbers = Literal["same", "inside_seed_band", "outside_seed_band", "unknown"]
LEVER_FAMILIES: tuple[LeverFamily, ...] = get_args(LeverFamily)
LEVER_STATES: tuple[LeverState, ...] = get_args(LeverState)

ToggleKind = Literal[
    "autocast",
    "flag",
    "compile",
    "channels-last",
    "optimizer-argument",
    "zero-grad",
    "loader-argument",
    "batch",
    "line",
    "environment",
    "patch",
]
TOGGLE_KINDS: tuple[ToggleKind, ...] = get_args(ToggleKind)


@dataclass(frozen=True, slots=True)
class Toggle:
    """How a lever is switched on in a trial process, without a change of the user's files.

    autocast            forward and loss of the loop under autocast; `value` is the dtype
    flag                a setting of torch: `name` is the attribute below `torch.`, `value` what it is set to
    compile             the modules that the loop calls are compiled; `value` is the mode
    channels-last       modules and image batches in channels-last order
    optimizer-argument  constructor argument `name` of each optimizer
    zero-grad           `zero_grad` frees gradients instead of filling them with zeros
    loader-argument     constructor argument `name` of the DataLoader of the loop
    batch               the batch size of the DataLoader of the loop is multiplied by `value`
    line                the call on the line `value` (FILE:N) is left out, or made every K-th time (FILE:N/K)
    environment         variable `name` of the process
    patch               the patch of the scheme `name`, in the working copy
    """

    kind: ToggleKind
    name: str = ""
    value: str | int | bool | None = None


NARROW = 0.03
"""Of a step: the range of what is called no gain, where it was measured; one that is wider is undecided."""
LEAST_SHOWN = 1.005
"""Below it a gain is shown as +0 %."""


@dataclass(frozen=True, slots=True)
class Speedup:
    """Step time without the lever ÷ step time with it: the middle, and the range."""

    speedup: float
    low: float
    high: float

    def __post_init__(self) -> None:
        if not 0 < self.low <= self.speedup <= self.high:
            raise ValueError(f"{self} is no range around a positive ratio")

    @property
    def excludes_zero(self) -> bool:
        """Whether the whole range is a gain."""
        return self.low > 1

    @property
    def may_gain(self) -> bool:
        """Whether its middle is a gain of a percent as shown: else a longer trial is not worth its time."""
        return self.speedup >= LEAST_SHOWN

    @property
    def is_narrow(self) -> bool:
        """Whether the range tells as much of a change that makes no difference as two runs agree on."""
        return self.low >= 1 - NARROW and self.high <= 1 + NARROW


@dataclass(frozen=True, slots=True)
class MedianPair:
    """The pair of measured step times whose ratio is the middle one: the original's, and the changed script's (ns)."""

    before_ns: int
    after_ns: int


@dataclass(frozen=True, slots=True)
class Lever:
    """One thing that can be changed, with what is known of it on this Run.

    measured        tried on this script: `measured` and `numbers` say with which result
    predicted       replayed from the recording
    not_tried       nobody knows what it would bring here
    done            the loop has it already
    not_applicable  it cannot be used here: `reason` says why
    """

    id: str
    """The id of a rule in `rules/levers/` or of a scheme; with its value where it takes one: `workers=4`."""
    family: LeverFamily
    state: LeverState
    title: str
    text: str
    """What to write, and where."""
    predicted: Speedup | None = None
    measured: Speedup | None = None
    pair: MedianPair | None = None
    """The step times that `measured` is of; None where they were not kept."""
    effect: LeverEffect = "none"
    """What it may do to numbers: nothing, another rounding, other samples or another order, another training."""
    numbers: LeverNumbers | None = None
    memory_bytes_delta: int | None = None
    locations: tuple[Location, ...] = ()
    command: str | None = None
    """How to try or apply it: the words after `tracelens`."""
    reason: str | None = None
    rank: int | None = None
    """1 is the best; only levers that are measured or predicted have one."""

    def __post_init__(self) -> None:
        if self.state != "measured" and self.measured is not None:
            raise ValueError(f"{self.id} was measured and is called {self.state}")
        if self.state == "measured" and self.measured is None and self.reason is None:
            raise ValueError(f"{self.id} is called measured, without a result or the reason why there is none")
        if self.state == "predicted" and self.predicted is None:
            raise ValueError(f"{self.id} is predicted without a prediction")

    @property
    def known(self) -> Speedup | None:
        """What was measured, else what was predicted."""
        return self.measured or self.predicted

    @property
    def may_change_results(self) -> bool:
        """Whether it may, and no trial found the results to be the same."""
        return self.effect != "none" and self.numbers != "same"


@dataclass(frozen=True, slots=True)
class LeverCombination:
    """The fastest levers together, measured as such: gains of single levers do not add up."""

    levers: tuple[str, ...]
    measured: Speedup
    numbers: LeverNumbers | None
    memory_bytes_delta: int | None
    pair: MedianPair | None = None
