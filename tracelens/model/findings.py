"""What the examination of a timeline finds: where a step's time goes, who waits, and what could not be judged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from tracelens.model.source import Location
from tracelens.model.trace import StepSource

WaitKind = Literal["device", "stream", "event", "d2h", "h2d", "alloc"]
BaselineSource = Literal["measured", "unprofiled", "recorded"]
Verdict = Literal["exposed", "harmless", "window_edge", "unknown"]
DIFFERING = 0.05
"""Of the median step: where the mean differs by more, both are said."""
IDLE_PARTS = ("idle_sync", "idle_dataloader", "idle_host", "idle_launch", "idle_other")
BREAKDOWN_PARTS = ("compute", "communication_exposed", "copy_exposed", *IDLE_PARTS)


@dataclass(frozen=True, slots=True)
class StepTimes:
    """Step statistics over the kept steps. `unprofiled_median_ns` is W0's, None where it was not recorded."""

    count: int
    source: StepSource
    median_ns: int
    p05_ns: int
    p95_ns: int
    unprofiled_median_ns: int | None = None
    unprofiled_mean_ns: int | None = None
    """Of the same steps, with the slow ones; None where they were not timed one by one."""
    certain: bool = True
    """False where steps were inferred from rows of which some are missing: then the recorded times are not known."""
    measured_ns: int | None = None
    """Of the original in the newest measurement of this Run; None where nothing was measured."""

    @property
    def best_known_ns(self) -> int:
        """The baseline, the one step time that every percentage is about: as measured beside a changed version, else
        as recorded without the profiler, else as recorded."""
        return self.measured_ns or self.unprofiled_median_ns or self.median_ns

    @property
    def other_mean_ns(self) -> int | None:
        """The mean step, where the median one that is told differs from it by more than a twentieth; else None."""
        mean_ns = self.unprofiled_mean_ns if self.baseline_source == "unprofiled" else None
        if mean_ns is None or abs(mean_ns - self.best_known_ns) <= DIFFERING * self.best_known_ns:
            return None
        return mean_ns

    @property
    def baseline_source(self) -> BaselineSource:
        if self.measured_ns:
            return "measured"
        return "unprofiled" if self.unprofiled_median_ns else "recorded"


@dataclass(frozen=True, slots=True)
class Breakdown:
    """Wall time per step by owner, ns. The parts that are known add up to the wall time, checked here: time whose cause
    is not told is in `idle_other`."""

    wall_ns: int
    parts: Mapping[str, int | None]
    row_ns: float = 0.0
    """What the profiler cost the host per recorded row while the GPU idled: idle time that the step does not have
    without it. 0 where that is not known."""
    profiler_ns: Mapping[str, int] = field(default_factory=dict)
    """How much of each part that was, where it was any."""

    @property
    def known(self) -> Mapping[str, int]:
        """The parts that the recording tells."""
        return {name: ns for name, ns in self.parts.items() if ns is not None}

    @property
    def copies_share(self) -> float:
        """Of the wall time, how long the GPU copies and does nothing else."""
        return self.known.get("copy_exposed", 0) / max(self.wall_ns, 1)

    def __post_init__(self) -> None:
        if set(self.parts) != set(BREAKDOWN_PARTS):
            raise ValueError(f"breakdown parts {sorted(self.parts)} are not {sorted(BREAKDOWN_PARTS)}")
        if min(self.known.values()) < 0:
            raise ValueError(f"breakdown parts {dict(self.parts)} are not all times")
        if any(not 0 <= ns <= self.known.get(part, 0) for part, ns in self.profiler_ns.items()):
            raise ValueError(f"the profiler took {dict(self.profiler_ns)} of the parts {dict(self.parts)}")
        total = sum(self.known.values())
        if abs(total - self.wall_ns) > len(self.parts):  # each part is rounded to 1 ns
            raise ValueError(f"breakdown parts add up to {total} ns, the wall time is {self.wall_ns} ns")


@dataclass(frozen=True, slots=True)
class Stall:
    """All host waits of one place: one API at one source line (or at one position in the step). Per step.

    wait_ns: host blocked. gpu_idle_ns: idle GPU time that these waits own. exposed_ns: what removing them alone
    gives back, by replay. Both None where unknown. `waits` are positions in `Timeline.tables.waits`.
    """

    id: str
    api: str
    kind: WaitKind
    calls_per_step: float
    wait_ns: int
    gpu_idle_ns: int | None
    exposed_ns: int | None
    verdict: Verdict
    location: Location | None
    waits: tuple[int, ...] = ()
    call: str | None = None
    """The user's call that waited (`Tensor.item`, …), where the recording knows it."""
    step_share: float | None = None
    """Share of the kept steps in which it waits at all: ten reads in every tenth step are 1 call per step, and 0.1."""
    idle_inside_ns: int | None = None
    """How much of `wait_ns` the GPU idles, whoever owns that; None where it is not known."""
    profiler_ns: int = 0
    """How much of `gpu_idle_ns` went to rows that the profiler recorded."""
    profiler_inside_ns: int = 0
    """The same of `idle_inside_ns`."""


@dataclass(frozen=True, slots=True)
class Overlap:
    """Host-to-device copies against compute, ns per step. hidden + exposed = total; blocking is a part of exposed."""

    h2d_ns: int
    h2d_hidden_ns: int
    h2d_exposed_ns: int
    h2d_blocking_ns: int | None
    streams_used: int
    concurrent_share: float
    """Share of busy time in which two or more streams of one device run."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A symptom with its cost per step, its share of the step, its evidence and its source line."""

    id: str
    title: str
    cost_ns: int
    share: float
    location: Location | None
    evidence: str
    stall: str | None = None
    """Id of the Stall that it is about, where it is about one."""


HeadlineKind = Literal["loss", "gpu", "unjudged"]
"""What a headline is about: a loss, the GPU's own work, or why nothing could be judged."""


@dataclass(frozen=True, slots=True)
class Abstention:
    """A symptom (or an estimate) that could not be judged: what is missing, and what to record."""

    detector: str
    missing: str
    hint: str


@dataclass(frozen=True, slots=True)
class PassedCheck:
    """A symptom that was looked for and not found, and what that means."""

    detector: str
    meaning: str


@dataclass(frozen=True, slots=True)
class InapplicableCheck:
    """A symptom that cannot occur in this recording, and why."""

    detector: str
    reason: str


@dataclass(frozen=True, slots=True)
class InventoryItem:
    """Something the loop does already (True), does not (False), or that cannot be told (None)."""

    id: str
    present: bool | None
    evidence: str
    value: int | None = None
    """The number that goes with it, where there is one: K of reads_every_k, workers, streams, bytes per step."""


@dataclass(frozen=True, slots=True)
class RankTimes:
    """One rank of a job, per step; None where it was not measured."""

    rank: int | None
    steps: int
    median_ns: int
    gpu_busy_share: float | None
    communication_ns: int | None
    """Collectives that nothing hides: a rank that others wait for has the least of it."""
