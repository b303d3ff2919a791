"""The host operations of one step: what the training loop called, in order, with its waits taken out.

In: a Timeline, its CallTimings and EventLinks. Out: HostOps per kept step. The main thread and the autograd threads
form one sequence: during `backward` the main thread is blocked until the autograd thread is done, so their calls follow
one another, and the hand-off between them is host time like any other. Calls of other threads that start GPU work keep
their place in that order and take no time of the sequence; the other calls of those threads are left out.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from tracelens.model import Timeline
from tracelens.replay.calibration import Calibration
from tracelens.replay.call_timings import LONGEST_RETURN_NS, NOT_LAUNCHED, Array, CallTimings
from tracelens.replay.event_links import EventLinks
from tracelens.replay.replay_trace import ALL_STREAMS, Engine, HostOp

HOST_ROWS = ("cpu_op", "cuda_runtime", "cuda_driver", "python_function", "user_annotation")
"""Categories whose rows cost the host time when they are recorded."""
_ENGINES: dict[str, Engine] = {"h2d": "h2d", "d2h": "d2h"}
_WAITS = ("device_sync", "stream_sync", "event_sync")


class _HostCall(NamedTuple):
    """One row of the calls, with what it launched first."""

    position: int
    thread: int
    name: str
    kind: str
    start_ns: int
    end_ns: int
    direction: str
    memory: str
    size: int
    wait: int
    op: str


class _HostTime(NamedTuple):
    """Host time of a call and of what precedes it: three fields of a HostOp."""

    gap_ns: int
    issue_ns: int
    rows: int


class HostOpBuilder:
    """Builds the HostOps of each step from columns that are looked up once."""

    def __init__(self, timeline: Timeline, timings: CallTimings, links: EventLinks) -> None:
        self.timings, self.links = timings, links
        self.costs: Calibration = timings.calibration
        self.threads = {timeline.main_thread, *timeline.autograd_threads}
        self.main = timeline.main_thread
        self.calls = _calls(timeline)
        columns = (timings.stream, timings.op_start, timings.latency, timings.spacing, timings.blocked)
        self.launches = list(zip(*(column.tolist() for column in columns), strict=True))
        self.ends: list[int] = timings.op_end.tolist()
        self.records: dict[str, list[int]] = defaultdict(list)
        for position in sorted(links.links):
            if self.calls[position].kind == "event_record":
                self.records[links.links[position].event].append(position)
        self.steps = timeline.calls()["step"].to_numpy()
        waits = timeline.syncs()
        self.copies = {
            call: copy for call, copy in zip(waits["call"].tolist(), waits["copy"].tolist(), strict=True) if copy >= 0
        }
        self.edge = set(waits["call"][waits["window_edge"].to_numpy(dtype=bool)].tolist())
        self.rows: list[int] = _host_rows(timeline, self.threads).tolist()
        loader = timeline.loader_waits()
        self.loads = list(
            zip(loader["step"].tolist(), loader["start_ns"].tolist(), loader["end_ns"].tolist(), strict=True)
        )
        self.returns = self._typical_return()

    def step(self, position: int, start_ns: int, end_ns: int) -> tuple[HostOp, ...]:
        """The HostOps of one step, from its start to its end on the host's clock."""
        inside = np.flatnonzero(self.steps == position).tolist()
        calls = [self.calls[index] for index in inside if index not in self.edge]
        spans: list[tuple[int, int, _HostCall | None]] = [(call.start_ns, call.end_ns, call) for call in calls]
        own = [call for call in calls if call.thread in self.threads]
        for step, begin, end in self.loads:
            if step == position and not any(begin <= call.start_ns < end for call in own):
                spans.append((begin, end, None))
        ops: list[HostOp] = []
        cursor = start_ns
        for begin, end, call in sorted(spans, key=itemgetter(0, 1)):
            if call is not None and call.thread not in self.threads:
                ops += self._detached(call)
                continue
            until = max(cursor, end)
            host = _HostTime(max(0, begin - cursor), until - max(begin, cursor), self._rows(cursor, until))
            ops.append(HostOp("loader", *host, name="DataLoader") if call is None else self._item(call, host))
            cursor = until
        ops.append(HostOp("work", gap_ns=max(0, end_ns - cursor), rows=self._rows(cursor, end_ns)))
        return self._paired(ops)

    def _paired(self, ops: list[HostOp]) -> tuple[HostOp, ...]:
        """Give a copy and the synchronize that completes it one number, the copy's."""
        copied = {op.call for op in ops if op.engine}
        pair_of = {op.call: copy for op in ops if (copy := self.copies.get(op.call)) in copied}
        pair_of |= {copy: copy for copy in pair_of.values()}
        return tuple(op._replace(pair=pair_of[op.call]) if op.call in pair_of else op for op in ops)

    def _rows(self, start_ns: int, end_ns: int) -> int:
        return bisect_left(self.rows, end_ns) - bisect_left(self.rows, start_ns)

    def _detached(self, call: _HostCall) -> list[HostOp]:
        if self.ends[call.position] < 0:
            return []
        return [self._launch(call, _HostTime(0, 0, 0))._replace(detached=True, wait=-1)]

    def _item(self, call: _HostCall, host: _HostTime) -> HostOp:
        host = host if host.rows else host._replace(rows=1)
        if self.ends[call.position] >= 0:
            return self._copy(call, host) if call.direction in _ENGINES else self._launch(call, host)
        op = HostOp("work", *host, wait=call.wait, call=call.position, name=call.name)
        if call.kind in _WAITS:
            return self._sync(call, op)
        link = self.links.links.get(call.position)
        if call.kind == "event_record" and link is not None:
            return op._replace(kind="record", event=link.event, stream=link.stream)
        if call.kind == "stream_wait" and link is not None and link.event and link.stream >= 0:
            return op._replace(kind="stream_wait", event=link.event, stream=link.stream, lag=link.lag)
        return op

    def _launch(self, call: _HostCall, host: _HostTime) -> HostOp:
        at = call.position
        stream, started, latency, spacing, blocked = self.launches[at]
        return HostOp(
            kind="launch",
            gap_ns=host.gap_ns,
            issue_ns=self.costs.launch_issue_ns if blocked else host.issue_ns,
            rows=host.rows,
            stream=stream,
            duration_ns=self.ends[at] - started,
            latency_ns=latency,
            spacing_ns=spacing,
            engine=_ENGINES.get(call.direction, ""),
            size=call.size if call.size > 0 else 0,
            wait=call.wait,
            call=at,
            name=call.name,
            op=call.op,
        )

    def _copy(self, call: _HostCall, host: _HostTime) -> HostOp:
        """A copy between host and GPU: does its call wait, and for what?"""
        at, timings = call.position, self.timings
        copy = self._launch(call, host)
        started, done = int(timings.op_start[at]), int(timings.op_end[at])
        if call.direction == "h2d" and call.memory == "pageable":
            return self._staged(call, copy)
        waited = call.end_ns >= done
        if waited and (call.wait >= 0 or call.memory == "pageable"):
            # What the host did before the copy could start on an idle stream is issue; all else was waiting.
            issue = min(host.issue_ns, self.costs.copy_issue_ns, max(0, started - call.start_ns))
            return copy._replace(kind="blocking", issue_ns=issue, return_ns=min(call.end_ns - done, LONGEST_RETURN_NS))
        return copy

    def _staged(self, call: _HostCall, copy: HostOp) -> HostOp:
        """From pageable memory: the call copies the source (host time), the transfer follows in stream order."""
        at, timings = call.position, self.timings
        started, done = int(timings.op_start[at]), int(timings.op_end[at])
        idle_from = max(call.start_ns, min(int(timings.previous_end[at]), call.end_ns))
        ahead = copy.size <= self.costs.staging_bytes
        issue = copy.issue_ns if ahead else call.end_ns - idle_from
        transfer = min(done - started, self.costs.pinned_duration_ns(copy.size))
        tail = max(0, done - call.end_ns) if started < call.end_ns or done - call.end_ns < 2 * transfer else transfer
        latency = started - idle_from if started >= idle_from else self.costs.launch_latency_ns
        if int(timings.previous_end[at]) > call.end_ns:
            latency, tail = issue, transfer  # it ran behind queued work: its own latency was not seen
        return copy._replace(
            kind="staged",
            issue_ns=max(0, issue),
            duration_ns=transfer,
            latency_ns=min(max(0, latency), max(0, issue) + self.costs.launch_latency_ns),
            return_ns=tail,
        )

    def _sync(self, call: _HostCall, op: HostOp) -> HostOp:
        stream, event, lag = int(self.timings.stream[call.position]), "", 0
        kind: Any = "sync"
        if call.kind == "device_sync":
            stream = ALL_STREAMS
        elif call.kind == "event_sync":
            link = self.links.links.get(call.position)
            kind, event, lag = "event_sync", link.event if link else "", link.lag if link else 0
            stream = link.stream if link else ALL_STREAMS
        done = self._done(call, stream, event, lag)
        returned = call.end_ns - done
        waited = done > call.start_ns and 0 <= returned <= LONGEST_RETURN_NS
        return op._replace(
            kind=kind,
            stream=stream,
            event=event,
            lag=lag,
            issue_ns=min(op.issue_ns, self.costs.sync_issue_ns) if done > call.start_ns else op.issue_ns,
            return_ns=returned if waited or 0 <= returned < self.returns else self.returns,
        )

    def _done(self, call: _HostCall, stream: int, event: str, lag: int) -> int:
        if not event:
            return self.timings.done(call.position, stream)
        records = self.records.get(event, [])
        wanted = bisect_left(records, call.position) - 1 - lag
        return self.timings.done(records[wanted], stream) if wanted >= 0 else NOT_LAUNCHED

    def _typical_return(self) -> int:
        """Median time from the completion of the work to the return of the call that waited for it."""
        seen = []
        for call in self.calls:
            if call.kind in ("device_sync", "stream_sync"):
                stream = ALL_STREAMS if call.kind == "device_sync" else int(self.timings.stream[call.position])
                done = self.timings.done(call.position, stream)
                if call.start_ns < done <= call.end_ns <= done + LONGEST_RETURN_NS:
                    seen.append(call.end_ns - done)
        return int(np.median(seen)) if seen else self.costs.sync_return_ns


def _calls(timeline: Timeline) -> list[_HostCall]:
    calls, ops, waits = timeline.calls(), timeline.ops(), timeline.syncs()
    wait_of = dict(zip(waits["call"].tolist(), waits.index.tolist(), strict=True))
    directions, memories, sizes = ops["direction"].tolist(), ops["memory"].tolist(), ops["bytes"].tolist()
    op_names = ops["name"].astype(str).tolist()
    columns = [calls[name].tolist() for name in ("thread", "name", "kind", "start_ns", "end_ns", "op")]
    out = []
    for position, (thread, name, kind, start, end, op) in enumerate(zip(*columns, strict=True)):
        direction, memory, size = (directions[op], memories[op], int(sizes[op])) if op >= 0 else ("", "", 0)
        wait, started = wait_of.get(position, -1), op_names[op] if op >= 0 else ""
        out.append(_HostCall(position, thread, str(name), kind, start, end, direction, memory, size, wait, started))
    return out


def _host_rows(timeline: Timeline, threads: set[int | None]) -> Array:
    """Starts of all rows that the profiler recorded on the training loop's threads."""
    trace = timeline.trace
    if not len(trace.categories) or "category" not in trace.columns:
        return np.empty(0, dtype=np.int64)
    wanted = [code for code, name in enumerate(trace.categories) if name in HOST_ROWS]
    columns = trace.columns
    known = [thread for thread in threads if thread is not None]
    chosen = np.isin(columns["category"], wanted) & np.isin(columns["tid"], known)
    return np.sort(columns["start_ns"][chosen].astype(np.int64))
