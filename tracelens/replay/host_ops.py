"""The host operations of each step: what the training loop called, in order, with its waits taken out.

In: a Timeline, its CallTimings and EventLinks. Out: the steps of a ReplayTrace. The main and the autograd threads form
one sequence: during `backward` the main thread is blocked until the autograd thread is done, so their calls follow
one another, and the hand-off between them is host time like any other. Calls of other threads that start GPU work keep
their place in that order and take no time of the sequence; the other calls of those threads are left out.

Most calls only launch. They become rows of OpColumns, without a Python object each; HostOps are made of what Edits may
change: waits, copies, events, the loader.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from tracelens.model import Timeline
from tracelens.replay.calibration import Calibration
from tracelens.replay.call_columns import HostCall, call_columns
from tracelens.replay.call_timings import LONGEST_RETURN_NS, NOT_LAUNCHED, CallTimings
from tracelens.replay.event_links import EventLinks
from tracelens.replay.host_sequence import LOADER, REST, HostOrder, HostSequence, StepSpan
from tracelens.replay.replay_trace import (
    ALL_STREAMS,
    Bools,
    Engine,
    HostOp,
    Integers,
    OpBlock,
    OpColumns,
    RecordedStep,
    in_blocks,
)

_ENGINES: dict[str, Engine] = {"h2d": "h2d", "d2h": "d2h"}
_WAITS = ("device_sync", "stream_sync", "event_sync")


class _HostTime(NamedTuple):
    """Host time of a call and of what precedes it: three fields of a HostOp."""

    gap_ns: int
    issue_ns: int
    rows: int


class HostOpBuilder:
    """Builds the steps of a ReplayTrace from columns that are looked up once."""

    def __init__(self, timeline: Timeline, timings: CallTimings, links: EventLinks) -> None:
        self.timings, self.links = timings, links
        self.costs: Calibration = timings.calibration
        self.calls = call_columns(timeline, timings)
        self.order = HostOrder(timeline, self.calls)
        self.editable = self._editable_calls()
        self.records: dict[str, list[int]] = defaultdict(list)
        recording = self.calls.of_kind("event_record")
        for position in sorted(links.links):
            if recording[position]:
                self.records[links.links[position].event].append(position)
        waits = timeline.tables.waits
        self.copies = {
            call: copy for call, copy in zip(waits["call"].tolist(), waits["copy"].tolist(), strict=True) if copy >= 0
        }
        self.all_streams = self.calls.of_kind("device_sync")
        self.returns = self._typical_return()

    def steps(self, spans: Iterable[StepSpan]) -> tuple[RecordedStep, ...]:
        """The HostOps and OpBlocks of each step."""
        sequences = [self.order.sequence(span) for span in spans]
        inside = [in_blocks(self._plain(sequence.call)) for sequence in sequences]
        columns = self._columns(sequences, inside)
        blocks = map(OpBlock, [columns] * (len(columns.edges) - 1), range(len(columns.edges) - 1))
        return tuple(
            tuple(self._elements(sequence, rows, blocks)) for sequence, rows in zip(sequences, inside, strict=True)
        )

    def _editable_calls(self) -> Bools:
        """Calls that are more than launches and host work, by position."""
        calls = self.calls
        linked = np.zeros(len(calls.launched), dtype=np.bool_)
        recording = calls.of_kind("event_record")
        for position, link in self.links.links.items():
            linked[position] = recording[position] or (bool(link.event) and link.stream >= 0)
        linked &= recording | calls.of_kind("stream_wait")
        return calls.copies | (~calls.launched & (calls.of_kind(*_WAITS) | linked))

    def _plain(self, call: Integers) -> Bools:
        plain: Bools = call != LOADER
        made = call >= 0
        plain[made] = ~self.editable[call[made]]
        return plain

    def _columns(self, sequences: list[HostSequence], inside: list[Bools]) -> OpColumns:
        """The rows of all OpBlocks, step by step."""
        calls, timings = self.calls, self.timings
        call, gap, issue, rows, detached = (
            np.concatenate([getattr(sequence, name)[own] for sequence, own in zip(sequences, inside, strict=True)])
            for name in ("call", "gap_ns", "issue_ns", "rows", "detached")
        )
        made = call >= 0
        launch = made.copy()
        launch[made] = calls.launched[call[made]]
        launched = call[launch]
        issue[launch] = np.where(timings.blocked[launched], self.costs.launch_issue_ns, issue[launch])

        def column(chosen: Bools, values: Integers, otherwise: int) -> Integers:
            out = np.full(len(call), otherwise, dtype=np.int64)
            out[chosen] = values
            return out

        return OpColumns(
            launch=launch,
            gap_ns=gap,
            issue_ns=issue,
            rows=rows,
            stream=column(launch, timings.stream[launched], ALL_STREAMS),
            duration_ns=column(launch, (timings.op_end - timings.op_start)[launched], 0),
            latency_ns=column(launch, timings.latency[launched], 0),
            spacing_ns=column(launch, timings.spacing[launched], 0),
            wait=np.where(detached, -1, column(made, calls.wait[call[made]], -1)),
            call=np.where(made, call, -1),
            detached=detached,
            name=column(made, calls.name[call[made]], 0),
            op=column(launch, calls.op[launched], 0),
            words=calls.words,
            edges=_edges(inside),
        )

    def _elements(self, sequence: HostSequence, inside: Bools, blocks: Iterator[OpBlock]) -> Iterator[HostOp | OpBlock]:
        own = np.flatnonzero(~inside)
        copied = {int(call) for call in sequence.call[own] if call >= 0 and self.calls.copies[call]}
        called = set(sequence.call.tolist()) if copied else set()
        pair_of = {call: copy for call, copy in self.copies.items() if call in called and copy in copied}
        pair_of |= {copy: copy for copy in pair_of.values()}
        following = np.append(own[1:], len(inside))
        for position, after in zip(own.tolist(), following.tolist(), strict=True):
            op = self._host_op(sequence, position)
            yield op._replace(pair=pair_of[op.call]) if op.call in pair_of else op
            if after > position + 1:
                yield next(blocks)

    def _host_op(self, sequence: HostSequence, position: int) -> HostOp:
        number = int(sequence.call[position])
        columns = (sequence.gap_ns, sequence.issue_ns, sequence.rows)
        host = _HostTime(*(int(column[position]) for column in columns))
        if number == REST:
            return HostOp("work", *host)
        if number == LOADER:
            return HostOp("loader", *host, name="DataLoader")
        call = self.calls.call(number)
        if sequence.detached[position]:
            return self._launch(call, host)._replace(detached=True, wait=-1)
        return self._item(call, host)

    def _item(self, call: HostCall, host: _HostTime) -> HostOp:
        if self.calls.launched[call.position]:
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

    def _launch(self, call: HostCall, host: _HostTime) -> HostOp:
        at = call.position
        timings = self.timings
        return HostOp(
            kind="launch",
            gap_ns=host.gap_ns,
            issue_ns=self.costs.launch_issue_ns if timings.blocked[at] else host.issue_ns,
            rows=host.rows,
            stream=int(timings.stream[at]),
            duration_ns=int(timings.op_end[at] - timings.op_start[at]),
            latency_ns=int(timings.latency[at]),
            spacing_ns=int(timings.spacing[at]),
            engine=_ENGINES.get(call.direction, ""),
            size=call.size if call.size > 0 else 0,
            wait=call.wait,
            call=at,
            name=call.name,
            op=call.op,
        )

    def _copy(self, call: HostCall, host: _HostTime) -> HostOp:
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

    def _staged(self, call: HostCall, copy: HostOp) -> HostOp:
        """From pageable memory: the call copies the source (host time), the transfer follows in stream order."""
        at, timings = call.position, self.timings
        started, done = int(timings.op_start[at]), int(timings.op_end[at])
        idle_from = max(call.start_ns, min(int(timings.previous_end[at]), call.end_ns))
        ahead = copy.size <= self.costs.staging_bytes
        issue = copy.issue_ns if ahead else call.end_ns - idle_from
        transfer = min(done - started, self.costs.pinned_duration_ns(copy.size))
        # Negative where the GPU had its bytes before the call returned: what follows then waits no longer for the copy
        # than it did, and no change is credited with a wait that nobody recorded.
        behind = done - call.end_ns
        tail = behind if started < call.end_ns or behind < 2 * transfer else transfer
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

    def _sync(self, call: HostCall, op: HostOp) -> HostOp:
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

    def _done(self, call: HostCall, stream: int, event: str, lag: int) -> int:
        if not event:
            return self.timings.done(call.position, stream)
        records = self.records.get(event, [])
        wanted = bisect_left(records, call.position) - 1 - lag
        return self.timings.done(records[wanted], stream) if wanted >= 0 else NOT_LAUNCHED

    def _typical_return(self) -> int:
        """Median time from the completion of the work to the return of the call that waited for it."""
        seen = []
        for position in np.flatnonzero(self.calls.of_kind("device_sync", "stream_sync")).tolist():
            start, end = int(self.calls.start_ns[position]), int(self.calls.end_ns[position])
            stream = ALL_STREAMS if self.all_streams[position] else int(self.timings.stream[position])
            done = self.timings.done(position, stream)
            if start < done <= end <= done + LONGEST_RETURN_NS:
                seen.append(end - done)
        return int(np.median(seen)) if seen else self.costs.sync_return_ns


def _edges(inside: list[Bools]) -> Integers:
    """Where runs of rows in OpBlocks begin among all of those rows, and where the last one ends. No run crosses the
    start of a step, because the first HostOp of a step is in no block."""
    marks = np.concatenate(inside)
    begins = np.flatnonzero(marks & ~np.append(False, marks[:-1]))
    edges: Integers = np.append(np.cumsum(marks)[begins] - 1, np.count_nonzero(marks))
    return edges
