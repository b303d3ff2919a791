"""From the rounds of one row to its speeds: what the page shows and what decides about further rounds.

In: rounds, each with the step time of the original and of each version. Out: medians, ratios, intervals. Pure.
"""

from __future__ import annotations

import statistics
from typing import Any

from tracelens.verify.compare import times

ORIGINAL = "original"
AGAIN = "original again"
"""In one process with the versions: what it differs from the original by is the error of the method."""
LEAST_ROUNDS = 3
NEVER_BELOW = 0.99
"""What a recommended patch must not fall below; an interval that lies on one side of it decides."""


def put(value: dict[str, Any], rounds: list[dict[str, float]]) -> None:
    """Write the rounds, in ns, and what follows from them into a row."""
    value["rounds_us"] = [{name: round(ns / 1000, 1) for name, ns in one.items()} for one in rounds]
    value.setdefault("original", {})["step_us"] = _median(rounds, ORIGINAL)
    for name, speed in speeds(rounds).items():
        value["versions"][name]["step_us"] = _median(rounds, name)
        value["versions"][name]["speed"] = speed


def speeds(rounds: list[dict[str, float]]) -> dict[str, dict[str, Any]]:
    """Original ÷ version, with its 95 % interval, over the rounds that hold both."""
    found = {}
    for name in sorted({name for one in rounds for name in one} - {ORIGINAL}):
        pairs = [(one[ORIGINAL], one[name]) for one in rounds if name in one and ORIGINAL in one]
        ratio = times.ratio_of(pairs)
        if ratio is not None:
            speed = {"value": 1 / ratio.value, "low": 1 / ratio.high, "high": 1 / ratio.low, "tells": ratio.tells}
            found[name] = {key: round(one, 4) if key != "tells" else one for key, one in speed.items()}
            found[name]["pairs"] = len(pairs)
    return found


def within(processes: list[list[dict[str, float]]]) -> dict[str, dict[str, Any]]:
    """Original ÷ version over processes that hosted both by turns: each counts once, with the median of its rounds."""
    found = {}
    able = [rounds for rounds in processes if len(rounds) >= LEAST_ROUNDS]
    for name in sorted({name for rounds in able for one in rounds for name in one} - {ORIGINAL}):
        medians = [
            statistics.median(one[name] / one[ORIGINAL] for one in rounds if name in one)
            for rounds in able
            if any(name in one for one in rounds)
        ]
        ratio = times.ratio_of([(1.0, median) for median in medians])
        if ratio is not None:
            speed = {"value": 1 / ratio.value, "low": 1 / ratio.high, "high": 1 / ratio.low, "tells": ratio.tells}
            found[name] = {key: round(one, 4) if key != "tells" else one for key, one in speed.items()}
            found[name]["processes"] = len(medians)
    return found


def decided(rounds: list[dict[str, float]]) -> bool:
    """Whether every interval lies on one side of what a patch must not fall below."""
    found = speeds(rounds)
    return bool(found) and all(one["low"] >= NEVER_BELOW or one["high"] < NEVER_BELOW for one in found.values())


def _median(rounds: list[dict[str, float]], name: str) -> float | None:
    values = [one[name] for one in rounds if name in one]
    return round(statistics.median(values) / 1000, 1) if values else None
