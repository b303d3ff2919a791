"""The nouns: what each stage hands to the next, as frozen values.

In: nothing. Out: the types that every other module speaks. Times inside are integer nanoseconds (suffix `_ns`),
counted from the trace's own zero; `None` is unknown, `0` is a measured zero. Nothing here reads a file or computes
a diagnosis, and nothing here imports a heavy library at run time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:  # pandas and numpy cost 0.4 s to import; `tracelens --help` must not pay that
    import numpy as np
    import pandas as pd

StepSource = Literal["profiler_step", "tracelens", "dataloader", "optimizer", "cycle", "none"]
WaitKind = Literal["device", "stream", "event", "d2h", "h2d", "alloc"]
Verdict = Literal["exposed", "harmless", "window_edge", "unknown"]
EditKind = Literal[
    "interval-sync",
    "event-sync",
    "defer-read",
    "async-copy",
    "prefetch",
    "more-workers",
    "thin-logs",
    "move-guard",
    "persistent-workers",
]
Tier = Literal["safe", "unsafe", "manual"]
Binding = Literal["host", "stream", "copy", "loader"]
Outcome = Literal["faster", "no change", "slower", "different numbers", "failed", "inconclusive"]

UNSAFE_EDITS: tuple[EditKind, ...] = ("thin-logs", "move-guard", "more-workers", "persistent-workers")
"""Edits that change what a run prints, when it stops or which random numbers it draws: made with --unsafe only."""

IDLE_PARTS = ("idle_sync", "idle_dataloader", "idle_host", "idle_launch", "idle_other")
BREAKDOWN_PARTS = ("compute", "communication_exposed", "copy_exposed", *IDLE_PARTS)
CRITERIA = ("performance", "difficulty", "complexity", "memory", "maintainability", "risk")


@dataclass(frozen=True, slots=True)
class Location:
    """A place in the user's source. `path` is relative to the Run's working directory where it lies below it."""

    path: str
    line: int | None
    function: str | None = None

    def __str__(self) -> str:
        return self.path if self.line is None else f"{self.path}:{self.line}"


# ---------------------------------------------------------------------------------------------- what was recorded


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
    attributed_steps: tuple[int, ...] = ()
    """Numbers of the `ProfilerStep#k` whose timings carry the cost of attribution and enter no statistic."""
    meta: Mapping[str, Any] = field(default_factory=dict)


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


# -------------------------------------------------------------------------------------------- the trace as columns


@dataclass(frozen=True, slots=True)
class Trace:
    """One rank's duration events as columns of equal length, ordered by start.

    `columns` (numpy): start_ns i8, end_ns i8, category i1 (code into `categories`), name i4 (code into `names`),
    pid i8, tid i8, stream i4 (-1 none), device i4 (-1), correlation i8 (-1), external_id i8 (-1), bytes i8 (-1),
    and what only some rows have: sync_kind i1, wait_stream i4, wait_event i8, wait_record i8 (correlation of the
    event's record), graph i8 (-1 each where absent).
    """

    path: str
    rank: int | None
    world_size: int | None
    device: str | None
    signals: frozenset[str]
    """Of: gpu, runtime, correlation, sync_events, steps, python_stacks, dataloader, optimizer, shapes, collectives."""
    dropped: Mapping[str, int]
    warnings: tuple[str, ...]
    columns: Mapping[str, np.ndarray[Any, Any]]
    names: tuple[str, ...]
    categories: tuple[str, ...]
    base_unix_ns: int | None
    """Unix time of the trace's zero; None where the file does not say."""
    origin_ns: int = 0
    """What the file's own timestamps (`ts`, in ns) say at the trace's zero, which is its first event."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """Top-level keys of the file other than the events (deviceProperties, distributedInfo, …)."""

    def __len__(self) -> int:
        return len(self.columns["start_ns"])

    @property
    def frame(self) -> pd.DataFrame:
        """The events as a DataFrame with `name` and `category` as text (categorical)."""
        import pandas as pd

        frame = pd.DataFrame({key: value for key, value in self.columns.items() if key not in ("name", "category")})
        for key, words in (("name", self.names), ("category", self.categories)):
            codes = self.columns[key].astype("int64")
            frame[key] = pd.Categorical.from_codes(codes, categories=pd.Index(words, dtype=object))
        return frame


@dataclass(frozen=True, slots=True)
class Tables:
    """The DataFrames of a Timeline; integer ns, row order by start, RangeIndex. Referred to by position.

    steps   number, start_ns, end_ns, kept, attributed           — a step is [start, end) on the host clock
    calls   thread, name, kind, start_ns, end_ns, correlation, stream, event, record, op, ops, step
            kind: launch copy memset graph_launch device_sync stream_sync event_sync event_record stream_wait
            alloc free event_query other. stream: of the launched op, or the one waited for (-1 all or unknown).
            record: position of the call that recorded the event it refers to (-1 unknown, -2 before the trace).
            op: position of its first GPU op (-1 none), ops: how many. step: position in steps (-1 outside)
    ops     kind (kernel copy memset collective), direction (h2d d2h d2d p2p or ""), memory (pageable pinned unknown
            or ""), name, device, stream, start_ns, end_ns, bytes, call, step (that of its launch)
    waits   call, copy (position in calls of the copy that this synchronize only completes, -1 none: the two are one
            call of the user's, `.item()` or a blocking `.to(device)`), api, kind (WaitKind), thread, stream, start_ns,
            end_ns, wait_ns, gpu_idle_ns, step, window_edge, path, line, function (None unknown), location_source
            (mark sample stack none), user_call (None unknown)
    gaps    device, start_ns, end_ns, next_op, cause (sync dataloader host launch other), wait (position in waits
            that owns it, -1 none), step
    loader  thread, start_ns, end_ns, step, name             — the main thread inside DataLoader.__next__
    """

    steps: pd.DataFrame
    calls: pd.DataFrame
    ops: pd.DataFrame
    waits: pd.DataFrame
    gaps: pd.DataFrame
    loader: pd.DataFrame


@dataclass(frozen=True, slots=True)
class Timeline:
    """The queryable picture of one Trace. Built once by `tracelens.trace.timeline.build`, read-only: columns that are
    added to one of its DataFrames stay with whoever asked for it."""

    trace: Trace
    tables: Tables
    step_source: StepSource
    main_thread: int | None
    """The thread that marks the steps and issues the training loop's calls."""
    autograd_threads: tuple[int, ...]
    notes: tuple[str, ...] = ()

    def steps(self) -> pd.DataFrame:
        """One row per training step; `kept` rows enter the statistics."""
        return self.tables.steps.copy(deep=False)

    def calls(self) -> pd.DataFrame:
        """CUDA (or HIP) API calls of every thread."""
        return self.tables.calls.copy(deep=False)

    def ops(self) -> pd.DataFrame:
        """GPU work: kernels, copies, memsets, collectives."""
        return self.tables.ops.copy(deep=False)

    def syncs(self) -> pd.DataFrame:
        """Host waits: synchronize calls and blocking copies."""
        return self.tables.waits.copy(deep=False)

    def idle_gaps(self) -> pd.DataFrame:
        """Stretches in which a device ran nothing, each with exactly one cause."""
        return self.tables.gaps.copy(deep=False)

    def loader_waits(self) -> pd.DataFrame:
        """Time the training loop spent inside the DataLoader's `__next__`."""
        return self.tables.loader.copy(deep=False)

    def copies(self) -> pd.DataFrame:
        """GPU ops that are copies."""
        ops = self.tables.ops
        return ops[ops["kind"] == "copy"]

    def streams(self) -> pd.DataFrame:
        """Per (device, stream): number of ops and busy time (`ops`, `busy_ns`; ops on one stream do not overlap)."""
        ops = self.tables.ops.assign(busy_ns=self.tables.ops["end_ns"] - self.tables.ops["start_ns"])
        grouped = ops.groupby(["device", "stream"], observed=True)["busy_ns"]
        return grouped.agg(ops="size", busy_ns="sum").reset_index()


# ------------------------------------------------------------------------------------------------- what was found


@dataclass(frozen=True, slots=True)
class StepTimes:
    """Step statistics over the kept steps. `unprofiled_median_ns` is W0's, None where it was not recorded."""

    count: int
    source: StepSource
    median_ns: int
    p05_ns: int
    p95_ns: int
    unprofiled_median_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Breakdown:
    """Wall time per step by owner, ns. The parts add up to the wall time, checked here."""

    wall_ns: int
    parts: Mapping[str, int]

    def __post_init__(self) -> None:
        if set(self.parts) != set(BREAKDOWN_PARTS):
            raise ValueError(f"breakdown parts {sorted(self.parts)} are not {sorted(BREAKDOWN_PARTS)}")
        if min(self.parts.values()) < 0:
            raise ValueError(f"breakdown parts {dict(self.parts)} are not all times")
        total = sum(self.parts.values())
        if abs(total - self.wall_ns) > len(self.parts):  # each part is rounded to 1 ns
            raise ValueError(f"breakdown parts add up to {total} ns, the wall time is {self.wall_ns} ns")


@dataclass(frozen=True, slots=True)
class Stall:
    """All host waits of one place: one API at one source line (or at one position in the step). Per step.

    wait_ns: host blocked. gpu_idle_ns: idle GPU time that these waits own. exposed_ns: what removing them alone
    gives back, by replay; None unknown. `waits` are positions in `Timeline.tables.waits`.
    """

    id: str
    api: str
    kind: WaitKind
    calls_per_step: float
    wait_ns: int
    gpu_idle_ns: int
    exposed_ns: int | None
    verdict: Verdict
    location: Location | None
    waits: tuple[int, ...] = ()
    call: str | None = None
    """The user's call that waited (`Tensor.item`, …), where the recording knows it."""
    step_share: float | None = None
    """Share of the kept steps in which it waits at all: ten reads in every tenth step are 1 call per step, and 0.1."""


@dataclass(frozen=True, slots=True)
class Overlap:
    """Host-to-device copies against compute, ns per step. hidden + exposed = total; blocking is a part of exposed."""

    h2d_ns: int
    h2d_hidden_ns: int
    h2d_exposed_ns: int
    h2d_blocking_ns: int
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


@dataclass(frozen=True, slots=True)
class Abstention:
    """A symptom (or an estimate) that could not be judged: what is missing, and what to record."""

    detector: str
    missing: str
    hint: str


@dataclass(frozen=True, slots=True)
class InventoryItem:
    """Something the loop does already (True), does not (False), or that cannot be told (None)."""

    id: str
    present: bool | None
    evidence: str
    value: int | None = None
    """The number that goes with it, where there is one: K of reads_every_k, workers, streams, bytes per step."""


# --------------------------------------------------------------------------------------------- what could be done


@dataclass(frozen=True, slots=True)
class Edit:
    """One change of the training loop. The replay and the patcher read the same value.

    `stalls` are ids of the Stalls it acts on. `interval` is N of interval-sync and defer-read: 1 means "as soon as
    the event has completed" (scheme 2), N > 1 "every N batches". `depth` is the prefetch distance in batches.
    `workers` is what more-workers asks for. Edits of the kinds in `UNSAFE_EDITS` are made with --unsafe only.
    """

    kind: EditKind
    stalls: tuple[str, ...] = ()
    locations: tuple[Location, ...] = ()
    interval: int = 1
    depth: int = 0
    workers: int = 0


@dataclass(frozen=True, slots=True)
class Estimate:
    """Step time after a set of Edits, with its range (80 %) and what limits it then."""

    base_ns: int
    step_ns: int
    low_ns: int
    high_ns: int
    binding: Binding
    basis: Literal["unprofiled", "profiled"]
    evidence: Literal["measured", "replayed"]
    assumptions: tuple[str, ...] = ()

    @property
    def speedup(self) -> float:
        return self.base_ns / self.step_ns

    @property
    def noise_ns(self) -> int:
        """Half the width of the range: a gain below this is no gain."""
        return (self.high_ns - self.low_ns) // 2

    def document(self) -> dict[str, Any]:
        """As every JSON of ours has it, in µs; without the assumptions, which analysis.json does not carry."""
        times = {"base": self.base_ns, "step": self.step_ns, "low": self.low_ns, "high": self.high_ns}
        return {
            **{f"{name}_us": ns / 1000 for name, ns in times.items()},
            "speedup": self.speedup,
            "binding": self.binding,
            "basis": self.basis,
            "evidence": self.evidence,
        }


@dataclass(frozen=True, slots=True)
class Score:
    """One criterion of one scheme, 0–10 (10 is best), and where the number comes from."""

    score: float
    evidence: Literal["measured", "replayed", "patch", "prior"]


@dataclass(frozen=True, slots=True)
class Scheme:
    """One remedy judged on this run."""

    id: str
    title: str
    edits: tuple[Edit, ...]
    prior: Mapping[str, float] | None
    scores: Mapping[str, Score]
    prior_mean: float | None
    prior_total: float | None
    total: float | None
    rank: int | None
    estimate: Estimate | None
    applicable: bool
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Goal:
    """A goal of a stage; `met` is None where it was not measured."""

    text: str
    met: bool | None
    evidence: str = ""


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage of the plan: which schemes, what it should reach, and what to do next: advice, or a command."""

    number: int
    title: str
    schemes: tuple[str, ...]
    goals: tuple[Goal, ...]
    advice: str
    command: tuple[str, str] | None = None
    """(`verify` or `apply`, scheme) where that is next; reports add which Run."""


@dataclass(frozen=True, slots=True)
class Measure:
    """One measure of the seeds' training speed guide on this run. `gain` is that seed's opinion in percent, never
    evidence; None where it names none. `present` None: cannot be told."""

    id: str
    title: str
    how: str
    caution: str
    present: bool | None
    evidence: str
    gain: tuple[float, float] | None = None
    note: str = ""
    source: str | None = None
    share: float | None = None
    """Of a step: the parts it acts on, and so the most that it can save here."""


@dataclass(frozen=True, slots=True)
class Recommendation:
    """The answer. `scheme` is None for "do nothing" and for "could not judge"; the verdict says which."""

    scheme: str | None
    verdict: str
    stages: tuple[Stage, ...] = ()
    sensitivity: Mapping[str, Any] = field(default_factory=dict)
    measure: str | None = None
    """Where none is recommended: the scheme that may pay, as far as a replay can tell, and that a trial would judge."""


# ---------------------------------------------------------------------------------------------------- the patch


@dataclass(frozen=True, slots=True)
class Hunk:
    """One reviewable piece of a Patch, tied to the Edit that made it."""

    id: str
    edit: EditKind
    tier: Tier
    location: Location
    reason: str
    evidence: str
    covers: tuple[Location, ...] = ()
    """Places that it changes although Edits of other kinds declined them."""


@dataclass(frozen=True, slots=True)
class Declined:
    """A place that was not patched: what stands in the way, and what to do by hand."""

    edit: EditKind
    location: Location
    obstacle: str
    by_hand: str

    @property
    def offered(self) -> bool:
        """Nothing is wrong with the place: it only needs --unsafe, or buys nothing here."""
        return self.edit in UNSAFE_EDITS


@dataclass(frozen=True, slots=True)
class FilePatch:
    """One file before and after, as bytes; `before` None means that the patch creates the file."""

    path: Path
    before: bytes | None
    after: bytes


@dataclass(frozen=True, slots=True)
class Patch:
    """Files before and after, the diff, its hunks, and what was declined."""

    root: Path
    """Paths in `diff` are relative to this folder."""
    files: tuple[FilePatch, ...]
    hunks: tuple[Hunk, ...]
    declined: tuple[Declined, ...]
    diff: str

    @property
    def empty(self) -> bool:
        return not self.files

    @property
    def left_alone(self) -> tuple[Declined, ...]:
        """The declined places that no hunk of another kind changes after all."""
        changed = {(place.path, place.line) for hunk in self.hunks for place in hunk.covers}
        kept = (one for one in self.declined if (one.location.path, one.location.line) not in changed)
        return tuple(kept) if changed else self.declined

    @property
    def by_hand(self) -> tuple[Declined, ...]:
        """The places that are left to a person: without those that only need --unsafe."""
        return tuple(one for one in self.left_alone if not one.offered)


# ------------------------------------------------------------------------------------------------ the measurement


@dataclass(frozen=True, slots=True)
class Ratio:
    """new step time ÷ old step time with its 95 % interval."""

    value: float
    low: float
    high: float

    @property
    def tells(self) -> bool:
        """Whether the interval is worth a number: not when each end is twice or half the middle, or worse."""
        return self.high <= 4 * self.low


@dataclass(frozen=True, slots=True)
class Verification:
    """What `verify` measured for one scheme (or for a change made by hand). `details` is verify.json's entry."""

    scheme: str | None
    outcome: Outcome
    numbers_equal: bool | None
    ratio: Ratio | None
    base_ns: int | None
    patched_ns: int | None
    predicted: Estimate | None
    verdict: str
    details: Mapping[str, Any] = field(default_factory=dict)

    def window(self, side: Literal["before", "after"]) -> Mapping[str, Any]:
        """The recorded window of one version, as verify.json has it; empty where none was recorded."""
        windows = self.details.get("windows")
        window = windows.get(side) if isinstance(windows, Mapping) else None
        return window if isinstance(window, Mapping) else {}


# ------------------------------------------------------------------------------------------------ for the pictures


@dataclass(frozen=True, slots=True)
class Bar:
    """One stretch of a replayed step: what ran on which lane (`host`, or a GPU stream), ns since the window's start."""

    lane: str
    name: str
    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class Drawn:
    """One steady step as the replay lays it out, without the profiler's cost; `scheme` None is the loop as it is."""

    scheme: str | None
    length_ns: int
    bars: tuple[Bar, ...]


@dataclass(frozen=True, slots=True)
class Combination:
    """What some changes buy together, replayed as one set: `chosen` are positions in `WhatIf.changes`."""

    chosen: tuple[int, ...]
    estimate: Estimate


@dataclass(frozen=True, slots=True)
class WhatIf:
    """Every combination of a few changes, each replayed on its own: gains of two changes do not add up."""

    changes: tuple[tuple[Edit, ...], ...]
    """Edits that belong together are one change."""
    combinations: tuple[Combination, ...]


@dataclass(frozen=True, slots=True)
class RankTimes:
    """One rank of a job, per step; None where it was not measured."""

    rank: int | None
    steps: int
    median_ns: int
    gpu_busy_share: float | None
    communication_ns: int | None
    """Collectives that nothing hides: a rank that others wait for has the least of it."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Everything that is known of one Run: the single argument of every report."""

    run: Run | None
    traces: tuple[Trace, ...]
    timeline: Timeline
    """Of the rank that is reported (the slowest)."""
    steps: StepTimes
    breakdown: Breakdown | None
    """None where there is no GPU work to break down (CPU-only): a bar of nothing but idle time would be made up."""
    gpu_busy_share: float | None
    idle_share: float | None
    stalls: tuple[Stall, ...]
    overlap: Overlap | None
    findings: tuple[Finding, ...]
    abstentions: tuple[Abstention, ...]
    inventory: tuple[InventoryItem, ...]
    schemes: tuple[Scheme, ...] = ()
    recommendation: Recommendation | None = None
    patches: Mapping[str, Patch] = field(default_factory=dict)
    """Per scheme id, what the patcher would write; empty where the source is not at hand."""
    verifications: tuple[Verification, ...] = ()
    interval: int = 10
    sources: Mapping[str, str] = field(default_factory=dict)
    """Text of the user's source files that locations name, by that path; only files at hand, below the project."""
    monitor: tuple[Mapping[str, Any], ...] = ()
    """The rows of monitor.jsonl, as recorded."""
    weights: Mapping[str, float] = field(default_factory=dict)
    """Percent per criterion that the schemes were ranked by; empty before they were."""
    replayed: Mapping[str, Estimate] = field(default_factory=dict)
    """Per scheme id what the replay predicts, also where a trial measured it: a prediction is graded, not replaced."""
    situation: tuple[str, ...] = ()
    """What the replay says of waits and limits of this loop, one sentence each; empty where it could not judge."""
    checked: tuple[str, ...] = ()
    """Ids of all symptoms that were looked for, found or not."""
    ranks: tuple[RankTimes, ...] = ()
    what_if: WhatIf | None = None
    measures: tuple[Measure, ...] = ()
    """What else the seeds' training speed guide names, with whether the loop has it; empty before planning."""
    exposed_together_ns: int | None = None
    """What a step would be shorter by if no wait were in it: not the sum, because a wait that goes alone often only
    uncovers the next one. None where nothing could be replayed."""
    offers: Mapping[str, tuple[Edit, ...]] = field(default_factory=dict)
    """Per scheme id, the Edits that only --unsafe makes."""
    unsafe: tuple[Hunk, ...] = ()
    """Hunks that --unsafe would add and that the replay finds worth it; empty where it was not asked, or was given."""
    drawn: tuple[Drawn, ...] = ()
    """The loop as it is and with the recommended scheme (else the fastest replayed one), for one picture."""
