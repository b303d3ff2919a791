"""What stands below the lines of the first screen: what they give back together, and what the other lines hold.

In: a PlannedDiagnosis and the lines that are shown. Out: sentences, empty where each line tells for itself.
"""

from __future__ import annotations

from collections.abc import Sequence

from tracelens.messages import joined, say
from tracelens.model import ISSUING_KINDS, PlannedDiagnosis
from tracelens.report import formatting, gain_words, lever_names, line_times, loader_lines, step_strip, wording
from tracelens.report.line_times import CostlyLine
from tracelens.report.step_strip import StepStrip
from tracelens.units import step_ms

LEAST_BLOCKED_SHARE = 0.005
"""Of the step: that waiting for a busy GPU is free is said of what can be seen."""
LEAST_OTHER_SHARE = 0.02
"""Of the step: below it nobody misses what the lines that are shown do not have."""
LEAST_LAUNCHING_SHARE = 0.1
"""Of the step: launching that takes less is not what a step without a costly line is about."""


def beside_lines(diagnosis: PlannedDiagnosis, lines: Sequence[CostlyLine]) -> str:
    """What the lines of the recommended change give back one at a time and together, where that is not the same."""
    scheme = diagnosis.recommended
    lever = next((lever for lever in diagnosis.levers if scheme is not None and lever.id == scheme.id), None)
    if scheme is None or lever is None or lever.known is None:
        return (
            loader_lines.said(diagnosis)
            or wording.together(diagnosis)
            or _free_waits(diagnosis, lines)
            or _no_line(diagnosis, lines)
        )
    ended = {name for edit in scheme.edits for name in edit.stalls}
    alone = [
        (stall.exposed_ns, stall.location.line)
        for stall in diagnosis.stalls
        if stall.id in ended and stall.exposed_ns is not None and stall.location is not None and stall.location.line
    ]
    base_ns = diagnosis.steps.best_known_ns
    all_ns = base_ns - base_ns / lever.known.speedup
    if len(alone) < 2 or all_ns - sum(ns for ns, _ in alone) < wording.TOGETHER_SHARE * base_ns:
        return ""
    best = max(range(len(alone)), key=lambda place: alone[place][0])
    one, told = step_ms(alone[best][0], base_ns), formatting.listed(map(str, sorted(line for _, line in alone)))
    if alone[best][0] > all_ns / 2:
        return say("Line {line} alone saves {one} ms (predicted).", line=alone[best][1], one=one)
    if len(alone) == 2:
        return say("Lines {lines} must both go: one alone saves {one} ms (predicted).", lines=told, one=one)
    return say("Lines {lines} must all go: one alone saves {one} ms (predicted).", lines=told, one=one)


def other_lines(
    diagnosis: PlannedDiagnosis, lines: Sequence[CostlyLine], strip: StepStrip | None
) -> tuple[str, str] | None:
    """The two times of the lines that are not shown, so that lines and picture add up; None where next to nothing."""
    base_ns = diagnosis.steps.best_known_ns
    if strip is None or not lines:
        return None
    totals = [(strip.total_ns(*kinds) or (0.0,))[0] for kinds in (step_strip.BLOCKED, step_strip.IDLE)]
    shown = [sum(line.host_blocked_ns or 0 for line in lines), sum(line.gpu_idle_ns or 0 for line in lines)]
    rest = [whole - part for whole, part in zip(totals, shown, strict=True)]
    if max(rest) < LEAST_OTHER_SHARE * base_ns:
        return None
    blocked, idle = (step_ms(max(ns, 0), base_ns) for ns in rest)
    return blocked, idle


def _no_line(diagnosis: PlannedDiagnosis, lines: Sequence[CostlyLine]) -> str:
    """That a line was looked for."""
    looked = diagnosis.run is not None and diagnosis.steps.source != "none" and bool(diagnosis.sources)
    if not looked or lines:
        return ""
    said = say("No single line waits for a tenth of the step.")
    issuing = [owner.owned_ns for owner in diagnosis.owners.owners if owner.kind in ISSUING_KINDS]
    idle_ns = line_times.idle_ns(diagnosis)
    if idle_ns is None or sum(issuing) < LEAST_LAUNCHING_SHARE * diagnosis.owners.wall_ns:
        return said
    times = (step_ms(ns, diagnosis.steps.best_known_ns) for ns in (idle_ns, sum(issuing)))
    told = dict(zip(("idle", "launching"), times, strict=True))
    launches = say("The GPU idles {idle} ms of a step, {launching} of them while Python launches kernels.", **told)
    return joined(" ", [launches, said])


def _free_waits(diagnosis: PlannedDiagnosis, lines: Sequence[CostlyLine]) -> str:
    """Beside a GPU that works all the time: that waiting for it costs nothing, with the best number there is of it."""
    blocked_ns = sum(line.host_blocked_ns or 0 for line in lines)
    if diagnosis.headline_kind != "gpu" or blocked_ns < LEAST_BLOCKED_SHARE * diagnosis.steps.best_known_ns:
        return ""
    said = say(
        "Python waits {time} ms per step there, but the GPU works all that time.",
        time=step_ms(blocked_ns, diagnosis.steps.best_known_ns),
    )
    judged = [lever for lever in diagnosis.levers if lever.family == "scheme" and lever.known is not None]
    best = next((lever for lever in judged if lever.measured is not None), judged[0] if judged else None)
    if best is None or best.known is None:
        return said
    return say(
        "{text} {lever}: {gained}.",
        text=said,
        lever=lever_names.name(best, diagnosis),
        gained=gain_words.throughput(best, diagnosis.steps.best_known_ns),
    )
