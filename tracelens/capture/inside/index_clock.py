"""Times how long DataLoaders look for the samples of their next batches, which is the main thread's with any number of
workers: the order of all samples where an iterator is new, some numbers from it afterwards.

In: torch's iterators, between `install` and `remove`. Out: `document`, sums. One method of their class is replaced; the
samplers and what they draw are not touched.
"""

from __future__ import annotations

import functools
import threading
import time
import weakref
from typing import Any

from torch.utils.data import dataloader

from tracelens.launch.inside import dynamo_skip
from tracelens.launch.inside.tracebacks import hide_our_frames

METHOD = "_next_index"
"""Of torch's iterators, with and without workers."""


class IndexClock:
    """Sums by iterators' first batches and others, in ns; only what the thread that installed it asks for counts."""

    def __init__(self) -> None:
        self._sums = {"first_batches": 0, "first_ns": 0, "other_batches": 0, "other_ns": 0}
        self._known: weakref.WeakSet[Any] = weakref.WeakSet()
        self._thread = 0
        self._original: Any = None
        self._replacement: Any = None

    def install(self) -> None:
        """Time from here on; does nothing where torch has no such method."""
        self._original = vars(dataloader._BaseDataLoaderIter).get(METHOD)
        if self._original is None:
            return
        self._thread = threading.get_ident()
        self._replacement = self._timed(self._original)
        setattr(dataloader._BaseDataLoaderIter, METHOD, self._replacement)

    def remove(self) -> None:
        """Put torch's own back, unless the script has replaced it meanwhile; may be called again."""
        if self._replacement is not None and vars(dataloader._BaseDataLoaderIter).get(METHOD) is self._replacement:
            setattr(dataloader._BaseDataLoaderIter, METHOD, self._original)
        self._replacement = None

    def document(self) -> dict[str, int] | None:
        """The sums; None where no batch was asked for."""
        return dict(self._sums) if any(self._sums.values()) else None

    def _timed(self, original: Any) -> Any:
        clock = time.perf_counter_ns

        @functools.wraps(original)
        def timed(iterator: Any) -> Any:
            started = clock()
            try:
                return original(iterator)
            except BaseException as error:
                hide_our_frames(error)
                raise
            finally:
                self._add(iterator, clock() - started)

        dynamo_skip.skip_frames(timed)
        return timed

    def _add(self, iterator: Any, took_ns: int) -> None:
        if threading.get_ident() != self._thread:
            return
        first = getattr(iterator, "_num_yielded", 1) == 0 and iterator not in self._known
        self._known.add(iterator)
        name = "first" if first else "other"
        self._sums[f"{name}_batches"] += 1
        self._sums[f"{name}_ns"] += took_ns
