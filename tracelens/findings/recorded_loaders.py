"""What the recording noted about the DataLoaders of the training: their options, and the line that makes them.

In: a Run. Out: the note about the busiest loader, which is the one of the loop.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tracelens.model import Location, Run


def loader_place(run: Run | None, rank: int | None) -> Location | None:
    """The line that makes the busiest loader; None where nobody noted it."""
    made = recorded_loader(run, rank).get("made_at")
    path, line = (made.get("path"), made.get("line")) if isinstance(made, Mapping) else (None, None)
    return Location(path, line) if isinstance(path, str) and isinstance(line, int) else None


def recorded_loader(run: Run | None, rank: int | None) -> Mapping[str, Any]:
    """The recording's note about the busiest loader; empty where there is none."""
    if run is None:
        return {}
    recordings = [entry for entry in run.recordings if entry.rank == rank] or list(run.recordings[:1])
    loaders = recordings[0].meta.get("loaders") if recordings else None
    known = [entry for entry in loaders if isinstance(entry, Mapping)] if isinstance(loaders, list) else []
    return max(known, key=lambda entry: entry.get("batches") or 0, default={})
