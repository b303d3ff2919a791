"""What the other reports say, as Markdown: for a step summary, a pull request, a wiki.

In: a Diagnosis, a Comparison or a Gate. Out: text. The verdict is the same sentence as everywhere; the implementation
record of a scheme is in `record`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tracelens.messages import say
from tracelens.model import Diagnosis, PlannedDiagnosis, on_baseline
from tracelens.report import formatting, lever_section, next_commands, rare_steps, recorded_pace, sections, wording
from tracelens.report.analysis_text import recorded
from tracelens.report.compare import JUDGED, Comparison, TimeChange
from tracelens.report.gate import Gate
from tracelens.report.issues import Issue
from tracelens.report.markdown_syntax import block, bullets, code, document, plain, table
from tracelens.report.sections import Code, Section
from tracelens.report.shared_machine import shared_machine

ROWS = 12
"""Rows of a table in a summary; the report has all."""


def summary(diagnosis: Diagnosis, typed: Sequence[str] = ()) -> str:
    """Verdict, levers, where a step goes, the waits, what could not be judged, the next command."""
    return document(_summary(on_baseline(diagnosis), typed))


def comparison(result: Comparison, next_command: str) -> str:
    """What changed between two versions."""
    return document(_comparison(result, next_command))


def gate(result: Gate, next_command: str) -> str:
    """Budgets and findings of `check`."""
    return document(_gate(result, next_command))


# ------------------------------------------------------------------------------------------------------ a diagnosis


def _summary(diagnosis: Diagnosis, typed: Sequence[str]) -> Iterator[str]:
    yield "# TraceLens"
    yield f"**{plain(wording.verdict(diagnosis))}**"
    said = (*rare_steps.said(diagnosis, wording.verdict(diagnosis)), *shared_machine(diagnosis).said())
    yield from (plain(sentence) for sentence in said)
    if pace := recorded_pace.said(diagnosis):
        yield plain(pace)
    yield " · ".join(plain(chip) for chip in recorded(diagnosis))
    follow = next_commands.after_analyze(diagnosis, typed)
    if isinstance(diagnosis, PlannedDiagnosis):
        yield from section(_levers(diagnosis))
        follow = next_commands.next_command(diagnosis, typed)
    for part in (sections.step_parts(diagnosis), sections.owners(diagnosis), sections.waits(diagnosis)):
        yield from section(part)
    if isinstance(diagnosis, PlannedDiagnosis):
        yield from section(sections.estimates(diagnosis))
        yield from section(sections.beyond(diagnosis))
    yield from section(sections.unjudged(diagnosis))
    yield say("Next:\n\n{block}", block=block(follow, "sh"))


def _levers(diagnosis: PlannedDiagnosis) -> Section | None:
    found = lever_section.lever_table(diagnosis)
    return None if found is None else Section("levers", say("Levers"), table=found.table)


def section(part: Section | None) -> Iterator[str]:
    """Title, lede, table, points, note; nothing of a section that is absent."""
    if part is None:
        return
    yield f"## {plain(part.title)}"
    yield from section_body(part)


def section_body(part: Section) -> Iterator[str]:
    """The same without its title."""
    if part.lede:
        yield plain(part.lede)
    if part.table is not None:
        rows = [tuple(map(_cell, row)) for row in part.table.rows[:ROWS]]
        yield table(tuple(map(plain, part.table.columns)), rows, part.table.numbers)
        if len(part.table.rows) > ROWS:
            yield say("and {count} more in the JSON.", count=len(part.table.rows) - ROWS)
    if part.items:
        yield bullets(map(plain, part.items))
    if part.note:
        yield plain(part.note)


def _cell(value: str) -> str:
    return code(value) if isinstance(value, Code) else plain(value)


# --------------------------------------------------------------------------------------------- compare and check


def _comparison(result: Comparison, next_command: str) -> Iterator[str]:
    yield say("# TraceLens: what changed")
    yield f"**{plain(result.verdict)}**"
    yield say("Judgment: **{judgment}**.", judgment=JUDGED[result.judgment])
    yield bullets(say("not comparable: {obstacle}", obstacle=plain(obstacle)) for obstacle in result.obstacles)
    parts = [
        _change(wording.PARTS[change.name][0], change) for change in result.parts if change.base_ns or change.new_ns
    ]
    if parts:
        yield say("## Parts of a step")
        yield table((say("part"), say("base"), say("new"), say("change")), parts, frozenset({1, 2, 3}))
    if result.waits:
        yield say("## Waits of the host, per step")
        rows = [_change(code(change.name), change) for change in result.waits[:ROWS]]
        yield table((say("where"), say("base"), say("new"), say("change")), rows, frozenset({1, 2, 3}))
    yield from _issues(say("New findings"), result.appeared)
    yield from _issues(say("Findings that are gone"), result.vanished)
    yield say("Next:\n\n{block}", block=block(next_command, "sh"))


def _change(name: str, change: TimeChange) -> tuple[str, ...]:
    before, after = (("–" if ns is None else formatting.milliseconds(ns)) for ns in (change.base_ns, change.new_ns))
    return name, before, after, formatting.signed(change.delta_ns)


def _gate(result: Gate, next_command: str) -> Iterator[str]:
    yield say("# TraceLens: the gate")
    yield f"**{plain(result.verdict)}**"
    if result.items:
        said = {True: say("kept"), False: say("**broken**"), None: say("not measured")}
        rows = [
            (
                item.name,
                "–" if item.value is None else f"{item.value:.3g}{item.unit}",
                f"{item.limit:g}{item.unit}",
                said[item.within],
            )
            for item in result.items
        ]
        yield table((say("budget"), say("value"), say("at most"), ""), rows, frozenset({1, 2}))
    if result.compared:
        yield from _issues(say("New findings"), [issue for issue in result.issues if issue.state == "new"])
        yield from _issues(say("Known findings"), [issue for issue in result.issues if issue.state == "known"])
    else:
        yield from _issues(say("Findings"), [issue for issue in result.issues if issue.state != "allowed"])
    yield from _issues(say("Allowed"), [issue for issue in result.issues if issue.state == "allowed"])
    if result.resolved:
        yield say("## Findings of the baseline that are gone")
        yield bullets(
            plain(issue.title) + (f" at {code(issue.place)}" if issue.place else "") for issue in result.resolved
        )
    yield say("Next:\n\n{block}", block=block(next_command, "sh"))


def _issues(title: str, issues: Sequence[Issue]) -> Iterator[str]:
    if issues:
        yield f"## {plain(title)}"
        rows = [
            (
                plain(issue.title),
                code(issue.place) if issue.place else "–",
                formatting.milliseconds(issue.cost_ns),
                formatting.percent(issue.share),
            )
            for issue in issues
        ]
        yield table((say("what"), say("where"), say("per step"), say("share")), rows, frozenset({2, 3}))
