"""What compare and check say in a terminal.

In: a Comparison or a Gate. Out: one string: the verdict first, then the numbers it rests on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rich.console import RenderableType

from tracelens.messages import Message, say
from tracelens.report import formatting, terminal, wording
from tracelens.report.compare import Comparison, TimeChange
from tracelens.report.gate import Gate
from tracelens.report.issues import Issue
from tracelens.report.terminal import TerminalStyle

ROWS = 12
"""Rows of a table; -v and the JSON have all of them."""
MARK = {True: say("ok"), False: say("ABOVE"), None: "?"}
STATE = {"new": say("new"), "known": say("in the baseline"), "allowed": say("allowed")}
UNCOMPARED = {"new": say("found"), "allowed": say("allowed")}
"""Without a baseline nothing is new."""


def comparison(result: Comparison, style: TerminalStyle, next_command: str) -> str:
    """Two versions side by side: step time with its interval, parts, waits, findings."""
    return terminal.draw(_comparison(result, style, next_command), style)


def gate(result: Gate, style: TerminalStyle, next_command: str) -> str:
    """Budgets, findings and what is allowed."""
    return terminal.draw(_gate(result, next_command), style)


def _comparison(result: Comparison, style: TerminalStyle, next_command: str) -> Iterator[RenderableType]:
    yield terminal.verdict(result.verdict)
    rows = [_change(wording.PARTS[part.name][0], part) for part in result.parts if part.base_ns or part.new_ns]
    if rows:
        yield terminal.heading(say("Parts of a step"))
        yield terminal.table((say("part"), say("base"), say("new"), say("change")), rows, frozenset({1, 2, 3}))
    if result.waits:
        yield terminal.heading(say("Waits of the host, per step"))
        shown = result.waits if style.everything else result.waits[:ROWS]
        waits = [(*_change(wait.name, wait), _lines(wait), _exposed(wait)) for wait in shown]
        columns = (say("where"), say("base"), say("new"), say("change"), say("lines"), say("costs"))
        yield terminal.table(columns, waits, frozenset({1, 2, 3}))
    yield from _issues(say("New findings"), result.appeared)
    yield from _issues(say("Findings that are gone"), result.vanished)
    yield terminal.next_command(next_command)


def _change(name: str, change: TimeChange) -> tuple[str, ...]:
    before, after = (("–" if ns is None else formatting.milliseconds(ns)) for ns in (change.base_ns, change.new_ns))
    return (
        name if isinstance(name, Message) else formatting.shorten(name, 50),
        before,
        after,
        formatting.signed(change.delta_ns),
    )


def _lines(change: TimeChange) -> str:
    before, after = (", ".join(map(str, lines)) for lines in (change.base_lines, change.new_lines))
    if change.state != "changed":
        return f"{change.state}: {before or after}" if before or after else change.state
    return before if before == after else f"{before} → {after}"


def _exposed(change: TimeChange) -> str:
    """What removing the wait alone gives back, before and after."""
    both = (change.base_exposed_ns, change.new_exposed_ns)
    return " → ".join("–" if ns is None else formatting.milliseconds(ns) for ns in both) if any(both) else "–"


def _gate(result: Gate, next_command: str) -> Iterator[RenderableType]:
    yield terminal.verdict(result.verdict)
    if result.items:
        yield terminal.heading(say("Budgets"))
        rows = [
            (
                MARK[item.within],
                item.name,
                formatting.UNKNOWN if item.value is None else f"{item.value:.3g}{item.unit}",
                f"{item.limit:g}{item.unit}",
            )
            for item in result.items
        ]
        yield terminal.table(("", say("budget"), say("value"), say("at most")), rows, frozenset({2, 3}))
    named = STATE if result.compared else UNCOMPARED
    yield from _issues(
        say("Findings"),
        result.issues,
        named,
        states=result.compared or any(issue.state == "allowed" for issue in result.issues),
    )
    if result.resolved:
        yield terminal.heading(say("Findings of the baseline that are gone"))
        yield terminal.table(
            (say("what"), say("where")), [(issue.title, issue.place or "–") for issue in result.resolved], frozenset()
        )
    for entry in result.unused:
        yield terminal.paragraph(say("the allow-list's {entry} allows nothing here: has the line moved?", entry=entry))
    yield terminal.next_command(next_command)


def _issues(
    title: str, issues: Sequence[Issue], named: Mapping[str, str] = STATE, *, states: bool = False
) -> Iterator[RenderableType]:
    if not issues:
        return
    yield terminal.heading(title)
    rows = [
        (
            *([named[issue.state]] if states else []),
            issue.title,
            issue.place or "–",
            formatting.milliseconds(issue.cost_ns),
            formatting.percent(issue.share),
        )
        for issue in issues
    ]
    columns = (*([say("state")] if states else []), say("what"), say("where"), say("per step"), say("share"))
    numbers = frozenset({len(columns) - 2, len(columns) - 1})
    yield terminal.table(columns, rows, numbers)
