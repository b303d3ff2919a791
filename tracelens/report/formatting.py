"""Number and text formats that every report shares: a number on screen has its unit, unknown is never 0.

In: numbers in the program's units, text of any origin. Out: short strings.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence

from tracelens import units
from tracelens.messages import capital, joined, say
from tracelens.model import Estimate

UNKNOWN = say("not measured")
DASH = "–"
"""Unknown, or not applicable, in a cell of a table."""
SMALL_NS = 50_000
"""Below this a time is written `<0.1`: a first screen has one decimal."""
LARGE_NS = 100_000_000


def said_columns(count: int, rows: Sequence[Sequence[object]]) -> tuple[int, ...]:
    """The places of the columns in which a row says something, of `count`; all where there is no row."""
    return tuple(place for place in range(count) if not rows or says(str(row[place]) for row in rows))


def says(cells: Iterable[str]) -> bool:
    """Whether any of these cells of a column has more than a dash."""
    return any(cell.strip() not in ("", DASH) for cell in cells)


def clean(text: str) -> str:
    """Text from outside, safe to show in a terminal: control characters become visible instead of acting."""
    return "".join(c if c == "\t" or unicodedata.category(c)[0] != "C" else f"\\x{ord(c):02x}" for c in text)


def shorten(text: str, limit: int = 60) -> str:
    """At most `limit` characters; the middle goes, because both ends of a path or a kernel name tell the most."""
    text = clean(text)
    if len(text) <= limit:
        return text
    head = (limit - 1) // 2
    return f"{text[:head]}…{text[len(text) - (limit - 1 - head) :]}"


def milliseconds(ns: float | None) -> str:
    """A time in ms, for columns that are read against each other."""
    return UNKNOWN if ns is None else units.ms(ns)


def short_ms(ns: float | None) -> str:
    """Milliseconds with one decimal, none from 100 on, `<0.1` for less, a dash for unknown, 0 for a measured zero."""
    if ns is None:
        return DASH
    if ns < SMALL_NS:
        return "<0.1" if ns > 0 else "0"
    return f"{ns / 1e6:.{0 if ns >= LARGE_NS else 1}f}"


def signed(ns: int) -> str:
    """A change of a time, with its sign; nothing has none."""
    return milliseconds(0) if ns == 0 else ("+" if ns > 0 else "−") + milliseconds(abs(ns))


def percent(share: float | None, digits: int = 0) -> str:
    return UNKNOWN if share is None else f"{100 * share:.{digits}f} %"


def gain(speedup: float) -> str:
    """A speedup as people say it: 100·(base ÷ new − 1), with its sign."""
    return units.signed_percent(100 * (speedup - 1))


def estimate_range(estimate: Estimate) -> str:
    """`12.1 ms (11.8 to 12.6)`."""
    step, low, high = milliseconds(estimate.step_ns), estimate.low_ns / 1e6, estimate.high_ns / 1e6
    return say("{step} ({low:.2f} to {high:.2f})", step=step, low=low, high=high)


def listed(words: Iterable[str]) -> str:
    """`1`, `1 and 2`, `1, 2 and 3`."""
    *first, last = words
    return say("{words} and {last}", words=joined(", ", first), last=last) if first else last


def capitalized(text: str) -> str:
    """With a capital at its start."""
    return capital(text)


def readable_id(name: str) -> str:
    """An id as words."""
    return clean(name).replace("_", " ").replace("-", " ")


def spans(lines: Sequence[int]) -> str:
    """'68, 76, 77'; lines that follow one another as '83–84'."""
    runs: list[list[int]] = []
    for line in lines:
        if runs and line == runs[-1][-1] + 1:
            runs[-1].append(line)
        else:
            runs.append([line])
    return ", ".join(f"{run[0]}–{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)
