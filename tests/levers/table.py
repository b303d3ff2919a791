"""The tables of docs/try.md from the raw rows in docs/data/levers.

    python tests/levers/table.py [--check]

Between markers; the words around them are written by hand.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "docs" / "data" / "levers"
PAGE = ROOT / "docs" / "try.md"
LEAST_HAND_GAIN = 0.02
"""A hand-made loop that gains less has no gain of which there could be a share."""
RESULTS = {"inside_seed_band": "inside the band", "outside_seed_band": "**outside** the band", "same": "same results"}


def main() -> int:
    page = PAGE.read_text(encoding="utf-8")
    text = filled(page)
    if "--check" in sys.argv:
        return 0 if text == page else 1
    PAGE.write_text(text, encoding="utf-8")
    return 0


def filled(page: str) -> str:
    """The page with its tables as the data has them."""
    rows = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(DATA.glob("*.json"))]
    for name, part in (("levers", table(rows)), ("best", best(rows))):
        begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
        head, tail = page[: page.index(begin) + len(begin)], page[page.index(end) :]
        page = f"{head}\n{part}\n{tail}"
    return page


def best(rows: list[dict[str, Any]]) -> str:
    """One line per session in which there is a hand-made loop: its gain, and that of the best that was found."""
    lines = [
        "| loop | levers | best | times as fast | pairs | by hand | pairs | share of its gain |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        hand = row["by_hand"]
        if hand is None or not hand["pairs_us"]:
            continue
        start = f"| {row['loop']} | {_chosen(row)} |"
        by_hand = f"{_faster(hand)} | {len(hand['pairs_us'])}"
        found = row["try"]["combination"]
        doubt = "" if found is not None else ", not beyond doubt"
        found = found or max(_together(row), key=_middle, default=None)
        if found is None:
            lines.append(f"{start} none gains beyond doubt | – | – | {by_hand} | – |")
            continue
        made = _middle(hand) - 1
        share = "–" if made < LEAST_HAND_GAIN else f"{(_middle(found) - 1) / made:.2f}"
        lines.append(
            f"{start} `{found['id']}`{doubt} | {_faster(found)} | {len(found['pairs_us'])} | {by_hand} | {share} |"
        )
    return "\n".join(lines)


def _chosen(row: dict[str, Any]) -> str:
    """Who said what is tried: the command itself, or whoever started it; `together`: all of them as one trial."""
    command = row["command"].split()
    if "together" in command or "MODE=together" in command:
        return "given, at once"
    words = row.get("words")
    return "by default" if words == [] else "all" if words == ["all"] else "named"


def _together(row: dict[str, Any]) -> list[dict[str, Any]]:
    """The combinations that were measured and are not the one that was taken."""
    taken = row["try"]["combination"]
    tried = row["try"].get("tried_together") or []
    return [one for one in tried if one["pairs_us"] and (taken is None or one["id"] != taken["id"])]


def _middle(one: dict[str, Any]) -> float:
    logs = [math.log(original / changed) for original, changed in one["pairs_us"]]
    return math.exp(sum(logs) / len(logs))


def table(rows: list[dict[str, Any]]) -> str:
    """One line per loop and lever, the hand-made loop first."""
    lines = [
        "| loop | original, ms | what | times as fast | pairs | results | GPU memory, MB |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        tried = [one for one in row["try"]["levers"] if one["id"] != "by-hand" and not one["members"]]
        together = row["try"]["combination"]
        several = [together] if together is not None and len(together["members"]) > 1 else []
        for one in (row["by_hand"], *tried, *several, *_together(row)):
            if one is not None and one["standing"] != "not_reached":
                lines.append(_line(row, one))
    return "\n".join(lines)


def _line(row: dict[str, Any], one: dict[str, Any]) -> str:
    name = "by hand" if one["id"] == "by-hand" else f"`{one['id']}`"
    original = f"{row['try']['base_us'] / 1000:.1f}"
    if one["standing"] != "measured":
        return f"| {row['loop']} | {original} | {name} | {one['standing']}: {one['reason']} | – | – | – |"
    memory = "–" if one["memory_bytes_delta"] is None else f"{one['memory_bytes_delta'] / 1e6:+.0f}".replace("-", "−")
    results = RESULTS.get(one["numbers"], "not judged")
    return f"| {row['loop']} | {original} | {name} | {_faster(one)} | {len(one['pairs_us'])} | {results} | {memory} |"


def _faster(one: dict[str, Any]) -> str:
    """With its interval; where too little was measured there is none."""
    found = one["speedup"]
    if found is None:
        return f"{_middle(one):.2f}"
    return f"{found['speedup']:.2f} ({found['low']:.2f} to {found['high']:.2f})"


if __name__ == "__main__":
    raise SystemExit(main())
