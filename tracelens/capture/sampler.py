"""Where the training thread is, about a thousand times a second: a thread that looks and takes notes.

In: a thread's id. Out: samples (Unix ns, place). Runs during the clean window: it needs no hook in the user's code and
measured no slowdown, so the window's timings stay honest. A wait of a millisecond or more is met by it, because a
waiting call has let go of the interpreter's lock.
"""

from __future__ import annotations

import sys
import threading
import time

from tracelens.capture.frames import Place, innermost

PERIOD_SECONDS = 0.001
MOST_SAMPLES = 120_000
"""Two minutes; about 10 MB of memory at worst."""


class Sampler:
    """Samples one thread between `start` and `stop`."""

    def __init__(self, thread: int) -> None:
        self._thread = thread
        self._done = threading.Event()
        self._worker = threading.Thread(target=self._run, name="tracelens-sampler", daemon=True)
        self.samples: list[tuple[int, Place]] = []

    def start(self) -> None:
        self._worker.start()

    def stop(self) -> None:
        self._done.set()
        self._worker.join(timeout=1.0)

    def _run(self) -> None:
        while not self._done.wait(PERIOD_SECONDS) and len(self.samples) < MOST_SAMPLES:
            now = time.time_ns()
            place = innermost(sys._current_frames().get(self._thread))
            if place is not None:
                self.samples.append((now, place))
