"""One step before, predicted and measured, on one scale: what a change does to the lanes.

In: a Diagnosis. Out: `StepComparison`, geometry that the template writes down. Before and predicted are replays, laid
out on lanes. Of the measured steps verify keeps totals, not events: they are drawn as such, and the page says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from tracelens.model import DrawnStep, IllustratedDiagnosis, Verification
from tracelens.report.formatting import milliseconds, percent
from tracelens.report.step_picture import Box, PictureLane, TimeAxis, boxes, ticks

HEIGHT, GAP, HEADING = 18.0, 5.0, 24.0
HELD_NS = 30_000
"""A copy call on the host that lasts longer does not only start a copy: it holds the host."""
VISIBLE = 0.15
ROOM_FOR_NUMBER, ROOM_FOR_TAG = 125.0, 48.0
TAGS = {"wait": "SYNC", "held": "COPY"}


@dataclass(frozen=True, slots=True)
class StepVersion:
    """One version of the step: a heading, its lanes, and where its end is marked."""

    title: str
    remark: str
    y: float
    lanes: tuple[PictureLane, ...]
    end: float


@dataclass(frozen=True, slots=True)
class StepComparison:
    groups: tuple[StepVersion, ...]
    height: float
    ticks: tuple[tuple[float, str], ...]
    scheme: str | None
    measured: bool


def compare_steps(diagnosis: IllustratedDiagnosis) -> StepComparison | None:
    """None where nothing could be replayed."""
    if not diagnosis.drawn:
        return None
    scheme = next((step.scheme for step in diagnosis.drawn if step.scheme), None)
    trials = (trial for trial in reversed(diagnosis.verifications) if trial.scheme == scheme and trial.base_ns)
    trial = next(trials, None)
    lengths = [step.length_ns for step in diagnosis.drawn]
    lengths += [ns for ns in (trial.base_ns, trial.patched_ns) if ns] if trial else []
    window = TimeAxis(0, max(lengths))
    groups: list[StepVersion] = []
    y = 0.0
    for title, remark, length, rows in (*_replayed(diagnosis.drawn, window), *_measured(trial, window)):
        lanes = tuple(
            PictureLane(name, y + HEADING + k * (HEIGHT + GAP), tuple(row)) for k, (name, row) in enumerate(rows)
        )
        groups.append(StepVersion(title, remark, y, lanes, round(window.x(length), 1)))
        y += HEADING + len(lanes) * (HEIGHT + GAP) + GAP
    return StepComparison(tuple(groups), y, ticks(window), scheme, trial is not None)


def _replayed(
    drawn: Sequence[DrawnStep], window: TimeAxis
) -> Iterator[tuple[str, str, int, list[tuple[str, Sequence[Box]]]]]:
    for step in drawn:
        title = f"Predicted: {step.scheme}" if step.scheme else "Before"
        remark = f"{milliseconds(step.length_ns)} long, one step of the replay"
        columns = ["lane", "name", "start_ns", "end_ns"]
        frame = pd.DataFrame([(bar.lane, bar.name, bar.start_ns, bar.end_ns) for bar in step.bars], columns=columns)
        rows: list[tuple[str, Sequence[Box]]] = [
            ("CPU main thread" if lane == "host" else str(lane).capitalize(), _lane(mine, window))
            for lane, mine in sorted(frame.groupby("lane"), key=lambda pair: (pair[0] != "host", str(pair[0])))
        ]
        yield title, remark, step.length_ns, rows


def _lane(bars: pd.DataFrame, window: TimeAxis) -> list[Box]:
    length = bars["end_ns"] - bars["start_ns"]
    kinds = [
        _kind(str(lane), str(name), int(ns)) for lane, name, ns in zip(bars["lane"], bars["name"], length, strict=True)
    ]
    drawn = boxes(dict(iter(bars.groupby(kinds))), window, VISIBLE)
    return [
        replace(box, label=TAGS[box.kind]) if box.kind in TAGS and box.width > ROOM_FOR_TAG else box for box in drawn
    ]


def _kind(lane: str, name: str, length_ns: int) -> str:
    if lane == "host":
        if name == "DataLoader":
            return "loader"
        held = "Synchronize" in name or ("Memcpy" in name and length_ns > HELD_NS)
        return "call" if not held else "held" if "Memcpy" in name else "wait"
    for word, kind in (("Memcpy", "copy"), ("Memset", "memset"), ("nccl", "collective")):
        if name.startswith(word):
            return kind
    return "kernel"


def _measured(
    trial: Verification | None, window: TimeAxis
) -> Iterator[tuple[str, str, int, list[tuple[str, Sequence[Box]]]]]:
    if trial is None:
        return
    for title, ns, facts in (
        ("Measured before", trial.base_ns, trial.window("before")),
        ("Measured after", trial.patched_ns, trial.window("after")),
    ):
        if ns is not None:
            remark = f"{milliseconds(ns)} per step, by verify; totals, not in their order"
            yield title, remark, ns, _totals(facts, ns, window)


def _totals(facts: Mapping[str, Any], ns: int, window: TimeAxis) -> list[tuple[str, Sequence[Box]]]:
    """GPU busy and host blocked as shares of the step; a plain bar where the window did not measure them."""
    busy, blocked = facts.get("gpu_busy_share"), facts.get("host_wait_us_per_step")
    rows: list[tuple[str, Sequence[Box]]] = []
    if isinstance(blocked, int | float):
        words = ("wait", "waits, DataLoader"), ("host", "issues work")
        rows.append(("CPU main thread", _split(ns, blocked * 1000, *words, window)))
    if isinstance(busy, int | float):
        rows.append(("GPU", _split(ns, busy * ns, ("kernel", "busy"), ("idle_other", "idle"), window)))
    return rows or [("Step", _split(ns, ns, ("kernel", ""), ("host", ""), window))]


def _split(ns: int, first: float, filled: tuple[str, str], rest: tuple[str, str], window: TimeAxis) -> list[Box]:
    first = min(max(first, 0.0), ns)
    out = []
    for (kind, word), start, end in ((filled, 0.0, first), (rest, first, float(ns))):
        x, width = round(window.x(start), 1), round(window.x(end) - window.x(start), 1)
        text = f"{word} {percent((end - start) / ns)}" if word and width >= ROOM_FOR_NUMBER else ""
        if width > 0:
            out.append(Box(x, width, kind, text, f"{word} {milliseconds(end - start)}"))
    return out
