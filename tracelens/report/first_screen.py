"""What `recommend` answers on one screen, as data: what a step costs, its lines, the levers worth a look.

In: a PlannedDiagnosis. Out: a `FirstScreen`. Renderers only lay it out: all numbers are on the one baseline, recorded
shares are multiplied by it. The rest (scores, plan, guide, what could not be judged) is the long form.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath

from tracelens.messages import capital, joined, say, say_count
from tracelens.model import (
    ISSUING_KINDS,
    Diagnosis,
    Lever,
    LeverEffect,
    Location,
    PlannedDiagnosis,
    counting,
    on_baseline,
)
from tracelens.report import (
    edit_excerpt,
    formatting,
    gain_words,
    lever_names,
    lever_order,
    line_times,
    loader_lines,
    long_form,
    measured_pairs,
    next_commands,
    recorded_pace,
    shared_machine,
    step_strip,
    wording,
)
from tracelens.report.edit_excerpt import EditExcerpt
from tracelens.report.formatting import DASH, short_ms
from tracelens.report.line_times import CostlyLine
from tracelens.report.outcome import BestLever, outcome
from tracelens.report.step_strip import StepStrip
from tracelens.units import percent_range, step_ms

MOST_LINES = 6
"""Source lines shown: a frame of more is not read at a glance."""
LEAST_SHARE = 0.05
"""Of the step. A line below it is no part of the answer, unless the recommended change is about it."""
LEAST_BLOCKED_SHARE = 0.005
"""Of the step: that waiting for a busy GPU is free is said of what can be seen."""
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
    steps_found: bool
    """Else times are of the whole recording."""
    instead: str
    """What the recommended change comes to; empty where none is recommended."""
    lines: tuple[CostlyLine, ...]
    time_columns: tuple[str, str]
    """What the two times of a line are called."""
    batch: str
    """What the DataLoader spends a batch on; empty where that was not recorded or takes next to nothing."""
    elsewhere_ns: int | None
    """How long the GPU idles beside these lines; None where that is nothing, or nobody knows."""
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
    return FirstScreen(
        subject=subject(diagnosis),
        headline=diagnosis.headline,
        verdict=wording.beside_headline(diagnosis),
        machine=shared_machine.shared_machine(diagnosis).said(),
        pace=recorded_pace.said(diagnosis),
        steps_found=diagnosis.steps.source != "none",
        instead=_instead(diagnosis),
        lines=lines,
        time_columns=time_columns(diagnosis),
        batch=_of_a_batch(diagnosis),
        elsewhere_ns=line_times.elsewhere_ns(diagnosis, lines),
        beside_lines=_beside(diagnosis),
        then=then,
        edit=edit,
        edit_rest=edit_excerpt.rest_of(edit, next_commands.next_command(diagnosis, typed)),
        strip=step_strip.step_strip(diagnosis, then),
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
    step = (
        say("steps not found")
        if unsure
        else say("{time} ms per step", time=step_ms(steps.best_known_ns, steps.best_known_ns))
    )
    trace = diagnosis.timeline.trace
    known = trace.device or "gpu" in trace.signals
    told = {"name": formatting.clean(name), "device": wording.device(trace), "step": step}
    text = say("{name} on {device}: {step}", **told) if known else say("{name}, no GPU recorded: {step}", **told)
    return text if busy is None else say("{text}, GPU busy {share}", text=text, share=formatting.percent(busy))


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


def _beside(diagnosis: PlannedDiagnosis) -> str:
    """What the lines of the recommended change give back one at a time and together, where that is not the same."""
    scheme = diagnosis.recommended
    lever = next((lever for lever in diagnosis.levers if scheme is not None and lever.id == scheme.id), None)
    if scheme is None or lever is None or lever.known is None:
        return (
            loader_lines.said(diagnosis) or wording.together(diagnosis) or _free_waits(diagnosis) or _no_line(diagnosis)
        )
    ended = {name for edit in scheme.edits for name in edit.stalls}
    alone = [stall.exposed_ns for stall in diagnosis.stalls if stall.id in ended and stall.exposed_ns is not None]
    base_ns = diagnosis.steps.best_known_ns
    all_ns = base_ns - base_ns / lever.known.speedup
    if len(alone) < 2 or all_ns - sum(alone) < wording.TOGETHER_SHARE * base_ns:
        return ""
    one = step_ms(max(alone), base_ns)
    if max(alone) > all_ns / 2:
        said = say("One alone saves at most {one} ms.", one=one)
    else:
        said = say_count(
            "Both must go: one alone saves {one} ms.",
            "All {number} must go: one alone saves {one} ms.",
            2 if len(alone) > 2 else 1,
            number=len(alone),
            one=one,
        )
    idle = _idle_elsewhere(diagnosis, ended)
    return joined(" ", [said, idle]) if idle else said


def _no_line(diagnosis: PlannedDiagnosis) -> str:
    """That a line was looked for."""
    looked = diagnosis.run is not None and diagnosis.steps.source != "none" and bool(diagnosis.sources)
    if not looked or costly_lines(diagnosis):
        return ""
    said = say("No single line waits for a tenth of the step.")
    issuing = [owner.owned_ns for owner in diagnosis.owners.owners if owner.kind in ISSUING_KINDS]
    idle_ns = line_times.idle_ns(diagnosis)
    if idle_ns is None or sum(issuing) < LEAST_ANSWER_SHARE * diagnosis.owners.wall_ns:
        return said
    times = (step_ms(ns, diagnosis.steps.best_known_ns) for ns in (idle_ns, sum(issuing)))
    told = dict(zip(("idle", "launching"), times, strict=True))
    launches = say("The GPU idles {idle} ms of a step, {launching} of them while Python launches kernels.", **told)
    return joined(" ", [launches, said])


def _idle_elsewhere(diagnosis: PlannedDiagnosis, ended: Collection[str]) -> str:
    """Why the GPU idles in another line than the one that waits: the training thread makes the batches, too."""
    loader = next((owner for owner in diagnosis.owners.owners if owner.kind == "dataloader"), None)
    place = line_times.place_of(loader, diagnosis) if loader is not None and loader.group in ended else None
    if place is None:
        return ""
    return say("While Python waits it makes no next batch: so the GPU idles at line {line}.", line=place.line)


def _free_waits(diagnosis: PlannedDiagnosis) -> str:
    """Beside a GPU that works all the time: that waiting for it costs nothing, with the best number there is of it."""
    blocked_ns = sum(line.host_blocked_ns or 0 for line in costly_lines(diagnosis))
    if diagnosis.headline_kind != "gpu" or blocked_ns < LEAST_BLOCKED_SHARE * diagnosis.steps.best_known_ns:
        return ""
    said = say("Python waits {time} ms per step there, but the GPU works all that time.", time=short_ms(blocked_ns))
    judged = [lever for lever in diagnosis.levers if lever.family == "scheme" and lever.known is not None]
    best = next((lever for lever in judged if lever.measured is not None), judged[0] if judged else None)
    if best is None or best.known is None:
        return said
    return say("{text} {lever}: {gained}.", text=said, lever=lever_names.name(best, diagnosis), gained=_gained(best))


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
    step, low, high = (base_ns / ratio for ratio in (known.speedup, known.high, known.low))
    gains = known.excludes_zero
    gain = gain_words.gained(known, measured=lever.measured is not None)
    rank = str(lever.rank) if gains and lever.rank is not None else DASH
    evidence = gain_words.known_how(lever, base_ns)
    told = dict(
        zip(("step", "low", "high"), (step_ms(ns, min(step, base_ns)) for ns in (step, low, high)), strict=True)
    )
    spread = say("{step} ({low} to {high})", **told)
    scaled = gain_words.is_scaled(lever, base_ns)
    return LeverRow(rank, name, lines, spread, gain, evidence, lever.id, lever.state, effect=effect, scaled=scaled)


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
    saved = step_ms(base_ns - step_ns, base_ns)
    return say("{lever} saves {saved} ms: {gained}.", lever=name, saved=saved, gained=_gained(lever))


def _gained(lever: Lever) -> str:
    """'+45 % throughput (measured, +21 to +73 %)'; empty where nothing is known."""
    known = lever.known
    if known is None:
        return ""
    span = percent_range(*(100 * (ratio - 1) for ratio in (known.low, known.high)))
    told = {"gain": formatting.gain(known.speedup), "evidence": wording.STATE[lever.state], "range": span}
    return say("{gain} throughput ({evidence}, {range})", **told)


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
