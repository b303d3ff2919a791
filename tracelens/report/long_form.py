"""What `recommend -v` has beside all levers, so that the first screen promises what there is.

In: a PlannedDiagnosis. Out: a few words for each part.
"""

from __future__ import annotations

from collections.abc import Iterator

from tracelens.messages import say
from tracelens.model import PlannedDiagnosis
from tracelens.report.wording import plan


def parts(diagnosis: PlannedDiagnosis) -> Iterator[str]:
    """What `-v` has beside the levers: only what there is."""
    change = diagnosis.recommended_patch
    if any(scheme.total is not None for scheme in diagnosis.schemes):
        yield say("scores")
    if plan(diagnosis):
        yield say("the plan")
    if change is not None and not change.empty:
        yield say("the diff")
    yield say("the recording")
