"""Fits the window plan to the steps that are left, the events that a step records, and the free disk.

In: the running loop and the Run folder. Out: a plan that fits (`window_plan` does the arithmetic). Ranks step together,
so all must record the same number of steps: each writes its events per step to a small file in the Run folder, one step
before the others need it.
"""

from __future__ import annotations

import os
import shutil
import sys
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

from tracelens.capture.inside import process_facts
from tracelens.capture.inside.loop_bounds import BlockEntry, RemainingIterations, remaining_iterations
from tracelens.capture.inside.recording_data import RecordingData

_EVENT_COUNT_PREFIX = ".events-"
_SHORT_RUN_NOTE = "a short run"
_SCRIPT_ENDED = ("the script ended before", "the `with")
"""How the reasons begin that only say that the script, or the block, was over."""


class RemainingSteps:
    """Finds how many steps are left from two looks at the running loops, one step apart."""

    def __init__(self, block: BlockEntry | None = None) -> None:
        self._block = block
        self._before: RemainingIterations | None = None

    def look(self, data: RecordingData, frame: FrameType) -> None:
        """Fit the plan at the second look; `frame` is any frame called from the loop."""
        if data.plan.shrunk:
            return
        # A short pass that only reads (for the mean of the data, for one) must not be taken for the whole script.
        live = data.loaders.live() if data.source != "dataloader" else []
        before, self._before = self._before, _look(frame, self._block, live)
        if before is None:
            return
        left = self._before.steps(before)
        if left is None and data.plan.known_steps is not None:
            left = max(1, data.plan.known_steps - data.steps_seen)
        if left is None:
            data.plan = data.plan.with_unknown_length()
            return
        data.plan = data.plan.fitted(left)
        if data.plan.shrunk:
            were = "1 step was" if left == 1 else f"{left} steps were"
            data.notes.append(f"{_SHORT_RUN_NOTE}: about {were} left, so the windows were made shorter")


def apply_limits(data: RecordingData, folder: str) -> None:
    """Shorten the windows where they would record too much; raises `NoRoomError` if not even one step fits."""
    if "events_per_step" not in data.window:
        return
    most = largest_event_count(folder, data.window["events_per_step"])
    seconds = data.unprofiled_ns / 1e9 / len(data.unprofiled) if data.unprofiled else 0.0
    free = free_bytes(folder, process_facts.rank_and_world()[1])
    fitting = data.plan.within_limits(most, seconds, free)
    if fitting != data.plan:
        were = "1 step was" if fitting.clean == 1 else f"{fitting.clean} steps were"
        data.notes.append(f"{data.plan.step_limit(most, seconds, free)[1]}, so only {were} recorded")
        data.plan = fitting


def explain_too_early(data: RecordingData, reason: str, *, attached: bool, inside: bool) -> str:
    """`reason`, why no step was recorded, completed by the number of steps seen and, if it helps, by advice.

    `attached`: the profiler was. `inside`: the script began the recording itself.
    """
    seen = "1 step" if data.steps_seen == 1 else f"{data.steps_seen} steps"
    other_notes = [note for note in data.notes if not note.startswith(_SHORT_RUN_NOTE)]
    fits = (
        reason.startswith(_SCRIPT_ENDED) and not other_notes and not hasattr(sys, "last_value")
    )  # not after an uncaught error
    advice = data.plan.advice(data.steps_seen, "steps=" if inside else "--steps ") if fits else ""
    when = "before one step was recorded" if attached else "before the profiler was started"
    return f"{reason}, after {seen}, {when}{advice}"


def publish_event_count(folder: str, events: int) -> None:
    """Tell the other ranks how many events a step records here."""
    with suppress(OSError):  # a folder that cannot be written is reported when the trace is saved
        _event_count_file(folder).write_text(str(events), encoding="ascii")


def largest_event_count(folder: str, events: int) -> int:
    """The largest event count that any rank has published, or `events`, this rank's, if that is larger."""
    counts = [events]
    for path in Path(folder).glob(f"{_EVENT_COUNT_PREFIX}*"):
        with suppress(OSError, ValueError):
            counts.append(int(path.read_text(encoding="ascii")))
    return max(counts)


def withdraw_event_count(folder: str) -> None:
    """Remove this rank's file."""
    with suppress(OSError):
        _event_count_file(folder).unlink()


def free_bytes(folder: str, ranks: int) -> int | None:
    """Free bytes on the disk for each of `ranks` recordings; None where the folder is gone."""
    try:
        return shutil.disk_usage(folder).free // max(1, ranks)
    except OSError:
        return None


def _look(frame: FrameType, block: BlockEntry | None, live: list[Any]) -> RemainingIterations:
    try:
        return remaining_iterations(frame, block, live)
    except Exception:  # noqa: BLE001 -- reading the user's values may raise anything; the number of steps then stays unknown
        return RemainingIterations()


def _event_count_file(folder: str) -> Path:
    return (
        Path(folder) / f"{_EVENT_COUNT_PREFIX}{process_facts.rank_and_world()[0]}-{os.uname().nodename}-{os.getpid()}"
    )
