"""What the user named, loaded: a Run folder, or trace files of several ranks.

In: paths. Out: `Inputs`, and the slowest rank, which reports are about.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from tracelens import run as runs
from tracelens.errors import InputError, UsageError
from tracelens.findings import breakdown
from tracelens.messages import say
from tracelens.model import RankRecording, RankTimes, Run, Timeline, Trace
from tracelens.trace import chrome, timeline
from tracelens.trace.discover import discover


@dataclass(frozen=True, slots=True)
class Inputs:
    """Loaded traces, one per rank, and the Run they belong to (None for bare traces)."""

    run: Run | None
    traces: tuple[Trace, ...]
    recordings: tuple[RankRecording | None, ...]


@dataclass(frozen=True, slots=True)
class SlowestRank:
    """The rank that reports are about, with what its steps were measured to take."""

    timeline: Timeline
    recording: RankRecording | None
    measured: breakdown.Measured
    ranks: tuple[RankTimes, ...]
    """All ranks, this one among them."""


def open_inputs(paths: tuple[Path, ...], max_bytes: int | None = None) -> Inputs:
    """Load what the user named: nothing (the newest Run), a Run folder, or trace files of several ranks."""
    if not paths:
        paths = (runs.newest(Path(runs.RUNS_FOLDER)),)
    folders = [path for path in paths if runs.is_run(path)]
    if len(paths) == 1 and folders:
        return _open_run(runs.read(paths[0]), max_bytes)
    if folders:
        raise UsageError(
            say("{folders} is a run and was given beside others", folders=folders[0]),
            hint=say("give one run, or only trace files"),
        )
    traces = tuple(chrome.load(file, max_bytes=max_bytes) for path in paths for file in discover(path))
    return Inputs(None, traces, (None,) * len(traces))


def slowest(inputs: Inputs) -> SlowestRank:
    """The rank whose median step is the longest: the others wait for it. One that cannot be judged comes last. Only one
    timeline is kept at a time."""
    best: tuple[tuple[bool, int], Timeline, RankRecording | None, breakdown.Measured] | None = None
    ranks = []
    for trace, recording in zip(inputs.traces, inputs.recordings, strict=True):
        picture = timeline.build(trace, recording)
        measured = breakdown.measure(picture, recording.clock if recording else None)
        ranks.append(breakdown.rank_times(picture.trace.rank, measured))
        order = (picture.coverage.judged, ranks[-1].median_ns)
        if best is None or order > best[0]:
            best = (order, picture, recording, measured)
    if best is None:
        raise InputError(say("no trace was given"), hint=say("record one first: tracelens profile SCRIPT"))
    return SlowestRank(*best[1:], tuple(ranks))


def _open_run(run: Run, max_bytes: int | None) -> Inputs:
    recorded = tuple(recording for recording in run.recordings if recording.trace_path is not None)
    if not recorded:
        reason = run.meta.get("reason") or say("no training step was seen")
        raise InputError(
            say("the run {path} holds no trace: {reason}", path=run.path, reason=reason),
            hint=say("record again: tracelens profile SCRIPT, with enough steps for the window"),
        )
    paths = ((recording, recording.trace_path) for recording in recorded)
    traces = tuple(_named(chrome.load(path, max_bytes=max_bytes), recording) for recording, path in paths if path)
    return Inputs(run, traces, recorded)


def _named(trace: Trace, recording: RankRecording) -> Trace:
    """Rank and world size as the recording noted them, where the trace does not say (without torch.distributed)."""
    rank = recording.rank if trace.rank is None else trace.rank
    size = recording.meta.get("world_size") if trace.world_size is None else trace.world_size
    return replace(trace, rank=rank, world_size=size if isinstance(size, int) else None)
