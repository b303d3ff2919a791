"""When the recorded training ran, among samples that were taken from the launch to the end of the process.

In: a Diagnosis. Out: a span of Unix time in ns. Importing, building the model and saving the trace are no training: an
average over them would say that the GPU is idle.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tracelens.model import Diagnosis

FEWEST = 3
"""Samples that an average needs."""


def training_window(diagnosis: Diagnosis) -> tuple[int, int] | None:
    """From the first step that was timed without the profiler to the end of the last recorded one; None where the
    recording does not say when it was made."""
    zero, steps = diagnosis.timeline.trace.base_unix_ns, diagnosis.timeline.tables.steps
    if zero is None or not len(steps) or diagnosis.steps.source == "none":
        return None
    rank = diagnosis.timeline.trace.rank
    recordings = diagnosis.run.recordings if diagnosis.run is not None else ()
    timed = next((one.clock.unprofiled_ns for one in recordings if one.rank == rank or len(recordings) == 1), ())
    return zero + int(steps["start_ns"].min()) - sum(timed), zero + int(steps["end_ns"].max())


def taken_in(rows: Sequence[Mapping[str, Any]], window: tuple[int, int] | None) -> tuple[bool, ...]:
    """Which samples were taken while it trained; none where that is not known, or where too few were for an average."""
    if window is None:
        return tuple(False for _ in rows)
    found = tuple("unix_ns" in row and window[0] <= int(row["unix_ns"]) <= window[1] for row in rows)
    return found if sum(found) >= FEWEST else tuple(False for _ in rows)
