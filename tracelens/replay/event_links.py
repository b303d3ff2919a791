"""Which `cudaEventRecord` an event wait refers to, and on which stream that record was made.

In: a Timeline's calls with their CallTimings. Out: per event call the event's name, its stream and how many records lie
between. Traces of current CUDA versions name neither the stream of a record nor the record of a wait. Two rules stand
in: a record is made on the stream to which its thread launched last, and a wait refers to the record whose completion
the next work of the waiting stream followed most closely. A wait that no rule decides is counted as unresolved.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import numpy as np

from tracelens.model import Timeline, TraceTable
from tracelens.replay.call_timings import NOT_LAUNCHED, CallTimings
from tracelens.replay.replay_trace import ALL_STREAMS
from tracelens.trace import event_records
from tracelens.trace.streams import busy_ns, distinct_streams
from tracelens.trace.tables import among

Array = np.ndarray[Any, np.dtype[np.int64]]
Bools = np.ndarray[Any, np.dtype[np.bool_]]

SKEW_NS = 5_000
"""Two clocks (host, GPU) agree to a few µs; a completion this much after the return of its wait still fits."""
BUSY_SHARE = 0.01
"""A stream with less than 1 % of the busy time delays no other stream."""
MOST_RECORDS = 60
"""A wait refers to one of the latest records; the replay keeps this many per event."""


@dataclass(frozen=True, slots=True)
class EventLink:
    """An event call: which event, on which stream it is recorded or waited for, how many records ago."""

    event: str
    stream: int
    lag: int = 0


NOTHING = EventLink("nothing", ALL_STREAMS)
"""A wait for work that is done in any case: from before the recording, of an idle stream, or of the waiting stream."""
NOBODY = -1
"""No stream wait is the next event call."""
IDLE = -2
"""In place of a stream that runs nothing."""


@dataclass(frozen=True, slots=True)
class EventLinks:
    """Event links by position in the calls; `unresolved` are stream waits whose record is unknown, and have none."""

    links: dict[int, EventLink]
    unresolved: Array


@dataclass(frozen=True, slots=True)
class _Record:
    call: int
    name: str
    event: int
    stream: int
    done: int
    number: int
    """How many records of the same name were made before."""


def resolve(timeline: Timeline, timings: CallTimings) -> EventLinks:
    """Tie waits to records by event id where the trace has it, else by order and by what the timing allows."""
    resolver = _Resolver(timeline, timings)
    calls = timeline.tables.calls
    numbers = np.flatnonzero(among(calls["kind"], "event_record", "stream_wait", "event_sync"))
    events = calls[numbers]
    following = np.append(np.where(among(events["kind"], "stream_wait"), numbers, NOBODY)[1:], NOBODY)[: len(numbers)]
    tied = ~resolver.says_nothing(events, numbers)
    columns = [events[name][tied].tolist() for name in ("event", "end_ns", "thread", "record")]
    for call, after, kind, event, end, thread, record in zip(
        numbers[tied].tolist(), following[tied].tolist(), events["kind"][tied], *columns, strict=True
    ):
        if kind == "event_record":
            resolver.add_record(call, event, thread, after)
        elif record != event_records.UNKNOWN:
            resolver.link_recorded_use(call, kind, record)
        elif kind == "event_sync":
            resolver.links[call] = resolver.latest_record(event, end)
        else:
            resolver.link_stream_wait(call, event)
    return EventLinks(resolver.links, np.array([*resolver.silent.tolist(), *resolver.unresolved], dtype=np.int64))


class _Resolver:
    """The records seen so far, and what was made of each event call."""

    def __init__(self, timeline: Timeline, timings: CallTimings) -> None:
        calls = timeline.tables.calls
        self.timings = timings
        self.busy = _busy_streams(timeline.tables.ops, timings)
        self.names_streams = "sync_events" in timeline.trace.signals
        self.links: dict[int, EventLink] = {}
        self.unresolved: list[int] = []
        self.silent = np.empty(0, dtype=np.int64)
        self.records: list[_Record] = []
        self.by_call: dict[int, _Record] = {}
        self.steps, self.of_streams = calls["step"], calls["stream"]
        self.places: dict[tuple[str, int], int] = defaultdict(int)
        self.first: dict[tuple[str, int], list[int]] = defaultdict(list)
        self.own = calls["record"]
        self.running = set(timeline.tables.ops["stream"].tolist())
        self.numbers: dict[str, int] = defaultdict(int)
        launched = timings.op_end >= 0
        self.launches = {stream: np.flatnonzero(launched & (timings.stream == stream)) for stream in self.busy}
        threads = calls["thread"]
        self.by_thread: dict[Any, Any] = {
            thread: np.flatnonzero(launched & (threads == thread)) for thread in np.unique(threads)
        }

    def add_record(self, call: int, event: int, thread: Any, following: int) -> None:
        stream = int(self.timings.stream[call])
        source = stream if stream >= 0 else self._likely_source(call, thread, following)
        own = self.own[call] == call
        if own and self.of_streams[call] >= 0 and int(self.of_streams[call]) not in self.running:
            source = IDLE
        named = f"{event if event >= 0 else 'unnamed'}"
        # A script may make a new event per step: what it is in its step names a record for all steps.
        name = f"record {self._place('record', call)}" if own else f"event {named}"
        done = NOT_LAUNCHED if source == IDLE else self.timings.done(call, source)
        made = self.by_call[call] = _Record(call, name, event, source, done, self.numbers[name])
        if source == IDLE:
            return
        self.records.append(made)
        self.numbers[name] += 1
        self.links[call] = EventLink(name, source)

    def _place(self, kind: str, call: int) -> int:
        """How many of its kind the step has seen."""
        key = kind, int(self.steps[call])
        self.places[key] += 1
        return self.places[key]

    def link_recorded_use(self, call: int, kind: str, record: int) -> None:
        """A wait of which the recording says what it waits for."""
        place = kind, self._place(kind, call)
        made = self.by_call.get(record)
        if made is None:  # recorded before the trace began: the same place of a later step tells what it was
            self.first[place].append(call)
            self.links[call] = NOTHING
            return
        waiter = int(self.timings.stream[call]) if kind == "stream_wait" else made.stream
        idle = made.stream == IDLE or (kind == "stream_wait" and waiter in (made.stream, ALL_STREAMS))
        self.links[call] = NOTHING if idle else EventLink(made.name, waiter, self._lag(made))
        for earlier in self.first.pop(place, ()):
            self.links[earlier] = self.links[call]

    def latest_record(self, event: int, end: int) -> EventLink:
        """The record an event synchronize returned for: of the same event, the latest that was complete by then."""
        for record in reversed(self.records):
            same = event < 0 or record.event in (event, -1)
            if same and (record.done == NOT_LAUNCHED or record.done <= end + SKEW_NS):
                return EventLink(record.name, record.stream, self._lag(record))
        return EventLink("", ALL_STREAMS)

    def says_nothing(self, events: TraceTable, calls: Array) -> Bools:
        """Which event calls are stream waits that are as good as not recorded: of a stream without work, where there
        is nothing to tie; or with neither stream nor event, which are `unresolved`. In some traces most are."""
        unsaid = among(events["kind"], "stream_wait") & (events["record"] == event_records.UNKNOWN)
        waiters = self.timings.stream[calls]
        idle = ~np.isin(waiters, self.busy) & ((waiters >= 0) | self.names_streams)
        nothing = unsaid & (idle | (len(self.busy) < 2))
        nameless = unsaid & ~nothing & (waiters < 0) & (events["event"] < 0)
        self.silent = calls[nameless]
        return np.asarray(nothing | nameless, dtype=np.bool_)

    def link_stream_wait(self, call: int, event: int) -> None:
        """Tie a stream's wait to the record that it refers to."""
        waiter = int(self.timings.stream[call])
        record = self._same_event(event, waiter)
        if record is None and waiter >= 0:
            record = self._by_timing(call, waiter)
        if record is None or waiter < 0:
            self.unresolved.append(call)
        else:
            self.links[call] = EventLink(record.name, waiter, self._lag(record))

    def _lag(self, record: _Record) -> int:
        return self.numbers[record.name] - 1 - record.number

    def _same_event(self, event: int, waiter: int) -> _Record | None:
        if event < 0:
            return None
        same = (record for record in reversed(self.records) if record.event == event)
        return next((record for record in same if record.stream not in (waiter, ALL_STREAMS)), None)

    def _by_timing(self, call: int, waiter: int) -> _Record | None:
        """The record, made on another stream, that the next work of the waiting stream followed most closely."""
        own = self.launches[waiter]
        position = int(np.searchsorted(own, call))
        if position == len(own):
            return None
        start = int(self.timings.op_start[own[position]])
        fits = [
            record
            for record in self.records[-MOST_RECORDS:]
            if record.stream not in (waiter, ALL_STREAMS) and record.done <= start + SKEW_NS
        ]
        return max(fits, key=lambda record: (record.done, record.call), default=None)

    def _likely_source(self, call: int, thread: Any, following: int) -> int:
        """The stream of a record that names none: the only busy one; the other one of two when the next event call
        makes the first wait; else the one its thread launched to last. All streams (never earlier) if there is none."""
        if len(self.busy) == 1:
            return self.busy[0]
        if len(self.busy) == 2 and following != NOBODY:
            waiter = int(self.timings.stream[following])
            if waiter in self.busy:
                return next(stream for stream in self.busy if stream != waiter)
        own = self.by_thread[thread]
        position = int(np.searchsorted(own, call))
        return int(self.timings.stream[own[position - 1]]) if position else ALL_STREAMS


def _busy_streams(ops: TraceTable, timings: CallTimings) -> list[int]:
    known, position = distinct_streams(ops)
    busy = busy_ns(ops, position, len(known))
    total = busy.sum()
    return [index for index, share in enumerate(busy.tolist()) if share >= BUSY_SHARE * total][: len(timings.streams)]
