"""What the gain of a lever is called: its percentage where it is certain, else what its range leaves.

In: a Speedup and how it is known, or an Estimate. Out: a word, the same in every table for one number.
"""

from __future__ import annotations

from collections.abc import Iterable

from tracelens.messages import joined, say
from tracelens.model import Estimate, Lever, LeverEffect, MedianPair, Speedup
from tracelens.report import formatting, wording
from tracelens.units import percent_range, step_ms, told_speedup

NO_GAIN, SLOWER = say("no gain"), say("slower")
SCALED = say("scaled: measured beside an original of another step time, and brought to this one by its gain.")
EFFECT = {
    "rounding": say("rounding"),
    "samples": say("random samples"),
    "training": say("the training"),
}
"""What a lever may change of the results, in a few words."""
NOT_SURE = 1.05
"""A predicted gain whose range includes zero: from here on a measurement is worth its time."""


def gained(known: Speedup, base_ns: float, *, measured: bool) -> str:
    """'+45 %', 'no gain', 'slower'; 'undecided' of a measurement whose range is wide, 'not sure' of a prediction."""
    if known.excludes_zero:
        return formatting.gain(told_speedup(base_ns, base_ns / known.speedup))
    if known.high < 1:
        return SLOWER
    if measured:
        return NO_GAIN if known.is_narrow else say("undecided")
    return say("not sure") if known.speedup >= NOT_SURE else NO_GAIN


def of_estimate(estimate: Estimate, base_ns: float) -> str:
    """The same of an Estimate, on the baseline."""
    known = Speedup(estimate.speedup, estimate.base_ns / estimate.high_ns, estimate.base_ns / estimate.low_ns)
    return gained(known, base_ns, measured=estimate.evidence == "measured")


def known_how(lever: Lever, base_ns: int) -> str:
    """'measured', 'predicted', 'not tried'; 'measured, scaled' where the original beside it took another time."""
    return say("measured, scaled") if is_scaled(lever, base_ns) else wording.STATE[lever.state]


def is_scaled(lever: Lever, base_ns: int) -> bool:
    """Whether the step that is shown is not one that was measured, but the baseline divided by the measured gain."""
    pair = lever.pair if lever.measured is not None else None
    return pair is not None and step_ms(pair.before_ns, base_ns) != step_ms(base_ns, base_ns)


def marked(name: str, effect: LeverEffect) -> str:
    """The name of a lever, with a star where it may change results."""
    return name if effect == "none" else say("{lever} *", lever=name)


def star(effects: Iterable[LeverEffect]) -> str:
    """What the star says, of levers with these effects; empty where none has one."""
    there = set(effects)
    words = [words for effect, words in EFFECT.items() if effect in there]
    return say("* may change results: {what}.", what=joined(", ", words)) if words else ""


def measured_first(levers: Iterable[tuple[str, float | None]]) -> str:
    """Why one that is predicted to gain more stands below, of levers by state and speedup; empty where none does."""
    measured = 0.0
    for state, speedup in levers:
        if state == "measured" and speedup is not None:
            measured = speedup
        elif measured and speedup is not None and speedup > measured:
            return say("Measured goes before predicted.")
    return ""


def spread(known: Speedup, base_ns: float) -> str:
    """'16.9 (14.7 to 21.0)': the step and its range, in ms."""
    times = (step_ms(base_ns / ratio, base_ns) for ratio in (known.speedup, known.high, known.low))
    return say("{step} ({low} to {high})", **dict(zip(("step", "low", "high"), times, strict=True)))


def ranges(states: Iterable[str]) -> str:
    """How sure the ranges are of what is known in these ways (a lever's state); empty where nothing is."""
    known = set(states)
    if {"measured", "predicted"} <= known:
        return say("Ranges are 95 % sure where measured, 80 % where predicted.")
    if "measured" in known:
        return say("Ranges are 95 % sure.")
    return say("Ranges are 80 % sure.") if "predicted" in known else ""


def of_pair(measured: Speedup, pair: MedianPair | None) -> str:
    """'+50 %': what was measured, of the step times that stand beside it where a pair is known."""
    return formatting.gain(measured.speedup if pair is None else told_speedup(pair.before_ns, pair.after_ns))


def throughput(lever: Lever, base_ns: float) -> str:
    """'+45 % throughput (measured, +21 to +73 %)'; empty where nothing is known."""
    known = lever.known
    if known is None:
        return ""
    ends = (told_speedup(base_ns, base_ns / ratio) for ratio in (known.low, known.high))
    span = percent_range(*(100 * (ratio - 1) for ratio in ends))
    told = {
        "gain": formatting.gain(told_speedup(base_ns, base_ns / known.speedup)),
        "evidence": wording.STATE[lever.state],
        "range": span,
    }
    return say("{gain} throughput ({evidence}, {range})", **told)
