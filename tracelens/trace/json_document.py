"""Any trace as one whole JSON document, to be written again with additions.

In: a path, as for `chrome.load`. Out: what `json.loads` would give, also for a file that it refuses: all intact events
in their order, the other top-level keys, and in `warnings` what had to be left out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from tracelens.messages import say
from tracelens.trace import raw_bytes
from tracelens.trace.events import EventReader
from tracelens.trace.load_notes import LoadNotes
from tracelens.trace.repair import Digits


@dataclass(frozen=True, slots=True)
class Document:
    """`content` is a JSON object with `traceEvents`, also where the file was a bare list of events."""

    content: dict[str, Any]
    warnings: tuple[str, ...]


def document(path: Path | str, *, max_bytes: int | None = None) -> Document:
    """Raises `InputError` as `chrome.load` does; a file without a timed event is still a document."""
    notes = LoadNotes()
    events: list[Any] = []
    reader = EventReader(raw_bytes.pieces(path, notes, max_bytes), str(path), notes, keep=events.extend)
    for _ in reader:
        pass
    decoded = [_plain(event) for event in events]
    timed = [event for event in decoded if all(_is_number(event.get(key, 0)) for key in ("ts", "dur"))]
    notes.drop(say("time that is no number"), len(decoded) - len(timed))
    notes.warn_of_dropped()
    return Document({**reader.metadata, "traceEvents": timed}, tuple(notes.warnings))


def _is_number(value: object) -> bool:
    """Also where it is written as text."""
    try:
        return math.isfinite(float(value))  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return False


def _plain(value: Any) -> Any:
    """Numbers whose digits were kept as text become numbers; decoded text goes on as it is."""
    if isinstance(value, msgspec.Raw):
        return msgspec.json.decode(value)
    if isinstance(value, Digits):
        return float(value)
    if isinstance(value, dict):
        return {_text(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return _text(value) if isinstance(value, str) else value


def _text(value: str) -> str:
    """Lone surrogates can be written nowhere."""
    return value.encode("utf-8", "replace").decode()
