"""What `analyze` says in a terminal: the lines that wait, where a step goes, findings, and HTA's second opinion.

In: a Diagnosis. Out: blocks. One screen on the one step time of the page; with -v each wait with its lines, the
evidence and how it was recorded.
"""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType

from tracelens.messages import joined, say, say_count
from tracelens.model import Diagnosis, SecondOpinion, Stall, baseline_of
from tracelens.report import formatting, line_times, rare_steps, screen_text, terminal, wording
from tracelens.report.first_screen import costly_lines, subject, time_columns
from tracelens.report.formatting import short_ms
from tracelens.report.json import trace_name
from tracelens.report.shared_machine import shared_machine
from tracelens.report.source_excerpt import around
from tracelens.report.terminal import TerminalStyle

FRAMES = 3
"""Code frames printed: beyond the three costliest waits the table is quicker to read."""
SHORT_ROWS = 5
SHORT_GROUPS = 2
"""What fits beside the rest on one screen; -v has all."""
STALL_ROWS = 12
"""Rows of the stall table; the JSON has all of them."""


def blocks(
    diagnosis: Diagnosis, style: TerminalStyle, next_command: str, opinion: SecondOpinion | None
) -> Iterator[RenderableType]:
    yield terminal.subject(subject(diagnosis))
    yield terminal.verdict(wording.verdict(diagnosis))
    for sentence in (*rare_steps.said(diagnosis, wording.verdict(diagnosis)), *shared_machine(diagnosis).said()):
        yield terminal.paragraph(sentence)
    if style.everything:
        yield from _breakdown(diagnosis)
        yield from _stalls(diagnosis, style)
        yield from _findings(diagnosis)
        yield from abstentions(diagnosis)
        yield from method(diagnosis)
    else:
        lines = costly_lines(diagnosis)
        yield from screen_text.annotated(lines, time_columns(diagnosis))
        yield from _breakdown(diagnosis)
        yield from _short_findings(diagnosis)
        yield from _short_abstentions(diagnosis)
        if opinion is None:
            yield terminal.paragraph(say("With -v: each wait, the evidence, how it was recorded."), "dim")
    if opinion is not None:
        yield from _second_opinion(opinion)
    yield terminal.next_command(next_command)


def _second_opinion(opinion: SecondOpinion) -> Iterator[RenderableType]:
    """HTA's numbers of the whole recording, ours by its definitions, and what is known of a difference."""
    yield terminal.heading(
        say(
            "Second opinion: {tool} {version}, of the whole recording, its definitions",
            tool=opinion.tool,
            version=opinion.version,
        )
    )
    yield terminal.table(("", opinion.tool, "TraceLens", ""), wording.opinion_rows(opinion), frozenset({1, 2}))
    for note in opinion.notes:
        yield terminal.paragraph(say("{sentence}.", sentence=note), "dim")


def method(diagnosis: Diagnosis) -> Iterator[RenderableType]:
    """The one place that has the step time under the profiler."""
    yield terminal.heading(say("How it was recorded"))
    yield terminal.paragraph(joined(", ", recorded(diagnosis)))
    yield terminal.paragraph(
        say(
            "The profiler slows Python where it records a row, not kernels: the GPU's work is as recorded, and the "
            "rest of a recorded step is without what rows took, scaled to fill the step time above."
        )
        if baseline_of(diagnosis).keeps_work
        else say("Times are their shares of a recorded step, on the step time above.")
    )


def _short_findings(diagnosis: Diagnosis) -> Iterator[RenderableType]:
    if not diagnosis.findings:
        return
    yield terminal.heading(say("Findings"))
    rows = [
        (
            finding.title,
            formatting.clean(str(finding.location)) if finding.location else "",
            f"{short_ms(finding.cost_ns)} ms",
            formatting.percent(finding.share),
        )
        for finding in diagnosis.findings[:SHORT_ROWS]
    ]
    yield terminal.table((say("what"), say("where"), say("per step"), say("share")), rows, frozenset({2, 3}))
    if wording.together(diagnosis):
        yield terminal.paragraph(
            say("What waits cost is predicted for a step without any of them; a change may leave some."), "dim"
        )


def _short_abstentions(diagnosis: Diagnosis) -> Iterator[RenderableType]:
    groups = wording.grouped_abstentions(diagnosis)
    if not groups:
        return
    yield terminal.heading(say("Could not be judged"))
    for names, missing, hint in groups[:SHORT_GROUPS]:
        yield terminal.paragraph(
            say("{names}: {missing}; {hint}", names=joined(", ", names), missing=missing, hint=hint)
        )
    if len(groups) > SHORT_GROUPS:
        count = len(groups) - SHORT_GROUPS
        yield terminal.paragraph(
            say_count("and {count} more reason with -v", "and {count} more reasons with -v", count), "dim"
        )


def recorded(diagnosis: Diagnosis) -> tuple[str, ...]:
    """What was recorded, in a few words: trace, device, steps, step time with and without the profiler."""
    trace, steps = diagnosis.timeline.trace, diagnosis.steps
    name = diagnosis.run.path.name if diagnosis.run else trace_name(trace, diagnosis)
    chips = [name, wording.device(trace)]
    if len(diagnosis.traces) > 1:
        chips.append(say("slowest of {count} ranks", count=len(diagnosis.traces)))
    source = wording.STEP_SOURCE[steps.source]
    chips.append(say("{steps} ({source})", steps=wording.step_count(diagnosis), source=source))
    recorded_ns = steps.median_ns if steps.certain else None
    chips.append(say("{time} per step recorded", time=formatting.milliseconds(recorded_ns)))
    if steps.unprofiled_median_ns is not None:
        without = formatting.milliseconds(steps.unprofiled_median_ns)
        mean = formatting.milliseconds(steps.other_mean_ns)
        chips.append(
            say("{time} without the profiler", time=without)
            if steps.other_mean_ns is None
            else say("{time} without the profiler (mean {mean})", time=without, mean=mean)
        )
    return tuple(chips)


def _breakdown(diagnosis: Diagnosis) -> Iterator[RenderableType]:
    if diagnosis.breakdown is None:
        return
    yield terminal.heading(say("Where a step goes"))
    yield terminal.bars(
        (wording.PARTS[part][0], share, f"{short_ms(ns)} ms", formatting.percent(share))
        for part, ns, share in wording.shown_parts(diagnosis.breakdown)
    )


def _stalls(diagnosis: Diagnosis, style: TerminalStyle) -> Iterator[RenderableType]:
    stalls = wording.ranked_stalls(diagnosis)
    if not stalls:
        return
    rows_shown, frames_shown = (len(stalls), len(stalls)) if style.everything else (STALL_ROWS, FRAMES)
    yield terminal.heading(say("Host waits, per step"))
    columns = (
        say("source line"),
        say("call"),
        say("calls"),
        say("host blocked"),
        say("GPU idle"),
        say("recoverable"),
        say("verdict"),
    )
    rows = [_stall_row(stall, diagnosis) for stall in stalls[:rows_shown]]
    yield terminal.table(columns, rows, frozenset({2, 3, 4, 5}))
    if len(stalls) > rows_shown:
        yield terminal.paragraph(say("and {count} more with -v", count=len(stalls) - rows_shown), "dim")
    if wording.together(diagnosis):
        yield terminal.paragraph(wording.together(diagnosis))
    framed = [s for s in stalls if s.location and (s.verdict == "exposed" or style.everything)]
    for stall in framed[:frames_shown]:
        yield terminal.heading("")
        yield _frame(stall, diagnosis)


def _stall_row(stall: Stall, diagnosis: Diagnosis) -> tuple[str, ...]:
    return (
        formatting.shorten(wording.stall_place(stall), 40) if stall.location else wording.stall_place(stall),
        formatting.shorten(wording.stall_call(stall), 36),
        f"{stall.calls_per_step:.1f}",
        formatting.milliseconds(stall.wait_ns),
        formatting.milliseconds(stall.gpu_idle_ns),
        formatting.milliseconds(stall.exposed_ns),
        line_times.wait_verdict(stall, diagnosis),
    )


def _frame(stall: Stall, diagnosis: Diagnosis) -> RenderableType:
    wait, idle, exposed = (formatting.milliseconds(ns) for ns in (stall.wait_ns, stall.gpu_idle_ns, stall.exposed_ns))
    call = wording.stall_call(stall)
    title = say("{call}: removing it alone gives back {time} per step", call=call, time=exposed)
    note = say("host blocked {wait}, GPU idle {idle}", wait=wait, idle=idle)
    function = stall.location.function if stall.location else None
    place = wording.stall_place(stall)
    place = say("{where} in {function}", where=place, function=function) if function else place
    excerpt = around(diagnosis.sources, stall.location, stall.call)
    return terminal.code_frame(title, place, excerpt, note, wording.HELP[stall.kind])


def _findings(diagnosis: Diagnosis) -> Iterator[RenderableType]:
    if not diagnosis.findings:
        return
    yield terminal.heading(say("Findings"))
    rows = [
        (f.title, formatting.milliseconds(f.cost_ns), formatting.percent(f.share), f.evidence)
        for f in diagnosis.findings
    ]  # fmt: skip
    yield terminal.table((say("what"), say("per step"), say("share"), say("evidence")), rows, frozenset({1, 2}))


def abstentions(diagnosis: Diagnosis) -> Iterator[RenderableType]:
    if not diagnosis.abstentions:
        return
    yield terminal.heading(say("Could not be judged"))
    rows = [(joined(", ", names), missing, hint) for names, missing, hint in wording.grouped_abstentions(diagnosis)]
    yield terminal.table((say("what"), say("missing"), say("record")), rows, frozenset())
