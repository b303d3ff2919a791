"""What a row says of its plant, and whether that is right: the number of one owner, with a range that says something.

In: a row as `twins.py` writes it. Out: `Said`, its `standing` against the twin, and what the verdict is about. What is
said is what somebody reads: the owner that the verdict names, where it names the plant; else the plant's owner with
the largest number. Ranges of several lines are not added up: nobody is told the sum, and wide enough it holds any gain.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

NEAR_SHARE = 0.15
WIDEST = 0.5
"""Half of a range, as a part of its middle: beyond, the number says little more than that there is something."""
RIGHT, WIDE, OFF, NONE = "right", "too wide", "off", "none"
KEYS = ("recoverable_us_per_step", "low_us", "high_us")
PLANT = "the plant"
_NUMBER = r"[\d.,]+"
_STEP = re.compile(rf"of every ({_NUMBER})")
_REST = re.compile(rf"a step takes ({_NUMBER}) ms(?: \(({_NUMBER}) to ({_NUMBER}), )?")
_UNSURE = re.compile(rf"is not sure: (?:({_NUMBER}) ms \()?([−-]?{_NUMBER}) to ([−-]?{_NUMBER})")
"""Also as verdicts had it before the middle was told."""
_ON_AVERAGE = re.compile(rf"({_NUMBER}) ms per step on average")
_SAVED = re.compile(rf"saves ({_NUMBER}) ms of every ({_NUMBER}) ms step: \+\d+ %.*?\(([+−]\d+) to ([+−]\d+) %")


@dataclass(frozen=True)
class Said:
    """us per step; ends are None where none were said."""

    middle: float
    low: float | None
    high: float | None

    @property
    def wide(self) -> bool:
        if self.low is None or self.high is None:
            return False
        return (self.high - self.low) / 2 > WIDEST * abs(self.middle)


def standing(said: Said | None, gain: float, interval: list[float] | None) -> str:
    """`right`: the range meets what was gained (its 95 % interval, where that is known), and is no wider than
    `WIDEST`."""
    if said is None:
        return NONE
    if not meets(said, gain, interval):
        return OFF
    return WIDE if said.wide else RIGHT


def meets(said: Said, gain: float, interval: list[float] | None) -> bool:
    """Whether the middle is near to what was gained, or the range meets it."""
    if abs(said.middle - gain) <= NEAR_SHARE * abs(gain):
        return True
    low, high = interval or (gain, gain)
    return said.low is not None and said.high is not None and said.low <= high and low <= said.high


def of_number(row: dict[str, Any]) -> str:
    """The standing of what a row with a twin says."""
    return standing(of_row(row), row["gain_in_recording_us"], row.get("gain_interval_us"))


def of_headline(row: dict[str, Any]) -> str:
    """The same of the number in the verdict, `none` where that is about something else than the plant."""
    said = of_verdict(row) if about(row) == PLANT else None
    return standing(said, row["gain_in_recording_us"], row.get("gain_interval_us"))


def of_row(row: dict[str, Any]) -> Said | None:
    """What the row says of the plant."""
    headline = of_verdict(row) if about(row) == PLANT else None
    return headline or max(_of_plant(row), key=lambda said: said.middle, default=None)


def of_verdict(row: dict[str, Any]) -> Said | None:
    """The number that the verdict promises, or that it says is not sure; None where it has none."""
    text = row["verdict"]
    if found := _SAVED.search(text):
        saved, step, *gains = (_number(part) for part in found.groups())
        low, high = (1e3 * step * (1 - 1 / (1 + gain / 100)) for gain in gains)
        return Said(1e3 * saved, low, high)
    if found := _UNSURE.search(text):
        low, high = (1e3 * _number(part) for part in found.groups()[1:])
        return _nearest(row, Said((low + high) / 2 if found[1] is None else 1e3 * _number(found[1]), low, high))
    if found := _ON_AVERAGE.search(text):
        return _nearest(row, Said(1e3 * _number(found[1]), None, None))
    step_found, rest = _STEP.search(text), _REST.search(text)
    if step_found is None or rest is None:
        return None
    step = _number(step_found[1])
    best, worst = (None if part is None else 1e3 * (step - _number(part)) for part in rest.groups()[1:])
    return _nearest(row, Said(1e3 * (step - _number(rest[1])), worst, best))


def about(row: dict[str, Any]) -> str:
    """What the verdict is about: the plant, by its line or as the DataLoader; a limit of the loop; another line."""
    verdict = row["verdict"]
    found = re.search(r"\.py:(\d+(?:, \d+)*)", verdict)
    at = {int(number) for number in found[1].split(", ")} if found is not None else set()
    if "-bound" in verdict:
        return str(re.findall(r"[\w-]+-bound", verdict)[0])
    by_worker = row["largest"]["kind"] == "dataloader" and verdict.startswith("The DataLoader")
    return PLANT if at & set(row["lines"]) or (by_worker and row["found"]) else "another line"


def _nearest(row: dict[str, Any], told: Said) -> Said:
    """The owner whose number that is, which is told in rounded figures and not always with its range."""

    def off(said: Said) -> float:
        ends = ((told.low, said.low), (told.high, said.high))
        known = [abs(one - other) for one, other in ends if one is not None and other is not None]
        return sum(known) if len(known) == 2 else abs(told.middle - said.middle)

    return min(_numbers([*(row.get("owners") or []), *(row.get("loops") or [])]), key=off, default=told)


def _of_plant(row: dict[str, Any]) -> list[Said]:
    """Each of the plant's owners. `recoverable_us` of an earlier row ends with their sum."""
    single = [Said(*numbers) for numbers in row["recoverable_us"] if numbers[0] is not None]
    known = _numbers(row.get("owners") or [])
    return [said for said in single if said in known] or single


def _numbers(owners: list[dict[str, Any]]) -> list[Said]:
    return [Said(*(owner[key] for key in KEYS)) for owner in owners if owner.get(KEYS[0]) is not None]


def _number(text: str) -> float:
    return float(text.rstrip(",.").replace("−", "-").replace(",", ""))
