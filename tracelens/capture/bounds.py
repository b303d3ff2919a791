"""How much a recording may hold: how many steps are left, what a step records, how much room there is.

In: the running loop, the Run folder. Out: a plan that fits. Apart from `plan`, which is arithmetic: this looks at
frames and at the disk. Ranks step together, so they must record equally many steps; each leaves what its step records
in a small file, one step before it is needed.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path
from types import FrameType

from tracelens.capture import facts
from tracelens.capture.gathered import Gathered
from tracelens.capture.remaining import Block, iterations

_PREFIX = ".events-"


class Length:
    """Two looks at the running loops, one step apart, say how many steps are left."""

    def __init__(self, block: Block | None = None) -> None:
        self._block = block
        self._remaining: int | None = None
        self._looks = 0

    def look(self, gathered: Gathered, frame: FrameType) -> None:
        """Fit the plan once it can be told; `frame` is anywhere below the loop."""
        if gathered.plan.shrunk:
            return
        self._looks += 1
        before, self._remaining = self._remaining, _iterations_left(frame, self._block)
        if before is None or self._remaining is None or before <= self._remaining:
            gathered.plan = gathered.plan.with_unknown_length() if self._looks == 2 else gathered.plan
            return
        left = self._remaining // (before - self._remaining)
        gathered.plan = gathered.plan.fitted(left)
        if gathered.plan.shrunk:
            gathered.notes.append(f"a short run: about {left} steps were left, so the windows were made shorter")


def keep(gathered: Gathered, folder: str) -> None:
    """Fewer steps where twelve would record too much; raises `NoRoomError` if not even one fits."""
    if "events_per_step" not in gathered.window:
        return
    most = agreed(folder, gathered.window["events_per_step"])
    seconds = gathered.unprofiled_ns / 1e9 / len(gathered.unprofiled) if gathered.unprofiled else 0.0
    fitting = gathered.plan.bounded(most, seconds, free_bytes(folder, facts.rank_and_world()[1]))
    if fitting != gathered.plan:
        gathered.notes.append(f"a step records about {most:,} events, so only {fitting.clean} steps were recorded")
        gathered.plan = fitting


def publish(folder: str, events: int) -> None:
    """Tell the other ranks what a step records here; a folder that cannot be written is found out soon enough."""
    with suppress(OSError):
        _own(folder).write_text(str(events), encoding="ascii")


def agreed(folder: str, events: int) -> int:
    """The most that any rank has published, at least what this one has."""
    found = [events]
    for path in Path(folder).glob(f"{_PREFIX}*"):
        with suppress(OSError, ValueError):
            found.append(int(path.read_text(encoding="ascii")))
    return max(found)


def withdraw(folder: str) -> None:
    """Take this rank's file back."""
    with suppress(OSError):
        _own(folder).unlink()


def free_bytes(folder: str, ranks: int) -> int | None:
    """Room for one of `ranks` recordings; None where the folder is gone."""
    try:
        return shutil.disk_usage(folder).free // max(1, ranks)
    except OSError:
        return None


def _iterations_left(frame: FrameType, block: Block | None) -> int | None:
    try:
        return iterations(frame, block)
    except Exception:  # noqa: BLE001 -- a `__len__` of the user's may raise anything; it was only a guess
        return None


def _own(folder: str) -> Path:
    return Path(folder) / f"{_PREFIX}{facts.rank_and_world()[0]}-{os.uname().nodename}-{os.getpid()}"
