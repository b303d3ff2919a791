"""Chrome trace events, decoded in batches straight from the byte stream.

In: pieces of raw text. Out: batches of `Event` and the file's other top-level keys. Text is cut at event boundaries
and decoded by msgspec; a batch that does not decode is halved until the damaged place is small, and only that place
is walked event by event (`repair.py`). So a good file pays nothing for the tolerance, and a bad one loses only what
is really broken.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import islice
from typing import Any

import msgspec

from tracelens.errors import InputError
from tracelens.trace import repair
from tracelens.trace.notes import Notes

Number = int | float | str | None


class Args(msgspec.Struct, gc=False):
    """The arguments that we use, in every spelling seen; strings occur where numbers are meant (ROCm)."""

    correlation: Number = None
    stream: Number = None
    device: Number = None
    bytes: Number = None
    external_id: Number = msgspec.field(name="External id", default=None)
    external_id_2021: Number = msgspec.field(name="external id", default=None)
    bytes_2021: Number = msgspec.field(name="Bytes", default=None)
    size: Number = None
    sync_kind: str | None = msgspec.field(name="cuda_sync_kind", default=None)
    wait_stream: Number = msgspec.field(name="wait_on_stream", default=None)
    wait_event: Number = msgspec.field(name="wait_on_cuda_event_id", default=None)
    wait_record: Number = msgspec.field(name="wait_on_cuda_event_record_corr_id", default=None)
    graph: Number = msgspec.field(name="graph id", default=None)


class Event(msgspec.Struct, gc=False):
    """One entry of `traceEvents`."""

    ph: str = ""
    cat: str | None = None
    name: str | int | float | None = None
    pid: Number = None
    tid: Number = None
    ts: Number = None
    dur: Number = None
    args: Args | None = None


class ExactEvent(msgspec.Struct, gc=False):
    """The same with `ts` as the digits of the file, where a double would lose nanoseconds."""

    ph: str = ""
    cat: str | None = None
    name: str | int | float | None = None
    pid: Number = None
    tid: Number = None
    ts: msgspec.Raw = msgspec.Raw(b"null")
    dur: Number = None
    args: Args | None = None


AnyEvent = Event | ExactEvent

BATCH = 8 << 20
"""Raw bytes decoded at once: some 30,000 events, enough to hide call costs, little beside any trace."""
WALK = 16 << 10
"""A failing stretch shorter than this is walked event by event instead of being halved again."""
HEADER_LIMIT = 256 << 20
"""More text than this without a first event is no trace; bounds memory for hostile files."""
EVENT_LIMIT = 64 << 20
"""More text than this without the end of an event is damage, not an event."""
EXACT_FROM = 2.0**43
"""Microseconds above which a double resolves less than 1 ns; relative timestamps stay below (3 months are 2**42.8)."""
PROBE = 64

BOUNDARY = re.compile(rb'\}\s*,\s*(?=\{\s*"(?:ph|name|cat|ts|pid|tid|args|dur|id|s|bp)"\s*:)')
_ARRAY = re.compile(rb'"traceEvents"\s*:\s*\[')
_BLANK = b"\xef\xbb\xbf \t\r\n"
_OVERLAP = 100
"""Bytes searched again after more were read: the key and bracket of the array may lie across the border."""
_FAILURES = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class EventReader:
    """Iterate over it for batches; `metadata` is complete once it is exhausted."""

    def __init__(self, pieces: Iterator[bytes], name: str, notes: Notes) -> None:
        self.metadata: dict[str, Any] = {}
        self.has_shapes = False
        self._pieces = pieces
        self._name = name
        self._notes = notes
        self._buffer = bytearray()
        self._carry = b""
        self._ended = False
        self._mended = 0
        self._tail = bytearray()
        self._fast: msgspec.json.Decoder[Any] = msgspec.json.Decoder(list[Event])
        self._exact: msgspec.json.Decoder[Any] = msgspec.json.Decoder(list[ExactEvent])
        self._decoder = self._fast

    def __iter__(self) -> Iterator[list[AnyEvent]]:
        self._find_array()
        size, more = BATCH, True
        while more and not self._ended and size <= EVENT_LIMIT:
            more = self._fill(size)
            cut = _last_boundary(self._buffer)
            size = BATCH if cut else 2 * size
            if cut:
                end, begin = cut
                text = bytes(memoryview(self._buffer)[:end])
                del self._buffer[:begin]
                yield from self._decode(text)
        if not self._ended:
            yield self._walk(self._carry + b"," + self._buffer, "incomplete event")
            self._buffer.clear()
            if not self._ended:
                self._notes.warn("the file ends early; all complete events before the end were read")
        self._finish()

    def _find_array(self) -> None:
        """Read up to the first event; the keys before it become metadata."""
        searched = 0
        while True:
            if not searched:
                blank = len(self._buffer) - len(self._buffer.lstrip(_BLANK))
                del self._buffer[:blank]
            start = bytes(self._buffer[:1])
            if start == b"[":
                del self._buffer[:1]
                return
            if start == b"{" and (match := _ARRAY.search(self._buffer, searched)):
                self.metadata.update(repair.top_level(bytes(self._buffer[: match.start()]), self._notes))
                del self._buffer[: match.end()]
                return
            searched = max(0, len(self._buffer) - _OVERLAP)
            if start not in (b"", b"{") or len(self._buffer) > HEADER_LIMIT or not self._grow():
                raise self._not_a_trace()

    def _not_a_trace(self) -> InputError:
        if not self._buffer:
            what = "is empty"
        elif not self._buffer.startswith(b"{"):
            what = "is not JSON"
        else:
            what = 'is JSON without "traceEvents"' if _closes(self._buffer) else "ends before its first event"
        hint = "give what torch.profiler's export_chrome_trace wrote (.json or .json.gz), or record: tracelens profile"
        return InputError(f"{self._name} {what}, so it is no trace", hint=hint)

    def _fill(self, size: int) -> bool:
        while len(self._buffer) < size:
            if not self._grow():
                return False
        return True

    def _grow(self) -> bool:
        piece = next(self._pieces, None)
        if piece is None:
            return False
        self._buffer += piece
        return True

    def _decode(self, text: bytes) -> Iterator[list[AnyEvent]]:
        """Decode a run of whole events, by halves where it fails."""
        if self._carry and not self._ended:
            batch, text = self._joined(text)
            yield batch
        if self._ended:
            self._tail += b"," + text
            return
        try:
            batch = self._decode_whole(text)
        except _FAILURES:
            middle = _middle_boundary(text) if len(text) > WALK else None
            if middle is None:
                yield self._walk(text, None)
            else:
                yield from self._decode(text[: middle[0]])
                yield from self._decode(text[middle[1] :])
            return
        self.has_shapes = self.has_shapes or b'"Input Dims"' in text or b'"Input dims"' in text
        yield batch

    def _joined(self, text: bytes) -> tuple[list[AnyEvent], bytes]:
        """Try whether the unfinished event before `text` ends within its first few; returns what is left of it."""
        near = list(islice(BOUNDARY.finditer(text), repair.MAX_JOIN))
        end, begin = (near[-1].start() + 1, near[-1].end()) if near else (len(text), len(text))
        joined, self._carry = self._carry + b"," + text[:end], b""
        return self._walk(joined, "damaged event"), text[begin:]

    def _decode_whole(self, text: bytes) -> list[AnyEvent]:
        array = b"[" + text + b"]"
        batch: list[AnyEvent] = self._decoder.decode(array)
        if self._decoder is self._fast and any(
            type(event.ts) is float and abs(event.ts) >= EXACT_FROM for event in batch[:PROBE]
        ):
            self._decoder = self._exact
            batch = self._exact.decode(array)
        return batch

    def _walk(self, text: bytes, unfinished: str | None) -> list[AnyEvent]:
        """Read event by event. `unfinished`: what an event is that the text does not finish; None: to be continued."""
        walked = repair.walk(text, BOUNDARY)
        for reason, count in walked.dropped.items():
            self._notes.drop(reason, count)
        self._mended += walked.mended
        if walked.ended:
            self._ended = True
            self._tail += walked.rest or b""
        elif walked.rest is not None and unfinished is not None:
            self._notes.drop(unfinished)
        elif walked.rest is not None:
            self._carry = walked.rest
        return [_event(value) for value in walked.values]

    def _finish(self) -> None:
        """What follows the array: more top-level keys."""
        if self._buffer:  # a cut inside the tail took the comma before it
            self._tail += b"," + self._buffer
        while self._ended and len(self._tail) < HEADER_LIMIT and (piece := next(self._pieces, None)) is not None:
            self._tail += piece
        self._buffer.clear()
        tail = bytes(self._tail).lstrip(b" \t\r\n,")
        if tail and not tail.startswith(b"}"):
            self.metadata.update(repair.top_level(b"{" + tail, self._notes))
        if self._mended:
            self._notes.warn(f"{self._mended} damaged events could be mended; their names may have lost characters")
        if self._notes.dropped:
            self._notes.warn("parts of the file are damaged; see the count of what was left out")


def _event(value: dict[str, Any]) -> Event:
    """An Event from a loosely decoded object, whatever its values are."""
    try:
        return msgspec.convert(value, Event)
    except (msgspec.ValidationError, RecursionError):
        return msgspec.convert(_plain(value), Event)


def _plain(value: dict[str, Any]) -> dict[str, Any]:
    """Only the fields we know, and only values of the types they may have."""
    args = value.get("args")
    fields = {key: value[key] for key in ("ph", "cat", "name", "pid", "tid", "ts", "dur") if _scalar(value.get(key))}
    for key in ("ph", "cat"):
        if key in fields and not isinstance(fields[key], str):
            del fields[key]
    if isinstance(args, dict):
        fields["args"] = {key: item for key, item in args.items() if _scalar(item) and key != "cuda_sync_kind"}
    return fields


def _scalar(value: object) -> bool:
    return isinstance(value, (str, int, float)) and not isinstance(value, bool)


def _last_boundary(buffer: bytearray) -> tuple[int, int] | None:
    """(end of the last event that surely is complete, start of the next); looks at the end first, where it is."""
    window = 64 << 10
    while True:
        begin = max(0, len(buffer) - window)
        last = None
        for match in BOUNDARY.finditer(buffer, begin):
            last = match
        if last is not None:
            return last.start() + 1, last.end()
        if begin == 0:
            return None
        window *= 16


def _middle_boundary(text: bytes) -> tuple[int, int] | None:
    match = BOUNDARY.search(text, len(text) // 2) or BOUNDARY.search(text)
    return (match.start() + 1, match.end()) if match else None


def _closes(buffer: bytearray) -> bool:
    try:
        json.loads(bytes(buffer).decode("utf-8", "replace"), strict=False)
    except (ValueError, RecursionError):
        return False
    return True
