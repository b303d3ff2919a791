"""One rank's trace as columns, and the queryable picture of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from tracelens.messages import say
from tracelens.model.slow_steps import SlowRows
from tracelens.model.table import TraceTable

if TYPE_CHECKING:  # pandas and numpy cost 0.4 s to import; `tracelens --help` must not pay that
    import numpy as np
    import pandas as pd

StepSource = Literal["profiler_step", "tracelens", "dataloader", "optimizer", "cycle", "none"]


MOST_UNMATCHED = 0.01
"""Share of launches without GPU work above which rows are missing. Whole files have none, but for lost buffers."""


@dataclass(frozen=True, slots=True)
class Completeness:
    """What of a recording is not in its file."""

    ended_early: bool = False
    """The file stops before the end of its events: a killed job, a full disk, a damaged archive."""
    lost_events: int = 0
    """Events that are damaged beyond repair."""
    launches: int = 0
    """Calls that always leave a row of GPU work: launches and copies."""
    unmatched_launches: int = 0
    """Those whose GPU work is not in the file."""
    copies: int = 0
    unmatched_copies: int = 0
    """The copies among them."""

    @property
    def host_is_whole(self) -> bool:
        """Whether all that was recorded of the host is there."""
        return not self.ended_early and not self.lost_events

    @property
    def reason(self) -> str:
        """What is missing, as the beginning of a sentence; "" where nothing is."""
        if self.ended_early:
            return say("the file ends early")
        launches, unmatched = self.launches, self.unmatched_launches
        if launches and launches == unmatched:
            return say(
                "the GPU rows are missing: none of the {launches} launches and copies has one", launches=launches
            )
        if unmatched > MOST_UNMATCHED * launches:
            return say(
                "GPU rows are missing: {unmatched} of {launches} launches and copies have none",
                unmatched=unmatched,
                launches=launches,
            )
        if self.copies and self.copies == self.unmatched_copies:
            return say("the GPU rows of all {copies} copies are missing", copies=self.copies)
        if self.lost_events:
            return say("{count} damaged events could not be read", count=self.lost_events)
        return ""


@dataclass(frozen=True, slots=True)
class Coverage:
    """How much of a recording can be judged: by default all of it."""

    reason: str = ""
    """What is missing, as the beginning of a sentence; "" where the recording is whole."""
    span_ns: tuple[int, int] | None = None
    """From the first to the last step that is complete on host and GPU; None: none is, or the recording is whole."""
    complete_steps: int = 0
    steps: int = 0

    @property
    def whole(self) -> bool:
        return not self.reason

    @property
    def judged(self) -> bool:
        """Whether anything can be said of a step."""
        return self.whole or self.complete_steps > 0


@dataclass(frozen=True, slots=True)
class Trace:
    """One rank's duration events as columns of equal length, ordered by start.

    `columns` (numpy): start_ns i8, end_ns i8, category i2 (code into `categories`), name i4 (code into `names`),
    pid i8, tid i8, stream i4 (-1 none), device i4 (-1), correlation (-1), external_id (-1), bytes i8 (-1), and what
    only some rows have: sequence i8 (autograd's), sync_kind, wait_stream i4, wait_event i8, wait_record (correlation of
    the event's record), graph i8 (-1 each where absent). Ids without a width are i4 where all fit, else i8.
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
    completeness: Completeness = Completeness()
    program: Literal["cpp"] | None = None
    """`cpp`: a training of which no row is Python's. None: a Python program, or too little is recorded to tell."""

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
    """The tables of a Timeline; integer ns, row order by start. Rows are referred to by position.

    steps   number, start_ns, end_ns, kept, attributed           — a step is [start, end) on the host clock
    calls   thread, name, kind, start_ns, end_ns, correlation, stream, event, record, op, ops, step
            kind: launch copy memset graph_launch device_sync stream_sync event_sync event_record stream_wait
            alloc free event_query other. stream: of the launched op, or the one waited for (-1 all or unknown).
            record: position of the call that recorded the event it refers to (-1 unknown, -2 before the trace).
            op: position of its first GPU op (-1 none), ops: how many. step: position in steps (-1 outside)
    ops     kind (kernel copy memset collective), direction (h2d d2h d2d p2p or ""), memory (pageable pinned unknown
            or ""), name, device, stream, start_ns, end_ns, bytes (-1 unknown), call (-1 none), step (that of its
            launch)
    waits   call, copy (position in calls of the copy that this synchronize only completes, -1 none: the two are one
            call of the user's, `.item()` or a blocking `.to(device)`), api, kind (WaitKind), thread, stream, start_ns,
            end_ns, wait_ns, gpu_idle_ns, step, window_edge, path, line, function (None unknown), location_source
            (mark sample clock forward stack none), user_call (None unknown)
    gaps    device, start_ns, end_ns, next_op, cause (sync dataloader host launch other), wait (position in waits
            that owns it, -1 none), step
    loader  thread, start_ns, end_ns, step, name             — the main thread inside DataLoader.__next__
    """

    steps: TraceTable
    calls: TraceTable
    ops: TraceTable
    waits: TraceTable
    gaps: TraceTable
    loader: TraceTable


@dataclass(frozen=True, slots=True)
class Timeline:
    """The queryable picture of one Trace. Built once by `tracelens.trace.timeline.build`, read-only: the methods
    return DataFrames of their own, for people; what the commands compute, they compute from `tables`."""

    trace: Trace
    tables: Tables
    step_source: StepSource
    main_thread: int | None
    """The thread that marks the steps and issues the training loop's calls."""
    autograd_threads: tuple[int, ...]
    notes: tuple[str, ...] = ()
    unknown_waits: tuple[str, ...] = ()
    """Names of calls that wait by their name, of a runtime whose calls are not in the table of `cuda_api`."""
    coverage: Coverage = Coverage()
    """Of an incomplete recording, the steps that are complete; only these are kept."""
    slow: SlowRows | None = None
    """Steps that come now and then and take much longer than the others; None where there are none to speak of."""

    def steps(self) -> pd.DataFrame:
        """One row per training step; `kept` rows enter the statistics."""
        return self.tables.steps.frame()

    def calls(self) -> pd.DataFrame:
        """CUDA (or HIP) API calls of every thread."""
        return self.tables.calls.frame()

    def ops(self) -> pd.DataFrame:
        """GPU work: kernels, copies, memsets, collectives."""
        return self.tables.ops.frame()

    def syncs(self) -> pd.DataFrame:
        """Host waits: synchronize calls and blocking copies."""
        return self.tables.waits.frame()

    def idle_gaps(self) -> pd.DataFrame:
        """Stretches in which a device ran nothing, each with exactly one cause."""
        return self.tables.gaps.frame()

    def loader_waits(self) -> pd.DataFrame:
        """Time the training loop spent inside the DataLoader's `__next__`."""
        return self.tables.loader.frame()

    def copies(self) -> pd.DataFrame:
        """GPU ops that are copies."""
        ops = self.ops()
        return ops[ops["kind"] == "copy"]

    def streams(self) -> pd.DataFrame:
        """Per (device, stream): number of ops and busy time (`ops`, `busy_ns`; ops on one stream do not overlap)."""
        ops = self.ops().assign(busy_ns=self.tables.ops["end_ns"] - self.tables.ops["start_ns"])
        grouped = ops.groupby(["device", "stream"], observed=True)["busy_ns"]
        return grouped.agg(ops="size", busy_ns="sum").reset_index()
