"""Names of levers as a plan has them: with its N of every N batches, and the workers that the loop has.

In: a Lever, or an id, and a PlannedDiagnosis. Out: a few plain words.
"""

from __future__ import annotations

from tracelens import lever_names
from tracelens.model import Diagnosis, Lever, PlannedDiagnosis
from tracelens.report.formatting import clean


def name(lever: Lever, diagnosis: PlannedDiagnosis) -> str:
    """'Wait every 10th batch', 'DataLoader workers 2→4', 'bf16'."""
    return name_of(lever.id, diagnosis)


def name_of(lever: str, diagnosis: PlannedDiagnosis) -> str:
    """The same for an id."""
    return lever_names.named(clean(lever), diagnosis.interval, _workers(diagnosis))


def with_id(lever: str, diagnosis: PlannedDiagnosis) -> str:
    """The name and what is typed for it: 'Wait every 10th batch (event-interval)'."""
    return lever_names.with_id(clean(lever), diagnosis.interval, _workers(diagnosis))


def _workers(diagnosis: Diagnosis) -> int | None:
    """How many the loop has; None where the recording does not tell."""
    item = diagnosis.item("loader_workers")
    return None if item is None else 0 if item.present is False else item.value
