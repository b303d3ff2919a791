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
sys.path[0:0] = [str(ROOT), str(ROOT / "tests")]

from accuracy import prose  # noqa: E402
from accuracy.judge import Judged, Pair, judged  # noqa: E402
from accuracy.stats import median, quantile  # noqa: E402

RAW = ROOT / "docs" / "data" / "accuracy"
PAGE = ROOT / "docs" / "accuracy.md"
LARGE_GAIN = 0.03


def main() -> int:
    text = page()
    if "--check" in sys.argv:
        return 0 if PAGE.read_text(encoding="utf-8") == text else 1
    PAGE.write_text(text, encoding="utf-8")
    return 0


def page() -> str:
    """The whole page."""
    documents = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(RAW.glob("*.json"))]
    documents = [document for document in documents if "arms" in document]
    rows = [judged(document) for document in documents]
    held, tuning = [row for row in rows if not row.tuning], [row for row in rows if row.tuning]
    parts = [
        prose.opening(documents, RAW),
        prose.METHOD,
        "## The result\n",
        _targets(held, tuning),
        "## Against simpler predictors\n",
        prose.SIMPLE,
        _predictors(held),
        prose.SIMPLE_ALL,
        _predictors_from_the_middle(held),
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
        prose.findings(RAW),
    ]
    return "\n".join(part.rstrip("\n") + "\n" for part in parts)


# ---------------------------------------------------------------------------------------------------- summaries


def _targets(held: list[Judged], tuning: list[Judged]) -> str:
    columns = ((_measurable(held), held), (_all(held), held), (_measurable(tuning), tuning))
    lines = ["| | target | held out | held out, with the unmeasurable | tuning |", "|---|---|---|---|---|"]
    for name, target, value in _LINES:
        lines.append(f"| {name} | {target} | " + " | ".join(value(pairs, rows) for pairs, rows in columns) + " |")
    return "\n".join(lines)


def _measurable(rows: list[Judged]) -> list[Pair]:
    return [pair for row in rows for pair in row.pairs if pair.measurable]


def _all(rows: list[Judged]) -> list[Pair]:
    return [pair for row in rows for pair in row.pairs]


Value = Callable[[list[Pair], list[Judged]], str]


def _share(of: Callable[[Pair], bool]) -> Value:
    return lambda pairs, _: f"{sum(map(of, pairs))} of {len(pairs)}"


def _error(summary: Callable[[Sequence[float]], float], of: Callable[[Pair], float]) -> Value:
    return lambda pairs, _: _percent(summary([abs(of(pair)) for pair in pairs])) if pairs else "–"


def _worst_row(of: Callable[[Judged], float | None]) -> Value:
    def value(_: list[Pair], rows: list[Judged]) -> str:
        seen = [abs(found) for row in rows if (found := of(row)) is not None]
        return f"median {_percent(median(seen))}, worst {_percent(max(seen))} (n = {len(seen)})" if seen else "–"

    return value


def _chosen(of: Callable[[Judged], float | None]) -> Value:
    """Over the rows of which every pair is in the column."""

    def value(pairs: list[Pair], rows: list[Judged]) -> str:
        whole = [row for row in rows if row.pairs and all(pair in pairs for pair in row.pairs)]
        return _worst_row(of)(pairs, whole)

    return value


def _ninetieth(values: Sequence[float]) -> float:
    return quantile(values, 0.9)


def _large(pairs: list[Pair]) -> list[Pair]:
    return [pair for pair in pairs if pair.gain > LARGE_GAIN]


def _on_large(value: Value) -> Value:
    return lambda pairs, rows: f"{value(_large(pairs), rows)} (n = {len(_large(pairs))})"


def _coverage(pairs: list[Pair], _: list[Judged]) -> str:
    return _percent(sum(pair.inside for pair in pairs) / len(pairs), 0) if pairs else "–"


def _range_width(pairs: list[Pair], _: list[Judged]) -> str:
    return _percent(median([(pair.high - pair.low) / 2 / pair.predicted for pair in pairs])) if pairs else "–"


_LINES: tuple[tuple[str, str, Value], ...] = (
    ("rows, loops", "≥ 12 loops × 2–3 sizes in all", lambda _, rows: _counted(rows)),
    ("pairs (distinct patched versions)", "", lambda pairs, _: str(len(pairs))),
    ("replay of the base against the profiled step", "≤ 1 %", _worst_row(lambda row: row.base_error)),
    ("the same against the unprofiled step", "≤ 3 %", _worst_row(lambda row: row.anchor_error)),
    ("step-time error, median", "≤ 3 %", _error(median, lambda pair: pair.error)),
    ("step-time error, 90th percentile", "≤ 6 %", _error(_ninetieth, lambda pair: pair.error)),
    ("step-time error, worst", "≤ 10 %", _error(max, lambda pair: pair.error)),
    ("counted from the middle: median", "", _error(median, lambda pair: pair.raw_error)),
    ("counted from the middle: 90th percentile", "", _error(_ninetieth, lambda pair: pair.raw_error)),
    ("counted from the middle: worst", "", _error(max, lambda pair: pair.raw_error)),
    ("error of the change (patched ÷ base), median", "", _error(median, lambda pair: pair.change_error)),
    ("error of the change, 90th percentile", "", _error(_ninetieth, lambda pair: pair.change_error)),
    ("wrong sign beyond noise", "0", _share(lambda pair: pair.wrong_sign)),
    ("false promises (predicted > 2 %, measured < 1 %)", "0", _share(lambda pair: pair.false_promise)),
    ("measured gain > 3 %: error, median", "", _on_large(_error(median, lambda pair: pair.error))),
    ("measured gain > 3 %: error, worst", "", _on_large(_error(max, lambda pair: pair.error))),
    ("80 % ranges that hold the measurement", "75–90 %", _coverage),
    ("half-width of the ranges, median", "≤ 4 %", _range_width),
    ("predicted fastest ÷ best measured − 1", "≤ 2 %", _chosen(lambda row: row.fastest_regret)),
    ("what the weighted winner gives up", "", _chosen(lambda row: row.winner_regret)),
)


def _counted(rows: list[Judged]) -> str:
    return f"{len(rows)} rows of {len({row.name.split('-')[0] for row in rows})} loops"


def _predictors(rows: list[Judged]) -> str:
    lines = [
        "| predictor | median | 90th percentile | worst | gain > 3 %: median | worst |",
        "|---|---|---|---|---|---|",
    ]
    names = list(dict.fromkeys(name for pair in _measurable(rows) for name in pair.simple))
    for name in ("the replay", *names):
        lines.append(f"| {name} | " + " | ".join(_predictor(_measurable(rows), name)) + " |")
    return "\n".join(lines)


def _predictors_from_the_middle(rows: list[Judged]) -> str:
    pairs = _all(rows)
    lines = ["| predictor | median | 90th percentile | worst |", "|---|---|---|---|"]
    names = list(dict.fromkeys(name for pair in pairs for name in pair.simple))
    for name in ("the replay", *names):
        of = {"the replay": lambda pair: pair.predicted}.get(name) or (lambda pair, name=name: pair.simple[name])
        errors = [abs(of(pair) / pair.measured.step - 1) for pair in pairs]
        cells = (_percent(value) for value in (median(errors), _ninetieth(errors), max(errors)))
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _predictor(pairs: list[Pair], name: str) -> list[str]:
    from accuracy.judge import beyond

    def error(pair: Pair) -> float:
        return abs(pair.error if name == "the replay" else beyond(pair.simple[name], pair.measured))

    every, large = [error(pair) for pair in pairs], [error(pair) for pair in _large(pairs)]
    if not every or not large:
        return ["–"] * 5
    return [_percent(value) for value in (median(every), _ninetieth(every), max(every), median(large), max(large))]


# ------------------------------------------------------------------------------------------------------- tables


def _pairs(rows: list[Judged]) -> str:
    lines = [
        "| row | scheme | base | predicted (80 %) | measured (95 %) | n "
        "| gain predicted | measured | error | from the middle |",
        "|---|---|---|---|---|---|---|---|---|---|",
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
    )
    return "| " + " | ".join(cells) + " |"


def _rows(rows: list[Judged]) -> str:
    lines = [
        "| row | recorded | replay | unprofiled | replay | measured later (95 %) | predicted fastest loses | "
        "weighted winner gives up |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        if row.refused is None and row.base_error is not None:
            cells: tuple[Any, ...] = (
                row.name,
                _ms(row.profiled),
                _signed(row.base_error),
                _ms(row.unprofiled),
                _signed(row.anchor_error or 0.0),
                f"{_ms(row.base.step)} ({_ms(row.base.low)}–{_ms(row.base.high)})",
                _percent(row.fastest_regret or 0.0),
                _percent(row.winner_regret or 0.0),
            )
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _left_out(rows: list[Judged]) -> str:
    lines = ["| row | scheme | why |", "|---|---|---|"]
    for row in rows:
        if row.refused:
            lines.append(f"| {row.name} | all | refused: {row.refused} |")
        for pair in row.pairs:
            if not pair.measurable:
                why = f"95 % half-width: base {_percent(pair.base.half_width)}, "
                why += f"patched {_percent(pair.measured.half_width)}"
                lines.append(f"| {row.name} | {' = '.join(pair.schemes)} | {why} (n = {pair.measured.processes}) |")
    return "\n".join(lines)


def _ms(us: float | None) -> str:
    return "–" if us is None else f"{us / 1e3:.2f}"


def _percent(share: float, digits: int = 1) -> str:
    return f"{100 * share:.{digits}f} %"


def _signed(share: float) -> str:
    return f"{100 * share:+.1f} %"


if __name__ == "__main__":
    sys.exit(main())
