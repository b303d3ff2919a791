"""Samples the user's line on the training thread about a thousand times a second, from a thread of its own.

In: a thread's id. Out: samples (Unix ns, place). Runs in the clean window: it patches nothing, and no slowdown was
measured. Waits of a millisecond or more are sampled, because a call that waits releases the GIL.
"""

from __future__ import annotations

import sys
import threading
import time

from tracelens.capture.inside.user_frames import Place, innermost

PERIOD_SECONDS = 0.001
MOST_SAMPLES = 120_000
"""Two minutes; about 10 MB of memory at worst."""


class StackSampler:
    """Samples the thread `thread` between `start` and `stop`."""

    def __init__(self, thread: int) -> None:
        self._thread = thread
        self._done = False
        self._worker = threading.Thread(target=self._run, name="tracelens-sampler", daemon=True)
        self.samples: list[tuple[int, Place]] = []

    def start(self) -> None:
        self._worker.start()

    def stop(self) -> None:
        """Stop; does not wait for the sampling thread, which ends within a period, as that would delay a step."""
        self._done = True

    def _run(self) -> None:
        # Plain sleep: `Event.wait` runs Python code, and all Python code here holds the GIL that the training needs.
        while True:
            time.sleep(PERIOD_SECONDS)
            if self._done or len(self.samples) >= MOST_SAMPLES:
                return
            now = time.time_ns()
            place = innermost(sys._current_frames().get(self._thread))
            if place is not None:
                self.samples.append((now, place))
