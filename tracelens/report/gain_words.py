"""What the gain of a lever is called: its percentage where it is certain, else what its range leaves.

In: a Speedup and how it is known, or an Estimate. Out: a word, the same in every table for one number.
"""

from __future__ import annotations

from collections.abc import Iterable

from tracelens.messages import say
from tracelens.model import Estimate, Speedup
from tracelens.report import formatting

NO_GAIN, SLOWER = say("no gain"), say("slower")
NOT_SURE = 1.05
"""A predicted gain whose range includes zero: from here on a measurement is worth its time."""


def gained(known: Speedup, *, measured: bool) -> str:
    """'+45 %', 'no gain', 'slower'; 'undecided' of a measurement whose range is wide, 'not sure' of a prediction."""
    if known.excludes_zero:
        return formatting.gain(known.speedup)
    if known.high < 1:
        return SLOWER
    if measured:
        return NO_GAIN if known.is_narrow else say("undecided")
    return say("not sure") if known.speedup >= NOT_SURE else NO_GAIN


def of_estimate(estimate: Estimate) -> str:
    """The same of an Estimate."""
    known = Speedup(estimate.speedup, estimate.base_ns / estimate.high_ns, estimate.base_ns / estimate.low_ns)
    return gained(known, measured=estimate.evidence == "measured")


def ranges(states: Iterable[str]) -> str:
    """How sure the ranges are of what is known in these ways (a lever's state); empty where nothing is."""
    known = set(states)
    if {"measured", "predicted"} <= known:
        return say("Ranges are 95 % sure where measured, 80 % where predicted.")
    if "measured" in known:
        return say("Ranges are 95 % sure.")
    return say("Ranges are 80 % sure.") if "predicted" in known else ""
