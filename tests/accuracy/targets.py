"""Every target of the page: what was found, and whether it is met, in words.

In: judged pairs and rows. Out: `Line`s for the table of results and counts for the summary. Apart from `table` because
a verdict is arithmetic and is tested by hand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.accuracy.judge import Judged, Pair, beyond
from tests.accuracy.stats import median, quantile

LARGE_GAIN = 0.03
MET, MISSED, OPEN = "met", "missed", "–"


@dataclass(frozen=True)
class Found:
    """A cell. `met` is None where there is no target or nothing to hold against it."""

    text: str
    met: bool | None = None


@dataclass(frozen=True)
class Line:
    name: str
    target: str
    found: Callable[[list[Pair], list[Judged]], Found]

    def verdict(self, pairs: list[Pair], rows: list[Judged]) -> str:
        met = self.found(pairs, rows).met if self.target else None
        return OPEN if met is None else MET if met else MISSED


def measurable(rows: list[Judged]) -> list[Pair]:
    return [pair for row in rows for pair in row.pairs if pair.measurable]


def every(rows: list[Judged]) -> list[Pair]:
    return [pair for row in rows for pair in row.pairs]


def large(pairs: list[Pair]) -> list[Pair]:
    return [pair for pair in pairs if pair.gain > LARGE_GAIN]


def without_gain(pairs: list[Pair]) -> list[Pair]:
    return [pair for pair in pairs if pair.no_gain]


def ninetieth(values: Sequence[float]) -> float:
    return quantile(values, 0.9)


def percent(share: float, digits: int = 1) -> str:
    return f"{100 * share:.{digits}f} %"


def predictors(pairs: list[Pair]) -> list[str]:
    return list(dict.fromkeys(name for pair in pairs for name in pair.simple))


def errors(pairs: list[Pair], name: str = "the replay", *, middle: bool = False) -> list[float]:
    """How far a predictor is off, pair by pair, from the nearer end of the interval or from its middle."""
    said = [pair.predicted if name == "the replay" else pair.simple[name] for pair in pairs]
    if middle:
        return [abs(value / pair.measured.step - 1) for value, pair in zip(said, pairs, strict=True)]
    return [abs(beyond(value, pair.measured)) for value, pair in zip(said, pairs, strict=True)]


def change_errors(pairs: list[Pair], name: str = "the replay") -> list[float]:
    """The same of patched ÷ base."""
    said = [(pair.predicted if name == "the replay" else pair.simple[name]) / pair.base_predicted for pair in pairs]
    return [abs(beyond(value, pair.ratio)) for value, pair in zip(said, pairs, strict=True)]


# -------------------------------------------------------------------------------------------------------- the lines

Found_ = Callable[[list[Pair], list[Judged]], Found]


def _summary(
    summary: Callable[[Sequence[float]], float], of: Callable[[Pair], float], limit: float | None = None
) -> Found_:
    def found(pairs: list[Pair], _: list[Judged]) -> Found:
        if not pairs:
            return Found("–")
        value = summary([abs(of(pair)) for pair in pairs])
        return Found(percent(value), None if limit is None else value <= limit)

    return found


def _count(of: Callable[[Pair], bool]) -> Found_:
    def found(pairs: list[Pair], _: list[Judged]) -> Found:
        count = sum(map(of, pairs))
        return Found(f"{count} of {len(pairs)}", count == 0 if pairs else None)

    return found


def _rows(of: Callable[[Judged], float | None], limit: float | None) -> Found_:
    """Over all rows: the worst decides."""

    def found(_: list[Pair], rows: list[Judged]) -> Found:
        seen = [abs(value) for row in rows if (value := of(row)) is not None]
        if not seen:
            return Found("–")
        text = f"median {percent(median(seen))}, worst {percent(max(seen))}"
        if limit is None:
            return Found(f"{text} (n = {len(seen)})")
        within = sum(value <= limit for value in seen)
        return Found(f"{text}; within {limit * 100:.0f} %: {within} of {len(seen)} rows", within == len(seen))

    return found


def _whole(of: Callable[[Judged], float | None], limit: float | None) -> Found_:
    """Over the rows of which every pair is in the column."""

    def found(pairs: list[Pair], rows: list[Judged]) -> Found:
        whole = [row for row in rows if row.pairs and all(pair in pairs for pair in row.pairs)]
        return _rows(of, limit)(pairs, whole)

    return found


def _on(chosen: Callable[[list[Pair]], list[Pair]], inner: Found_) -> Found_:
    def found(pairs: list[Pair], rows: list[Judged]) -> Found:
        seen = inner(chosen(pairs), rows)
        return Found(f"{seen.text} (n = {len(chosen(pairs))})", seen.met)

    return found


def _against_the_best(summary: Callable[[Sequence[float]], float]) -> Found_:
    def found(pairs: list[Pair], _: list[Judged]) -> Found:
        if not pairs:
            return Found("–")
        ours = summary(errors(pairs))
        best, name = min((summary(errors(pairs, name)), name) for name in predictors(pairs))
        return Found(f"{percent(ours)} against {percent(best)} ({name})", ours <= best / 2)

    return found


def _coverage(pairs: list[Pair], _: list[Judged]) -> Found:
    if not pairs:
        return Found("–")
    share = sum(pair.inside for pair in pairs) / len(pairs)
    remark = "" if share <= 0.9 else "; more than wanted: they are wider than they need be"
    return Found(
        f"{sum(pair.inside for pair in pairs)} of {len(pairs)}, {percent(share, 0)}{remark}", 0.75 <= share <= 0.9
    )


def _width(pairs: list[Pair], _: list[Judged]) -> Found:
    if not pairs:
        return Found("–")
    value = median([(pair.high - pair.low) / 2 / pair.predicted for pair in pairs])
    return Found(percent(value), value <= 0.04)


def _sizes(_: list[Pair], rows: list[Judged]) -> Found:
    return Found(f"{len(rows)} rows of {len({loop(row) for row in rows})} loops")


def loop(row: Judged) -> str:
    return row.name.rsplit("-", 1)[0]


LINES: tuple[Line, ...] = (
    Line("rows measured", "", _sizes),
    Line("pairs (distinct patched versions)", "", lambda pairs, _: Found(str(len(pairs)))),
    Line("replay of the base against the profiled step", "≤ 1 %", _rows(lambda row: row.base_error, 0.01)),
    Line("the same, all rows by the model of the last run", "", _rows(lambda row: row.base_now_error, 0.01)),
    Line("replay of the base against the unprofiled step", "≤ 3 %", _rows(lambda row: row.anchor_error, 0.03)),
    Line("step-time error, median", "≤ 3 %", _summary(median, lambda pair: pair.error, 0.03)),
    Line("step-time error, 90th percentile", "≤ 6 %", _summary(ninetieth, lambda pair: pair.error, 0.06)),
    Line("step-time error, worst", "≤ 10 %", _summary(max, lambda pair: pair.error, 0.10)),
    Line("counted from the middle: median", "", _summary(median, lambda pair: pair.raw_error)),
    Line("counted from the middle: 90th percentile", "", _summary(ninetieth, lambda pair: pair.raw_error)),
    Line("counted from the middle: worst", "", _summary(max, lambda pair: pair.raw_error)),
    Line("wrong sign beyond noise", "0", _count(lambda pair: pair.wrong_sign)),
    Line("false promises (predicted > 2 %, measured < 1 %)", "0", _count(lambda pair: pair.false_promise)),
    Line("the same, beyond noise", "", _count(lambda pair: pair.sure_false_promise)),
    Line("measured gain > 3 %: error, median", "", _on(large, _summary(median, lambda pair: pair.error))),
    Line("measured gain > 3 %: 90th percentile", "", _on(large, _summary(ninetieth, lambda pair: pair.error))),
    Line("measured gain > 3 %: worst", "", _on(large, _summary(max, lambda pair: pair.error))),
    Line("no gain to be told from none: error, median", "", _on(without_gain, _summary(median, lambda p: p.error))),
    Line("no gain to be told from none: error, worst", "", _on(without_gain, _summary(max, lambda p: p.error))),
    Line("error against the best simple predictor's, median", "≤ half", _against_the_best(median)),
    Line("error against the best simple predictor's, 90th percentile", "≤ half", _against_the_best(ninetieth)),
    Line("80 % ranges that hold the measurement", "75–90 %", _coverage),
    Line("half-width of the ranges, median", "≤ 4 %", _width),
    Line("predicted fastest ÷ best measured − 1", "≤ 2 %", _whole(lambda row: row.fastest_regret, 0.02)),
    Line("the same, beyond both intervals", "", _whole(lambda row: row.sure_regret, 0.02)),
    Line("what the weighted winner gives up", "shown", _whole(lambda row: row.winner_regret, None)),
    Line("the same, beyond both intervals", "", _whole(lambda row: row.winner_sure_regret, None)),
)


def verdicts(held: list[Judged]) -> dict[str, list[str]]:
    """Names of the lines by verdict, over the measurable held-out pairs."""
    found: dict[str, list[str]] = {MET: [], MISSED: [], OPEN: []}
    for line in LINES:
        found[line.verdict(measurable(held), held)].append(line.name)
    return found
