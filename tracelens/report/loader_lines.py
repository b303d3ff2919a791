"""The two lines that a change of the DataLoader is about: where its batches are waited for, and what to edit.

In: a PlannedDiagnosis. Out: a sentence that says what each line is, because both stand on one screen; empty where
another lever is recommended.
"""

from __future__ import annotations

import re

from tracelens.messages import joined, say
from tracelens.model import Lever, Location, Owner, PlannedDiagnosis
from tracelens.report import edit_excerpt, line_times
from tracelens.report.formatting import clean

_OPTION = re.compile(r"""add_argument\(\s*["'](--[\w-]+)""")
MOST_REPLAYED = 32
"""Workers. The replay looks at no more, so beyond nothing is known."""


def said(diagnosis: PlannedDiagnosis) -> str:
    """'Line 54 waits for the DataLoader's batches; the change goes into line 34.', and what else one asks of the
    number: whether an option goes before it, and why there are not more."""
    about = _about(diagnosis)
    if about is None:
        return ""
    lever, _ = about
    parts = [text for text in (_lines(*about, diagnosis), _option(diagnosis), _enough(lever, diagnosis)) if text]
    return joined(" ", parts) if parts else ""


def _option(diagnosis: PlannedDiagnosis) -> str:
    """That what is changed is a default, which an option on the command line overrides."""
    edit = edit_excerpt.edit_excerpt(diagnosis)
    found = [_OPTION.search(row.text) for row in edit.rows if row.kind == "del"] if edit is not None else []
    option = next((match[1] for match in found if match is not None and "default" in match.string), None)
    if edit is None or option is None:
        return ""
    return say("Line {line} is a default: {option} on the command line overrides it.", line=edit.line, option=option)


def _enough(lever: Lever, diagnosis: PlannedDiagnosis) -> str:
    """Why so many workers and not more, where the replay looked for it."""
    setting, _, value = lever.id.partition("=")
    cores = diagnosis.run.environment.get("cpu_count") if diagnosis.run is not None else None
    if setting != "workers" or not value.isdigit() or lever.predicted is None or not isinstance(cores, int):
        return ""
    if 2 * int(value) > MOST_REPLAYED:
        return ""
    return say("{cores} CPU cores: twice as many workers are not predicted to gain more.", cores=cores)


def apart(diagnosis: PlannedDiagnosis) -> str:
    """'train.py, line 54; change: line 34', where these are two lines: time is lost at the one, not at the other."""
    about = _about(diagnosis)
    two = _two_places(*about, diagnosis) if about is not None else None
    if two is None:
        return ""
    waits, goes = two
    told = {"path": clean(waits.path), "wait": waits.line, "edit": clean(str(goes))}
    if waits.path != goes.path:
        return say("{path}, line {wait}; change: {edit}", **told)
    return say("{path}, line {wait}; change: line {edit}", **{**told, "edit": goes.line})


def _about(diagnosis: PlannedDiagnosis) -> tuple[Lever, Owner] | None:
    """The recommended lever and the DataLoader that it changes; None where another lever is recommended."""
    lever = next((one for one in diagnosis.levers if one.id == diagnosis.recommendation.lever), None)
    loader = next((owner for owner in diagnosis.owners.owners if owner.kind == "dataloader"), None)
    return None if lever is None or lever.family != "loader" or loader is None else (lever, loader)


def _two_places(lever: Lever, loader: Owner, diagnosis: PlannedDiagnosis) -> tuple[Location, Location] | None:
    """Where it waits, and where the change goes; None where that is one line, or one of them is not known."""
    waits, edit = line_times.place_of(loader, diagnosis), edit_excerpt.edit_excerpt(diagnosis)
    goes = lever.locations[0] if lever.locations else None
    if edit is not None:
        goes = Location(edit.path, edit.line)
    if waits is None or goes is None or (waits.path, waits.line) == (goes.path, goes.line):
        return None
    return waits, goes


def _lines(lever: Lever, loader: Owner, diagnosis: PlannedDiagnosis) -> str:
    two = _two_places(lever, loader, diagnosis)
    if two is None:
        return ""
    waits, goes = two
    told = {"wait": _named(waits, goes), "edit": _named(goes, goes)}
    return say("Line {wait} waits for the DataLoader's batches; the change goes into line {edit}.", **told)


def _named(place: Location, beside: Location) -> str:
    """The number alone where the file is the same."""
    return str(place.line) if place.path == beside.path else clean(str(place))
