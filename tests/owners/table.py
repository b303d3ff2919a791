"""The tables of docs/owners.md from the raw rows in docs/data/owners.

    python tests/owners/table.py [--check]

Between markers; the words around them are written by hand.
"""

from __future__ import annotations

import json
import re
import statistics
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.owners.intervals import interval  # noqa: E402

HOT = "python"
"""The loop of `price.py` whose half is a hot loop of the project's."""
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
    document, untuned, planted = (_read(name) for name in ("h200", "h200_untuned", "known"))
    parts = {
        "twins": twins(document["rows"]),
        "anew": twins(_read("h100_anew")["rows"], verdicts=True),
        "outside": twins(_read("h200_outside")["rows"], verdicts=True),
        "untuned": twins(untuned["rows"]),
        "price": price({card: _read(f"price_{card.lower()}")["loops"] for card in ("H200", "H100")}),
        "known": known(planted["3.12"], planted["3.11"]),
    }
    for name, part in parts.items():
        begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
        head, tail = page[: page.index(begin) + len(begin)], page[page.index(end) :]
        page = f"{head}\n{part}\n{tail}"
    return page


def _read(name: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((DATA / f"{name}.json").read_text(encoding="utf-8"))
    return document


def twins(rows: list[dict[str, Any]], *, verdicts: bool = False) -> str:
    """One line per planted loop, and how many of them are right; `verdicts`: with what each verdict is about."""
    lines = [
        "| plant | size | step, ms | twin gains, ms when recorded | said, ms (range) | owner and line | number |",
        "|---|---|---|---|---|---|---|",
        *(_row(row) for row in sorted(rows, key=lambda row: (row["plant"], row["size"]))),
    ]
    if verdicts:
        about = ("verdict names", "---", *(_named(row) for row in sorted(rows, key=lambda row: row["plant"])))
        columns = (f" {text} |" if text != "---" else "---|" for text in about)
        lines = [line + column for line, column in zip(lines, columns, strict=True)]
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
    step = _ms(statistics.median(row["plain_us"])) if row["plain_us"] else "–"
    gained = _gained(gain, row.get("gain_interval_us"))
    return (
        f"| `{row['plant']}` | {row['size']} | {step} "
        f"| {gained} | {_said(best)} | {'right' if row['found'] else 'missed'} | {number} |"
    )


def _named(row: dict[str, Any]) -> str:
    """What the verdict is about: the plant, by its line or as the DataLoader; a limit of the loop; another line."""
    verdict = row["verdict"]
    found = re.search(r"\.py:(\d+(?:, \d+)*)", verdict)
    at = {int(number) for number in found[1].split(", ")} if found is not None else set()
    if "-bound" in verdict:
        return str(re.findall(r"[\w-]+-bound", verdict)[0])
    by_worker = row["largest"]["kind"] == "dataloader" and verdict.startswith("The DataLoader")
    return "the plant" if at & set(row["lines"]) or (by_worker and row["found"]) else "another line"


def _gained(gain: float | None, interval: list[float] | None) -> str:
    if gain is None:
        return "–"
    return _ms(gain) if interval is None else f"{_ms(gain)} (95 %: {_ms(interval[0])} to {_ms(interval[1])})"


def _said(said: list[float] | None) -> str:
    return "none" if said is None else f"{_ms(said[0])} ({_ms(said[1])} to {_ms(said[2])})"


def _ms(us: float) -> str:
    return f"{us / 1000:.2f}".replace("-", "−")


def price(cards: dict[str, dict[str, list[dict[str, Any]]]]) -> str:
    """Inside the clock's two steps, and after them, with a clock and without; processes as `price.py` has them."""
    lines = [
        "| loop | card | plain step, ms | first step inside | second | after, 95 % interval | without a clock "
        "| processes |",
        "|---|---|---|---|---|---|---|---|",
    ]
    by_loop: dict[str, list[dict[str, Any]]] = {}
    for card, loops in cards.items():
        for name, rows in loops.items():
            lines.append(_priced(name, card, rows))
            by_loop.setdefault(name, []).extend(rows)
    lines += [_priced(name, "both", rows) for name, rows in by_loop.items() if len(cards) > 1]
    usual = [row for name, rows in by_loop.items() if name != HOT for row in rows]
    after = f"{_after(usual, True)} behind a clock, {_after(usual, False)} without one."
    together = f"Without `{HOT}`, all together: {after}"
    return "\n".join([*lines, "", together])


def _priced(name: str, card: str, rows: list[dict[str, Any]]) -> str:
    first, second = (statistics.median(row["inside"][step] for row in rows if row["clocked"]) for step in (0, 1))
    return (
        f"| {name} | {card} | {_ms(statistics.median(row['plain_us'] for row in rows))} | ×{first:.2f} | ×{second:.2f} "
        f"| {_after(rows, True)} | {_after(rows, False)} | {len(rows)} |"
    )


def _after(rows: list[dict[str, Any]], clocked: bool) -> str:
    found = interval([row["after"] / row["before"] for row in rows if row["clocked"] is clocked])
    return f"×{found['middle']:.4f} ({found['low']:.4f} to {found['high']:.4f})"


def known(newer: list[dict[str, Any]], older: list[dict[str, Any]]) -> str:
    """One line per planted cost: what it took and what its owner has, on Python 3.12 and on 3.11."""
    before = {row["plant"]: row for row in older}
    lines = ["| plant | 3.12: took / owned | off by | 3.11: took / owned |", "|---|---|---|---|"]
    for row in newer:
        plant = row["plant"]
        lines.append(f"| `{plant}` | {_planted(row)} | {_off(row)} | {_planted(before[plant])} |")
    timed = [row for row in newer if row["taken"]]
    near = [sum(abs(row["owned"] / row["taken"] - 1) <= share for row in timed) for share in (0.05, 0.10)]
    right = " and ".join(
        f"in {sum(row['right'] for row in rows)} of {len(rows)} on {version}"
        for version, rows in (("3.12", newer), ("3.11", older))
    )
    costs = f"On 3.12 {near[0]} of {len(timed)} costs are within 5 %, {near[1]} within 10 %."
    return "\n".join([*lines, "", f"Owner and line are right {right}. {costs}"])


def _planted(row: dict[str, Any]) -> str:
    taken = "–" if row["taken"] is None else f"{row['taken']:.2f}"
    return f"{'right' if row['right'] else 'wrong'}, {taken} / {row['owned']:.2f}"


def _off(row: dict[str, Any]) -> str:
    return "–" if not row["taken"] else f"{100 * (row['owned'] / row['taken'] - 1):+.1f} %".replace("-", "−")


if __name__ == "__main__":
    raise SystemExit(main())
