"""Decode the text of trace events into one tuple per field.

In: JSON text of whole events. Out: an `EventBatch` of `EventColumns`, without a Python loop over events: msgspec
decodes, `astuple` and `zip` turn events into columns, all in C. The phase (`ph`) is msgspec's tag, so that flow arrows,
labels and counters cost one empty object each.
"""

from __future__ import annotations

import functools
import operator
import string
import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import compress, repeat
from typing import Any, Literal

import msgspec
import numpy as np
import numpy.typing as npt

Number = int | float | str | None
Values = tuple[Any, ...]
Whole = npt.NDArray[np.signedinteger[Any]]

UNKNOWN_ID = -1
EXACT_FROM = 2.0**43
"""Microseconds above which a double resolves less than 1 ns; relative timestamps stay below (3 months are 2**42.8)."""
NOTHING = msgspec.Raw(b"")


class EventArguments(msgspec.Struct, gc=False, frozen=True):
    """The arguments that we use, in every spelling seen; strings occur where numbers are meant (ROCm). The common ones
    come first and in Kineto's order, in which the decoder looks for them."""

    external_id: Number = msgspec.field(name="External id", default=UNKNOWN_ID)
    device: Number = UNKNOWN_ID
    stream: Number = UNKNOWN_ID
    correlation: Number = UNKNOWN_ID
    bytes: Number = UNKNOWN_ID
    sequence: Number = msgspec.field(name="Sequence number", default=UNKNOWN_ID)
    external_id_2021: Number = msgspec.field(name="external id", default=UNKNOWN_ID)
    bytes_2021: Number = msgspec.field(name="Bytes", default=UNKNOWN_ID)
    size: Number = UNKNOWN_ID
    sync_kind: str | int | None = msgspec.field(name="cuda_sync_kind", default=UNKNOWN_ID)
    wait_stream: Number = msgspec.field(name="wait_on_stream", default=UNKNOWN_ID)
    wait_event: Number = msgspec.field(name="wait_on_cuda_event_id", default=UNKNOWN_ID)
    wait_record: Number = msgspec.field(name="wait_on_cuda_event_record_corr_id", default=UNKNOWN_ID)
    graph: Number = msgspec.field(name="graph id", default=UNKNOWN_ID)
    shapes: msgspec.Raw = msgspec.field(name="Input Dims", default=NOTHING)
    shapes_2021: msgspec.Raw = msgspec.field(name="Input dims", default=NOTHING)


NO_ARGS = EventArguments()
ARGUMENTS = EventArguments.__struct_fields__


class TimedEvent(msgspec.Struct, gc=False):
    """An event with a time."""

    cat: str | None = None
    name: str | int | float | None = None
    pid: Number = UNKNOWN_ID
    tid: Number = UNKNOWN_ID
    ts: Number = None
    dur: Number = None
    args: EventArguments = NO_ARGS


class CompleteEvent(TimedEvent, gc=False, tag="X", tag_field="ph"):
    """A complete event."""


class BeginEvent(TimedEvent, gc=False, tag="B", tag_field="ph"):
    """The first half of a pair; `E` is the other."""


class EndEvent(TimedEvent, gc=False, tag="E", tag_field="ph"):
    """The end of the latest event that began on its thread and did not end yet."""


class _Exact(TimedEvent, gc=False):
    """With the digits of `ts`, where a double would lose nanoseconds."""

    ts: msgspec.Raw = msgspec.Raw(b"null")  # type: ignore[assignment]


class _ExactComplete(_Exact, gc=False, tag="X", tag_field="ph"):
    """`CompleteEvent`, exact."""


class _ExactBegin(_Exact, gc=False, tag="B", tag_field="ph"):
    """`BeginEvent`, exact."""


class _ExactEnd(_Exact, gc=False, tag="E", tag_field="ph"):
    """`EndEvent`, exact."""


class AnyPhase(TimedEvent, gc=False):
    """For files whose phases are missing, odd or no text: slower, and never wrong."""

    ph: str = ""


class _ExactAnyPhase(_Exact, gc=False):
    ph: str = ""


_PHASES = sorted({*string.ascii_letters, *"(),=+-?"} - {*"XBE"})
_OTHERS = tuple(msgspec.defstruct(f"_Phase{ord(phase)}", (), tag=phase, tag_field="ph", gc=False) for phase in _PHASES)


def _decoder(*kinds: type[msgspec.Struct]) -> Callable[[bytes], list[Any]]:
    union = functools.reduce(operator.or_, kinds)
    decoder: msgspec.json.Decoder[list[Any]] = msgspec.json.Decoder(list[union])  # type: ignore[valid-type]
    return decoder.decode


@dataclass(frozen=True, slots=True)
class EventColumns:
    """Events of one phase, one tuple per field, all of one length; times that are all integers as an array. `args` in
    the order of `ARGUMENTS`."""

    cat: Values = ()
    name: Values = ()
    pid: Values = ()
    tid: Values = ()
    ts: Values | Whole = ()
    dur: Values | Whole = ()
    args: tuple[Values, ...] = ()

    def __len__(self) -> int:
        return len(self.ts)


NO_EVENTS = EventColumns()


@dataclass(frozen=True, slots=True)
class EventBatch:
    """Complete events, and the halves of pairs in the order of the file."""

    spans: EventColumns = NO_EVENTS
    halves: EventColumns = NO_EVENTS
    begins: tuple[bool, ...] = ()
    """Of each half: whether it begins or ends."""

    def loses_digits(self) -> bool:
        """Whether a double cannot tell the nanoseconds of one of the times."""
        mixed = [rows.ts for rows in (self.spans, self.halves) if not isinstance(rows.ts, np.ndarray)]
        return any(type(time) is float and abs(time) >= EXACT_FROM for times in mixed for time in times)


@dataclass(frozen=True, slots=True)
class BatchDecoder:
    """From the text of an array of events to a Batch; those without a duration are left out."""

    tagged: Callable[[bytes], list[Any]]
    """The fast way; `any_phase` takes every phase."""
    any_phase: Callable[[bytes], list[Any]]
    span: type[TimedEvent]
    begin: type[TimedEvent]
    end: type[TimedEvent]

    def batch(self, array: bytes) -> EventBatch:
        """Raises one of msgspec's errors, or UnicodeDecodeError or RecursionError, where something is damaged."""
        try:
            events = self.tagged(array)
        except FAILURES:
            return by_phase(self.any_phase(array))
        kinds = [*map(type, events)]
        spans = _rows([*compress(events, map(operator.is_, kinds, repeat(self.span)))])
        if self.begin not in kinds and self.end not in kinds:
            return EventBatch(spans)
        begins = tuple(kind is self.begin for kind in kinds if kind is self.begin or kind is self.end)
        halves = [event for event in events if type(event) is self.begin or type(event) is self.end]
        return EventBatch(spans, _rows(halves), begins)


FAILURES = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
PLAIN = BatchDecoder(
    _decoder(CompleteEvent, BeginEvent, EndEvent, *_OTHERS), _decoder(AnyPhase), CompleteEvent, BeginEvent, EndEvent
)
EXACT = BatchDecoder(
    _decoder(_ExactComplete, _ExactBegin, _ExactEnd, *_OTHERS),
    _decoder(_ExactAnyPhase),
    _ExactComplete,
    _ExactBegin,
    _ExactEnd,
)


def by_phase(events: Sequence[Any]) -> EventBatch:
    """A Batch of events of any phase."""
    spans = [event for event in events if event.ph == "X"]
    halves = [event for event in events if event.ph in ("B", "E")]
    return EventBatch(_rows(spans), _rows(halves), tuple(event.ph == "B" for event in halves))


def _rows(events: list[Any]) -> EventColumns:
    if not events:
        return NO_EVENTS
    cat, name, pid, tid, ts, dur, args, *_ = zip(*map(msgspec.structs.astuple, events), strict=True)
    return EventColumns(cat, name, pid, tid, whole(ts), whole(dur), _arguments(args))


def whole(values: Values, width: Literal["i", "q"] = "q") -> Values | Whole:
    """As an array where all are integers of 64 bits (`i`: 32): `struct` takes nothing else, and faster than numpy."""
    try:
        return np.frombuffer(struct.pack(f"{len(values)}{width}", *values), dtype=np.dtype(width))
    except struct.error:
        return values


def _arguments(args: Iterable[EventArguments]) -> tuple[Values, ...]:
    return tuple(zip(*map(msgspec.structs.astuple, args), strict=True))
