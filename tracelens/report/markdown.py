"""What the other reports say, as Markdown: for a step summary, a pull request, a wiki.

In: a Diagnosis, a Comparison or a Gate. Out: text. The verdict is the same sentence as everywhere; the implementation
record of a scheme is in `record`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tracelens.model import Diagnosis, PlannedDiagnosis, Stall
from tracelens.report import formatting, next_commands, wording
from tracelens.report.compare import Comparison, TimeChange
from tracelens.report.gate import Gate
from tracelens.report.issues import Issue
from tracelens.report.markdown_syntax import block, bullets, code, document, plain, table
from tracelens.report.text import by_rank, recorded

ROWS = 10
"""Rows of a table in a summary; the report has all."""


def summary(diagnosis: Diagnosis, typed: Sequence[str] = ()) -> str:
    """Verdict, where a step goes, the waits, the schemes, what could not be judged, the next command."""
    return document(_summary(diagnosis, typed))


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
    yield " · ".join(plain(chip) for chip in recorded(diagnosis))
    yield from breakdown(diagnosis)
    yield from waits(diagnosis)
    follow = next_commands.after_analyze(diagnosis, typed)
    if isinstance(diagnosis, PlannedDiagnosis):
        yield from schemes(diagnosis)
        yield from beyond(diagnosis)
        follow = next_commands.after_recommend(diagnosis, typed)
    yield from unjudged(diagnosis)
    yield f"Next:\n\n{block(follow, 'sh')}"


def breakdown(diagnosis: Diagnosis) -> Iterator[str]:
    """Where a step goes; nothing without a GPU."""
    parts = wording.shown_parts(diagnosis.breakdown)
    if parts:
        yield "## Where a step goes"
        rows = [
            (wording.PARTS[part][0], formatting.milliseconds(ns), formatting.percent(share, 1), wording.PARTS[part][1])
            for part, ns, share in parts
        ]
        yield table(("part", "per step", "share", ""), rows, frozenset({1, 2}))


def waits(diagnosis: Diagnosis) -> Iterator[str]:
    """Host waits with their three numbers, costliest first."""
    stalls = wording.ranked_stalls(diagnosis)
    if stalls:
        yield "## Host waits, per step"
        columns = ("source line", "call", "calls", "host blocked", "GPU idle", "recoverable", "verdict")
        yield table(columns, [_wait(stall) for stall in stalls[:ROWS]], frozenset({2, 3, 4, 5}))
        if len(stalls) > ROWS:
            yield f"and {len(stalls) - ROWS} more in the JSON."
        if wording.together(diagnosis):
            yield plain(wording.together(diagnosis))


def _wait(stall: Stall) -> tuple[str, ...]:
    return (
        code(str(stall.location)) if stall.location else "not recorded",
        code(wording.stall_call(stall)),
        f"{stall.calls_per_step:.1f}",
        formatting.milliseconds(stall.wait_ns),
        formatting.milliseconds(stall.gpu_idle_ns),
        formatting.milliseconds(stall.exposed_ns),
        wording.VERDICT[stall.verdict],
    )


def schemes(diagnosis: PlannedDiagnosis) -> Iterator[str]:
    """Every scheme with its prior, its score here and its estimate, or the reason against it."""
    if not diagnosis.schemes:
        return
    yield "## Schemes on this run"
    rows = []
    for scheme in by_rank(diagnosis):
        estimate = scheme.estimate
        rows.append(
            (
                str(scheme.rank or "–"),
                code(scheme.id),
                formatting.estimate_range(estimate) if estimate else "–",
                f"{formatting.gain(estimate.speedup)}, {estimate.evidence}" if estimate else "–",
                "–" if scheme.prior_total is None else f"{scheme.prior_total:.2f}",
                "–" if scheme.total is None else f"{scheme.total:.2f}",
                plain("; ".join(scheme.reasons)) if not scheme.applicable else "",
            )
        )
    columns = ("rank", "scheme", "step (range)", "faster by", "prior", "score", "why not")
    yield table(columns, rows, frozenset({0, 2, 3, 4, 5}))


def beyond(diagnosis: PlannedDiagnosis) -> Iterator[str]:
    """Measures of the training speed guide that the loop does not have; opinions, and said to be."""
    measures = wording.untried(diagnosis)
    if measures:
        yield f"## {wording.BEYOND}"
        rows = [
            (code(measure.id), plain(measure.how), plain(wording.expected(measure)), wording.at_most(measure))
            for measure in measures
        ]
        yield table(("measure", "what it is", "the guide expects", "here at most"), rows, frozenset({3}))
        yield wording.BEYOND_NOTE


def unjudged(diagnosis: Diagnosis) -> Iterator[str]:
    """What could not be judged, and what to record."""
    groups = wording.grouped_abstentions(diagnosis)
    if groups:
        yield "## Could not be judged"
        yield bullets(
            f"{plain(', '.join(names))}: {plain(missing)}. {plain(formatting.capitalized(hint))}."
            for names, missing, hint in groups
        )


# --------------------------------------------------------------------------------------------- compare and check


def _comparison(result: Comparison, next_command: str) -> Iterator[str]:
    yield "# TraceLens: what changed"
    yield f"**{plain(result.verdict)}**"
    yield f"Judgment: **{result.judgment}**."
    yield bullets(f"not comparable: {plain(obstacle)}" for obstacle in result.obstacles)
    parts = [
        _change(wording.PARTS[change.name][0], change) for change in result.parts if change.base_ns or change.new_ns
    ]
    if parts:
        yield "## Parts of a step"
        yield table(("part", "base", "new", "change"), parts, frozenset({1, 2, 3}))
    if result.waits:
        yield "## Waits of the host, per step"
        rows = [_change(code(change.name), change) for change in result.waits[:ROWS]]
        yield table(("where", "base", "new", "change"), rows, frozenset({1, 2, 3}))
    yield from _issues("New findings", result.appeared)
    yield from _issues("Findings that are gone", result.vanished)
    yield f"Next:\n\n{block(next_command, 'sh')}"


def _change(name: str, change: TimeChange) -> tuple[str, ...]:
    before, after = (("–" if ns is None else formatting.milliseconds(ns)) for ns in (change.base_ns, change.new_ns))
    return name, before, after, formatting.signed(change.delta_ns)


def _gate(result: Gate, next_command: str) -> Iterator[str]:
    yield "# TraceLens: the gate"
    yield f"**{plain(result.verdict)}**"
    if result.items:
        said = {True: "kept", False: "**broken**", None: "not measured"}
        rows = [
            (
                item.name,
                "–" if item.value is None else f"{item.value:.3g}{item.unit}",
                f"{item.limit:g}{item.unit}",
                said[item.within],
            )
            for item in result.items
        ]
        yield table(("budget", "value", "at most", ""), rows, frozenset({1, 2}))
    if result.compared:
        yield from _issues("New findings", [issue for issue in result.issues if issue.state == "new"])
        yield from _issues("Known findings", [issue for issue in result.issues if issue.state == "known"])
    else:
        yield from _issues("Findings", [issue for issue in result.issues if issue.state != "allowed"])
    yield from _issues("Allowed", [issue for issue in result.issues if issue.state == "allowed"])
    if result.resolved:
        yield "## Findings of the baseline that are gone"
        yield bullets(
            plain(issue.title) + (f" at {code(issue.place)}" if issue.place else "") for issue in result.resolved
        )
    yield f"Next:\n\n{block(next_command, 'sh')}"


def _issues(title: str, issues: Sequence[Issue]) -> Iterator[str]:
    if issues:
        yield f"## {title}"
        rows = [
            (
                plain(issue.title),
                code(issue.place) if issue.place else "–",
                formatting.milliseconds(issue.cost_ns),
                formatting.percent(issue.share),
            )
            for issue in issues
        ]
        yield table(("what", "where", "per step", "share"), rows, frozenset({2, 3}))
