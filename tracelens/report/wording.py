"""What every report says in the same words: names of parts, causes and verdicts, and whole sentences.

In: model values. Out: labels and sentences, so that text, HTML, Markdown and JSON say one thing one way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tracelens.messages import capital, joined, say, say_count
from tracelens.model import (
    Breakdown,
    Diagnosis,
    Hunk,
    Location,
    Measure,
    OwnerKind,
    Patch,
    PlannedDiagnosis,
    SecondOpinion,
    Stage,
    Stall,
    Trace,
    on_baseline,
)
from tracelens.report import lever_names
from tracelens.report.formatting import clean, percent, readable_id
from tracelens.units import said_ms, step_ms

WORTH_SAYING = 0.1
"""Percentage points: two schemes that differ by less are printed with the same gain."""

TOGETHER_SHARE = 0.01
"""Of a step; below it the difference is within what a replay can tell."""

MOST_PLACES = 4

PARTS = {
    "compute": (say("Compute"), say("kernels run on the GPU")),
    "communication_exposed": (say("Communication"), say("collectives that no compute hides")),
    "copy_exposed": (say("Copies"), say("copies that no compute hides")),
    "idle_sync": (
        say("Idle: synchronize"),
        say("GPU idle because the host waited for it and then had to refill the queue"),
    ),
    "idle_dataloader": (say("Idle: DataLoader"), say("GPU idle while the loop waited for the next batch")),
    "idle_host": (say("Idle: host too slow"), say("GPU idle because Python and the dispatcher issued work too slowly")),
    "idle_launch": (say("Idle: launch latency"), say("GPU idle for the latency of one launch after another")),
    "idle_other": (say("Idle: other"), say("GPU idle for a cause the trace does not tell")),
}

OWNERS: Mapping[OwnerKind, str] = {
    "wait": say("A wait for the GPU"),
    "host_line": say("Python"),
    "dataloader": say("The DataLoader"),
    "allocator": say("The allocator"),
    "optimizer": say("The optimizer"),
    "backward": say("The backward pass"),
    "launch": say("Launching kernels"),
    "copy": say("Copies"),
    "communication": say("Communication"),
    "gpu": say("Kernels on the GPU"),
    "unknown": say("Not known"),
}

CAUSE = {
    "idle_sync": say("synchronizing, after which the queue must be refilled"),
    "idle_dataloader": say("the DataLoader, whose next batch was not there"),
    "idle_host": say("the host, which issues work too slowly"),
    "idle_launch": say("the latency of one launch after another"),
    "idle_other": say("not told by the trace"),
}

BINDING = {
    "host": say("the host, which issues work no faster"),
    "stream": say("the GPU itself, which is busy"),
    "copy": say("the copies between host and device"),
    "loader": say("the DataLoader, which delivers no faster"),
}

RANGE = {"replayed": say("80 % range"), "measured": say("95 % interval")}

LIMIT = {"host": say("host"), "stream": say("GPU"), "copy": say("copies"), "loader": say("DataLoader")}

CRITERION_WORD = {
    "performance": say("performance"),
    "difficulty": say("difficulty"),
    "complexity": say("complexity"),
    "memory": say("memory"),
    "maintainability": say("maintainability"),
    "risk": say("risk"),
}
CRITERION = {name: capital(word) for name, word in CRITERION_WORD.items()}

STATE = {
    "measured": say("measured"),
    "predicted": say("predicted"),
    "not_tried": say("not tried"),
    "done": say("done"),
    "not_applicable": say("does not apply"),
}

VERDICT = {
    "exposed": say("costs step time"),
    "harmless": say("free"),
    "window_edge": say("end of recording"),
    "unknown": say("not judged"),
}

HELP = {
    "d2h": say("read it every N batches, or once its event has completed: tracelens rules defer-read"),
    "device": say("record an event and wait for it every N batches: tracelens rules interval-sync"),
    "stream": say("record an event and wait for it every N batches: tracelens rules interval-sync"),
    "event": say("wait for the event every N batches: tracelens rules interval-sync"),
    "h2d": say("copy from pinned memory with non_blocking=True: tracelens rules async-copy"),
    "alloc": say("allocate before the loop and reuse the memory: tracelens rules alloc_in_loop"),
}
"""Per kind of wait, the usual remedy; `recommend` says whether it pays on a run."""

BEYOND = say("Beyond waiting: not in this loop, not measured here")

BEYOND_NOTE = say(
    "The training speed guide names these. What it expects is an opinion about other loops; on "
    "this run a measure can save no more than the part of a step that it acts on. Some change "
    "what is computed: try one at a time, and look at the loss."
)

STEP_SOURCE = {
    "profiler_step": say("the profiler's own step marks"),
    "tracelens": say("TraceLens's step marks"),
    "dataloader": say("DataLoader annotations"),
    "optimizer": say("optimizer annotations"),
    "cycle": say("repetition in the launch sequence"),
    "none": say("no steps found: the whole recording counts as one"),
}


def device(trace: Trace) -> str:
    """The GPU's name, as far as there is a GPU and a name."""
    if trace.device:
        return trace.device
    return say("a GPU that the trace does not name") if "gpu" in trace.signals else say("no GPU in the recording")


def shown_parts(breakdown: Breakdown | None) -> tuple[tuple[str, int, float], ...]:
    """(part, ns, share of the wall time) of every part that is not zero, in the order of the contract."""
    if breakdown is None:
        return ()
    wall = max(breakdown.wall_ns, 1)
    return tuple((part, ns, ns / wall) for part, ns in ((p, breakdown.parts[p]) for p in PARTS) if ns)


def ranked_stalls(diagnosis: Diagnosis) -> tuple[Stall, ...]:
    """Stalls by what removing them gives back; where that is nothing or unknown by the idle GPU time that they own,
    and only then by their length; window edges last."""

    def key(stall: Stall) -> tuple[bool, int, int, int, str]:
        edge = stall.verdict == "window_edge"
        return (edge, -(stall.exposed_ns or 0), -(stall.gpu_idle_ns or 0), -stall.wait_ns, stall.id)

    return tuple(sorted(diagnosis.stalls, key=key))


def no_waits(diagnosis: Diagnosis) -> str:
    """What no row of waits means: that there was none, or that none could be seen."""
    signals, coverage = diagnosis.timeline.trace.signals, diagnosis.timeline.coverage
    if not coverage.judged:
        return say("Waits cannot be judged: {reason}, and no step is complete on host and GPU.", reason=coverage.reason)
    if "gpu" not in signals:
        return say("No GPU work was recorded, so there is nothing that the host could have waited for.")
    if diagnosis.timeline.unknown_waits:
        calls = ", ".join(map(clean, diagnosis.timeline.unknown_waits[:3]))
        return say("The host waits in calls that TraceLens does not know: {calls}.", calls=calls)
    if "runtime" not in signals:
        return say("The host's CUDA calls were not recorded, so its waits cannot be judged.")
    return say("The host did not wait for the GPU in this recording.")


def together(diagnosis: Diagnosis) -> str:
    """What all waits cost together, where that is more than the sum of what each costs alone: it explains why removing
    waits pays that are harmless one by one. Empty where the difference is within the replay's noise."""
    whole = diagnosis.exposed_together_ns
    counted = [stall for stall in diagnosis.stalls if stall.verdict != "window_edge"]
    step = diagnosis.steps.best_known_ns
    alone = sum(stall.exposed_ns or 0 for stall in counted)
    if whole is None or len(counted) < 2 or whole - alone < TOGETHER_SHARE * step:
        return ""
    return say(
        "Predicted: removed one at a time these waits give back {alone} per step, with none of them left {together}; a "
        "wait that goes alone often only uncovers the next one. What a change of them saves stands with the levers.",
        alone=said_ms(alone),
        together=said_ms(whole),
    )


def places(locations: Sequence[Location]) -> str:
    """Some places in one phrase: `train.py:83, 84`; what does not fit is counted."""
    found = list(dict.fromkeys(clean(str(place)) for place in locations))
    path = found[0].rpartition(":")[0]
    short = [found[0], *(text.removeprefix(f"{path}:") if path else text for text in found[1:])]
    named, rest = joined(", ", short[:MOST_PLACES]), len(short) - MOST_PLACES
    return say("{places} and {rest} more", places=named, rest=rest) if rest > 0 else named


def stall_place(stall: Stall) -> str:
    return clean(str(stall.location)) if stall.location else say("not recorded")


def stall_call(stall: Stall) -> str:
    """The user's call where it is known, else the API's name with what it moved, which tells several apart."""
    if stall.call is not None:
        return clean(stall.call)
    return clean(stall.api) + (f" ({stall.kind})" if stall.kind in ("d2h", "h2d") else "")


def grouped_abstentions(diagnosis: Diagnosis) -> tuple[tuple[tuple[str, ...], str, str], ...]:
    """(detectors, what is missing, what to record), one row for all that miss the same."""
    groups: dict[tuple[str, str], list[str]] = {}
    for item in diagnosis.abstentions:
        groups.setdefault((item.missing, item.hint), []).append(readable_id(item.detector))
    return tuple((tuple(names), missing, hint) for (missing, hint), names in groups.items())


def grouped_reasons(diagnosis: PlannedDiagnosis) -> tuple[tuple[tuple[str, ...], str], ...]:
    """(schemes, reason) of those that are not applicable, one row for all with the same reason."""
    groups: dict[str, list[str]] = {}
    for scheme in diagnosis.schemes:
        if not scheme.applicable and scheme.reasons:
            groups.setdefault(joined("; ", scheme.reasons), []).append(scheme.id)
    return tuple((tuple(ids), reason) for reason, ids in groups.items())


def expected(measure: Measure) -> str:
    """What the guide expects of a measure, in its own unit; an opinion."""
    if measure.gain is None:
        return "–"
    low, high = measure.gain
    gain = say("{low:g} to {high:g} %", low=low, high=high)
    return say("{gain}, {note}", gain=gain, note=measure.note) if measure.note else gain


def at_most(measure: Measure) -> str:
    """The part of a step that a measure acts on: it cannot save more than that."""
    return "–" if measure.share is None else say("{share} of a step", share=percent(measure.share))


def untried(diagnosis: PlannedDiagnosis) -> tuple[Measure, ...]:
    """Measures of the training speed guide that this loop is known not to have."""
    return tuple(measure for measure in diagnosis.measures if measure.present is False)


def plan(diagnosis: PlannedDiagnosis) -> tuple[Stage, ...]:
    """The stages, where something is recommended: a plan to do nothing needs no stages."""
    return diagnosis.recommendation.stages if diagnosis.recommendation.scheme is not None else ()


def situation(diagnosis: PlannedDiagnosis) -> tuple[str, ...]:
    """Why waiting less gives nothing here; empty where a scheme is recommended."""
    return diagnosis.situation if diagnosis.recommendation.scheme is None else ()


def sensitivity(diagnosis: PlannedDiagnosis) -> tuple[str, ...]:
    """For which weights another scheme would win, and what the winner gives up against the fastest."""
    facts = diagnosis.recommendation.sensitivity
    lines = [
        _otherwise(criterion, side, change, lever_names.name_of(change["winner"], diagnosis))
        for criterion, changes in (facts.get("changes") or {}).items()
        for change in changes
        for side in ("below", "above")
        if side in change
    ]
    given = facts.get("gives_up")
    if given and given["points"] >= WORTH_SAYING:
        points, fastest = given["points"], lever_names.name_of(given["fastest"], diagnosis)
        lines.append(say("{lever} would be faster by {points:g} percentage points", lever=fastest, points=points))
    if not facts:
        return ()
    return tuple(lines) or (say("no single weight changes the winner, and it is also the fastest"),)


def _otherwise(criterion: str, side: str, change: Mapping[str, Any], winner: str) -> str:
    told = {"criterion": CRITERION[criterion], "weight": change[side], "lever": winner}
    if side == "below":
        return say("{criterion} below {weight:g} %: {lever} would win", **told)
    return say("{criterion} above {weight:g} %: {lever} would win", **told)


def opinion_rows(opinion: SecondOpinion) -> Iterator[tuple[str, ...]]:
    """Each quantity by another tool and by us, and whether the two agree."""
    agrees = {True: say("agree"), False: say("differ"), None: ""}
    for one in opinion.quantities:
        told = ("–" if value is None else f"{value:.1f} {one.unit}" for value in (one.theirs, one.ours))
        yield one.name, *told, agrees[one.agrees]


def unchecked(change: Patch, check: str) -> str:
    """Which hunks of a patch are left out because nothing has checked them, and the command that checks them."""
    names = ", ".join(hunk.id for hunk in change.left_out or change.unchecked)
    because = change.unchecked_because
    return say(
        "Not proved, so apply leaves it out: {changes}; {because}; run: {command}",
        changes=names,
        because=because,
        command=check,
    )


def need_unsafe(hunks: Sequence[Hunk]) -> str:
    """'2 more changes need --unsafe: move-guard at train.py:20, thin-logs at train.py:31'."""
    places = (say("{edit} at {where}", edit=hunk.edit, where=clean(str(hunk.location))) for hunk in hunks)
    return say_count(
        "{count} more change needs --unsafe: {changes}",
        "{count} more changes need --unsafe: {changes}",
        len(hunks),
        changes=joined(", ", places),
    )


def verdict(diagnosis: Diagnosis) -> str:
    """The recommendation's own sentence where there is one, else what the GPU waited for."""
    text = diagnosis.recommendation.verdict if isinstance(diagnosis, PlannedDiagnosis) else symptom(diagnosis)
    return text if _all_judged(diagnosis) else say("Of {steps}: {text}", steps=step_count(diagnosis), text=text)


def beside_headline(diagnosis: PlannedDiagnosis) -> str:
    """What the headline leaves out of the verdict; all of it where only a part of the recording is judged."""
    beside = diagnosis.recommendation.beside
    return beside if beside and _all_judged(diagnosis) else verdict(diagnosis)


def step_count(diagnosis: Diagnosis) -> str:
    """How many steps are judged, and of how many, where a part of the recording is missing."""
    count = diagnosis.steps.count
    if _all_judged(diagnosis):
        return say_count("{count} step", "{count} steps", count)
    return say("{count} of {all} steps", count=count, all=diagnosis.timeline.coverage.steps)


def _all_judged(diagnosis: Diagnosis) -> bool:
    coverage = diagnosis.timeline.coverage
    return coverage.whole or coverage.complete_steps in (0, coverage.steps)


def _costly_waits(diagnosis: Diagnosis) -> str:
    """Where the host waits; of several waits only a plan tells which a change can end, and what that saves."""
    if together(diagnosis):
        least_ns = TOGETHER_SHARE * diagnosis.steps.best_known_ns
        long = [stall for stall in ranked_stalls(diagnosis) if max(stall.wait_ns, stall.gpu_idle_ns or 0) >= least_ns]
        where = [stall.location for stall in long if stall.location is not None and stall.verdict != "window_edge"]
        named = places(sorted(where, key=lambda place: (place.path, place.line or 0))) if where else ""
        waits = say("Python waits for it at {places}", places=named) if named else say("Python waits for it")
        return say("{waits}; what a change of that saves, tracelens recommend says", waits=waits)
    worst = next((s for s in ranked_stalls(diagnosis) if s.verdict == "exposed" and s.exposed_ns), None)
    if worst is None:
        return ""
    wait, gone = stall_call(worst), said_ms(worst.exposed_ns or 0)
    if worst.location:
        wait = say("{call} at {where}", call=wait, where=stall_place(worst))
    return say("the costliest wait is {wait}: {time} per step would come back (predicted)", wait=wait, time=gone)


def symptom(diagnosis: Diagnosis) -> str:
    """What the GPU waited for, in one sentence, whatever is recommended."""
    diagnosis = on_baseline(diagnosis)
    parts, coverage = diagnosis.breakdown, diagnosis.timeline.coverage
    if not coverage.judged:
        return say("Nothing can be judged: {reason}, and no step is complete on host and GPU.", reason=coverage.reason)
    if diagnosis.idle_share is None or parts is None:
        untold = say("no GPU work was recorded, so what a GPU waited for cannot be told.")
        known = diagnosis.headline_kind == "loss"
        return say("{loss}; {untold}", loss=diagnosis.headline, untold=untold) if known else capital(untold)
    return _why_idle(diagnosis, parts, _idle_gpu(diagnosis, parts))


def _why_idle(diagnosis: Diagnosis, parts: Breakdown, start: str) -> str:
    """What is behind the idle time: the costly waits, else the largest loss, else the largest part."""
    if waits := _costly_waits(diagnosis):
        return say("{idle}; {waits}.", idle=start, waits=waits)
    if diagnosis.loss_beside_waits:
        return say("{idle}; {loss}.", idle=start, loss=diagnosis.loss_beside_waits)
    idle_parts = {p: ns for p, ns in parts.known.items() if p.startswith("idle_")}
    cause = max(idle_parts, key=lambda part: idle_parts[part])
    if not idle_parts[cause]:
        return say("{idle}; there is nothing to win by waiting less.", idle=start)
    text = say("{idle}; the largest cause is {cause}.", idle=start, cause=CAUSE[cause])
    counted = [stall for stall in diagnosis.stalls if stall.verdict != "window_edge"]
    if counted and all(stall.verdict == "harmless" for stall in counted):
        return say("{text} No single wait costs step time.", text=text)
    return text


def _idle_gpu(diagnosis: Diagnosis, parts: Breakdown) -> str:
    """How much of the step, or of the recording where no step was found, the GPU is idle."""
    step_ns, share = diagnosis.steps.best_known_ns or parts.wall_ns, diagnosis.idle_share or 0.0
    idle, step = (f"{step_ms(ns, step_ns)} ms" for ns in (step_ns * share, step_ns))
    told = {"share": percent(share), "idle": idle, "step": step}
    if diagnosis.steps.source == "none":
        return say("The GPU is idle {share} of the recording ({idle} of {step})", **told)
    return say("The GPU is idle {share} of each step ({idle} of {step})", **told)
