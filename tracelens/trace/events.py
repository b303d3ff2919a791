"""Chrome trace events, decoded in batches straight from the byte stream.

In: pieces of raw text. Out: one `EventBatch` after the other, and the file's other top-level keys. Text is cut at event
boundaries and decoded (`event_decoder`). A run of events that does not decode is halved until the damaged part is
small, and only that part is read event by event (`repair`). An intact file therefore pays nothing for the tolerance,
and a damaged one loses only what is broken.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

import msgspec

from tracelens.errors import InputError
from tracelens.messages import say
from tracelens.trace import event_decoder, repair
from tracelens.trace.event_decoder import AnyPhase, EventBatch
from tracelens.trace.load_notes import LoadNotes

BATCH = 256 << 10
"""Raw bytes decoded at once: some 1,000 events, which stay in the cache until they are columns; 8 MiB take twice the
time."""
WALK = 16 << 10
"""Text of events shorter than this that does not decode is read event by event instead of being halved again."""
HEADER_LIMIT = 256 << 20
"""More text than this without a first event is no trace; bounds memory for hostile files."""
EVENT_LIMIT = 64 << 20
"""More text than this without the end of an event is damage, not an event."""
_NEXT = rb',\s*(?=\{\s*"(?:ph|name|cat|ts|pid|tid|args|dur|id|s|bp)"\s*:)'
BOUNDARY = re.compile(rb"\}\s*" + _NEXT)
_START = re.compile(_NEXT)
"""The same after an event that lost its end; begins with a comma, so that a million blanks are looked at once."""
_ARRAY = re.compile(rb'"traceEvents"\s*:\s*\[')
_BLANK = b"\xef\xbb\xbf \t\r\n"
_OVERLAP = 100
"""Bytes searched again after more were read: the key and bracket of the array may lie across the border."""
_ARGUMENTS = tuple(field.encode_name for field in msgspec.structs.fields(event_decoder.EventArguments))


class EventReader:
    """Iterate over it for batches; `metadata` is complete once it is exhausted."""

    def __init__(
        self, pieces: Iterator[bytes], name: str, notes: LoadNotes, keep: Callable[[list[Any]], object] | None = None
    ) -> None:
        """`keep` is given every intact event as it is: its JSON text, or the values of one that was mended."""
        self.metadata: dict[str, Any] = {}
        self._keep = keep
        self._pieces = pieces
        self._name = name
        self._notes = notes
        self._parts: list[bytes] = []
        self._carry = b""
        self._ended = False
        self.has_tail = False
        """Whether something follows the list of events; known at the end, as `metadata`."""
        self._mended = 0
        self._tail = bytearray()
        self._decoder = event_decoder.PLAIN

    @property
    def ended(self) -> bool:
        """Whether the file closes its list of events."""
        return self._ended

    def __iter__(self) -> Iterator[EventBatch]:
        self._find_array()
        size, more = BATCH, True
        while more and not self._ended and size <= EVENT_LIMIT:
            more = self._fill(size)
            cut = self._boundary()
            size = BATCH if cut else 2 * size
            if cut:
                yield from self._read(self._until(cut))
        if not self._ended:
            yield self._walk(b",".join((self._carry, *self._parts)), say("incomplete event"))
            self._parts = []
            if not self._ended:
                self._notes.warn(say("the file ends early; all complete events before the end were read"))
        self._finish()

    def _find_array(self) -> None:
        """Read up to the first event; the keys before it become metadata."""
        head, searched = bytearray(), 0
        while True:
            if not searched:
                del head[: len(head) - len(head.lstrip(_BLANK))]
            start = bytes(head[:1])
            if start == b"[":
                self._parts = [bytes(head[1:])]
                return
            if start == b"{" and (match := _ARRAY.search(head, searched)):
                self.metadata.update(repair.top_level(bytes(head[: match.start()]), self._notes))
                self._parts = [bytes(head[match.end() :])]
                return
            searched = max(0, len(head) - _OVERLAP)
            piece = next(self._pieces, None) if start in (b"", b"{") and len(head) <= HEADER_LIMIT else None
            if piece is None:
                raise self._not_a_trace(head)
            head += piece

    def _not_a_trace(self, head: bytearray) -> InputError:
        if not head:
            what = say("is empty")
        elif not head.startswith(b"{"):
            what = say("is not JSON")
        else:
            what = say('is JSON without "traceEvents"') if _closes(head) else say("ends before its first event")
        if self._notes.warnings:
            what = say("{what} ({warning})", what=what, warning=self._notes.warnings[0])
        hint = say(
            "give what torch.profiler's export_chrome_trace wrote (.json or .json.gz), or record: tracelens profile"
        )
        return InputError(say("{name} {what}, so it is no trace", name=self._name, what=what), hint=hint)

    def _fill(self, size: int) -> bool:
        """Read on until there is that much text; whether there may be more."""
        have = sum(map(len, self._parts))
        while have < size:
            piece = next(self._pieces, None)
            if piece is None:
                return False
            self._parts.append(piece)
            have += len(piece)
        return True

    def _boundary(self) -> tuple[int, int] | None:
        """The last one, in the last part."""
        cut = _last_boundary(self._parts[-1])
        if cut or len(self._parts) == 1:
            return cut
        self._parts = [b"".join(self._parts)]
        return _last_boundary(self._parts[0])

    def _until(self, cut: tuple[int, int]) -> bytes:
        """The events before the boundary as an array; what follows stays. The text is copied just this once."""
        *before, last = self._parts
        self._parts = [last[cut[1] :]]
        with memoryview(last) as view:
            return b"".join((b"[", *before, view[: cut[0]], b"]"))

    def _read(self, array: bytes) -> Iterator[EventBatch]:
        """The batches of an array; one where nothing is damaged. Apart, so that the text is given up before the next is
        read: memory that is used again costs nothing, a fresh page as much as unpacking into it."""
        batch = self._whole(array)
        yield from self._decode(array[1:-1]) if batch is None else (batch,)

    def _decode(self, text: bytes) -> Iterator[EventBatch]:
        """Decode a run of whole events, by halves where it fails."""
        if self._carry and not self._ended:
            batch, text = self._joined(text)
            yield batch
        if self._ended:
            self._tail += b"," + text
            return
        whole = self._whole(b"[" + text + b"]")
        if whole is not None:
            yield whole
            return
        middle = _middle_boundary(text) if len(text) > WALK else None
        if middle is None:
            yield self._walk(text, None)
        else:
            yield from self._decode(text[: middle[0]])
            yield from self._decode(text[middle[1] :])

    def _joined(self, text: bytes) -> tuple[EventBatch, bytes]:
        """Try whether the unfinished event before `text` ends within its first few; returns what is left of it."""
        near = list(islice(BOUNDARY.finditer(text), repair.MAX_JOIN))
        end, begin = (near[-1].start() + 1, near[-1].end()) if near else (len(text), len(text))
        joined, self._carry = self._carry + b"," + text[:end], b""
        return self._walk(joined, say("damaged event")), text[begin:]

    def _whole(self, array: bytes) -> EventBatch | None:
        """An array of whole, undamaged events; None for any other."""
        if self._carry or self._ended:
            return None
        try:
            batch = self._decoder.batch(array)
            if self._decoder is event_decoder.PLAIN and batch.loses_digits():
                self._decoder = event_decoder.EXACT
                batch = self._decoder.batch(array)
        except event_decoder.FAILURES:
            return None
        if self._keep is not None:
            self._keep(msgspec.json.decode(array, type=list[msgspec.Raw]))
        return batch

    def _walk(self, text: bytes, unfinished: str | None) -> EventBatch:
        """Read event by event. `unfinished`: what an event is that the text does not finish; None: to be continued."""
        walked = repair.walk(text, _START)
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
        if self._keep is not None:
            self._keep(walked.values)
        return event_decoder.by_phase([_event(value) for value in walked.values])

    def _finish(self) -> None:
        """What follows the array: more top-level keys."""
        for part in self._parts:
            self._tail += b"," + part  # a cut inside the tail took the comma before it
        while self._ended and len(self._tail) < HEADER_LIMIT and (piece := next(self._pieces, None)) is not None:
            self._tail += piece
        self._parts = []
        tail = bytes(self._tail).lstrip(b" \t\r\n,")
        self.has_tail = bool(tail)
        if tail and not tail.startswith(b"}"):
            self.metadata.update(repair.top_level(b"{" + tail, self._notes))
        if self._mended:
            self._notes.warn(
                say(
                    "{mended} damaged events could be mended; their names may have lost characters", mended=self._mended
                )
            )


def _event(value: dict[str, Any]) -> AnyPhase:
    """An event from a loosely decoded object, whatever its values are."""
    try:
        return msgspec.convert(value, AnyPhase)
    except (msgspec.ValidationError, UnicodeEncodeError, RecursionError):
        return msgspec.convert(_plain(value), AnyPhase)


def _plain(value: dict[str, Any]) -> dict[str, Any]:
    """Only the fields we know, and only values of the types they may have."""
    args = value.get("args")
    plain = _scalars(value, ("ph", "cat", "name", "pid", "tid", "ts", "dur"))
    for key in ("ph", "cat"):
        if key in plain and not isinstance(plain[key], str):
            del plain[key]
    if isinstance(args, dict):
        plain["args"] = _scalars(args, _ARGUMENTS)
    return plain


def _scalars(value: dict[str, Any], keys: Iterable[str]) -> dict[str, Any]:
    """Text and numbers; lone surrogates, which no encoder takes, become question marks."""
    return {
        key: item.encode("utf-8", "replace").decode() if isinstance(item, str) else item
        for key in keys
        if isinstance(item := value.get(key), (str, int, float)) and not isinstance(item, bool)
    }


def _last_boundary(text: bytes) -> tuple[int, int] | None:
    """(end of the last event that surely is complete, start of the next); looks at the end first, where it is."""
    window = 1 << 10
    while True:
        begin = max(0, len(text) - window)
        last = None
        for match in BOUNDARY.finditer(text, begin):
            last = match
        if last is not None:
            return last.start() + 1, last.end()
        if begin == 0:
            return None
        window *= 16


def _middle_boundary(text: bytes) -> tuple[int, int] | None:
    match = BOUNDARY.search(text, len(text) // 2) or BOUNDARY.search(text)
    return (match.start() + 1, match.end()) if match else None


def _closes(text: bytearray) -> bool:
    try:
        json.loads(text.decode("utf-8", "replace"), strict=False)
    except (ValueError, RecursionError):
        return False
    return True
