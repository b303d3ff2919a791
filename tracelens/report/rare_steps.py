"""What steps that take much longer than the others cost, and what helps: a checkpoint every tenth step.

In: a Diagnosis. Out: sentences, none where there are no such steps.
"""

from __future__ import annotations

from collections.abc import Iterator

from tracelens.messages import begun, capital, say
from tracelens.model import Diagnosis, Lever, Owner, PlannedDiagnosis
from tracelens.report import wording

NAMES_NO_HELP = ("line",)
"""Levers that are experiments and no remedy."""


def said(diagnosis: Diagnosis, shown: str) -> tuple[str, ...]:
    """What `shown` does not say yet."""
    clause = diagnosis.rare_cost
    if not clause:
        return ()
    known = str(clause)[1:] in str(shown)
    return (*(() if known else (say("{sentence}.", sentence=begun(clause)),)), *_help(diagnosis, shown))


def _help(diagnosis: Diagnosis, shown: str) -> Iterator[str]:
    """What the rules have for the largest line, and what no line is known of."""
    slow = diagnosis.owners.slow
    largest = next(iter(diagnosis.owners.of_slow_steps), None)
    if slow is not None and slow.reason is not None and slow.reason not in shown:
        yield say("{sentence}.", sentence=capital(slow.reason))
    lever = _lever(diagnosis, largest) if largest is not None else None
    if lever is not None and largest is not None:
        yield say("What helps at {where}: {text}.", where=wording.places(largest.locations), text=lever.text)


def _lever(diagnosis: Diagnosis, owner: Owner) -> Lever | None:
    if not isinstance(diagnosis, PlannedDiagnosis):
        return None
    listed = {lever.id: lever for lever in diagnosis.levers}
    return next((listed[name] for name in owner.remedies if name in listed and name not in NAMES_NO_HELP), None)
