"""What the pairs of a measurement say in words: how it was made, whether it was as predicted, each pair.

In: a Verification, what was predicted, the baseline. Out: sentences, the same on every page.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from math import log

from tracelens.messages import joined, say, say_count
from tracelens.model import Lever, Verification
from tracelens.report import gain_words
from tracelens.report.formatting import gain, listed
from tracelens.units import step_ms, told_speedup

APART = 5.0
"""Times the usual distance of a pair's log ratio from the middle: beyond, the pair is no scatter of the same kind."""
LEAST_APART = 0.05
"""Of the ratio: pairs that are closer than this are not told apart."""
FEWEST_TO_STAND_APART = 3


def how(trial: Verification, lever: Lever | None, base_ns: int) -> str:
    """'Measured in 3 pairs of 200 steps: same results, bit for bit.'; on which original, if on another."""
    said = [_made(trial)]
    if lever is not None and lever.pair is not None and gain_words.is_scaled(lever, base_ns):
        times = (lever.pair.before_ns, lever.pair.after_ns, base_ns)
        told = dict(zip(("before", "after", "step"), (step_ms(ns, base_ns) for ns in times), strict=True))
        said.append(say("Measured was {before} → {after} ms; the gain is shown on {step} ms.", **told))
    return joined(" ", said)


def _made(trial: Verification) -> str:
    same = say("same results, bit for bit") if trial.numbers_equal else say("results not the same")
    steps, pairs = trial.details.get("steps"), trial.pairs_ns
    if not isinstance(steps, int) or not pairs:
        return say("Measured in their own steps, both scripts in turns: {same}.", same=same)
    return say_count(
        "Measured in {count} pair of {steps} steps: {same}.",
        "Measured in {count} pairs of {steps} steps: {same}.",
        len(pairs),
        steps=steps,
        same=same,
    )


def missed_prediction(lever: Lever | None, base_ns: int) -> str:
    """'Predicted 19.2 ms (18.1 to 20.5): missed.'; empty where the measurement lies in the range."""
    predicted, measured = (None, None) if lever is None else (lever.predicted, lever.measured)
    if predicted is None or measured is None or predicted.low <= measured.speedup <= predicted.high:
        return ""
    times = [base_ns / ratio for ratio in (predicted.speedup, predicted.high, predicted.low)]
    told = dict(zip(("step", "low", "high"), (step_ms(ns, base_ns) for ns in times), strict=True))
    return say("Predicted {step} ms ({low} to {high}): missed.", **told)


def pairs(trial: Verification) -> Iterator[str]:
    """Each pair that the number comes from, those that stand apart named, and which of them is shown."""
    found = trial.pairs_ns
    apart = standing_apart(found)
    for place, (before, after) in enumerate(found):
        told = {
            "number": place + 1,
            "before": step_ms(before, before),
            "after": say("{step} ms", step=step_ms(after, before)),
            "gain": gain(told_speedup(before, after)),
        }
        if place in apart:
            yield say("Pair {number}: {before} → {after}, {gain}; apart from the others, so the range is wide", **told)
        else:
            yield say("Pair {number}: {before} → {after}, {gain}", **told)
    if trial.ratio is not None and len(found) > 1:
        yield _shown(found)


def _shown(found: Sequence[tuple[float, float]]) -> str:
    order = sorted(range(len(found)), key=lambda place: found[place][1] / found[place][0])
    middle = sorted(place + 1 for place in order[(len(order) - 1) // 2 : len(order) // 2 + 1])
    if len(middle) == 1:
        return say("Shown everywhere: pair {number}, the one with the middle ratio", number=middle[0])
    return say(
        "Shown everywhere: the mean of pairs {numbers}, those with the middle ratios", numbers=listed(map(str, middle))
    )


def standing_apart(found: Sequence[tuple[float, float]]) -> frozenset[int]:
    """Places of the pairs whose ratio is far from the middle one, by how far the others are."""
    if len(found) < FEWEST_TO_STAND_APART:
        return frozenset()
    logs = [log(before / after) for before, after in found]
    middle = statistics.median(logs)
    usual = statistics.median(abs(value - middle) for value in logs)
    least = max(APART * usual, log(1 + LEAST_APART))
    return frozenset(place for place, value in enumerate(logs) if abs(value - middle) > least)
