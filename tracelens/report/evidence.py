"""What stands behind the answer, one folded section each: measurements, waits, checks, scores, recording, words.

In: an IllustratedDiagnosis. Out: Sections; those with nothing in them are absent.
"""

from __future__ import annotations

from collections.abc import Iterator

from tracelens.messages import joined, say
from tracelens.model import (
    OUTCOMES,
    Diagnosis,
    IllustratedDiagnosis,
    PlannedDiagnosis,
    SecondOpinion,
    Verification,
    baseline_of,
)
from tracelens.report import formatting, json, lever_names, measured_pairs, sections, verification_rows, wording
from tracelens.report.formatting import gain, milliseconds
from tracelens.report.sections import Code, Section, Table

WORDS = (
    (
        say("host blocked"),
        say("Python is inside a call that waits for the GPU. No cost by itself: the GPU may be busy all the while."),
    ),
    (say("GPU idle"), say("No kernel and no copy runs. Each idle microsecond has one owner.")),
    (
        say("without it"),
        say("The step with the wait minus the step without it. Two waits can give back more than their sum."),
    ),
    (say("predicted"), say("The recorded steps run again in a model with the change made; the range covers 80 %.")),
    (
        say("measured"),
        say(
            "Original and changed script ran in turns, in fresh processes. Shown is the middle pair; the range covers "
            "95 %."
        ),
    ),
    (
        say("lanes of one step"),
        say("Totals in the order of the loop. Where idle time lies within a step is in the timeline."),
    ),
    (
        say("acts on"),
        say("The part of a step that a lever touches: it cannot save more, and nobody knows how much it saves."),
    ),
    (
        say("try, fix, verify and apply"),
        say(
            "try measures levers on copies; your files stay as they are. fix shows a change, measures it on a copy, "
            "asks, then writes it. verify measures one change on a copy: same results, faster? apply writes it; revert "
            "takes it out again."
        ),
    ),
    ("–", say("Unknown, or not applicable. What is unknown is never shown as zero.")),
)


def trials(diagnosis: PlannedDiagnosis) -> tuple[Section, ...]:
    """One section per change that was measured."""
    return tuple(_trial(trial, diagnosis) for trial in diagnosis.verifications)


def _trial(trial: Verification, diagnosis: PlannedDiagnosis) -> Section:
    name = lever_names.with_id(trial.scheme, diagnosis) if trial.scheme else say("your change")
    predicted = say("{gain} predicted", gain=gain(trial.predicted.speedup)) if trial.predicted is not None else ""
    measured: str = OUTCOMES[trial.outcome]
    if trial.speedup is not None and trial.ratio is not None and trial.ratio.tells:
        measured = say("{gain} measured", gain=gain(trial.speedup))
    rows = tuple((what, value, remark) for what, value, remark in verification_rows.rows(trial))
    return Section(
        f"trial-{trial.scheme or 'change'}",
        say("Predicted and measured: {lever}", lever=name),
        joined(", ", [part for part in (predicted, measured) if part]),
        trial.verdict,
        Table((say("what"), say("value"), say("remark")), rows),
        tuple(measured_pairs.pairs(trial)),
    )


def hunks(diagnosis: PlannedDiagnosis) -> Section | None:
    """The change piece by piece, with what proves each, and what was left alone."""
    change = diagnosis.recommended_patch
    if change is None:
        return None
    rows: list[tuple[str, ...]] = [
        (hunk.id, hunk.tier, Code(formatting.clean(str(hunk.location))), hunk.explanation, hunk.evidence)
        for hunk in change.hunks
    ]
    rows += [
        ("–", say("left alone"), Code(formatting.clean(str(item.location))), item.obstacle, item.by_hand)
        for item in change.left_alone
    ]
    lede = say(
        "safe: changes nothing but time. checked: not proved, written once verify has found this "
        "very change equal. unsafe: needs --unsafe and says why. manual: shown, never written."
    )
    columns = (say("change"), say("tier"), say("where"), say("what"), say("evidence"))
    return Section(
        "hunks",
        say("The change, piece by piece"),
        say("{count} pieces", count=len(change.hunks)),
        lede,
        Table(columns, tuple(rows)),
    )


def situation(diagnosis: PlannedDiagnosis) -> Section | None:
    """Why waiting less gives nothing here."""
    said = wording.situation(diagnosis)
    return Section("situation", say("Why waiting less gives nothing here"), items=said) if said else None


def copies(diagnosis: Diagnosis) -> Section | None:
    """Copies to the GPU against compute."""
    overlap = diagnosis.overlap
    if overlap is None:
        return None
    rows = (
        (say("copying"), milliseconds(overlap.h2d_ns)),
        (say("hidden under compute"), milliseconds(overlap.h2d_hidden_ns)),
        (say("not hidden"), milliseconds(overlap.h2d_exposed_ns)),
        (say("of it blocking the host"), milliseconds(overlap.h2d_blocking_ns)),
        (say("streams used"), str(overlap.streams_used)),
        (say("two at once, of busy time"), formatting.percent(overlap.concurrent_share, 1)),
    )
    hint = say("{time} per step", time=milliseconds(overlap.h2d_ns))
    return Section(
        "copies",
        say("Copies to the GPU"),
        hint,
        table=Table((say("per recorded step"), say("value")), rows, frozenset({1})),
    )


def assumptions(diagnosis: PlannedDiagnosis) -> Section | None:
    """What the prediction of the recommended change takes for granted."""
    chosen = diagnosis.recommended
    said = chosen.estimate.assumptions if chosen is not None and chosen.estimate is not None else ()
    if not said:
        return None
    return Section(
        "assumptions", say("What the prediction assumes"), say("{count} points", count=len(said)), items=tuple(said)
    )


def recording(diagnosis: Diagnosis) -> Section:
    """What was run on what, and what is odd about the recording."""
    notes = diagnosis.timeline.trace.warnings + diagnosis.timeline.notes
    rows = tuple(environment(diagnosis))
    hint = wording.device(diagnosis.timeline.trace)
    return Section("recording", say("Recording"), hint, table=Table((say("what"), say("value")), rows), items=notes)


def method(diagnosis: Diagnosis) -> Section:
    """One baseline, and what the words mean."""
    steps = diagnosis.steps
    baseline = {
        "measured": say("the original of the newest measurement, in the pair with the middle ratio"),
        "unprofiled": say("the median of the steps that were timed without the profiler"),
        "recorded": say("the median of the recorded steps, with the profiler"),
    }[steps.baseline_source]
    told = {"step": milliseconds(steps.best_known_ns), "baseline": baseline, "recorded": milliseconds(steps.median_ns)}
    lede = (
        say(
            "Every time on this page is per step at one baseline, {step}: {baseline}. A recorded step takes {recorded} "
            "with the profiler, which slows Python where it records a row, and not kernels: the GPU's work is as "
            "recorded, the rest is without what rows took, scaled to fill the baseline. Predictions are the baseline "
            "times a ratio. The timeline, single steps and ranks are as recorded.",
            **told,
        )
        if baseline_of(diagnosis).keeps_work
        else say(
            "Every time on this page is per step at one baseline, {step}: {baseline}. Recorded times are their shares "
            "of a recorded step ({recorded} with the profiler), predictions the baseline times a ratio. The timeline, "
            "single steps and ranks are as recorded.",
            **told,
        )
    )
    return Section(
        "method",
        say("Method"),
        say("one baseline, what the words mean"),
        lede,
        Table((say("word"), say("meaning")), WORDS),
    )


def second_opinion(opinion: SecondOpinion | None) -> Section | None:
    """Another tool's numbers of the whole recording, ours by its definitions, and what is known of a difference."""
    if opinion is None:
        return None
    columns = (say("of the whole recording"), opinion.tool, "TraceLens", "")
    table = Table(columns, tuple(wording.opinion_rows(opinion)), frozenset({1, 2}))
    title = say("Second opinion: {tool} {version}", tool=opinion.tool, version=opinion.version)
    return Section(
        "opinion",
        title,
        say("its definitions"),
        table=table,
        items=tuple(say("{sentence}.", sentence=note) for note in opinion.notes),
    )


def folded(diagnosis: IllustratedDiagnosis, opinion: SecondOpinion | None) -> tuple[Section, ...]:
    """Everything, in the order in which a doubt comes up."""
    found = (
        situation(diagnosis),
        sections.waits(diagnosis),
        sections.found(diagnosis),
        sections.passed(diagnosis),
        sections.unjudged(diagnosis),
        sections.inventory(diagnosis),
        sections.plan(diagnosis),
        copies(diagnosis),
        assumptions(diagnosis),
        second_opinion(opinion),
        sections.beyond(diagnosis),
        recording(diagnosis),
        method(diagnosis),
    )
    return tuple(section for section in found if section is not None)


def environment(diagnosis: Diagnosis) -> Iterator[tuple[str, str]]:
    """What was run on what, in words; names of environment variables only, their values can be secrets."""
    meta = diagnosis.run.meta if diagnosis.run else {}
    machine = meta.get("environment") or {}
    yield say("Device"), wording.device(diagnosis.timeline.trace)
    if diagnosis.run is not None and diagnosis.run.command:
        yield say("Command"), formatting.shorten(" ".join(diagnosis.run.command), 200)
    names = (
        ("python", "Python"),
        ("torch", "PyTorch"),
        ("cuda", "CUDA"),
        ("driver", say("Driver")),
        ("cpu_count", say("CPU cores")),
    )
    for key, name in names:
        if machine.get(key) not in (None, ""):
            yield name, str(machine[key])
    git = meta.get("git") or {}
    if git.get("revision"):
        revision = git["revision"][:12]
        told = say("{revision} with local changes", revision=revision) if git.get("dirty") else revision
        yield say("Revision"), told
    for trace in diagnosis.traces:
        name, dropped = json.trace_name(trace, diagnosis), sum(trace.dropped.values())
        events = say("{trace}: {events:,} events", trace=name, events=len(trace))
        if dropped:
            events = say("{events}, {dropped:,} rows not used", events=events, dropped=dropped)
        of_rank = say("Trace, rank unknown") if trace.rank is None else say("Trace, rank {rank}", rank=trace.rank)
        yield of_rank, events
    yield say("Steps from"), wording.STEP_SOURCE[diagnosis.steps.source]
