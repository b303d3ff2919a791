"""Results of the capture matrix, from pytest's own report to the JSON that docs/capture.md quotes.

    python -m pytest tests/matrix --junitxml OUT.xml            (TRACELENS_MATRIX=1 for the slow rows)
    python tests/matrix/collect.py docs/data/capture/matrix_cpu.json OUT.xml …
    python tests/matrix/collect.py --table                      writes the table of docs/capture.md from all of them

Rows that were skipped are left out: a table of what was not run is no proof. A later report replaces a row's result.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from tests.matrix.rows import ELSEWHERE, ROWS

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "docs" / "data" / "capture"
PAGE = ROOT / "docs" / "capture.md"
WHERE = {"cpu": "CPU", "h200": "H200"}
PARTS = {"step": "**the whole step**", "batch": "its batch", "copy": "the batch's copy to the GPU",
         "forward": "forward", "backward": "backward", "update": "update", "launch": "a launch alone",
         "cpu": "work of the CPU alone"}  # fmt: skip


def main() -> None:
    if sys.argv[1:] == ["--table"]:
        PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
        return
    target, *reports = map(Path, sys.argv[1:])
    known = json.loads(target.read_text(encoding="utf-8")) if target.exists() else {"rows": {}}
    for report in reports:
        known["rows"] |= read(report)
    target.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def filled(page: str) -> str:
    """The page with its generated parts as the results have them."""
    for name, part in (("price", price()), ("after", after()), ("truth", truth()), ("matrix", table())):
        begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
        head, tail = page[: page.index(begin) + len(begin)], page[page.index(end) :]
        page = f"{head}\n{part}\n{tail}"
    return page


def read(report: Path) -> dict[str, dict[str, object]]:
    """Row name to outcome and seconds; skipped rows are left out."""
    found = {}
    for case in ElementTree.parse(report).iter("testcase"):
        name = re.fullmatch(r"test_matrix\[(.+)\]", case.get("name", ""))
        tags = {child.tag for child in case}
        if name and "skipped" not in tags:
            outcome = "failed" if tags & {"failure", "error"} else "passed"
            found[name[1]] = {"outcome": outcome, "seconds": round(float(case.get("time", "0")), 1)}
    return found


def results() -> dict[str, dict[str, str]]:
    """Machine to row to outcome."""
    found = {}
    for machine in WHERE:
        path = RESULTS / f"matrix_{machine}.json"
        rows = json.loads(path.read_text(encoding="utf-8"))["rows"] if path.exists() else {}
        found[machine] = {name: row["outcome"] for name, row in rows.items()}
    return found


def table() -> str:
    """Markdown: what is launched, where it was last run and how that went, which test it is."""
    known = results()
    lines = ["| what is launched | last result | test |", "|---|---|---|"]
    for row in ROWS:
        machine = "h200" if row.gpus else "cpu"
        outcome = known[machine].get(row.name, "not run")
        marks = f"`gpu` ({row.gpus})" if row.gpus else "`make matrix`" if row.slow else "`make test`"
        lines.append(f"| {row.title} | {WHERE[machine]}: {outcome} | `test_matrix[{row.name}]`, {marks} |")
    lines += [f"| {title} | CPU: in every `make test` | `{test}` |" for title, test in ELSEWHERE]
    return "\n".join(lines)


def price() -> str:
    """Markdown: what recording costs, by machine."""
    heads = ("where", "loop", "hooks alone", "hooks in the loop", "interleaved", "inside", "process start", "after")
    lines = [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    for machine, shown in WHERE.items():
        path = RESULTS / f"price_{machine}.json"
        if path.exists():
            lines.append(_price_row(shown, json.loads(path.read_text(encoding="utf-8"))))
    return "\n".join(lines)


def after() -> str:
    """Markdown: what a recording leaves behind, part by part."""
    found = json.loads((RESULTS / "after_h200.json").read_text(encoding="utf-8"))
    heads = ("part of a step", "before", "as recorded by us", "CUPTI left attached", "no CUDA events asked for")
    lines = [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    for name, arms in found["percent_against_never"].items():
        shown = [f"{one['percent']:+.1f} % ({one['low']:+.1f} to {one['high']:+.1f})" for one in arms.values()]
        lines.append(f"| {PARTS[name]} | {found['absolute_before'][name]:,.1f} µs | {' | '.join(shown)} |")
    return "\n".join(lines)


def _price_row(machine: str, found: dict[str, Any]) -> str:
    loop = found["loop"]
    return (
        f"| {machine} | {loop['step_us'] / 1000:.2f} ms | {_of_step(found['micro']['outside_window'], loop)} "
        f"| {_of_step(found.get('in_place'), loop)} "
        f"| {_percent(loop['outside_window'])} | {_percent(loop['inside']['ours_against_bare_profiler'])} "
        f"| {found['start']['median']:+.1f} ms ({found['start']['low']:.1f} to {found['start']['high']:.1f}) "
        f"| {found['micro']['after_window']['median']:.1f} µs per step |"
    )


def _of_step(one: dict[str, float] | None, loop: dict[str, Any]) -> str:
    if one is None:
        return "not measured"
    return f"{one['median']:.1f} µs per step, {100 * one['median'] / loop['step_us']:.2f} %"


def _percent(one: dict[str, float]) -> str:
    return f"{one['percent']:+.1f} % ({one['low']:+.1f} to {one['high']:+.1f} %, {one['pairs']} pairs)"


def truth() -> str:
    """Markdown: of the time that the host was blocked, how much has the right line."""
    found = json.loads((RESULTS / "truth_h200.json").read_text(encoding="utf-8"))
    done = [row for row in found["rows"] if "waits" in row]
    failed = [row for row in found["rows"] if "waits" not in row]
    total = found["total"]
    wrong = 100 * total["wrong_ms"] / total["waited_ms"]
    lines = [
        f"Over {len(done)} scripts (the sample cases and public ones) on the H200, {total['waits']:,} waits of "
        f"{total['waited_ms']:,.0f} ms: **{100 * total['right_share']:.1f} %** of the time has the exact line, "
        f"{wrong:.1f} % a wrong one.",
        "",
        "| script | waits | blocked | right | wrong | unknown |",
        "|---|---|---|---|---|---|",
    ]
    for row in done:
        parts = " | ".join(f"{row[key]:.1f} ms" for key in ("waited_ms", "right_ms", "wrong_ms", "unknown_ms"))
        lines.append(f"| {row['name']} | {row['waits']} | {parts} |")
    if failed:
        lines += ["", "Not recorded: " + "; ".join(f"{row['name']} ({row['failed']})" for row in failed) + "."]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
