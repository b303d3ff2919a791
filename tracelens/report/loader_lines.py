"""The lines that a change of the DataLoader is about: where its batches are waited for, where it is made, what to edit.

In: a PlannedDiagnosis. Out: a sentence that says what each line is, because all of them stand on one screen, and how
much of the wait can be saved; empty where another lever is recommended.
"""

from __future__ import annotations

from tracelens.messages import joined, say
from tracelens.model import Lever, Location, Owner, PlannedDiagnosis
from tracelens.report import edit_excerpt, line_times
from tracelens.report.formatting import clean, short_ms
from tracelens.report.on_baseline import factor

LEAST_DIFFERENCE = 0.01
"""Of the step: what can be saved and what is waited for are then one number."""


def said(diagnosis: PlannedDiagnosis) -> str:
    """'Line 39 makes the DataLoader; line 54 waits for its batches; the change goes into line 34. Of the 10.1 ms …'."""
    lever = next((one for one in diagnosis.levers if one.id == diagnosis.recommendation.lever), None)
    loader = next((owner for owner in diagnosis.owners.owners if owner.kind == "dataloader"), None)
    if lever is None or lever.family != "loader" or loader is None:
        return ""
    parts = [text for text in (_lines(lever, loader, diagnosis), _saved(lever, loader, diagnosis)) if text]
    return joined(" ", parts) if parts else ""


def _lines(lever: Lever, loader: Owner, diagnosis: PlannedDiagnosis) -> str:
    waits = line_times.place_of(loader, diagnosis)
    made = lever.locations[0] if lever.locations else None
    edit = edit_excerpt.edit_excerpt(diagnosis)
    if waits is None or made is None or (waits.path, waits.line) == (made.path, made.line):
        return ""
    told = {"wait": _named(waits, made), "made": _named(made, made)}
    if edit is None or (edit.path, edit.line) == (made.path, made.line):
        return say("Line {made} makes the DataLoader; line {wait} waits for its batches.", **told)
    goes = _named(Location(edit.path, edit.line), made)
    return say(
        "Line {made} makes the DataLoader; line {wait} waits for its batches; the change goes into line {edit}.",
        **told,
        edit=goes,
    )


def _named(place: Location, beside: Location) -> str:
    """The number alone where the file is the same."""
    return str(place.line) if place.path == beside.path else clean(str(place))


def _saved(lever: Lever, loader: Owner, diagnosis: PlannedDiagnosis) -> str:
    """How much of what is waited for comes back: the headline has the one number, the line the other."""
    if lever.known is None or not lever.known.excludes_zero:
        return ""
    base_ns = diagnosis.steps.best_known_ns
    saved_ns, held_ns = base_ns - base_ns / lever.known.speedup, loader.owned_ns * factor(diagnosis)
    if held_ns - saved_ns < LEAST_DIFFERENCE * base_ns:
        return ""
    return say("Of the {held} ms {saved} can be saved.", held=short_ms(held_ns), saved=short_ms(saved_ns))
