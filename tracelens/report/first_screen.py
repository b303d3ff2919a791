"""What `recommend` answers on one screen, as data: what a step costs, its lines, the levers worth a look.

In: a PlannedDiagnosis. Out: a `FirstScreen`. Renderers only lay it out: all numbers are on the one baseline, recorded
shares are multiplied by it. The rest (scores, plan, guide, what could not be judged) is the long form.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath

from tracelens.messages import capital, say
from tracelens.model import (
    Diagnosis,
    Lever,
    LeverEffect,
    Location,
    PlannedDiagnosis,
    StepTimes,
    counting,
    on_baseline,
)
from tracelens.report import (
    beside_lines,
    edit_excerpt,
    formatting,
    gain_words,
    lever_names,
    lever_order,
    line_times,
    long_form,
    measured_pairs,
    next_commands,
    rare_steps,
    recorded_pace,
    saving_reason,
    shared_machine,
    step_strip,
    wording,
)
from tracelens.report.edit_excerpt import EditExcerpt
from tracelens.report.formatting import DASH
from tracelens.report.line_times import CostlyLine
from tracelens.report.outcome import BestLever, outcome
from tracelens.report.step_strip import StepStrip
from tracelens.units import gpu_works, saved_ns, step_ms

MOST_LINES = 6
"""Source lines shown: a frame of more is not read at a glance."""
LEAST_SHARE = 0.05
"""Of the step. A line below it is no part of the answer, unless the recommended change is about it."""
LEAST_ANSWER_SHARE = 0.1
"""Of the step. Where no change is recommended and no line holds as much, the answer is not in a line."""
LEAST_LOADER_SHARE = 0.1
"""Of the step: what a DataLoader that keeps up spends its batches on costs nothing."""


@dataclass(frozen=True, slots=True)
class LeverRow:
    """One lever as cells. `rank` is `–` where nothing is gained."""

    rank: str
    lever: str
    lines: str
    step: str
    gain: str
    evidence: str
    id: str = ""
    state: str = "not_tried"
    """How it is known: measured, predicted, or not at all."""
    command: str = ""
    """What to type for it; empty where nothing can be."""
    effect: LeverEffect = "none"
    """What it may do to results, unless a trial found them to be the same."""
    scaled: bool = False
    """Whether the step is the baseline divided by a gain that was measured beside another original."""
    speedup: float | None = None
    like_last: bool = False
    """Whether it is about the same as the numbered row before it: each lies in the range of the other."""


@dataclass(frozen=True, slots=True)
class FirstScreen:
    subject: str
    headline: str
    verdict: str
    """What the headline leaves out."""
    machine: tuple[str, ...]
    """What other programs and limits took of the machine meanwhile, one sentence each."""
    pace: str
    """Where the one step time does not describe the recorded steps; empty where it does."""
    rare: tuple[str, ...]
    """What steps that take much longer than the others cost, and what helps, as far as it is not said above."""
    has_slow_steps: bool
    """Then the step of every lever is an ordinary one."""
    steps_found: bool
    """Else times are of the whole recording."""
    instead: str
    """What the recommended change comes to; empty where none is recommended."""
    reason: str
    """Why that is another time than the headline has; empty where there is nothing to explain."""
    lines: tuple[CostlyLine, ...]
    time_columns: tuple[str, str]
    """What the two times of a line are called."""
    batch: str
    """What the DataLoader spends a batch on; empty where that was not recorded or takes next to nothing."""
    other_lines: tuple[str, str] | None
    """What the two times come to beside these lines (ms); None where that is next to nothing, or nobody knows."""
    beside_lines: str
    """What the lines give back together; empty where each tells for itself."""
    then: BestLever | None
    """What becomes of the step; None where no lever gains for certain."""
    edit: EditExcerpt | None
    """What the recommended change looks like; None where no patch makes it."""
    edit_rest: str
    """How much of the change that is, and what shows all of it; empty where it is all."""
    strip: StepStrip | None
    """One step now, and with the recommended change; on one scale. None where nothing can be drawn."""
    levers: tuple[LeverRow, ...]
    more_levers: int
    """How many are not shown."""
    measured: str
    """How the best lever was measured; empty where it was not."""
    missed: str
    """What was predicted of it, where it turned out otherwise; empty where it did not."""
    about_patch: str
    """Why there is none of the recommended change, or what of it nothing has proved and the command that checks it."""
    unjudged: int
    """What the recording did not tell."""
    long_form: tuple[str, ...]
    """What else there is to say of this run."""


def first_screen(diagnosis: PlannedDiagnosis, typed: Sequence[str] = ()) -> FirstScreen:
    """Everything that the first screen says. `typed`: paths and options of the user, for the commands."""
    diagnosis = on_baseline(diagnosis)
    rows, then, edit = lever_order.ordered_levers(diagnosis), outcome(diagnosis), edit_excerpt.edit_excerpt(diagnosis)
    shown, lines = lever_order.first_levers(rows, diagnosis), costly_lines(diagnosis)
    strip = step_strip.step_strip(diagnosis, then)
    return FirstScreen(
        subject=subject(diagnosis),
        headline=diagnosis.headline,
        verdict=wording.beside_headline(diagnosis),
        machine=shared_machine.shared_machine(diagnosis).said(),
        pace=recorded_pace.said(diagnosis),
        rare=rare_steps.said(diagnosis, _instead(diagnosis) or wording.beside_headline(diagnosis)),
        has_slow_steps=diagnosis.owners.slow is not None,
        steps_found=diagnosis.steps.source != "none",
        instead=_instead(diagnosis),
        reason=saving_reason.reason(diagnosis, then, strip),
        lines=lines,
        time_columns=time_columns(diagnosis),
        batch=_of_a_batch(diagnosis),
        other_lines=beside_lines.other_lines(diagnosis, lines, strip),
        beside_lines=beside_lines.beside_lines(diagnosis, lines),
        then=then,
        edit=edit,
        edit_rest=edit_excerpt.rest_of(edit, next_commands.next_command(diagnosis, typed)),
        strip=strip,
        levers=lever_rows(shown, diagnosis, typed),
        more_levers=len(rows) - len(shown),
        measured=_measured(diagnosis),
        missed=measured_pairs.missed_prediction(_taken(diagnosis), diagnosis.steps.best_known_ns),
        about_patch=_about_patch(diagnosis),
        unjudged=len(diagnosis.abstentions),
        long_form=tuple(long_form.parts(diagnosis)),
    )


def _of_a_batch(diagnosis: PlannedDiagnosis) -> str:
    owners = diagnosis.owners
    loader = next((owner for owner in owners.owners if owner.kind == "dataloader" and owner.batch is not None), None)
    if loader is None or loader.batch is None or owners.share(loader) < LEAST_LOADER_SHARE:
        return ""
    return say("{sentence}.", sentence=capital(loader.batch.said))


def time_columns(diagnosis: Diagnosis) -> tuple[str, str]:
    """What the two times of a line are called: without a GPU nothing can idle."""
    if "gpu" in diagnosis.timeline.trace.signals:
        return say("host blocked"), say("GPU idle")
    return say("waits"), say("on the CPU")


def subject(diagnosis: Diagnosis) -> str:
    """'train.py on NVIDIA H200: 25.4 ms per step, GPU busy 62 %'."""
    steps, busy = diagnosis.steps, on_baseline(diagnosis).gpu_busy_share
    script = diagnosis.run.script if diagnosis.run else None
    name = PurePath(script or diagnosis.timeline.trace.path).name
    unsure = steps.source == "none"
    step = say("steps not found") if unsure else _step(steps)
    trace = diagnosis.timeline.trace
    known = trace.device or "gpu" in trace.signals
    told = {"name": formatting.clean(name), "device": wording.device(trace), "step": step}
    text = say("{name} on {device}: {step}", **told) if known else say("{name}, no GPU recorded: {step}", **told)
    parts = on_baseline(diagnosis).breakdown
    return (
        text
        if busy is None
        else say("{text}, {works}", text=text, works=gpu_works(busy, parts.copies_share if parts is not None else 0.0))
    )


def _step(steps: StepTimes) -> str:
    """'9.19 ms per step'; with the mean where that is another."""
    step_ns, mean_ns = steps.best_known_ns, steps.other_mean_ns
    time = step_ms(step_ns, step_ns)
    if mean_ns is None:
        return say("{time} ms per step", time=time)
    return say("{time} ms per step (mean {mean})", time=time, mean=step_ms(mean_ns, mean_ns))


# --------------------------------------------------------------------------------------------------------- its lines


def costly_lines(diagnosis: Diagnosis) -> tuple[CostlyLine, ...]:
    """The lines on which the host is blocked or the GPU idle for a part of the step, in the order of the source."""
    times = line_times.line_times(diagnosis)
    least_ns = LEAST_SHARE * diagnosis.steps.best_known_ns
    chosen = list(line_times.recommended_lines(diagnosis))[:MOST_LINES]
    large = [key for key, line in times.items() if line.most_ns >= least_ns and key not in chosen]
    costly = sorted(large, key=lambda key: -times[key].most_ns)[: MOST_LINES - len(chosen)]
    if not chosen and all(times[key].most_ns < LEAST_ANSWER_SHARE * least_ns / LEAST_SHARE for key in costly):
        return ()
    untimed = {key: line_times.untimed(diagnosis, key) for key in chosen}  # the call that makes a DataLoader, say
    return tuple(replace({**untimed, **times}[key], changed=key in chosen) for key in sorted({*costly, *chosen}))


# ------------------------------------------------------------------------------------------------------- its levers


def lever_rows(levers: Sequence[Lever], diagnosis: PlannedDiagnosis, typed: Sequence[str] = ()) -> tuple[LeverRow, ...]:
    """Variants of one lever share its number."""
    out: list[LeverRow] = []
    number = 0
    leader: Lever | None = None
    for place, lever in enumerate(levers):
        row = replace(_row(lever, diagnosis), command=next_commands.with_lever(lever, diagnosis, typed))
        variant = place > 0 and lever_order.setting(levers[place - 1]) == lever_order.setting(lever)
        if variant:
            row = replace(row, rank="", lever=say("or {lever}", lever=row.lever))
        elif row.rank != DASH:
            number += 1
            row = replace(row, rank=str(number), like_last=_about_the_same(leader, lever))
            leader = leader if row.like_last else lever
        out.append(row)
    return tuple(out)


def _about_the_same(first: Lever | None, second: Lever) -> bool:
    """Whether both are known in the same way, and each lies in the range of the other."""
    if first is None or first.known is None or second.known is None or first.state != second.state:
        return False
    pairs = ((first.known, second.known), (second.known, first.known))
    return all(one.low <= other.speedup <= one.high for one, other in pairs)


def _row(lever: Lever, diagnosis: PlannedDiagnosis) -> LeverRow:
    known, base_ns = lever.known, diagnosis.steps.best_known_ns
    effect = lever.effect if lever.may_change_results else "none"
    name = lever_names.name(lever, diagnosis)
    lines = formatting.spans(sorted({place.line for place in _places(lever, diagnosis) if place.line is not None}))
    if known is None:
        return LeverRow(DASH, name, lines, DASH, DASH, say("not tried"), lever.id, effect=effect)
    gains = known.excludes_zero
    gain = gain_words.gained(known, base_ns, measured=lever.measured is not None)
    rank = str(lever.rank) if gains and lever.rank is not None else DASH
    evidence = gain_words.known_how(lever, base_ns)
    spread = gain_words.spread(known, base_ns)
    row = LeverRow(rank, name, lines, spread, gain, evidence, lever.id, lever.state, effect=effect)
    return replace(row, scaled=gain_words.is_scaled(lever, base_ns), speedup=known.speedup)


def _places(lever: Lever, diagnosis: PlannedDiagnosis) -> Sequence[Location]:
    """Where it is written or what it ends; of what nobody tried, the lines whose time it acts on."""
    helped = [owner for owner in diagnosis.owners.owners if lever.id.partition("=")[0] in owner.remedies]
    found = [owner.locations[0] for owner in helped if owner.locations]
    return found if lever.known is None and found else lever.locations


def acts_on_ns(lever: Lever, diagnosis: PlannedDiagnosis) -> int | None:
    """What the owners that it is a remedy of hold of a step; it cannot save more. None where it is nobody's remedy."""
    name = lever.id.partition("=")[0]
    owners = on_baseline(diagnosis).owners.owners
    held = [owner.owned_ns for owner in owners if {name, lever.id} & set(owner.remedies)]
    return sum(held) if held else None


def _taken(diagnosis: PlannedDiagnosis) -> Lever | None:
    """What is recommended."""
    wanted = diagnosis.recommendation.scheme or diagnosis.recommendation.lever
    return next((lever for lever in diagnosis.levers if lever.id == wanted), None)


def _instead(diagnosis: PlannedDiagnosis) -> str:
    """'Wait every 10th batch saves 7.9 ms: +45 % throughput (measured, +21 to +73 %).'; untried, what it acts on."""
    lever = _taken(diagnosis)
    if lever is None or (lever.known is not None and not lever.known.excludes_zero):
        return ""
    name = lever_names.name(lever, diagnosis)
    if lever.known is None:
        acts_ns = acts_on_ns(lever, diagnosis)
        if acts_ns is None:
            return say("{lever}: not tried yet.", lever=name)
        part, step = (step_ms(ns, diagnosis.steps.best_known_ns) for ns in (acts_ns, diagnosis.steps.best_known_ns))
        return say("{lever}: saves at most {part} of {step} ms, not tried yet.", lever=name, part=part, step=step)
    base_ns = diagnosis.steps.best_known_ns
    step_ns = base_ns / lever.known.speedup
    saved = step_ms(saved_ns(base_ns, step_ns), base_ns)
    told = {"lever": name, "saved": saved, "gained": gain_words.throughput(lever, base_ns)}
    if diagnosis.owners.slow is not None:
        return say("In an ordinary step {lever} saves {saved} ms: {gained}.", **told)
    return say("{lever} saves {saved} ms: {gained}.", **told)


def _measured(diagnosis: PlannedDiagnosis) -> str:
    wanted = diagnosis.recommendation.scheme
    trial = counting(diagnosis.verifications, wanted)
    if trial is None or wanted is None:
        return ""
    return measured_pairs.how(trial, _taken(diagnosis), diagnosis.steps.best_known_ns)


def _about_patch(diagnosis: PlannedDiagnosis) -> str:
    change = diagnosis.recommended_patch
    if diagnosis.recommendation.scheme is not None and change is None:
        reason = next_commands.no_source(diagnosis)
        if costly_lines(diagnosis):
            return say("No patch was made: {reason}.", reason=reason)
        return say("No line can be named and no patch made: {reason}.", reason=reason)
    lever = diagnosis.patches.get(diagnosis.recommendation.lever or "") if change is None else None
    if lever is not None and lever.by_hand:
        item = lever.by_hand[0]
        return say("By hand: {what}; {where} takes it from there.", what=item.by_hand, where=item.location)
    return wording.unchecked(change, next_commands.check(diagnosis)) if change is not None and change.unchecked else ""
