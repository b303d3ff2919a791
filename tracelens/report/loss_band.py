"""The loss of a lever beside what other seeds of the original do, drawn with characters.

In: `seed_band` of a lever as try.json has it: per block of steps the band's ends and the lever's mean. Out: lines of
plain ASCII. Each column is a block, its height is where the lever lies in that block's band: the loss falls by far more
than the band is wide, so that two curves drawn to scale would be one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from tracelens.messages import say

ROWS = 7
"""Two outside on either side, so that just outside and far outside differ, and three of the band."""
BAND_ROWS = (2, 3, 4)
FAR = 2.0
"""Half widths from the band's middle: what lies farther is drawn in the outermost row."""
COLUMNS = 60
LEAST_COLUMNS = 4
LABELS = {0: "above", 3: "band", 6: "below"}
LEVER, BAND = "*", "."


def picture(name: str, band: Mapping[str, Any], columns: int = COLUMNS) -> list[str]:
    """The curve that leaves the band most; empty where none was compared."""
    curves = [curve for curve in band.get("curves") or () if len(curve["patched"]) >= LEAST_COLUMNS]
    if not curves:
        return []
    curve = max(curves, key=lambda one: one["outside_share"])
    places = _fitted([_place(*one) for one in zip(curve["low"], curve["high"], curve["patched"], strict=True)], columns)
    lines = [f"{LABELS.get(row, ''):>6} |{_row(row, places)}|" for row in range(ROWS)]
    blocks = say("{count} blocks of steps", count=len(curve["patched"]))
    outside = say(
        "{share:.0f} % outside the band of {seeds} seeds", share=100 * curve["outside_share"], seeds=band["seeds"]
    )
    tail = curve["tail"]
    ends = say(
        "it ends at {end}, the seeds at {low} to {high}",
        end=_said(tail["patched"]),
        low=_said(tail["low"]),
        high=_said(tail["high"]),
    )
    return [
        say("loss with {name}, {blocks}: {outside}; {ends}", name=name, blocks=blocks, outside=outside, ends=ends),
        *lines,
    ]


def _place(low: float | str, high: float | str, value: float | str) -> float:
    """Half widths above the band's middle; a loss that is no number lies as far outside as can be drawn, and everything
    lies in the middle of a band without ends."""
    bottom, top, middle = float(low), float(high), float(value)
    if not math.isfinite(bottom) or not math.isfinite(top):
        return 0.0
    if not math.isfinite(middle):
        return FAR
    half = (top - bottom) / 2
    away = middle - (bottom + top) / 2
    return away / half if half > 0 else math.copysign(FAR, away) if away else 0.0


def _fitted(places: Sequence[float], columns: int) -> list[float]:
    """No more columns than there is room: of several blocks the one that lies farthest out."""
    size = math.ceil(len(places) / columns)
    return [max(places[start : start + size], key=abs) for start in range(0, len(places), size)]


def _row(row: int, places: Sequence[float]) -> str:
    empty = BAND if row in BAND_ROWS else " "
    return "".join(LEVER if _row_of(place) == row else empty for place in places)


def _row_of(place: float) -> int:
    """The row from the top: 2 to 4 are the band, from +1 to -1 half width."""
    if abs(place) <= 1:
        return 3 if abs(place) <= 1 / 3 else 2 if place > 0 else 4
    near = abs(place) < FAR
    return (1 if near else 0) if place > 0 else (5 if near else 6)


def _said(value: float | str) -> str:
    return f"{float(value):.4g}"
