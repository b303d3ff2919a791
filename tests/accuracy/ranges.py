"""The 80 % ranges, and what a range would be that follows how much of a step the host sets.

In: raw rows that keep their host shares (`replay_again.py --shares`), judged ones. Out: Markdown. The other rule has
one number that is fitted, and only to processes of unchanged tuning loops: how far the host's pace in a later process
is from that in the recorded one. It is not in the product; the page says why.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tests.accuracy.judge import Judged, Pair, judged
from tests.accuracy.stats import median
from tests.accuracy.targets import loop, percent
from tracelens.model import Estimate
from tracelens.replay.estimate import HOST_MODEL_SHARE, MODEL_GAIN_SHARE, MODEL_SHARE, UNANCHORED_SHARE
from tracelens.replay.trace_builder import SAMPLING
from tracelens.schemes import score

NORMAL_80 = 1.2816
"""Half-width of an 80 % range in standard deviations."""
OWN_SHARE = 0.01
"""80 % half-width of the replay itself where the GPU sets the pace: tuning pairs there are off by up to 0.8 %."""
LARGE_GAIN = 0.03
SMALL = 0.1


@dataclass(frozen=True)
class Seen:
    """A pair with what the other rule needs. `below`, `above`: shares of the predicted step, from the draws alone."""

    pair: Pair
    loop: str
    binding: str
    host_share: float
    below: float
    above: float


@dataclass(frozen=True)
class Range:
    """As factors of the predicted step."""

    low: float
    high: float


Rule = Callable[[Seen], Range]


def section(documents: list[dict[str, Any]]) -> str:
    """What both rules hold, how wide they are, and why the product keeps its own."""
    known = [document for document in documents if "host_shares" in document]
    rows = {document["row"]: judged(document) for document in known}
    tuned = [document for document in known if document["tuning"]]
    tuning = _seen(tuned, rows)
    held = _seen([document for document in known if not document["tuning"]], rows)
    if not tuning or not held:
        return ""
    spreads = pace_spreads(tuned, rows)
    pace, others = spread(spreads), {name: spread(_without(spreads, name)) for name in spreads}
    left_out: Rule = lambda seen: other(seen, others[seen.loop])  # noqa: E731
    fitted: Rule = lambda seen: other(seen, pace)  # noqa: E731
    table = "\n".join(
        (
            "| 80 % ranges | held out, measurable: hold | half-width, median | held out, all: hold | half-width "
            "| tuning, all: hold | half-width |",
            "|---|---|---|---|---|---|---|",
            _line("as the product makes them", held, tuning, (product, product)),
            _line("by the later rule, fitted on tuning loops; not in the product", held, tuning, (fitted, left_out)),
            "| target | 75–90 % | ≤ 4 % | | | | |\n",
        )
    )
    return "\n".join(("## The ranges\n", _rule(pace, others), table, _why(held, tuning, (fitted, left_out), others)))


def product(seen: Seen) -> Range:
    """What was on disk."""
    return Range(seen.pair.low / seen.pair.predicted, seen.pair.high / seen.pair.predicted)


def other(seen: Seen, pace: float) -> Range:
    """Independent sources, added like the sides of a right angle: the draws, the host's pace in another process as far
    as the step follows it, the replay itself, and a share of the change."""
    ratio = seen.pair.predicted / seen.pair.base_predicted
    sides = (NORMAL_80 * pace * seen.host_share, OWN_SHARE, MODEL_GAIN_SHARE * abs(1 - ratio) / ratio)
    return Range(1 - math.hypot(seen.below, *sides), 1 + math.hypot(seen.above, *sides))


def pace_spreads(tuned: Iterable[dict[str, Any]], rows: dict[str, Judged]) -> dict[str, list[tuple[float, float]]]:
    """Per loop, for each of its rows: mean square of log(an unchanged process ÷ the recording), host share squared."""
    found: dict[str, list[tuple[float, float]]] = {}
    for document in tuned:
        row = rows[document["row"]]
        if row.unprofiled and row.refused is None and document["host_shares"]["base"] is not None:
            arms = [median(arm["block_us"]) for arm in document["arms"] if arm["version"] == "base"]
            square = sum(math.log(step / row.unprofiled) ** 2 for step in arms) / len(arms)
            found.setdefault(loop(row), []).append((square, document["host_shares"]["base"] ** 2))
    return found


def spread(spreads: dict[str, list[tuple[float, float]]]) -> float:
    """Standard deviation per unit of host share; loops count alike, whatever their sizes."""
    squares = sum(sum(square for square, _ in rows) / len(rows) for rows in spreads.values())
    return math.sqrt(squares / sum(sum(share for _, share in rows) / len(rows) for rows in spreads.values()))


def _without(spreads: dict[str, list[tuple[float, float]]], name: str) -> dict[str, list[tuple[float, float]]]:
    return {key: rows for key, rows in spreads.items() if key != name}


def _seen(documents: Iterable[dict[str, Any]], rows: dict[str, Judged]) -> list[Seen]:
    found = []
    for document in documents:
        row = rows[document["row"]]
        prediction = (document.get("again") if document["tuning"] else None) or document["prediction"]
        for pair in row.pairs:
            scheme = prediction["schemes"][pair.schemes[0]]
            share = document["host_shares"]["versions"].get(scheme["version"])
            if share is not None:
                binding = scheme["estimate"]["binding"]
                below, above = _draws(pair, binding, prediction["base"]["error_unprofiled"])
                found.append(Seen(pair, loop(row), binding, share, below, above))
    return found


def _draws(pair: Pair, binding: str, anchor: float | None) -> tuple[float, float]:
    """The product joins its draws with shares that are known: what is left is the draws'."""
    base, ratio = pair.base_predicted, pair.predicted / pair.base_predicted
    known = (MODEL_SHARE if binding == "stream" else HOST_MODEL_SHARE) + MODEL_GAIN_SHARE * abs(1 - ratio)
    known += UNANCHORED_SHARE if anchor is None else max(0.0, abs(anchor) - SAMPLING)
    halves = ((pair.predicted - pair.low) / base, (pair.high - pair.predicted) / base)
    below, above = (math.sqrt(max(0.0, half**2 - known**2)) / ratio for half in halves)
    return below, above


# -------------------------------------------------------------------------------------------------------- words


def held_by(pairs: Sequence[Seen], rule: Rule) -> int:
    """How many measurements lie in their range."""
    return sum(rule(one).low <= one.pair.measured.step / one.pair.predicted <= rule(one).high for one in pairs)


def half_width(pairs: Sequence[Seen], rule: Rule) -> float:
    return median([(rule(one).high - rule(one).low) / 2 for one in pairs])


def _cells(pairs: Sequence[Seen], rule: Rule) -> tuple[str, str]:
    held = held_by(pairs, rule)
    return f"{held} of {len(pairs)}, {percent(held / len(pairs), 0)}", percent(half_width(pairs, rule))


def _line(name: str, held: list[Seen], tuning: list[Seen], rules: tuple[Rule, Rule]) -> str:
    measured = [one for one in held if one.pair.measurable]
    cells = (*_cells(measured, rules[0]), *_cells(held, rules[0]), *_cells(tuning, rules[1]))
    return f"| {name} | " + " | ".join(cells) + " |"


def _rule(pace: float, others: dict[str, float]) -> str:
    return (
        f"The product's ranges join what its draws of steps and constants say with a fixed share: {percent(MODEL_SHARE, 0)} where the GPU sets the pace, {percent(HOST_MODEL_SHARE, 0)} elsewhere. A rule with a better foundation was tried: "
        "replay the patched loop once more with a host that is 5 % slower; the share of that which arrives in the step is how much of it the host sets (0 where the GPU never waits, 1 where it always does). The host's pace differs from one "
        f"process to the next; by how much is known from the loops as they are, without any prediction: processes of the tuning loops and their recordings differ by {percent(pace)} (standard deviation where the host sets the whole step, loops counting alike; "
        f"{percent(min(others.values()))} to {percent(max(others.values()))} when one loop is left out). The half-width is then the root of the squares of the draws, of that scatter times the host's share, of {percent(OWN_SHARE, 0)} for the replay itself, and of "
        f"{percent(MODEL_GAIN_SHARE, 0)} of the change as in the product. Each tuning loop is judged by the number from the four others; the held-out ones were judged once, around the predictions that were on disk.\n"
    )


def _why(held: list[Seen], tuning: list[Seen], rules: tuple[Rule, Rule], others: dict[str, float]) -> str:
    fitted, left_out = rules
    promised = [one for one in tuning if _promised(one, product)]
    lost = [one for one in promised if not _promised(one, left_out)]
    gained = sum(one.pair.gain > LARGE_GAIN for one in lost)
    changes = [sum(one.pair.change_inside for one in pairs) for pairs in (tuning, held)]
    quiet = [one for one in held if one.pair.measurable]
    furthest = min(others, key=lambda name: others[name])
    return (
        f"On the tuning loops the later rule holds {_share(tuning, left_out)} of the measurements where the product's holds {_share(tuning, product)}, and its ranges are wide for host-bound loops and narrow for the others. It stays out of the product for two reasons. "
        "First, one range serves two questions there: what the step will take, and whether a gain can be promised. A slow process slows the loop as it is and the patched one alike, so it casts no doubt on the gain; yet with ranges as wide as that, "
        f"{len(lost)} of the {len(promised)} patched versions of the tuning loops that are promised a gain now would not be, and {gained} of those {len(lost)} were measured to gain more than {percent(LARGE_GAIN, 0)}. As ranges of the *change* (patched ÷ base) "
        f"the product's hold {changes[0]} of {len(tuning)} tuning and {changes[1]} of {len(held)} held-out measurements ({percent(changes[0] / len(tuning), 0)} and {percent(changes[1] / len(held), 0)}). "
        f"Second, of the measurable held-out pairs it holds {held_by(quiet, fitted)} of {len(quiet)} at a half-width of {percent(half_width(quiet, fitted))}, and of all held-out ones {_share(held, fitted)}. A pair is measurable because its processes agree, "
        f"so a range that allows for processes that differ must hold more than its share of them; and the fitted number leans on {furthest}, whose processes were furthest from its recording (without it: {percent(others[furthest])}). "
        + _narrow(quiet, fitted)
        + "Two ranges, one of the step and one of the gain, would answer both questions; "
        "that is not built.\n"
    )


def _narrow(quiet: list[Seen], fitted: Rule) -> str:
    """Where the product's ranges are wider than they need be."""
    pairs = [one for one in quiet if one.host_share < SMALL and abs(one.pair.predicted_gain) < SMALL]
    if not pairs:
        return ""
    return (
        f"Where the host sets less than a tenth of the step and the gain is below a tenth ({len(pairs)} measurable held-out pairs), it reaches {percent(half_width(pairs, fitted))} to either side instead of {percent(half_width(pairs, product))} in the median, "
        f"and holds {held_by(pairs, fitted)} of them. "
    )


def _share(pairs: Sequence[Seen], rule: Rule) -> str:
    return percent(held_by(pairs, rule) / len(pairs), 0)


def _promised(one: Seen, rule: Rule) -> bool:
    """Whether the score would take this estimate, with this range, for a gain."""
    step, found = one.pair.predicted, rule(one)
    times = (one.pair.base_predicted, step, step * found.low, step * found.high)
    base_ns, step_ns, low_ns, high_ns = (round(1000 * us) for us in times)
    blank = Estimate(base_ns, step_ns, low_ns, high_ns, "host", "unprofiled", "replayed")
    return score._no_gain(blank) is None
