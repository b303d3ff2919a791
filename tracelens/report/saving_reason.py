"""Why a change saves another time than its headline has: a wait costs more or less than it lasts.

In: a PlannedDiagnosis and what becomes of its step. Out: one sentence for below the headline, empty where there is
nothing to explain. All its numbers are observed: no time that Python is blocked or the GPU idles is called saved.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from tracelens.edit_kinds import definition
from tracelens.messages import say
from tracelens.model import Owner, PlannedDiagnosis, Stall, on_baseline
from tracelens.report import line_times
from tracelens.report.outcome import BestLever
from tracelens.report.step_strip import StepStrip
from tracelens.units import step_ms

SIDES: tuple[Literal["before", "after"], ...] = ("before", "after")
LEAST_SHARE = 0.05
"""Of the step. A shorter time explains nothing that can be seen."""


def reason(diagnosis: PlannedDiagnosis, then: BestLever | None, strip: StepStrip | None) -> str:
    """'While line 83 waits, no batch is made: so the GPU idles 8.5 ms at line 75.'."""
    diagnosis = on_baseline(diagnosis)
    if then is None:
        return ""
    if diagnosis.recommended is None:
        return _waits_left(diagnosis, strip)
    kinds = {definition(edit.kind).acts_on for edit in diagnosis.recommended.edits}
    if kinds == {("copy",)}:
        return _of_copies(diagnosis, then)
    return _of_waits(diagnosis)


def _ended(diagnosis: PlannedDiagnosis) -> Sequence[Stall]:
    edits = diagnosis.recommended.edits if diagnosis.recommended is not None else ()
    ids = {name for edit in edits for name in edit.stalls}
    return [stall for stall in diagnosis.stalls if stall.id in ids]


def _of_waits(diagnosis: PlannedDiagnosis) -> str:
    """What Python does not do while it waits, else for how long the GPU works meanwhile."""
    ended, base_ns = _ended(diagnosis), diagnosis.steps.best_known_ns
    longest = max(ended, key=lambda stall: stall.wait_ns, default=None)
    if longest is None or longest.location is None or longest.location.line is None:
        return ""
    late = _next_batch(diagnosis, ended)
    if late is not None:
        at = line_times.place_of(late, diagnosis)
        told = {"line": longest.location.line, "idle": step_ms(late.owned_ns, base_ns)}
        if at is None:
            return say("While line {line} waits, no batch is made: so the GPU idles {idle} ms.", **told)
        return say(
            "While line {line} waits, no batch is made: so the GPU idles {idle} ms at line {loop}.",
            **told,
            loop=at.line,
        )
    waited_ns = sum(stall.wait_ns for stall in ended)
    inside = [stall.idle_inside_ns for stall in ended]
    works_ns = waited_ns - sum(ns for ns in inside if ns is not None)
    if None in inside or works_ns < LEAST_SHARE * base_ns:
        return ""
    return say(
        "The GPU works for {works} of these {waited} ms.",
        works=step_ms(works_ns, base_ns),
        waited=step_ms(waited_ns, base_ns),
    )


def _next_batch(diagnosis: PlannedDiagnosis, ended: Sequence[Stall]) -> Owner | None:
    """The DataLoader that the training thread itself works for, where the GPU idles because a wait holds it up."""
    loader = next((owner for owner in diagnosis.owners.owners if owner.kind == "dataloader"), None)
    if loader is None or loader.owned_ns < LEAST_SHARE * diagnosis.steps.best_known_ns:
        return None
    return loader if {stall.id for stall in ended} & set((loader.group or "").split("+")) else None


def _of_copies(diagnosis: PlannedDiagnosis, then: BestLever) -> str:
    """What pinned memory changes, with the time that the copies then take where the change was recorded."""
    before, after = (then.trial.window(side).get("h2d_us_per_step") if then.trial else None for side in SIDES)
    if not isinstance(before, int | float) or not isinstance(after, int | float) or after >= before:
        return say("From pinned memory a copy runs beside Python.")
    time = step_ms(1000 * after, diagnosis.steps.best_known_ns)
    return say("From pinned memory they run beside Python, and take {time} ms (recorded).", time=time)


def _waits_left(diagnosis: PlannedDiagnosis, strip: StepStrip | None) -> str:
    """Of a lever for the DataLoader: for how long the loop then still waits."""
    lever = next((one for one in diagnosis.levers if one.id == diagnosis.recommendation.lever), None)
    waits = strip.total_ns("await") if strip is not None else ()
    base_ns = diagnosis.steps.best_known_ns
    if lever is None or lever.family != "loader" or len(waits) < 2 or waits[1] < LEAST_SHARE * base_ns:
        return ""
    return say("The loop then still waits {left} ms for a batch.", left=step_ms(waits[1], base_ns))
