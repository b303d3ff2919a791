"""What a long command is doing, on one line that is redrawn in place; what it found stays above it.

In: short texts. Out: stderr. In a pipe each text is a line of its own. No escape code: a shorter text is followed by
blanks, so that it looks the same where these are not wanted.
"""

from __future__ import annotations

import contextlib
import shutil
import sys
import threading
import time
from collections.abc import Iterator

from tracelens.cli import output
from tracelens.messages import say, shown

TICK_S = 1.0
"""The time left is shown in seconds."""


class LiveLine:
    """The line while it is shown. `until`: `time.monotonic()` at which the budget is used up."""

    def __init__(self, until: float, *, silent: bool) -> None:
        self._until = until
        self._silent = silent
        self._drawn = sys.stderr.isatty() and not silent
        self._now = ""
        self._width = 0
        self._lock = threading.Lock()
        self._ended = threading.Event()

    def doing(self, text: str) -> None:
        """What is being done now; takes the place of what was shown."""
        from tracelens.report.formatting import clean

        self._now = clean(shown(text).partition("  (")[0])  # the time left is ours to show
        if self._drawn:
            self._draw()
        elif not self._silent:
            output.note(text)

    def found(self, text: str) -> None:
        """What was found: stays."""
        if self._silent:
            return
        with self._lock:
            self._blank()
            output.note(say("  {text}", text=text))
        if self._drawn:
            self._draw()

    def tick(self) -> None:
        """Redraw the time left until the command is done."""
        while not self._ended.wait(TICK_S):
            self._draw()

    def end(self) -> None:
        """Take the line away."""
        self._ended.set()
        with self._lock:
            self._now = ""
            self._blank()

    def _draw(self) -> None:
        with self._lock:
            if not self._now:
                return
            left = max(0, round(self._until - time.monotonic()))
            room = max(output.NARROWEST, shutil.get_terminal_size().columns) - 1
            said = say("  {minutes}:{seconds:02d} left  {now}", minutes=left // 60, seconds=left % 60, now=self._now)
            line = shown(said)[:room]
            output.redraw(line.ljust(self._width))
            self._width = len(line)

    def _blank(self) -> None:
        if self._width:
            output.redraw(f"{' ' * self._width}\r")
            self._width = 0

    @property
    def ticks(self) -> bool:
        """Whether there is a line to redraw."""
        return self._drawn


@contextlib.contextmanager
def live_line(until: float, *, silent: bool) -> Iterator[LiveLine]:
    """A line that is taken away at the end, however that comes."""
    line = LiveLine(until, silent=silent)
    ticking = threading.Thread(target=line.tick, name="tracelens-live-line", daemon=True)
    if line.ticks:
        ticking.start()
    try:
        yield line
    finally:
        line.end()
        if line.ticks:
            ticking.join()
