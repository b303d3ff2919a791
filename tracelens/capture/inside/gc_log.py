"""When Python's garbage collector ran, how long, and at which line of the user's code.

In: nothing but `gc.callbacks`. Out: collections while `installed`. Runs in the clean window, too: a step makes a few
collections, and only those that are worth a person's time are kept.
"""

from __future__ import annotations

import gc
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tracelens.capture.inside.user_frames import Place, innermost

SHORTEST_NS = 50_000
"""A young generation takes some 10 µs; what is shorter than this is not worth a row."""
MOST_COLLECTIONS = 10_000


@dataclass(frozen=True)
class Collection:
    """One run of the collector. `place`: where the user's code was, None outside of it."""

    start_unix_ns: int
    end_unix_ns: int
    thread: int
    generation: int
    place: Place | None


class GcLog:
    """`install` and `remove` are called at step boundaries."""

    def __init__(self) -> None:
        self.collections: list[Collection] = []
        self._start = 0

    def install(self) -> None:
        """Hear of every collection from here on."""
        gc.callbacks.append(self._heard)

    def remove(self) -> None:
        """Hear of none any more; may be called without `install`."""
        if self._heard in gc.callbacks:
            gc.callbacks.remove(self._heard)

    def _heard(self, phase: str, info: Mapping[str, Any]) -> None:
        now = time.time_ns()
        if phase == "start":
            self._start = now
        elif self._start and now - self._start >= SHORTEST_NS and len(self.collections) < MOST_COLLECTIONS:
            place = innermost(sys._getframe(1))
            generation = int(info.get("generation", -1))
            self.collections.append(Collection(self._start, now, threading.get_native_id(), generation, place))
