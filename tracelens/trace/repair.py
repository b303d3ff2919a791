"""Damaged JSON: read what is whole, mend what is known to go wrong, count the rest.

In: text that a strict decoder refused. Out: its events as dicts, how many were lost, what was left over.
Known damage (torch 2.13 and before write all of it): quotes inside names, raw control characters, bad escapes,
invalid UTF-8, `NaN`, `inf` and `N/A` as values, log lines among the top-level keys.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from tracelens.messages import say
from tracelens.trace.load_notes import LoadNotes

MAX_JOIN = 3
"""Boundaries that may lie inside one event (an argument that is a list of objects looks like events)."""
MAX_MEND = 64 << 10
"""No real event is longer; bounds the work on hostile text."""

_CONTROLS = bytes(32 if code < 32 else code for code in range(256))
_BARE = re.compile(r"(?<=[:\[,])(\s*)[-+]?(?:inf|nan|N/A|-)(?=\s*[,}\]])", re.IGNORECASE)
_ESCAPE = re.compile(r'\\(["\\/bfnrt]|u[0-9a-fA-F]{4})?')
_STRING = re.compile(r'("[^"]{1,80}"\s*:\s*")(.*?)("\s*(?=,\s*"[^"]{1,80}"\s*:|[}\]]))', re.DOTALL)
_EVENT = re.compile(r'\{\s*"(?:ph|cat|name)"\s*:')
"""A name that contains this is no name: it lost its end, and so did its event."""
_LAST = re.compile(r"\}(?=\s*\](?:\s*$|\s*[,}]))")
_HOLE = re.compile(rb"[\x00-\x08]{8,}")
"""Part of a file that a disk never wrote: what seems one event around it may be the halves of two."""
_SKIP = re.compile(r"[\s,]*")
_BASE_TIME = re.compile(rb'"baseTimeNanoseconds"\s*:\s*"?(\d+)')


class Digits(str):
    """A number as the file writes it, so that no digit of a timestamp is lost."""

    __slots__ = ()


# The constants NaN and Infinity are no numbers.
_DECODER = json.JSONDecoder(strict=False, parse_float=Digits, parse_constant=lambda _: None)
_FAILURES = (ValueError, RecursionError)


@dataclass
class Walked:
    """`rest`: text after the end of the array (`ended`), or an event that the text does not finish."""

    values: list[dict[str, Any]] = field(default_factory=list)
    dropped: Counter[str] = field(default_factory=Counter)
    mended: int = 0
    ended: bool = False
    rest: bytes | None = None


def walk(text: bytes, start: re.Pattern[bytes]) -> Walked:
    """Read `text` event by event; after damage, go on where `start` finds the next one."""
    out = Walked()
    _walk(text, start, out)
    unseen = len(_HOLE.findall(text)) - out.dropped.total()
    if unseen > 0:
        out.dropped["damaged event"] += unseen
    return out


def _walk(text: bytes, start: re.Pattern[bytes], out: Walked) -> None:
    clean = text.translate(_CONTROLS).decode("utf-8", "replace")
    starts = [match.end() for match in re.finditer(start.pattern.decode(), clean)]
    position = _skip(clean, 0)
    while position < len(clean):
        if clean[position] == "]":
            out.ended, out.rest = True, clean[position + 1 :].encode("utf-8", "replace")
            return
        position = _skip(clean, _one(clean, position, starts, out))


def top_level(text: bytes, notes: LoadNotes) -> dict[str, Any]:
    """The keys of an object that may be cut short or damaged: all pairs up to the first one that cannot be read."""
    clean = text.translate(_CONTROLS).decode("utf-8", "replace")
    clean = _BARE.sub(r"\1null", clean)
    pairs: dict[str, Any] = {}
    position = _skip(clean, 1)
    try:
        while position < len(clean) and clean[position] == '"':
            key, position = _DECODER.raw_decode(clean, position)
            position = clean.index(":", position) + 1
            value, position = json.JSONDecoder(strict=False).raw_decode(clean, _skip(clean, position))
            pairs[key] = value
            position = _skip(clean, position)
    except _FAILURES:
        notes.warn(say("a top-level key of the file is damaged and was left out"))
    match = _BASE_TIME.search(text)
    if match and "baseTimeNanoseconds" not in pairs:
        pairs["baseTimeNanoseconds"] = int(match[1][:20])
    return pairs


def _one(text: str, position: int, starts: list[int], out: Walked) -> int:
    """Read the event at `position` into `out`; returns where to go on."""
    try:
        value, end = _DECODER.raw_decode(text, position)
    except _FAILURES:
        following = starts[bisect_right(starts, position) :][:MAX_JOIN]
        if not following and (last := _LAST.search(text, position)):
            following = [last.end()]
        return _mended(text, position, following, out)
    if isinstance(value, dict):
        out.values.append(_clean(value))
    else:
        out.dropped["not an event"] += 1
    return end


def _mended(text: str, position: int, following: list[int], out: Walked) -> int:
    for end in (*following, len(text)):
        value = mend(text[position:end])
        if value is not None:
            out.values.append(_clean(value))
            out.mended += 1
            return end
    if following:
        out.dropped["damaged event"] += 1
        return following[0]
    out.rest = text[position:].encode("utf-8", "replace")
    return len(text)


def mend(text: str) -> dict[str, Any] | None:
    """One event with the known kinds of damage undone; None where that is not enough."""
    text = text.rstrip().rstrip(",")
    if len(text) > MAX_MEND:
        return None
    text = _ESCAPE.sub(lambda match: match[0] if match[1] else r"\\", _BARE.sub(r"\1null", text))
    for candidate in (text, _STRING.sub(_escape_quotes, text)):
        try:
            value, end = _DECODER.raw_decode(candidate)
        except _FAILURES:
            continue
        if isinstance(value, dict) and not candidate[end:].strip():
            return value
    return None


def _escape_quotes(match: re.Match[str]) -> str:
    if _EVENT.search(match[2]):
        return match[0]
    inner = re.sub(r'(?<!\\)"', r"\"", match[2])
    return match[1] + inner + match[3]


def _clean(value: dict[str, Any]) -> dict[str, Any]:
    """Lone surrogates cannot be printed; names are the only text that is kept."""
    name = value.get("name")
    if isinstance(name, str):
        value["name"] = name.encode("utf-8", "replace").decode()
    return value


def _skip(text: str, position: int) -> int:
    match = _SKIP.match(text, position)
    return match.end() if match else position
