"""The implementation record of a scheme: problem, cause, schemes, steps, checklist, expected beside measured.

In: a Diagnosis with its plan and what `verify` measured, which scheme, what the rule files expect of it, whether its
patch is in the files. Out: Markdown. A box of the checklist is ticked only by a measurement; an open box states its
reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tracelens.messages import joined, say
from tracelens.model import Diagnosis, Estimate, Goal, Patch, PlannedDiagnosis, Scheme, Verification, on_baseline
from tracelens.report import formatting, markdown, next_commands, sections, verification_rows, wording
from tracelens.report.analysis_text import recorded
from tracelens.report.ascii_timeline import strip
from tracelens.report.markdown_syntax import block, bullets, checklist, code, document, plain, table
from tracelens.report.text import MET

MOST_DIFF_LINES = 400
"""A record is read by people; a longer patch is in tracelens.patch."""


APPLIED = {True: say("applied"), False: say("applied: not at present"), None: say("applied: not known here")}


@dataclass(frozen=True, slots=True)
class Expectation:
    """What a source expects of a scheme: gain, working days or lines of code."""

    what: str
    value: str
    source: str


@dataclass(frozen=True, slots=True)
class Subject:
    """The scheme that the record is about, with what the Diagnosis does not hold."""

    scheme: str
    number: str | None
    summary: str
    claims: tuple[Expectation, ...] = ()
    risks: tuple[str, ...] = ()
    streams: tuple[tuple[str, str], ...] = ()
    """(stream, what runs on it) where the scheme uses several."""
    applied: bool | None = None
    """Whether its patch is in the files at present; None where that cannot be told."""


def page(diagnosis: PlannedDiagnosis, subject: Subject | None, typed: Sequence[str] = ()) -> str:
    """The summary, and below it the record where there is a scheme to write about."""
    whole = markdown.summary(diagnosis, typed)
    return whole if subject is None else whole + "\n" + record(diagnosis, subject, typed)


def record(diagnosis: PlannedDiagnosis, subject: Subject, typed: Sequence[str] = ()) -> str:
    """The record alone."""
    return document(_record(on_baseline(diagnosis), subject, typed))


def _record(diagnosis: PlannedDiagnosis, subject: Subject, typed: Sequence[str]) -> Iterator[str]:
    scheme = next(candidate for candidate in diagnosis.schemes if candidate.id == subject.scheme)
    change = diagnosis.patches.get(scheme.id)
    trial = next((candidate for candidate in diagnosis.verifications if candidate.scheme == scheme.id), None)
    number = say("Scheme {number}: ", number=subject.number) if subject.number else ""
    yield say("# Implementation record: {number}{title}", number=number, title=plain(scheme.title))
    yield _status(diagnosis, subject, change, trial)
    yield from _problem(diagnosis)
    yield from _cause(diagnosis, scheme)
    yield from _choice(diagnosis, scheme, subject)
    yield from _streams(subject)
    yield from _steps(diagnosis, change)
    yield say("## Checklist")
    yield checklist(_checks(diagnosis, scheme, change, trial, subject))
    yield from _results(diagnosis, scheme, subject, trial)
    yield from _risks(subject)
    yield from _next(diagnosis, scheme, typed)


def _status(diagnosis: Diagnosis, subject: Subject, change: Patch | None, trial: Verification | None) -> str:
    made = say("no patch can be made") if change is None or change.empty else say("patch made")
    made = say("patch left out") if _redacted(diagnosis) else made
    applied = {True: say("applied"), False: say("not applied"), None: ""}[subject.applied]
    verified = say("verified: {outcome}", outcome=trial.outcome) if trial else say("not verified yet")
    return say("Status: **{states}**.", states=joined(", ", (part for part in (made, applied, verified) if part)))


# ------------------------------------------------------------------------------------------------ why


def _problem(diagnosis: Diagnosis) -> Iterator[str]:
    yield say("## Problem")
    yield plain(wording.symptom(diagnosis))
    step = diagnosis.steps.best_known_ns
    basis = say("without the profiler") if diagnosis.steps.unprofiled_median_ns else say("as recorded")
    worst = wording.ranked_stalls(diagnosis)
    rows = [
        (say("step time"), say("{step} {basis}", step=formatting.milliseconds(step), basis=basis)),
        (say("GPU idle"), formatting.percent(diagnosis.idle_share)),
        (
            say("host waits per step"),
            f"{sum(stall.calls_per_step for stall in worst if stall.verdict != 'window_edge'):.1f}",
        ),
        (
            say("host blocked per step"),
            formatting.milliseconds(sum(stall.wait_ns for stall in worst if stall.verdict != "window_edge")),
        ),
    ]
    yield table((say("quantity"), say("recorded")), rows, frozenset({1}))
    yield say("Recorded: {recorded}.", recorded=joined(" · ", (plain(chip) for chip in recorded(diagnosis))))


def _cause(diagnosis: Diagnosis, scheme: Scheme) -> Iterator[str]:
    yield say("## Cause")
    acted = {name for edit in scheme.edits for name in edit.stalls}
    places = [stall for stall in wording.ranked_stalls(diagnosis) if stall.id in acted]
    if places:
        yield say("The waits that this scheme acts on; *recoverable* is what removing one alone gives back:")
        yield table(
            (say("source line"), say("call"), say("per step"), say("host blocked"), say("recoverable")),
            [
                (
                    code(wording.stall_place(stall)),
                    code(wording.stall_call(stall)),
                    f"{stall.calls_per_step:.1f}",
                    formatting.milliseconds(stall.wait_ns),
                    formatting.milliseconds(stall.exposed_ns),
                )
                for stall in places
            ],
            frozenset({2, 3, 4}),
        )
        if wording.together(diagnosis):
            yield plain(wording.together(diagnosis))
    yield bullets(
        say(
            "{title} ({cost} per step): {evidence}",
            title=plain(finding.title),
            cost=formatting.milliseconds(finding.cost_ns),
            evidence=plain(finding.evidence),
        )
        for finding in diagnosis.findings
    )
    picture = strip(diagnosis.timeline)
    if picture:
        yield say("One recorded step, lane by lane:")
        yield block(picture, "text")


# ------------------------------------------------------------------------------------------- what was chosen


def _choice(diagnosis: PlannedDiagnosis, scheme: Scheme, subject: Subject) -> Iterator[str]:
    yield say("## The schemes and the choice")
    yield plain(subject.summary)
    compared = sections.estimates(diagnosis)
    if compared is not None:
        yield from markdown.section_body(compared)
    chosen = diagnosis.recommendation.scheme
    if chosen != scheme.id:
        if chosen:
            yield say("This scheme is not the recommended one on this run: {chosen} is.", chosen=code(chosen))
        else:
            yield say("This scheme is not the recommended one on this run: doing nothing is.")
    if scheme.reasons and not scheme.applicable:
        yield say("Against it on this run: {reasons}.", reasons=plain(joined("; ", scheme.reasons)))


def _streams(subject: Subject) -> Iterator[str]:
    if subject.streams:
        yield say("## What runs on which stream")
        yield table((say("stream"), say("work")), [(plain(name), plain(work)) for name, work in subject.streams])


def _steps(diagnosis: Diagnosis, change: Patch | None) -> Iterator[str]:
    yield say("## Steps")
    if _redacted(diagnosis):
        yield say("Left out of this page: it names the user's files.")
    elif change is None or change.empty:
        missing = [item.missing for item in diagnosis.abstentions if item.detector == "patch"]
        yield say(
            "No change was made: {why}.",
            why=plain(joined("; ", missing) or say("nothing in the source can be changed safely")),
        )
    else:
        yield "\n".join(
            f"{number}. {code(str(hunk.location))} {plain(hunk.explanation)} "
            f"({hunk.edit}, {hunk.tier}; {plain(hunk.evidence)})"
            for number, hunk in enumerate(change.hunks, 1)
        )
        yield _diff(change)
    if change is not None and change.left_alone:
        yield say("Left alone, with what to do by hand:")
        yield bullets(
            f"{code(str(item.location))} ({item.edit}): {plain(item.obstacle)}. {plain(item.by_hand)}"
            for item in change.left_alone
        )


def _diff(change: Patch) -> str:
    """The diff of the user's own files; a file that the patch adds is only named."""
    parts = re.split(r"^(?=diff --git )", change.diff, flags=re.MULTILINE)
    lines = [line for part in parts if "\n--- /dev/null\n" not in part for line in part.splitlines()]
    added = [file.path.name for file in change.files if file.before is None]
    note = say("Added beside the script: {added}.", added=joined(", ", (code(name) for name in added))) if added else ""
    if len(lines) > MOST_DIFF_LINES:
        return say("{note} The diff has {count} lines; it is in tracelens.patch.", note=note, count=len(lines)).strip()
    return joined("\n\n", (part for part in (block("\n".join(lines), "diff"), note) if part))


# ------------------------------------------------------------------------------------------------ was it true


def _checks(
    diagnosis: PlannedDiagnosis, scheme: Scheme, change: Patch | None, trial: Verification | None, subject: Subject
) -> Iterator[tuple[bool | None, str]]:
    yield _made(diagnosis, change)
    yield (
        subject.applied,
        APPLIED[subject.applied],
    )
    yield from _numbers(trial)
    yield from _memory(trial)
    for goal in _goals(diagnosis, scheme):
        state = plain(goal.evidence) if goal.evidence else MET[goal.met]
        yield goal.met, f"{plain(goal.text)}: {state}"
    yield _predicted(trial)


def _made(diagnosis: Diagnosis, change: Patch | None) -> tuple[bool | None, str]:
    if _redacted(diagnosis):
        return None, say("patch made: left out of this page")
    if change is None or change.empty:
        return False, say("patch made: not possible here")
    return True, say(
        "patch made: {changes} changes, {places} places left alone",
        changes=len(change.hunks),
        places=len(change.left_alone),
    )


def _redacted(diagnosis: Diagnosis) -> bool:
    """Whether names and patches were taken out of the Diagnosis (`report --redact`)."""
    return diagnosis.run is not None and bool(diagnosis.run.meta.get("redacted"))


def _numbers(trial: Verification | None) -> Iterator[tuple[bool | None, str]]:
    if trial is None:
        yield None, say("same losses, weights and printed lines as before: not measured; run `tracelens verify`")
        return
    compared: Mapping[str, Any] = _mapping(_mapping(trial.details.get("numbers")).get("compared"))
    counted = [
        f"{compared[key]} {key}" for key in ("steps", "losses", "tensors", "lines") if compared.get(key) is not None
    ]
    counts = say(" ({counted} compared)", counted=joined(", ", counted)) if counted else ""
    yield (
        trial.numbers_equal,
        say(
            "same losses, weights and printed lines as before: {same}{counts}",
            same=verification_rows.SAME[trial.numbers_equal],
            counts=counts,
        ),
    )
    if compared.get("losses") is not None:
        yield (
            trial.numbers_equal,
            say(
                "every loss is still read: {losses} of {compared} steps",
                losses=compared["losses"],
                compared=compared.get("steps", "?"),
            ),
        )


def _memory(trial: Verification | None) -> Iterator[tuple[bool | None, str]]:
    after = trial.window("after") if trial else {}
    slope = after.get("memory_slope_bytes")
    if not isinstance(slope, int | float):
        yield None, say("no memory leak: not measured")
        return
    yield (
        slope <= 0,
        say(
            "no memory leak: {value} MiB per step on average",
            value=f"{slope / verification_rows.MIB:+.2f}".replace("-", "−"),
        ),
    )


def _goals(diagnosis: PlannedDiagnosis, scheme: Scheme) -> tuple[Goal, ...]:
    stages = diagnosis.recommendation.stages
    return tuple(goal for stage in stages if scheme.id in stage.schemes for goal in stage.goals)


def _predicted(trial: Verification | None) -> tuple[bool | None, str]:
    if trial is None or trial.predicted is None or trial.ratio is None or trial.speedup is None:
        return None, say("as fast as predicted: not measured")
    low, high = trial.predicted.base_ns / trial.predicted.high_ns, trial.predicted.base_ns / trial.predicted.low_ns
    text = say(
        "{measured} measured, {low} to {high} predicted",
        measured=formatting.gain(trial.speedup),
        low=formatting.gain(low),
        high=formatting.gain(high),
    )
    return low <= 1 / trial.ratio.value <= high, say("as fast as predicted: {text}", text=text)


def _results(
    diagnosis: PlannedDiagnosis, scheme: Scheme, subject: Subject, trial: Verification | None
) -> Iterator[str]:
    yield say("## Expected beside measured")
    now = diagnosis.replayed.get(scheme.id)
    predicted = trial.predicted if trial is not None and trial.predicted is not None else now
    said, said_now = _said(predicted), _said(now)
    measured: str = say("not measured")
    if trial is not None and trial.ratio is not None and trial.speedup is not None:
        ends = (1 / trial.ratio.high, 1 / trial.ratio.low)
        value, low, high = (formatting.gain(ratio) for ratio in (trial.speedup, *ends))
        measured = say("{value} ({low} to {high})", value=value, low=low, high=high)
    claims = joined(
        "; ",
        (
            say("{value} ({source})", value=claim.value, source=claim.source)
            for claim in subject.claims
            if claim.what == "gain"
        ),
    )
    yield table(
        (say("training faster by"), say("value")),
        [
            (say("expected by the rule files, of other people's loops"), plain(claims) or "–"),
            (say("predicted by the replay of this run"), said),
            *([(say("what the replay predicts by now"), said_now)] if now is not None and said_now != said else []),
            (say("measured on this machine"), measured),
        ],
    )
    yield from _windows(trial)
    effort = [claim for claim in subject.claims if claim.what != "gain"]
    if effort:
        yield table(
            (say("effort"), say("expected"), say("by")),
            [tuple(map(plain, (c.what, c.value, c.source))) for c in effort],
        )


def _said(predicted: Estimate | None) -> str:
    if predicted is None:
        return say("not replayed")
    low, high = predicted.base_ns / predicted.high_ns, predicted.base_ns / predicted.low_ns
    value, low_gain, high_gain = map(formatting.gain, (predicted.speedup, low, high))
    return say("{value} ({low} to {high})", value=value, low=low_gain, high=high_gain)


def _windows(trial: Verification | None) -> Iterator[str]:
    if trial is None:
        return
    yield plain(trial.verdict)
    rows = [(plain(what), plain(value), plain(remark)) for what, value, remark in verification_rows.rows(trial)]
    yield table((say("measured"), say("before → after"), ""), rows)


def _risks(subject: Subject) -> Iterator[str]:
    if subject.risks:
        yield say("## Risks named for it")
        yield bullets(plain(risk) for risk in subject.risks)


def _next(diagnosis: PlannedDiagnosis, scheme: Scheme, typed: Sequence[str]) -> Iterator[str]:
    yield say("## Next")
    if diagnosis.run is None:
        yield f"{block(next_commands.line('profile', 'SCRIPT'), 'sh')}"
        return
    words_of_run = (*(typed or next_commands.plan(diagnosis)), "--lever", scheme.id)
    lines = [next_commands.line("verify", *words_of_run), next_commands.line("apply", *words_of_run)]
    yield block("\n".join([*lines, next_commands.line("revert", *next_commands.which(diagnosis, typed))]), "sh")


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
