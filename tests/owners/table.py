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
sys.path.insert(0, str(ROOT))

from tests.owners import standing  # noqa: E402
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
        "held-out": twins(_read("h200_held_out")["rows"], verdicts=True),
        "others": twins(_read("h200_others")["rows"], verdicts=True),
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
    """One line per planted loop, and how many of them are right; `verdicts`: with what each verdict is about, and
    whether the number that it says holds."""
    heads = [
        "plant",
        "size",
        "step, ms",
        "twin gains, ms when recorded",
        "said, ms (range)",
        "owner and line",
        "number",
    ]
    heads += ["verdict names", "its number"] if verdicts else []
    lines = [_cells(heads), "|" + "---|" * len(heads)]
    for row in sorted(rows, key=lambda row: (row["plant"], row["size"])):
        lines.append(_cells([*_row(row), *(_verdict(row) if verdicts else ())]))
    judged = [row for row in rows if row["gain_in_recording_us"] is not None]
    found = sum(row["found"] for row in rows)
    counts = _counted([standing.of_number(row) for row in judged])
    said = f"Owner and line are right in {found} of {len(rows)}. The number is {counts}."
    if verdicts:
        named = sum(standing.about(row) == standing.PLANT for row in judged)
        held = sum(standing.of_headline(row) == standing.RIGHT for row in judged)
        said += f" The verdict names the plant in {named} of {len(judged)}, and its number holds in {held}."
    return "\n".join([*lines, "", said])


def _cells(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _counted(standings: list[str]) -> str:
    """'right in 9 of 14, too wide in 4, off in 1'."""
    each = {name: standings.count(name) for name in (standing.RIGHT, standing.WIDE, standing.OFF, standing.NONE)}
    parts = [f"{name} in {count}" for name, count in each.items() if count or name == standing.RIGHT]
    parts[0] += f" of {len(standings)}"
    return ", ".join(parts)


def _row(row: dict[str, Any]) -> list[str]:
    gain, said = row["gain_in_recording_us"], standing.of_row(row)
    return [
        f"`{row['plant']}`",
        row["size"],
        _ms(statistics.median(row["plain_us"])) if row["plain_us"] else "–",
        _gained(gain, row.get("gain_interval_us")),
        _said(said),
        "right" if row["found"] else "missed",
        "–" if gain is None else standing.of_number(row),
    ]


def _verdict(row: dict[str, Any]) -> list[str]:
    known = row["gain_in_recording_us"] is not None
    return [standing.about(row), standing.of_headline(row) if known else "–"]


def _gained(gain: float | None, interval: list[float] | None) -> str:
    if gain is None:
        return "–"
    return _ms(gain) if interval is None else f"{_ms(gain)} (95 %: {_ms(interval[0])} to {_ms(interval[1])})"


def _said(said: standing.Said | None) -> str:
    if said is None:
        return "none"
    if said.low is None or said.high is None:
        return _ms(said.middle)
    return f"{_ms(said.middle)} ({_ms(said.low)} to {_ms(said.high)})"


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
