"""Whether a recording shows the time that a loop spends in its DataLoader.

In: a Timeline, what the recording noted beside its trace. Out: yes, or no. Without marks the loader's time looks
like any other of the host's.
"""

from __future__ import annotations

from tracelens.model import RankRecording, Timeline

_LOADER_FILE = "dataloader.py"


def known(timeline: Timeline, recording: RankRecording | None) -> bool:
    """By its marks, or because there surely is no loader: stacks without it, a Run without one."""
    trace = timeline.trace
    if "dataloader" in trace.signals or (recording is not None and recording.meta.get("loaders") == []):
        return True
    return "python_stacks" in trace.signals and not any(_LOADER_FILE in name for name in trace.names)
