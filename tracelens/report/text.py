"""What analyze, recommend, apply and verify say in a terminal.

In: a Diagnosis, a Patch or a Verification. Out: one string. Verdict first, then the numbers it rests on, then the next
command; the verdict is the same string as in JSON and HTML.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import RenderableType

from tracelens import lever_names as of_levers
from tracelens.messages import capital, joined, say
from tracelens.model import (
    CRITERIA,
    Diagnosis,
    Hunk,
    Patch,
    PlannedDiagnosis,
    Scheme,
    SecondOpinion,
    Verification,
    on_baseline,
)
from tracelens.report import (
    analysis_text,
    diff,
    formatting,
    gain_words,
    lever_names,
    next_commands,
    screen_text,
    terminal,
    verification_rows,
    wording,
)
from tracelens.report.first_screen import first_screen, lever_rows, subject
from tracelens.report.lever_order import ordered_levers
from tracelens.report.source_excerpt import around
from tracelens.report.terminal import TerminalStyle
from tracelens.units import known_by

DIFF_ROWS = 60
"""A diff that fits on a screen is shown with the recommendation; a longer one is for `apply --dry-run`."""


def analysis(
    diagnosis: Diagnosis, style: TerminalStyle, typed: Sequence[str] = (), opinion: SecondOpinion | None = None
) -> str:
    """What the GPU waited for. `typed`: paths and options of the user, for the next command; `opinion`: HTA's."""
    follow = next_commands.after_analyze(diagnosis, typed)
    return terminal.draw(analysis_text.blocks(on_baseline(diagnosis), style, follow, opinion), style)


def recommendation(diagnosis: PlannedDiagnosis, style: TerminalStyle, typed: Sequence[str] = ()) -> str:
    """What to do about it on one screen; with everything, schemes with scores and estimates, reasons, stages."""
    if not style.everything:
        next_command = next_commands.next_command(diagnosis, typed)
        return terminal.draw(screen_text.blocks(first_screen(diagnosis, typed), next_command), style)
    return terminal.draw(_recommendation(on_baseline(diagnosis), typed), style)


def after_profile(diagnosis: PlannedDiagnosis, style: TerminalStyle) -> str:
    """The answer in a few lines: what costs the time, where, what to do instead."""
    return terminal.draw(screen_text.closing(first_screen(diagnosis)), style)


def patch(change: Patch, style: TerminalStyle, next_command: str, check: str, more: str = "") -> str:
    """The diff, each hunk with its tier and reason, and what was left out and left alone.

    `check` is the command that checks what was left out; `more` is said before the next command.
    """
    return terminal.draw(_patch(change, next_command, check, more), style)


def nothing_to_apply(verdict: str, style: TerminalStyle, next_command: str, more: str = "") -> str:
    """The verdict, and that no change follows from it."""
    said = (terminal.verdict(verdict), terminal.paragraph(say("Nothing to apply.")))
    added = (terminal.paragraph(more),) if more else ()
    return terminal.draw((*said, *added, terminal.next_command(next_command)), style)


def patch_document(change: Patch, check: str) -> dict[str, Any]:
    """A patch as the JSON of `apply` has it (docs/apply.schema.json)."""
    return {
        "diff": change.diff,
        "files": [{"path": diffed.path, "created": diffed.created} for diffed in diff.parse(change.diff)],
        "hunks": [hunk_document(hunk) for hunk in change.hunks],
        "left_out": [
            {**hunk_document(hunk), "why": change.unchecked_because, "run": check} for hunk in change.left_out
        ],
        "left_alone": [
            {"where": str(item.location), "edit": item.edit, "obstacle": item.obstacle, "by_hand": item.by_hand}
            for item in change.left_alone
        ],
    }


def hunk_document(hunk: Hunk) -> dict[str, Any]:
    return {
        "id": hunk.id,
        "edit": hunk.edit,
        "tier": hunk.tier,
        "where": str(hunk.location),
        "what": hunk.reason,
        "evidence": hunk.evidence,
        "unproved": hunk.unproved or None,
        "checked": hunk.checked or None,
    }


def verification(trials: Sequence[Verification], style: TerminalStyle, next_command: str) -> str:
    """What was measured: verdict, numbers, predicted next to measured."""
    return terminal.draw(_verification(trials, next_command), style)


# -------------------------------------------------------------------------------------------------- recommend


def _recommendation(diagnosis: PlannedDiagnosis, typed: Sequence[str]) -> Iterator[RenderableType]:
    yield terminal.subject(subject(diagnosis))
    yield terminal.verdict(wording.verdict(diagnosis))
    yield from _levers(diagnosis)
    yield from _schemes(diagnosis)
    yield from _criteria(diagnosis)
    yield from _situation(diagnosis)
    yield from _change(diagnosis)
    yield from _stages(diagnosis, typed)
    yield from _measures(diagnosis)
    yield from analysis_text.abstentions(diagnosis)
    yield from analysis_text.method(diagnosis)
    yield terminal.next_command(next_commands.next_command(diagnosis, typed))


def by_rank(diagnosis: PlannedDiagnosis) -> tuple[Scheme, ...]:
    """Schemes in the order of their rank, rejected ones after them by id."""
    return tuple(sorted(diagnosis.schemes, key=lambda s: (s.rank is None, s.rank or 0, s.id)))


def _levers(diagnosis: PlannedDiagnosis) -> Iterator[RenderableType]:
    """All that could be tried: the first screen has five of them."""
    rows = lever_rows(ordered_levers(diagnosis), diagnosis)
    if rows:
        yield terminal.heading(say("Levers"))
        cells = [
            (
                row.rank,
                gain_words.marked(lever_names.with_id(row.id, diagnosis), row.effect),
                row.lines,
                row.step,
                row.gain,
                row.evidence,
            )
            for row in rows
        ]
        columns = ("", say("lever"), say("lines"), say("step, ms"), say("gain"), say("evidence"))
        yield terminal.table(columns, cells, frozenset({0, 4}))
        if ranges := gain_words.ranges(row.state for row in rows if row.step != formatting.DASH):
            yield terminal.paragraph(ranges, "dim")
        scaled = [gain_words.SCALED] if any(row.scaled for row in rows) else []
        if notes := [*scaled, *filter(None, [gain_words.star(row.effect for row in rows)])]:
            yield terminal.paragraph(joined(" ", notes), "dim")


def _schemes(diagnosis: PlannedDiagnosis) -> Iterator[RenderableType]:
    shown = [scheme for scheme in by_rank(diagnosis) if scheme.estimate is not None]
    if shown:
        yield terminal.heading(say("Changes of the loop"))
        columns = (
            say("rank"),
            say("lever"),
            say("step (range)"),
            say("gain"),
            say("evidence"),
            say("rating before"),
            say("score"),
        )
        rows = [
            _scheme_row(scheme, lever_names.with_id(scheme.id, diagnosis), diagnosis.steps.best_known_ns)
            for scheme in shown
        ]
        yield terminal.table(columns, rows, frozenset({0, 2, 3, 5, 6}))
    reasons = wording.grouped_reasons(diagnosis)
    if reasons:
        yield terminal.heading(say("Why not"))
        yield terminal.table(
            (say("lever"), say("reason")),
            [(joined(", ", [lever_names.with_id(name, diagnosis) for name in ids]), why) for ids, why in reasons],
            frozenset(),
        )


def _scheme_row(scheme: Scheme, name: str, base_ns: int) -> tuple[str, ...]:
    estimate = scheme.estimate
    return (
        str(scheme.rank or "–"),
        name,
        formatting.estimate_range(estimate) if estimate else formatting.UNKNOWN,
        gain_words.of_estimate(estimate, base_ns) if estimate else "–",
        say("{evidence}, {range}", evidence=known_by(estimate.evidence), range=wording.RANGE[estimate.evidence])
        if estimate
        else "–",
        "–" if scheme.prior_total is None else f"{scheme.prior_total:.2f}",
        "–" if scheme.total is None else f"{scheme.total:.2f}",
    )


def _criteria(diagnosis: PlannedDiagnosis) -> Iterator[RenderableType]:
    """Score of each criterion with where it comes from, prior beside it."""
    scored = [scheme for scheme in by_rank(diagnosis) if scheme.total is not None]
    if not scored:
        return
    yield terminal.heading(say("Scores: this run (rating before it), 10 is best"))
    rows = [
        (lever_names.name_of(scheme.id, diagnosis), *(_score(scheme, criterion) for criterion in CRITERIA))
        for scheme in scored
    ]
    yield terminal.table(
        (say("lever"), *(wording.CRITERION_WORD[one] for one in CRITERIA)),
        rows,
        frozenset(range(1, len(CRITERIA) + 1)),
    )
    for line in wording.sensitivity(diagnosis):
        yield terminal.paragraph(line, "dim")


def _score(scheme: Scheme, criterion: str) -> str:
    score = scheme.scores.get(criterion)
    if score is None:
        return "–"
    prior = (scheme.prior or {}).get(criterion)
    beside = "" if prior is None else f" ({prior:g})"
    return say(
        "{score:g} {evidence}{prior}", score=round(score.score, 1), evidence=known_by(score.evidence), prior=beside
    )


def _situation(diagnosis: PlannedDiagnosis) -> Iterator[RenderableType]:
    sentences = wording.situation(diagnosis)
    if sentences:
        yield terminal.heading(say("What limits this loop"))
    for sentence in sentences:
        yield terminal.paragraph(sentence)


def _change(diagnosis: PlannedDiagnosis) -> Iterator[RenderableType]:
    """Each hunk of the recommended patch where it strikes, and the diff as far as it is short."""
    change = diagnosis.recommended_patch
    if diagnosis.recommendation.scheme is not None and change is None:
        yield terminal.heading(say("The change"))
        yield terminal.paragraph(say("No patch was made: {reason}.", reason=next_commands.no_source(diagnosis)))
    if change is None or change.empty:
        return
    yield terminal.heading(say("The change"))
    if wording.together(diagnosis):
        yield terminal.paragraph(wording.together(diagnosis))
    calls = {str(stall.location): stall.call for stall in diagnosis.stalls}
    for hunk in change.hunks:
        excerpt = around(diagnosis.sources, hunk.location, calls.get(str(hunk.location)))
        title = f"{hunk.id} {hunk.edit} ({hunk.tier})"
        yield terminal.code_frame(title, str(hunk.location), excerpt, hunk.evidence, hunk.explanation)
        yield terminal.heading("")
    if change.unchecked:
        yield terminal.paragraph(wording.unchecked(change, next_commands.check(diagnosis)))
    files = diff.parse(change.diff)
    if sum(len(file.rows) for file in files if not file.created) <= DIFF_ROWS:
        yield terminal.diff(files)
    else:
        yield terminal.paragraph(say("the diff is long: tracelens apply --dry-run shows it"), "dim")


def _stages(diagnosis: PlannedDiagnosis, typed: Sequence[str]) -> Iterator[RenderableType]:
    stages = wording.plan(diagnosis)
    if not stages:
        return
    yield terminal.heading(say("The plan"))
    for stage in stages:
        yield terminal.paragraph(
            say(
                "{number}. {title}: {levers}",
                number=stage.number,
                title=capital(stage.title),
                levers=joined(", ", [lever_names.name_of(name, diagnosis) for name in stage.schemes]),
            )
        )
        for goal in stage.goals:
            said = say("   {met}: {goal}", met=MET[goal.met], goal=goal.text)
            if goal.evidence not in ("", formatting.UNKNOWN):
                said = say("{goal} ({evidence})", goal=said, evidence=goal.evidence)
            yield terminal.paragraph(said, "dim")
        if stage.advice:
            yield terminal.paragraph(say("   → {advice}", advice=next_commands.advice(stage, diagnosis, typed)))


def _measures(diagnosis: PlannedDiagnosis) -> Iterator[RenderableType]:
    measures = wording.untried(diagnosis)
    if measures:
        yield terminal.heading(wording.BEYOND)
        rows = [(measure.id, measure.how, wording.expected(measure), wording.at_most(measure)) for measure in measures]
        columns = (say("lever"), say("what it is"), say("the guide expects"), say("acts on"))
        yield terminal.table(columns, rows, frozenset({3}))
        yield terminal.paragraph(wording.BEYOND_NOTE, "dim")


MET = {True: say("met"), False: say("not met"), None: say("not measured")}

# ------------------------------------------------------------------------------------------- apply and verify


def _patch(change: Patch, next_command: str, check: str, more: str) -> Iterator[RenderableType]:
    if change.diff:
        yield terminal.diff(diff.parse(change.diff))
    if change.hunks:
        yield terminal.heading(say("Changes"))
        tiers = {hunk.tier for hunk in change.hunks} - {"safe"}
        rows = [
            (hunk.id, *([hunk.tier] if tiers else []), str(hunk.location), hunk.explanation) for hunk in change.hunks
        ]
        yield terminal.table(("", *([say("proof")] if tiers else []), say("where"), say("what")), rows, frozenset())
    if change.left_out:
        yield terminal.heading(say("Left out"))
        out = [(hunk.id, str(hunk.location), hunk.explanation) for hunk in change.left_out]
        yield terminal.table(("", say("where"), say("what")), out, frozenset())
        yield terminal.paragraph(wording.unchecked(change, check))
    if change.left_alone:
        yield terminal.heading(say("Left alone"))
        left = [(str(item.location), item.edit, item.obstacle, item.by_hand) for item in change.left_alone]
        yield terminal.table(
            (say("where"), say("change"), say("what stands in the way"), say("by hand")), left, frozenset()
        )
    if change.empty:
        yield terminal.paragraph(say("Nothing to change."))
    if more:
        yield terminal.paragraph(more)
    yield terminal.next_command(next_command)


def _verification(trials: Sequence[Verification], next_command: str) -> Iterator[RenderableType]:
    for trial in trials:
        name = of_levers.with_id(trial.scheme, trial.details.get("interval")) if trial.scheme else say("change")
        said = trial.verdict if len(trials) == 1 else say("{lever}: {verdict}", lever=name, verdict=trial.verdict)
        yield terminal.verdict(said)
        yield terminal.table((say("measured"), "", ""), verification_rows.rows(trial), frozenset())
    yield terminal.next_command(next_command)
