"""What a trace event looks like to the decoder, and a batch of events as one tuple per field.

In: JSON text of whole events. Out: `Rows`, without a Python loop over events: msgspec decodes, `astuple` and `zip` turn
events into columns, all in C. The phase is a tag, so that flow arrows, labels and counters cost one empty object each.
"""

from __future__ import annotations

import functools
import operator
import string
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

Number = int | float | str | None
Values = tuple[Any, ...]

UNKNOWN_ID = -1
EXACT_FROM = 2.0**43
"""Microseconds above which a double resolves less than 1 ns; relative timestamps stay below (3 months are 2**42.8)."""
NOTHING = msgspec.Raw(b"")


class Args(msgspec.Struct, gc=False, frozen=True):
    """The arguments that we use, in every spelling seen; strings occur where numbers are meant (ROCm)."""

    correlation: Number = UNKNOWN_ID
    stream: Number = UNKNOWN_ID
    device: Number = UNKNOWN_ID
    external_id: Number = msgspec.field(name="External id", default=UNKNOWN_ID)
    external_id_2021: Number = msgspec.field(name="external id", default=UNKNOWN_ID)
    bytes: Number = UNKNOWN_ID
    bytes_2021: Number = msgspec.field(name="Bytes", default=UNKNOWN_ID)
    size: Number = UNKNOWN_ID
    sync_kind: str | int | None = msgspec.field(name="cuda_sync_kind", default=UNKNOWN_ID)
    wait_stream: Number = msgspec.field(name="wait_on_stream", default=UNKNOWN_ID)
    wait_event: Number = msgspec.field(name="wait_on_cuda_event_id", default=UNKNOWN_ID)
    wait_record: Number = msgspec.field(name="wait_on_cuda_event_record_corr_id", default=UNKNOWN_ID)
    graph: Number = msgspec.field(name="graph id", default=UNKNOWN_ID)
    shapes: msgspec.Raw = msgspec.field(name="Input Dims", default=NOTHING)
    shapes_2021: msgspec.Raw = msgspec.field(name="Input dims", default=NOTHING)


NO_ARGS = Args()
ARGUMENTS = Args.__struct_fields__


class Timed(msgspec.Struct, gc=False):
    """An event with a time."""

    cat: str | None = None
    name: str | int | float | None = None
    pid: Number = UNKNOWN_ID
    tid: Number = UNKNOWN_ID
    ts: Number = None
    dur: Number = None
    args: Args = NO_ARGS


class Span(Timed, gc=False, tag="X", tag_field="ph"):
    """A complete event."""


class Begin(Timed, gc=False, tag="B", tag_field="ph"):
    """The first half of a pair; `E` is the other."""


class End(Timed, gc=False, tag="E", tag_field="ph"):
    """The end of the latest event that began on its thread and did not end yet."""


class _Exact(Timed, gc=False):
    """With the digits of `ts`, where a double would lose nanoseconds."""

    ts: msgspec.Raw = msgspec.Raw(b"null")  # type: ignore[assignment]


class ExactSpan(_Exact, gc=False, tag="X", tag_field="ph"):
    """`Span`, exact."""


class _ExactBegin(_Exact, gc=False, tag="B", tag_field="ph"):
    """`Begin`, exact."""


class _ExactEnd(_Exact, gc=False, tag="E", tag_field="ph"):
    """`End`, exact."""


class AnyPhase(Timed, gc=False):
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
class Decoders:
    """Ways to decode the same text: `tagged` is the fast one, `any_phase` takes every phase."""

    tagged: Callable[[bytes], list[Any]]
    any_phase: Callable[[bytes], list[Any]]


PLAIN = Decoders(_decoder(Span, Begin, End, *_OTHERS), _decoder(AnyPhase))
EXACT = Decoders(_decoder(ExactSpan, _ExactBegin, _ExactEnd, *_OTHERS), _decoder(_ExactAnyPhase))


@dataclass(frozen=True, slots=True)
class Rows:
    """Events of one phase, one tuple per field, all of one length. `args` in the order of `ARGUMENTS`."""

    cat: Values = ()
    name: Values = ()
    pid: Values = ()
    tid: Values = ()
    ts: Values = ()
    dur: Values = ()
    args: tuple[Values, ...] = ()

    def __len__(self) -> int:
        return len(self.ts)


NO_ROWS = Rows()


@dataclass(frozen=True, slots=True)
class Batch:
    """Complete events, and the halves of pairs in the order of the file."""

    spans: Rows = NO_ROWS
    halves: Rows = NO_ROWS
    begins: tuple[bool, ...] = ()
    """Of each half: whether it begins or ends."""

    def loses_digits(self) -> bool:
        """Whether a double cannot tell the nanoseconds of one of the times."""
        times = (*self.spans.ts, *self.halves.ts) if self.halves.ts else self.spans.ts
        if float not in {*map(type, times)}:
            return False
        return any(abs(time) >= EXACT_FROM for time in times if type(time) is float)


def batch(events: Sequence[Any]) -> Batch:
    """Decoded events by field; those without a duration are left out."""
    found = {*map(type, events)}
    if not found <= _TAGGED:
        return _by_phase(events)
    kind = ExactSpan if ExactSpan in found else Span
    spans = [event for event in events if type(event) is kind]
    if found.isdisjoint(_BEGINS | _ENDS):
        return Batch(_rows(spans))
    halves = [event for event in events if type(event) in _BEGINS or type(event) in _ENDS]
    return Batch(_rows(spans), _rows(halves), tuple(type(event) in _BEGINS for event in halves))


_BEGINS = frozenset((Begin, _ExactBegin))
_ENDS = frozenset((End, _ExactEnd))
_TAGGED = {Span, ExactSpan} | _BEGINS | _ENDS | {*_OTHERS}


def _by_phase(events: Sequence[Any]) -> Batch:
    spans = [event for event in events if event.ph == "X"]
    halves = [event for event in events if event.ph in ("B", "E")]
    return Batch(_rows(spans), _rows(halves), tuple(event.ph == "B" for event in halves))


def _rows(events: list[Any]) -> Rows:
    if not events:
        return NO_ROWS
    cat, name, pid, tid, ts, dur, args, *_ = zip(*map(msgspec.structs.astuple, events), strict=True)
    return Rows(cat, name, pid, tid, ts, dur, _arguments(args))


def _arguments(args: Iterable[Args]) -> tuple[Values, ...]:
    return tuple(zip(*map(msgspec.structs.astuple, args), strict=True))
