"""The tables of docs/owners.md from the raw rows in docs/data/owners.

    python tests/owners/table.py [--check]

Between markers; the words around them are written by hand.
"""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "docs" / "data" / "owners"
PAGE = ROOT / "docs" / "owners.md"


def main() -> int:
    page = PAGE.read_text(encoding="utf-8")
    text = filled(page)
    if "--check" in sys.argv:
        return 0 if text == page else 1
    PAGE.write_text(text, encoding="utf-8")
    return 0


def filled(page: str) -> str:
    """The page with its tables as the data has them."""
    document = json.loads((DATA / "h200.json").read_text(encoding="utf-8"))
    for name, part in (("twins", twins(document["rows"])), ("price", price(document["prices"]))):
        begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
        head, tail = page[: page.index(begin) + len(begin)], page[page.index(end) :]
        page = f"{head}\n{part}\n{tail}"
    return page


def twins(rows: list[dict[str, Any]]) -> str:
    """One line per planted loop, and how many of them are right."""
    lines = [
        "| plant | size | step, ms | twin gains, ms when recorded | said, ms (range) | owner and line | number |",
        "|---|---|---|---|---|---|---|",
        *(_row(row) for row in sorted(rows, key=lambda row: (row["plant"], row["size"]))),
    ]
    judged = [row for row in rows if row["gain_in_recording_us"] is not None]
    found = sum(row["found"] for row in rows)
    right = sum(row["recoverable_is_right"] for row in judged)
    return "\n".join(
        [*lines, "", f"Owner and line are right in {found} of {len(rows)}, the number in {right} of {len(judged)}."]
    )


def _row(row: dict[str, Any]) -> str:
    gain = row["gain_in_recording_us"]
    said = [each for each in row["recoverable_us"] if each[0] is not None]
    best = min(said, key=lambda each: abs(each[0] - (gain or 0)), default=None)
    number = "" if gain is None else "right" if row["recoverable_is_right"] else "off"
    return (
        f"| `{row['plant']}` | {row['size']} | {_ms(statistics.median(row['plain_us'])) if row['plain_us'] else '–'} "
        f"| {'–' if gain is None else _ms(gain)} | {_said(best)} | {'right' if row['found'] else 'missed'} | {number} |"
    )


def _said(said: list[float] | None) -> str:
    return "none" if said is None else f"{_ms(said[0])} ({_ms(said[1])} to {_ms(said[2])})"


def _ms(us: float) -> str:
    return f"{us / 1000:.2f}".replace("-", "−")


def price(documents: list[dict[str, Any]]) -> str:
    """Inside the clock's two steps, and after them; each document is one run of `price.py`."""
    lines = [
        "| loop | plain step, ms | first step inside | second | after, with its 95 % interval | rounds |",
        "|---|---|---|---|---|---|",
    ]
    loops = [(name, loop, each["compared"]) for each in documents for name, loop in each["loops"].items()]
    for name, loop, compared in loops:
        after = loop["after_ratio"]
        lines.append(
            f"| {name} | {_ms(loop['before_us'])} | ×{loop['first_ratio']:.2f} | ×{loop['second_ratio']:.2f} "
            f"| ×{after['middle']:.4f} ({after['low']:.4f} to {after['high']:.4f}), {compared} | {loop['rounds']} |"
        )
    middle, half = pooled([loop["after_ratio"] for _, loop, _ in loops])
    together = f"All together: ×{middle:.4f}, 95 % interval {middle - half:.4f} to {middle + half:.4f}."
    return "\n".join([*lines, "", together])


def pooled(ratios: list[dict[str, float]]) -> tuple[float, float]:
    """Middle and half width of the 95 % interval of several ratios, weighted by the inverse of their variances."""
    weights = [1 / ((ratio["high"] - ratio["low"]) / 2) ** 2 for ratio in ratios]
    middle = sum(weight * ratio["middle"] for weight, ratio in zip(weights, ratios, strict=True)) / sum(weights)
    return float(middle), float(sum(weights) ** -0.5)


if __name__ == "__main__":
    raise SystemExit(main())
