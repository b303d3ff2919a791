"""Where the training thread is, about a thousand times a second: a thread that looks and takes notes.

In: a thread's id. Out: samples (Unix ns, place). Runs during the clean window: it needs no hook in the user's code and
measured no slowdown, so the window's timings stay honest. A wait of a millisecond or more is met by it, because a
waiting call has let go of the interpreter's lock.
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
    """Samples one thread between `start` and `stop`."""

    def __init__(self, thread: int) -> None:
        self._thread = thread
        self._done = False
        self._worker = threading.Thread(target=self._run, name="tracelens-sampler", daemon=True)
        self.samples: list[tuple[int, Place]] = []

    def start(self) -> None:
        self._worker.start()

    def stop(self) -> None:
        """Without waiting for the thread, which ends within a period: a step may be under way."""
        self._done = True

    def _run(self) -> None:
        # Plain sleep: an Event's wait runs Python of its own, and all that runs here holds up the training thread.
        while True:
            time.sleep(PERIOD_SECONDS)
            if self._done or len(self.samples) >= MOST_SAMPLES:
                return
            now = time.time_ns()
            place = innermost(sys._current_frames().get(self._thread))
            if place is not None:
                self.samples.append((now, place))
