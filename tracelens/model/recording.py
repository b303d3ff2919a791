"""What `profile` records: a Run folder, and per rank what lies there beside the trace."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tracelens.model.lines import GarbageCollection, LineLog
from tracelens.model.source import Location


@dataclass(frozen=True, slots=True)
class StepClock:
    """Step durations of one recording, as far as they are known.

    `unprofiled_ns`: one duration per step of W0, host clock, profiler off. `unprofiled_mean_ns`: W0 as a whole
    by CUDA events (host clock on a CPU-only run) divided by its steps; the most trustworthy single number.
    """

    unprofiled_ns: tuple[int, ...] = ()
    unprofiled_mean_ns: int | None = None
    profiled_ns: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class SourceMark:
    """One call in the user's code that may wait for the GPU, timed on the Unix clock in the attributed window."""

    start_unix_ns: int
    end_unix_ns: int
    thread: int
    """Native thread id, as in the trace's `tid`."""
    call: str
    """For example `Tensor.item`, `torch.cuda.synchronize`, `Tensor.to`."""
    location: Location


@dataclass(frozen=True, slots=True)
class StackSample:
    """Where one thread was at one instant: the innermost frame of the user's code."""

    unix_ns: int
    thread: int
    location: Location


@dataclass(frozen=True, slots=True)
class EventUse:
    """One use of a CUDA event by the script's own code: what newer CUDA versions leave out of their traces."""

    start_unix_ns: int
    end_unix_ns: int
    thread: int
    call: str
    """`record`, `wait`, `synchronize` or `query`."""
    event: int
    """Which event; the same number is the same event, which may be recorded again."""
    stream: int | None
    """The trace's stream on which it is recorded, or which is to wait; None where unknown, or where none is named."""


@dataclass(frozen=True, slots=True)
class RankRecording:
    """What one rank left in the Run folder beside its trace."""

    rank: int
    trace_path: Path | None
    clock: StepClock = StepClock()
    marks: tuple[SourceMark, ...] = ()
    samples: tuple[StackSample, ...] = ()
    events: tuple[EventUse, ...] = ()
    collections: tuple[GarbageCollection, ...] = ()
    """Of the clean and the attributed steps."""
    lines: LineLog | None = None
    """Of the attributed steps; None where the line clock could not run."""
    slow_lines: LineLog | None = None
    """Of a step behind the windows that takes much longer than the others, and of the one before it; None where no
    such step was expected, or none came."""
    attributed_steps: tuple[int, ...] = ()
    """Numbers of the `ProfilerStep#k` whose timings carry the cost of attribution and enter no statistic."""
    meta: Mapping[str, Any] = field(default_factory=dict)

    @property
    def batch_bytes(self) -> int | None:
        """Of the loader with the largest batches; None where no size was seen."""
        return max(
            (size for loader in self.meta.get("loaders") or () if (size := loader.get("batch_bytes"))), default=None
        )


@dataclass(frozen=True, slots=True)
class Run:
    """A folder: what was launched, where, and what was recorded. `meta` is run.json as read."""

    path: Path
    command: tuple[str, ...]
    script: Path | None
    """Absolute path of the training script, where there is one."""
    cwd: Path
    complete: bool
    recordings: tuple[RankRecording, ...]
    meta: Mapping[str, Any] = field(default_factory=dict)

    @property
    def environment(self) -> Mapping[str, Any]:
        """What run.json tells of the machine and the process; empty where it does not."""
        found = self.meta.get("environment")
        return found if isinstance(found, Mapping) else {}

    @property
    def variables(self) -> Mapping[str, Any] | None:
        """The environment variables that matter, as recorded; None where they were not."""
        found = self.environment.get("variables")
        return found if isinstance(found, Mapping) else None
