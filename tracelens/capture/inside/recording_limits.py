"""How much a recording may hold: how many steps are left, what a step records, how much room there is.

In: the running loop, the Run folder. Out: a plan that fits. Apart from `plan`, which is arithmetic: this looks at
frames and at the disk. Ranks step together, so they must record equally many steps; each leaves what its step records
in a small file, one step before it is needed.
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
from tracelens.capture.inside.loop_bounds import BlockEntry, RemainingIterations, look
from tracelens.capture.inside.recording_data import RecordingData

_PREFIX = ".events-"
_SHORT = "a short run"
_ENDS = ("the script ended before", "the `with")


class RemainingSteps:
    """Two looks at the running loops, one step apart, say how many steps are left."""

    def __init__(self, block: BlockEntry | None = None) -> None:
        self._block = block
        self._before: RemainingIterations | None = None

    def look(self, data: RecordingData, frame: FrameType) -> None:
        """Fit the plan once it can be told; `frame` is anywhere below the loop."""
        if data.plan.shrunk:
            return
        # A short pass that only reads, for the mean of the data, say, shall not be taken for all that comes.
        live = data.loaders.live() if data.source != "dataloader" else []
        before, self._before = self._before, _look(frame, self._block, live)
        if before is None:
            return
        left = self._before.steps(before)
        if left is None:
            data.plan = data.plan.with_unknown_length()
            return
        data.plan = data.plan.fitted(left)
        if data.plan.shrunk:
            were = "1 step was" if left == 1 else f"{left} steps were"
            data.notes.append(f"{_SHORT}: about {were} left, so the windows were made shorter")


def apply_limits(data: RecordingData, folder: str) -> None:
    """Fewer steps where twelve would record too much; raises `NoRoomError` if not even one fits."""
    if "events_per_step" not in data.window:
        return
    most = largest_event_count(folder, data.window["events_per_step"])
    seconds = data.unprofiled_ns / 1e9 / len(data.unprofiled) if data.unprofiled else 0.0
    free = free_bytes(folder, process_facts.rank_and_world()[1])
    fitting = data.plan.bounded(most, seconds, free)
    if fitting != data.plan:
        were = "1 step was" if fitting.clean == 1 else f"{fitting.clean} steps were"
        data.notes.append(f"{data.plan.bound(most, seconds, free)[1]}, so only {were} recorded")
        data.plan = fitting


def explain_too_early(data: RecordingData, reason: str, *, attached: bool, inside: bool) -> str:
    """`reason`, in full, of a recording in which no step was recorded; and what helps, if the script did nothing but
    end too early."""
    seen = "1 step" if data.steps_seen == 1 else f"{data.steps_seen} steps"
    others = [note for note in data.notes if not note.startswith(_SHORT)]
    fits = reason.startswith(_ENDS) and not others and not hasattr(sys, "last_value")  # not after an uncaught error
    advice = data.plan.advice(data.steps_seen, "steps=" if inside else "--steps ") if fits else ""
    when = "before one step was recorded" if attached else "before the profiler was started"
    return f"{reason}, after {seen}, {when}{advice}"


def publish_event_count(folder: str, events: int) -> None:
    """Tell the other ranks what a step records here; a folder that cannot be written is found out soon enough."""
    with suppress(OSError):
        _own(folder).write_text(str(events), encoding="ascii")


def largest_event_count(folder: str, events: int) -> int:
    """The most that any rank has published, at least what this one has."""
    found = [events]
    for path in Path(folder).glob(f"{_PREFIX}*"):
        with suppress(OSError, ValueError):
            found.append(int(path.read_text(encoding="ascii")))
    return max(found)


def withdraw_event_count(folder: str) -> None:
    """Take this rank's file back."""
    with suppress(OSError):
        _own(folder).unlink()


def free_bytes(folder: str, ranks: int) -> int | None:
    """Room for one of `ranks` recordings; None where the folder is gone."""
    try:
        return shutil.disk_usage(folder).free // max(1, ranks)
    except OSError:
        return None


def _look(frame: FrameType, block: BlockEntry | None, live: list[Any]) -> RemainingIterations:
    try:
        return look(frame, block, live)
    except Exception:  # noqa: BLE001 -- the user's values may raise anything when looked at; it was only a guess
        return RemainingIterations()


def _own(folder: str) -> Path:
    return Path(folder) / f"{_PREFIX}{process_facts.rank_and_world()[0]}-{os.uname().nodename}-{os.getpid()}"
