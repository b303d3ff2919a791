"""What the rows of the dynamic corpus say: which versions were compared or timed, and what an interval tells.

In: one JSON file per row, as run.py wrote it. Out: rows, versions and verdicts for the page. No text is made here.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

NOT_REACHED = "the script ended before that step"
BY_HAND = "by hand"
UNSAFE = " --unsafe"
EVERY_BATCH = 0.95
"""A place that waits in so many of the steps waits in each batch; others are guarded."""
NEVER_BELOW = 0.99
"""What no recommended patch may measure below."""
LEAST_PAIRS = 3
"""As in `tracelens verify`: fewer pairs say nothing."""


def rows_of(folder: Path) -> list[dict[str, Any]]:
    values = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
    return [value for value in values if isinstance(value, dict) and "versions" in value]


def compared(rows: Iterable[dict[str, Any]]) -> list[tuple[dict[str, Any], str, dict[str, Any]]]:
    """(row, name, version) of every patched version whose numbers were compared and can be."""
    return [
        (row, name, version)
        for row in rows
        for name, version in row["versions"].items()
        if "difference" in version and version["difference"] != "not comparable" and not name.endswith(UNSAFE)
        if not row.get("not_comparable")
    ]


def reads_in_each_batch(value: dict[str, Any]) -> int | None:
    """Places at which a value is read in every batch; None where waits were not counted."""
    syncs = value.get("syncs")
    if syncs is None:
        return None
    return sum(place.startswith("read ") and count >= EVERY_BATCH for place, count in syncs["places"].items())


def timed(rows: Iterable[dict[str, Any]]) -> list[tuple[dict[str, Any], str, dict[str, Any]]]:
    """(row, name, version) of every version with enough pairs; what matters comes first."""
    found = [
        (row, name, version)
        for row in rows
        for name, version in row["versions"].items()
        if counts_as(version.get("speed"), "pairs") or counts_as(version.get("speed_within"), "processes")
    ]
    return sorted(
        found, key=lambda one: (not is_recommended(one[0], one[1]), one[1] != BY_HAND, one[1], one[0]["name"])
    )


def counts_as(speed: dict[str, Any] | None, what: str) -> bool:
    return speed is not None and speed[what] >= LEAST_PAIRS


def best_of(version: dict[str, Any]) -> dict[str, Any] | None:
    """The speed to judge by: where processes hosted all versions theirs, else that of fresh processes."""
    inside, fresh = version.get("speed_within"), version.get("speed")
    if counts_as(inside, "processes"):
        return inside
    return fresh if counts_as(fresh, "pairs") else None


def judged(speed: dict[str, Any] | None) -> str:
    """What an interval says."""
    if speed is None:
        return "not timed"
    if speed["high"] < NEVER_BELOW:
        return "slower"
    if speed["low"] > 1:
        return "faster"
    return "not slower" if speed["low"] >= NEVER_BELOW else "undecided"


def says(row: dict[str, Any], version: dict[str, Any]) -> str:
    """What is known of a version's speed; nothing, where the original differs from itself by as much."""
    speed, again = best_of(version), row["original"].get("speed_within")
    said = judged(speed)
    blind = (
        again is not None and speed is version.get("speed_within") and again["low"] <= speed["value"] <= again["high"]
    )
    return "undecided" if blind and said in ("faster", "slower") else said


def is_recommended(row: dict[str, Any], name: str) -> bool:
    """A scheme that is asked for by its name makes all of its Edits, the recommended patch those that pay."""
    return name == "recommended" or ("recommended" not in row["versions"] and name == _advised(row))


def _advised(row: dict[str, Any]) -> str | None:
    return (row.get("recommended") or {}).get("scheme")
