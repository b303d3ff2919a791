"""All levers of a run on one scale: the step now, the step then as predicted and as measured, and what to type.

In: a PlannedDiagnosis. Out: `LeverTable`, words and lengths in percent of the picture, which the template writes down.
Levers that gain come first, then what nobody tried, then what gains nothing; the rest is listed with its reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from tracelens.messages import joined, say, say_count
from tracelens.model import Lever, Patch, PlannedDiagnosis, Speedup
from tracelens.report import (
    diff,
    edit_excerpt,
    first_screen,
    gain_words,
    lever_names,
    lever_order,
    next_commands,
    wording,
)
from tracelens.report.first_screen import LeverRow
from tracelens.report.formatting import DASH, listed, says
from tracelens.report.sections import Code, Section, Table
from tracelens.units import step_ms

MOST_UNTRIED = 4
"""Rows of levers without a number: the order of the rules says which are likely here, the rest is folded."""
FULL = 94.0
"""Percent of the picture that the longest step takes; the rest is room for its end mark."""
RESULTS = {
    "same": say("same results"),
    "inside_seed_band": say("losses differ, as much as other seeds do"),
    "outside_seed_band": say("losses differ, more than other seeds do"),
    "unknown": say("losses differ"),
}


@dataclass(frozen=True, slots=True)
class LeverBar:
    """A step time with its range; `kind` is predicted or measured."""

    kind: str
    low: float
    middle: float
    high: float
    text: str


@dataclass(frozen=True, slots=True)
class LeverLine:
    rank: str
    title: str
    what: str
    """What it is in a sentence of the rules."""
    id: str
    where: str
    size: str
    """How much its patch writes; empty where there is none."""
    bars: tuple[LeverBar, ...]
    gain: str
    evidence: str
    state: str
    results: str
    command: str
    advice: str
    best: bool
    speedup: float | None = None


@dataclass(frozen=True, slots=True)
class LeverTable:
    lines: tuple[LeverLine, ...]
    now: float
    now_text: str
    rest: tuple[Section, ...]
    steps_found: bool
    """Else the scale is the whole recording."""
    scaled: bool = False
    """Whether the step of any line is the baseline divided by a gain that was measured beside another original."""

    def has_word(self, column: Literal["rank", "gain"]) -> bool:
        """Whether any line says something in this column of the page."""
        return says(getattr(line, column) for line in self.lines)

    @property
    def has_bars(self) -> bool:
        """Whether the step of any line is known."""
        return any(line.bars for line in self.lines)

    @property
    def says_next(self) -> bool:
        """Whether any line has a command or an advice."""
        return any(line.command or line.advice for line in self.lines)

    @property
    def lede(self) -> str:
        """In what order they stand: there is no best of what nobody knows to gain."""
        if any(line.rank not in ("", DASH) for line in self.lines):
            said = say("Everything that could change this step, best first.")
            ranges = gain_words.ranges(bar.kind for line in self.lines for bar in line.bars)
            more = [gain_words.measured_first((line.state, line.speedup) for line in self.lines if line.rank.isdigit())]
            return joined(
                " ", [text for text in (said, *more, ranges, gain_words.SCALED if self.scaled else "") if text]
            )
        return say("Everything that could change this step. None is known to gain: the order is no ranking.")

    @property
    def table(self) -> Table:
        """The same as a plain table."""
        columns = ("", say("lever"), say("lines"), say("predicted, ms"), say("measured, ms"), say("gain"), say("next"))
        rows = tuple(
            (
                line.rank,
                line.title,
                line.where,
                _said(line, "predicted") or DASH,
                _said(line, "measured") or DASH,
                line.gain,
                Code(line.command) if line.command else line.advice,
            )
            for line in self.lines
        )
        return Table(columns, rows, frozenset({0, 5}))


def lever_table(diagnosis: PlannedDiagnosis) -> LeverTable | None:
    """None where no lever is known."""
    levers = _shown(diagnosis)
    if not levers:
        return None
    base_ns = diagnosis.steps.best_known_ns
    slowest = [base_ns / known.low for lever in levers for known in (lever.predicted, lever.measured) if known]
    scale = FULL / max(base_ns, *slowest, 1)
    rows = first_screen.lever_rows(levers, diagnosis)
    lines = tuple(_line(lever, row, diagnosis, scale) for lever, row in zip(levers, rows, strict=True))
    rest = tuple(_rest(diagnosis, frozenset(lever.id for lever in levers)))
    found = diagnosis.steps.source != "none"
    scaled = any(row.scaled for row in rows)
    return LeverTable(lines, round(base_ns * scale, 2), step_ms(base_ns, base_ns), rest, found, scaled)


def _shown(diagnosis: PlannedDiagnosis) -> Sequence[Lever]:
    """Of levers that nobody tried the first few, each with one of its values, and all that the next command tries."""
    levers = lever_order.ordered_levers(diagnosis)
    first = {lever.id.partition("=")[0]: lever.id for lever in reversed(levers) if lever.known is None}
    kept = [lever.id for lever in levers if lever.id in first.values()][:MOST_UNTRIED]
    kept += next_commands.worth_a_trial(diagnosis)
    return [lever for lever in levers if lever.known is not None or lever.id in kept]


def _line(lever: Lever, row: LeverRow, diagnosis: PlannedDiagnosis, scale: float) -> LeverLine:
    base_ns = diagnosis.steps.best_known_ns
    bars = [
        _bar(kind, known, base_ns, scale)
        for kind, known in (("predicted", lever.predicted), ("measured", lever.measured))
        if known is not None
    ]
    no_gain = row.gain in (gain_words.NO_GAIN, gain_words.SLOWER)
    recommended = diagnosis.recommendation.scheme or diagnosis.recommendation.lever
    return LeverLine(
        rank=row.rank,
        title=row.lever,
        what=lever.title,
        id=lever.id,
        where=_lines(row.lines),
        size=_size(diagnosis.patches.get(lever.id)),
        bars=tuple(bars),
        gain=row.gain if bars else DASH,
        evidence=row.evidence,
        state=lever.state,
        results=_results(lever),
        command="" if no_gain else next_commands.with_lever(lever, diagnosis),
        advice=say("leave it") if no_gain else _no_sign(lever),
        best=lever.id == recommended,
        speedup=row.speedup,
    )


def _size(patch: Patch | None) -> str:
    """'12 lines in, 5 out, 1 new file of 484 lines': what one has to read before it is in the script."""
    if patch is None or patch.empty:
        return ""
    files = diff.parse(patch.diff)
    kinds = [row.kind for file in files if not file.created for row in file.rows]
    new = [sum(row.kind == "add" for row in file.rows) for file in files if file.created]
    removed = kinds.count("del")
    said = say_count(
        "{count} line in, {removed} out", "{count} lines in, {removed} out", kinds.count("add"), removed=removed
    )
    return edit_excerpt.with_new_files(said, len(new), sum(new))


def _results(lever: Lever) -> str:
    """What a trial found of the results, else what the lever may change of them."""
    if lever.measured is not None and lever.numbers:
        return RESULTS[lever.numbers]
    return say("may change {what}", what=gain_words.EFFECT[lever.effect]) if lever.effect != "none" else ""


def _no_sign(lever: Lever) -> str:
    """Of a trial whose range is wide, but whose middle is no gain."""
    known = lever.measured
    return say("no sign of a gain") if known is not None and known.low <= 1 and not known.may_gain else ""


def _lines(spans: str) -> str:
    if not spans:
        return ""
    return say("lines {lines}", lines=spans) if {"–", ","} & set(spans) else say("line {lines}", lines=spans)


def _bar(kind: str, known: Speedup, base_ns: int, scale: float) -> LeverBar:
    step, low, high = (base_ns / ratio for ratio in (known.speedup, known.high, known.low))
    text = gain_words.spread(known, base_ns)
    return LeverBar(kind, round(low * scale, 2), round(step * scale, 2), round(high * scale, 2), text)


def _said(line: LeverLine, kind: str) -> str:
    return next((bar.text for bar in line.bars if bar.kind == kind), "")


def _rest(diagnosis: PlannedDiagnosis, shown: frozenset[str]) -> Iterator[Section]:
    """The levers that are not in the table, by why not."""
    left = [lever for lever in diagnosis.levers if lever.id not in shown]
    untried = [lever for lever in left if lever.state == "not_tried"]
    if untried:
        rows = tuple(
            (
                lever_names.with_id(one.id, diagnosis),
                one.text,
                Code(text) if (text := next_commands.with_lever(one, diagnosis)) else "",
            )
            for one in untried
        )
        yield Section(
            "untried",
            say("{count} more, not tried", count=len(rows)),
            table=Table((say("lever"), say("what to write"), say("next")), rows),
        )
    others = [lever for lever in left if lever.state != "not_tried"]
    if others:
        rows = tuple(
            (lever_names.with_id(one.id, diagnosis), wording.STATE[one.state], one.reason or "") for one in others
        )
        title = say("{count} that the loop has, or that do not apply", count=len(rows))
        yield Section("inapplicable", title, table=Table((say("lever"), say("state"), say("why")), rows))


def same_idle_time(diagnosis: PlannedDiagnosis) -> str:
    """Which of the levers that gain act on the same owners: their gains do not add up."""
    gaining = [one for one in _shown(diagnosis) if one.known is not None and one.known.excludes_zero]
    shared = {
        lever.id
        for owner in diagnosis.owners.owners
        if len(mine := [one for one in gaining if one.id.partition("=")[0] in owner.remedies]) > 1
        for lever in mine
    }
    names = [lever_names.name(lever, diagnosis) for lever in gaining if lever.id in shared]
    if len(gaining) < 2:
        return ""
    if not names:
        return say("Gains do not add up.")
    return say("Gains do not add up: {levers} act on the same time.", levers=listed(names))
