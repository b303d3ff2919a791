"""Which record an event wait refers to, and on which stream that record was made.

In: a Timeline's calls with their Measures. Out: per event call the event's name, its stream and how many records lie
between. On current CUDA the trace names neither the stream of a record nor the record of a wait; then a rule stands
in, and what no rule decides is counted as unresolved.
"""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from tracelens.model import Timeline
from tracelens.replay.items import ALL_STREAMS
from tracelens.replay.measures import NONE, Measures

SKEW_NS = 5_000
"""Two clocks (host, GPU) agree to a few µs; a completion this much after the return of its wait still fits."""
BUSY_SHARE = 0.01
"""A stream with less than 1 % of the busy time holds nobody up."""


@dataclass(frozen=True, slots=True)
class EventLink:
    """An event call: which event, on which stream it is recorded or waited for, how many records ago."""

    event: str
    stream: int
    lag: int = 0


@dataclass(frozen=True, slots=True)
class Links:
    """Links per position in the calls; `unresolved` are stream waits whose record could not be told."""

    links: dict[int, EventLink]
    unresolved: frozenset[int]


@dataclass(frozen=True, slots=True)
class _Record:
    call: int
    name: str
    event: int
    stream: int
    done: int


def resolve(timeline: Timeline, measures: Measures) -> Links:
    """Tie waits to records by event id where the trace has it, else by order and by what the timing allows."""
    calls = timeline.calls()
    busy = _busy_streams(timeline.ops(), measures)
    records: list[_Record] = []
    links: dict[int, EventLink] = {}
    unresolved: set[int] = set()
    events = calls[calls["kind"].isin(("event_record", "stream_wait", "event_sync"))]
    for call, kind, event, end in zip(
        events.index.tolist(), events["kind"].tolist(), events["event"].tolist(), events["end_ns"].tolist(), strict=True
    ):
        stream = int(measures.stream[call])
        if kind == "event_record":
            source = stream if stream >= 0 else _likely_source(events, call, measures, busy)
            record = _Record(call, f"event {event if event >= 0 else 'unnamed'}", event, source, 0)
            records.append(_completed(record, measures))
            links[call] = EventLink(record.name, source)
        elif kind == "event_sync":
            links[call] = _latest(records, event, end)
        elif len(busy) > 1:
            link = _awaited(records, event, stream)
            links[call] = link
            if link.stream < 0 or not link.event:
                unresolved.add(call)
    return Links(links, frozenset(unresolved))


def _completed(record: _Record, measures: Measures) -> _Record:
    return _Record(record.call, record.name, record.event, record.stream, measures.done(record.call, record.stream))


def _busy_streams(ops: pd.DataFrame, measures: Measures) -> list[int]:
    busy = (ops["end_ns"] - ops["start_ns"]).groupby([ops["device"], ops["stream"]]).sum().sort_index()
    total = busy.sum()
    return [index for index, share in enumerate(busy.tolist()) if share >= BUSY_SHARE * total][: len(measures.streams)]


def _likely_source(events: pd.DataFrame, call: int, measures: Measures, busy: list[int]) -> int:
    """The stream of a record that names none: the only busy one, or the other one of two when the next event call
    makes the first wait. Otherwise all streams: later than the truth, never earlier."""
    if len(busy) == 1:
        return busy[0]
    later = events.loc[events.index > call]
    if len(busy) == 2 and len(later) and later["kind"].iloc[0] == "stream_wait":
        waiter = int(measures.stream[later.index[0]])
        others = [stream for stream in busy if stream != waiter]
        if waiter in busy:
            return others[0]
    return ALL_STREAMS


def _latest(records: list[_Record], event: int, end: int) -> EventLink:
    """The record an event synchronize returned for: of the same event, the latest that was complete by then."""
    same = [record for record in records if event < 0 or record.event in (event, -1)]
    for lag, record in enumerate(reversed(same)):
        if record.done == NONE or record.done <= end + SKEW_NS:
            return EventLink(record.name, record.stream, lag)
    return EventLink("", ALL_STREAMS)


def _awaited(records: list[_Record], event: int, waiter: int) -> EventLink:
    """The record a stream wait refers to: of the same event, else the latest one made on another stream."""
    same = [record for record in records if event >= 0 and record.event == event]
    candidates = same or [record for record in records if record.event < 0 and record.stream >= 0]
    for record in reversed(candidates):
        if record.stream != waiter and record.stream >= 0:
            later = sum(other.name == record.name and other.call > record.call for other in records)
            return EventLink(record.name, waiter, later)
    return EventLink("", waiter)
