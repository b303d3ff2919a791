"""What every report says in the same words: names of parts, causes and verdicts, and whole sentences.

In: model values. Out: labels and sentences, so that text, HTML, Markdown and JSON say one thing one way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tracelens.model import (
    Breakdown,
    Diagnosis,
    Hunk,
    Location,
    Measure,
    OwnerKind,
    Patch,
    PlannedDiagnosis,
    Recommendation,
    SecondOpinion,
    Stage,
    Stall,
    Trace,
)
from tracelens.report.formatting import clean, percent, readable_id
from tracelens.units import said_ms

WORTH_SAYING = 0.1
"""Percentage points: two schemes that differ by less are printed with the same gain."""

TOGETHER_SHARE = 0.01
"""Of a step; below it the difference is within what a replay can tell."""

MOST_PLACES = 4

PARTS = {
    "compute": ("Compute", "kernels run on the GPU"),
    "communication_exposed": ("Communication", "collectives that no compute hides"),
    "copy_exposed": ("Copies", "copies that no compute hides"),
    "idle_sync": ("Idle: synchronize", "GPU idle because the host waited for it and then had to refill the queue"),
    "idle_dataloader": ("Idle: DataLoader", "GPU idle while the loop waited for the next batch"),
    "idle_host": ("Idle: host", "GPU idle because Python and the dispatcher issued work too slowly"),
    "idle_launch": ("Idle: launch", "GPU idle for the latency of one launch after another"),
    "idle_other": ("Idle: other", "GPU idle for a cause the trace does not tell"),
}

OWNERS: Mapping[OwnerKind, str] = {
    "wait": "A wait for the GPU",
    "host_line": "Python",
    "dataloader": "The DataLoader",
    "allocator": "The allocator",
    "optimizer": "The optimizer",
    "backward": "The backward pass",
    "launch": "Launching kernels",
    "copy": "Copies",
    "communication": "Communication",
    "gpu": "Kernels on the GPU",
    "unknown": "Not known",
}

CAUSE = {
    "idle_sync": "synchronizing, after which the queue must be refilled",
    "idle_dataloader": "the DataLoader, whose next batch was not there",
    "idle_host": "the host, which issues work too slowly",
    "idle_launch": "the latency of one launch after another",
    "idle_other": "not told by the trace",
}

BINDING = {
    "host": "the host, which issues work no faster",
    "stream": "the GPU itself, which is busy",
    "copy": "the copies between host and device",
    "loader": "the DataLoader, which delivers no faster",
}

RANGE = {"replayed": "80 % range", "measured": "95 % interval"}

LIMIT = {"host": "host", "stream": "GPU", "copy": "copies", "loader": "DataLoader"}

CRITERION = {
    "performance": "Performance",
    "difficulty": "Difficulty",
    "complexity": "Complexity",
    "memory": "Memory",
    "maintainability": "Maintainability",
    "risk": "Risk",
}

VERDICT = {
    "exposed": "costs step time",
    "harmless": "free",
    "window_edge": "end of recording",
    "unknown": "not judged",
}

HELP = {
    "d2h": "read it every N batches, or once its event has completed: tracelens rules defer-read",
    "device": "record an event and wait for it every N batches: tracelens rules interval-sync",
    "stream": "record an event and wait for it every N batches: tracelens rules interval-sync",
    "event": "wait for the event every N batches: tracelens rules interval-sync",
    "h2d": "copy from pinned memory with non_blocking=True: tracelens rules async-copy",
    "alloc": "allocate before the loop and reuse the memory: tracelens rules alloc_in_loop",
}
"""Per kind of wait, the usual remedy; `recommend` says whether it pays on a run."""

BEYOND = "Beyond waiting: not in this loop, not measured here"

BEYOND_NOTE = (
    "The training speed guide names these. What it expects is an opinion about other loops; on this run a measure can "
    "save no more than the part of a step that it acts on. Some change what is computed: try one at a time, and look "
    "at the loss."
)

STEP_SOURCE = {
    "profiler_step": "the profiler's own step marks",
    "tracelens": "TraceLens's step marks",
    "dataloader": "DataLoader annotations",
    "optimizer": "optimizer annotations",
    "cycle": "repetition in the launch sequence",
    "none": "no steps found: the whole recording counts as one",
}


def device(trace: Trace) -> str:
    """The GPU's name, as far as there is a GPU and a name."""
    unnamed = "a GPU that the trace does not name" if "gpu" in trace.signals else "no GPU in the recording"
    return trace.device or unnamed


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
        return f"Waits cannot be judged: {coverage.reason}, and no step is complete on host and GPU."
    if "gpu" not in signals:
        return "No GPU work was recorded, so there is nothing that the host could have waited for."
    if diagnosis.timeline.unknown_waits:
        calls = ", ".join(map(clean, diagnosis.timeline.unknown_waits[:3]))
        return f"The host waits in calls that TraceLens does not know: {calls}."
    if "runtime" not in signals:
        return "The host's CUDA calls were not recorded, so its waits cannot be judged."
    return "The host did not wait for the GPU in this recording."


def together(diagnosis: Diagnosis) -> str:
    """What all waits cost together, where that is more than the sum of what each costs alone: it explains why removing
    waits pays that are harmless one by one. Empty where the difference is within the replay's noise."""
    whole = diagnosis.exposed_together_ns
    counted = [stall for stall in diagnosis.stalls if stall.verdict != "window_edge"]
    step = diagnosis.steps.best_known_ns
    alone = sum(stall.exposed_ns or 0 for stall in counted)
    if whole is None or len(counted) < 2 or whole - alone < TOGETHER_SHARE * step:
        return ""
    return (
        f"Removed one at a time these waits give back {said_ms(alone)} per step, all together {said_ms(whole)}: "
        "a wait that goes alone often only uncovers the next one."
    )


def places(locations: Sequence[Location]) -> str:
    """Some places in one phrase: `train.py:83, 84`; what does not fit is counted."""
    found = list(dict.fromkeys(clean(str(place)) for place in locations))
    path = found[0].rpartition(":")[0]
    short = [found[0], *(text.removeprefix(f"{path}:") if path else text for text in found[1:])]
    more = f" and {len(short) - MOST_PLACES} more" if len(short) > MOST_PLACES else ""
    return ", ".join(short[:MOST_PLACES]) + more


def stall_place(stall: Stall) -> str:
    return clean(str(stall.location)) if stall.location else "not recorded"


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
            groups.setdefault("; ".join(scheme.reasons), []).append(scheme.id)
    return tuple((tuple(ids), reason) for reason, ids in groups.items())


def expected(measure: Measure) -> str:
    """What the guide expects of a measure, in its own unit; an opinion."""
    if measure.gain is None:
        return "–"
    low, high = measure.gain
    return f"{low:g} to {high:g} %" + (f", {measure.note}" if measure.note else "")


def at_most(measure: Measure) -> str:
    """The part of a step that a measure acts on: it cannot save more than that."""
    return "–" if measure.share is None else f"{percent(measure.share)} of a step"


def untried(diagnosis: PlannedDiagnosis) -> tuple[Measure, ...]:
    """Measures of the training speed guide that this loop is known not to have."""
    return tuple(measure for measure in diagnosis.measures if measure.present is False)


def plan(diagnosis: PlannedDiagnosis) -> tuple[Stage, ...]:
    """The stages, where something is recommended: a plan to do nothing needs no stages."""
    answer = diagnosis.recommendation
    return answer.stages if answer.scheme is not None else ()


def situation(diagnosis: PlannedDiagnosis) -> tuple[str, ...]:
    """Why waiting less gives nothing here; empty where a scheme is recommended."""
    return tuple(clean(text) for text in diagnosis.situation) if diagnosis.recommendation.scheme is None else ()


def sensitivity(recommendation: Recommendation) -> tuple[str, ...]:
    """For which weights another scheme would win, and what the winner gives up against the fastest."""
    facts = recommendation.sensitivity
    lines = [
        f"{CRITERION[criterion]} {side} {change[side]:g} %: {change['winner']} would win"
        for criterion, changes in (facts.get("changes") or {}).items()
        for change in changes
        for side in ("below", "above")
        if side in change
    ]
    given = facts.get("gives_up")
    if given and given["points"] >= WORTH_SAYING:
        lines.append(f"{given['fastest']} would be faster by {given['points']:g} percentage points")
    if not facts:
        return ()
    return tuple(lines) or ("no single weight changes the winner, and it is also the fastest",)


def opinion_rows(opinion: SecondOpinion) -> Iterator[tuple[str, ...]]:
    """Each quantity by another tool and by us, and whether the two agree."""
    agrees = {True: "agree", False: "differ", None: ""}
    for one in opinion.quantities:
        told = ("–" if value is None else f"{value:.1f} {one.unit}" for value in (one.theirs, one.ours))
        yield one.name, *told, agrees[one.agrees]


def unchecked(change: Patch, check: str) -> str:
    """Which hunks of a patch are left out because nothing has checked them, and the command that checks them."""
    names = ", ".join(hunk.id for hunk in change.left_out or change.unchecked)
    return f"Not proved, so apply leaves it out: {names}; {change.unchecked_because}; run: {check}"


def need_unsafe(hunks: Sequence[Hunk]) -> str:
    """'2 more changes need --unsafe: move-guard at train.py:20, thin-logs at train.py:31'."""
    count = "1 more change needs" if len(hunks) == 1 else f"{len(hunks)} more changes need"
    return f"{count} --unsafe: {', '.join(f'{hunk.edit} at {clean(str(hunk.location))}' for hunk in hunks)}"


def verdict(diagnosis: Diagnosis) -> str:
    """The recommendation's own sentence where there is one, else what the GPU waited for."""
    text = diagnosis.recommendation.verdict if isinstance(diagnosis, PlannedDiagnosis) else symptom(diagnosis)
    return text if _all_judged(diagnosis) else f"Of {step_count(diagnosis)}: {text}"


def beside_headline(diagnosis: PlannedDiagnosis) -> str:
    """What the headline leaves out of the verdict; all of it where only a part of the recording is judged."""
    beside = diagnosis.recommendation.beside
    return beside if beside and _all_judged(diagnosis) else verdict(diagnosis)


def step_count(diagnosis: Diagnosis) -> str:
    """How many steps are judged, and of how many, where a part of the recording is missing."""
    count = diagnosis.steps.count
    of_all = "" if _all_judged(diagnosis) else f" of {diagnosis.timeline.coverage.steps}"
    return f"{count}{of_all} step{'' if count == 1 and not of_all else 's'}"


def _all_judged(diagnosis: Diagnosis) -> bool:
    coverage = diagnosis.timeline.coverage
    return coverage.whole or coverage.complete_steps in (0, coverage.steps)


def _costly_waits(diagnosis: Diagnosis) -> str:
    """What waiting costs; which of several waits a change can end, and what that gives, only a plan tells."""
    if together(diagnosis):
        gone = said_ms(diagnosis.exposed_together_ns or 0)
        return f"its waits pay together: {gone} per step if none were left. tracelens recommend says which to change"
    worst = next((s for s in ranked_stalls(diagnosis) if s.verdict == "exposed" and s.exposed_ns), None)
    if worst is None:
        return ""
    where = f" at {stall_place(worst)}" if worst.location else ""
    gone = said_ms(worst.exposed_ns or 0)
    return f"the costliest wait is {stall_call(worst)}{where}: {gone} per step would come back"


def symptom(diagnosis: Diagnosis) -> str:
    """What the GPU waited for, in one sentence, whatever is recommended."""
    parts, coverage = diagnosis.breakdown, diagnosis.timeline.coverage
    if not coverage.judged:
        return f"Nothing can be judged: {coverage.reason}, and no step is complete on host and GPU."
    if diagnosis.idle_share is None or parts is None:
        return "This recording has no GPU events, so what a GPU waited for cannot be told."
    step_ns = diagnosis.steps.best_known_ns or parts.wall_ns
    step, idle = said_ms(step_ns), said_ms(step_ns * diagnosis.idle_share)
    whole = "the recording" if diagnosis.steps.source == "none" else "each step"
    start = f"The GPU is idle {percent(diagnosis.idle_share)} of {whole} ({idle} of {step})"
    if waits := _costly_waits(diagnosis):
        return f"{start}; {waits}."
    if diagnosis.loss_beside_waits:
        loss = diagnosis.loss_beside_waits
        return f"{start}; {'the ' + loss[4:] if loss.startswith('The ') else loss}."
    idle_parts = {p: ns for p, ns in parts.known.items() if p.startswith("idle_")}
    cause = max(idle_parts, key=lambda part: idle_parts[part])
    if not idle_parts[cause]:
        return f"{start}; there is nothing to win by waiting less."
    counted = [stall for stall in diagnosis.stalls if stall.verdict != "window_edge"]
    harmless = counted and all(stall.verdict == "harmless" for stall in counted)
    return f"{start}; the largest cause is {CAUSE[cause]}.{' No single wait costs step time.' if harmless else ''}"
