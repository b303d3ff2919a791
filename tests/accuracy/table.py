"""docs/accuracy.md from the raw rows in docs/data/accuracy.

python tests/accuracy/table.py [--check]
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.accuracy import findings, noise, prose, ranges, summary, targets  # noqa: E402
from tests.accuracy.judge import Judged, Pair, judged  # noqa: E402
from tests.accuracy.stats import median  # noqa: E402
from tests.accuracy.targets import errors, every, large, measurable, ninetieth, percent  # noqa: E402

RAW = ROOT / "docs" / "data" / "accuracy"
PAGE = ROOT / "docs" / "accuracy.md"


def main() -> int:
    text = page()
    if "--check" in sys.argv:
        return 0 if PAGE.read_text(encoding="utf-8") == text else 1
    PAGE.write_text(text, encoding="utf-8")
    return 0


def page() -> str:
    """The whole page."""
    documents, earlier = rows_of(RAW), rows_of(RAW / "earlier")
    rows = [judged(document) for document in documents]
    held, tuning = [row for row in rows if not row.tuning], [row for row in rows if row.tuning]
    parts = [
        summary.opening(documents, held, tuning),
        "## The result\n",
        summary.READING,
        _targets(held, tuning),
        summary.sizes(rows),
        ranges.section(documents),
        "## Against simpler predictors\n",
        prose.SIMPLE,
        _predictors(measurable(held)),
        summary.bound(measurable(held)),
        prose.SIMPLE_ALL,
        _predictors_from_the_middle(every(held)),
        "## Every pair, with the noise taken out\n",
        prose.NOISE,
        _net(held),
        "## The change alone\n",
        prose.CHANGE,
        _changes(held),
        "## The choice\n",
        summary.choice(held + tuning),
        "## How it was measured\n",
        prose.method(documents, earlier),
        "## Held out: every pair\n",
        prose.COLUMNS,
        _pairs(held),
        "## Held out: the replay of the loop as it is, and the choice\n",
        prose.CHOICE,
        _rows(held),
        "## The loops the model was tuned on\n",
        prose.tuned(documents),
        _pairs(tuning),
        _rows(tuning),
        "## Not measurable, or refused\n",
        _left_out(rows),
        _twice(rows, [judged(document) for document in earlier]),
        findings.all_of(RAW),
    ]
    return "\n".join(part.rstrip("\n") + "\n" for part in parts if part)


def rows_of(folder: Path) -> list[dict[str, Any]]:
    """The raw rows in a folder."""
    documents = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))]
    return [document for document in documents if "arms" in document]


# ---------------------------------------------------------------------------------------------------- summaries


def _targets(held: list[Judged], tuning: list[Judged]) -> str:
    columns = ((every(held), held), (measurable(tuning), tuning))
    lines = [
        "| | target | held out | | held out, with the unmeasurable | tuning |",
        "|---|---|---|---|---|---|",
    ]
    for line in targets.LINES:
        cells = [line.name, line.target, line.found(measurable(held), held).text, line.verdict(measurable(held), held)]
        cells += [line.found(pairs, rows).text for pairs, rows in columns]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _predictors(pairs: list[Pair]) -> str:
    lines = [
        "| predictor | median | 90th percentile | worst | gain > 3 %: median | worst |",
        "|---|---|---|---|---|---|",
    ]
    for name in ("the replay", *targets.predictors(pairs)):
        found, gained = errors(pairs, name), errors(large(pairs), name)
        if found and gained:
            cells = (median(found), ninetieth(found), max(found), median(gained), max(gained))
            lines.append(f"| {name} | " + " | ".join(map(percent, cells)) + " |")
    return "\n".join(lines)


def _predictors_from_the_middle(pairs: list[Pair]) -> str:
    return _three(pairs, lambda name: errors(pairs, name, middle=True))


def _changes(held: list[Judged]) -> str:
    pairs = [pair for pair in every(held) if pair.change_measurable]
    if not pairs:
        return "No pair's change is known to ±3 %."
    rows = len({pair.row for pair in pairs})
    said = f"{len(pairs)} of {len(every(held))} held-out pairs (of {rows} rows):\n\n"
    return said + _three(pairs, lambda name: targets.change_errors(pairs, name))


def _net(held: list[Judged]) -> str:
    """Root mean square errors of the change, with and without the measurement's share."""
    lines = [
        "| predictor | pairs | root mean square error | of that the measurement's | its own (95 %) | mean error |",
        "|---|---|---|---|---|---|",
    ]
    pairs = every(held)
    for name in ("the replay", *targets.predictors(pairs)):
        found = noise.net(held, name)
        if found is not None:
            low, high = noise.interval(held, name)
            own = f"{percent(found.own)} ({percent(low)}–{percent(high)})"
            cells = (name, str(len(pairs)), percent(found.total), percent(found.noise), own, _signed(found.bias))
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _three(pairs: list[Pair], of: Callable[[str], Sequence[float]]) -> str:
    lines = ["| predictor | median | 90th percentile | worst |", "|---|---|---|---|"]
    for name in ("the replay", *targets.predictors(pairs)):
        found = of(name)
        lines.append(f"| {name} | {percent(median(found))} | {percent(ninetieth(found))} | {percent(max(found))} |")
    return "\n".join(lines)


# ------------------------------------------------------------------------------------------------------- tables


def _pairs(rows: list[Judged]) -> str:
    lines = [
        "| row | scheme | base | predicted (80 %) | measured (95 %) | n "
        "| gain predicted | measured | error | from the middle | of the change |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        for pair in sorted(row.pairs, key=lambda pair: pair.schemes):
            lines.append(_pair(pair))
    return "\n".join(lines)


def _pair(pair: Pair) -> str:
    marks = [mark for mark, on in (("±", not pair.measurable), ("!", pair.false_promise), ("↯", pair.wrong_sign)) if on]
    cells = (
        f"{pair.row} {''.join(marks)}".strip(),
        " = ".join(pair.schemes),
        _ms(pair.base_predicted),
        f"{_ms(pair.predicted)} ({_ms(pair.low)}–{_ms(pair.high)})",
        f"{_ms(pair.measured.step)} ({_ms(pair.measured.low)}–{_ms(pair.measured.high)})",
        str(pair.measured.processes),
        _signed(pair.predicted_gain),
        _signed(pair.gain),
        _signed(pair.error),
        _signed(pair.raw_error),
        _signed(pair.change_error) if pair.change_measurable else "±",
    )
    return "| " + " | ".join(cells) + " |"


def _rows(rows: list[Judged]) -> str:
    lines = [
        "| row | GPU idle | recorded | replay | unprofiled | replay | measured later (95 %) | n "
        "| predicted fastest loses | weighted winner gives up |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        if row.refused is None and row.base_error is not None:
            cells: tuple[Any, ...] = (
                row.name,
                "–" if row.idle is None else percent(row.idle, 0),
                _ms(row.profiled),
                _signed(row.base_error),
                _ms(row.unprofiled),
                _signed(row.anchor_error or 0.0),
                f"{_ms(row.base.step)} ({_ms(row.base.low)}–{_ms(row.base.high)})",
                row.base.processes,
                percent(row.fastest_regret or 0.0),
                percent(row.winner_regret or 0.0),
            )
            lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines)


def _left_out(rows: list[Judged]) -> str:
    lines = ["| row | scheme | why |", "|---|---|---|"]
    for row in rows:
        if row.refused:
            lines.append(f"| {row.name} | all | refused: {row.refused} |")
        for pair in row.pairs:
            if not pair.measurable:
                why = f"95 % half-width: base {percent(pair.base.half_width)}, "
                why += f"patched {percent(pair.measured.half_width)}"
                lines.append(f"| {row.name} | {' = '.join(pair.schemes)} | {why} (n = {pair.measured.processes}) |")
    return "\n".join(lines)


def _twice(rows: list[Judged], earlier: list[Judged]) -> str:
    """Rows that were measured again: what each measurement says."""
    if not earlier:
        return ""
    lines = [
        "## Measured twice\n",
        prose.TWICE,
        "| row | | base | measurable pairs | median error, from the middle | worst |",
        "|---|---|---|---|---|---|",
    ]
    now = {row.name: row for row in rows}
    for before in earlier:
        for word, row in (("earlier", before), ("now", now.get(before.name))):
            if row is not None and row.pairs:
                found = errors(list(row.pairs), middle=True)
                cells = (row.name, word, f"{_ms(row.base.step)} ± {percent(row.base.half_width)}")
                counts = f"{sum(pair.measurable for pair in row.pairs)} of {len(row.pairs)}"
                lines.append("| " + " | ".join((*cells, counts, percent(median(found)), percent(max(found)))) + " |")
    return "\n".join(lines)


def _ms(us: float | None) -> str:
    return "–" if us is None else f"{us / 1e3:.2f}"


def _signed(share: float) -> str:
    return f"{100 * share:+.1f} %"


if __name__ == "__main__":
    sys.exit(main())
