"""The times of one row: rounds of fresh processes, original and patched versions by turns, each alone on its GPU.

In: a row that was compared, and its plan as it was left in the scratch folder. Out: one JSON file per stretch of
rounds beside the row's; `merge` puts the rounds of all of them, and the ratios they give, into the row's file.
Apart from `row` because times are taken when no other process disturbs them: after all rows were compared.
"""

from __future__ import annotations

import json
import pickle
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from entry import Entry, Setting
from patches import BY_HAND
from row import Row
from times_of import ORIGINAL, decided, put, within

from tracelens.verify import trial_process

SECONDS_BESIDE = 1.0
"""Of a timed process: the copy of the folder, the fork, the script's last words."""
MOST_ROUNDS = 8
"""Of one stretch: a worker's job stays below a minute."""
NAMED = "full-pipeline"
"""Timed only beside a version that matters more: its speed is another question."""


@dataclass(frozen=True)
class Stretch:
    """Some rounds of one row, to be run by whichever worker is free."""

    entry: Entry
    number: int
    rounds: int
    again: bool = False
    """More rounds of a row that has some: only if those do not decide."""


def plan(entries: list[Entry], results: Path, first: int, more: int) -> list[Stretch]:
    """The order: rows with a recommended or hand-made version, all others, then both again.

    Many rounds come in several stretches, so that several workers take part.
    """
    rows = [(entry, _read(results / f"{entry.name}.json")) for entry in entries]
    able = [(entry, value) for entry, value in rows if versions_of(value)]
    order = [one for one, value in able if _matters(value)] + [one for one, value in able if not _matters(value)]
    sizes = [min(MOST_ROUNDS, first - done) for done in range(0, first, MOST_ROUNDS)]
    stretches = [Stretch(entry, number, size) for entry in order for number, size in enumerate(sizes)]
    return stretches + [Stretch(entry, len(sizes), more, again=True) for entry in order if more]


def run(stretch: Stretch, setting: Setting, only: tuple[str, ...] = ()) -> str:
    """Take the rounds, of all versions or of those named; returns a line for the log."""
    value = _read(setting.results / f"{stretch.entry.name}.json")
    names = [ORIGINAL, *(name for name in versions_of(value) if not only or name in only)]
    if len(names) == 1:
        return f"{stretch.entry.name}: no version to time"
    if stretch.again and decided(rounds_of(setting.results, stretch.entry.name)):
        return f"{stretch.entry.name}: decided"
    row = Row(stretch.entry, setting)
    row.plan = pickle.loads((row.place / "plan").read_bytes())
    rounds: list[dict[str, float]] = []
    for number in range(stretch.rounds):
        if time.monotonic() + len(names) * (stretch.entry.timed_s + SECONDS_BESIDE) > setting.ends:
            break
        rounds.append(_round(row, names if number % 2 == 0 else names[::-1]))
        path = setting.results / f"{stretch.entry.name}.times-{stretch.number}.json"
        path.write_text(json.dumps(rounds))
    return f"{stretch.entry.name}: {len(rounds)} rounds of {len(names)}"


def merge(results: Path) -> None:
    """Into each row's file: the step times of its rounds and, from two pairs on, the speed with its interval."""
    for path in sorted(one for one in results.glob("*.json") if "." not in one.stem):
        rounds = rounds_of(results, path.stem)
        processes = [_read(one) for one in sorted(results.glob(f"{path.stem}.within-*.json"))]
        if not rounds and not processes:
            continue
        value = _read(path)
        if rounds:
            put(value, rounds)
        if processes:
            value["within"] = processes
            for name, speed in within([one["rounds"] for one in processes]).items():
                target = value["versions"][name] if name in value["versions"] else value["original"]
                target["speed_within"] = speed
        path.write_text(json.dumps(value, indent=1, sort_keys=True) + "\n")


def rounds_of(results: Path, name: str) -> list[dict[str, float]]:
    return [one for path in sorted(results.glob(f"{name}.times-*.json")) for one in json.loads(path.read_text())]


def versions_of(value: dict[str, Any], *, every: bool = False) -> list[str]:
    """The versions of a row whose times are taken: those that are right, as far as this run has compared them."""
    if value.get("failed"):
        return []
    compared = "original" in value
    right = [
        name
        for name, one in value.get("versions", {}).items()
        if (one.get("difference", "") is None if compared else one["patched"] and "same_as" not in one)
    ]
    return right if every or _matters(value) else [name for name in right if name != NAMED]


def _matters(value: dict[str, Any]) -> bool:
    return bool({"recommended", BY_HAND} & value.get("versions", {}).keys())


def _round(row: Row, names: list[str]) -> dict[str, float]:
    taken = {}
    for name in names:
        record = row.arms([(name, "timed")])[name, "timed"].record
        timed_steps = trial_process.timed_steps_of(record["clock"]) if record else None
        if timed_steps is not None:
            taken[name] = timed_steps.step_ns
    return taken


def _read(path: Path) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(path.read_text()) if path.is_file() else {}
    return value
