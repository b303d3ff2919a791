"""Changes that a reader can switch on and off: every combination, replayed beforehand, as words and geometry.

In: a Diagnosis with its `WhatIf`. Out: `CombinationTable` for the template, and the same as plain values for the
script, which only looks combinations up: nothing is added up in the page, because gains of two changes do not add up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tracelens.messages import say
from tracelens.model import Combination, Edit, IllustratedDiagnosis, PlannedDiagnosis
from tracelens.report import formatting, wording
from tracelens.report.edit_labels import label
from tracelens.units import step_ms, told_speedup

BAR = 700.0
"""Width of the step now; the predicted bar is on the same scale."""


@dataclass(frozen=True, slots=True)
class Switch:
    """One switch: `alone` is what it gives without the others."""

    name: str
    places: str
    alone: str
    chosen: bool


@dataclass(frozen=True, slots=True)
class CombinationRow:
    """One combination; `key` is the sum of 2**position over its changes."""

    key: int
    names: tuple[str, ...]
    step: str
    range: str
    gain: str
    limit: str
    x: tuple[float, float, float]
    """Ends of the bar and of its range."""
    schemes: tuple[str, ...]
    measured: str


@dataclass(frozen=True, slots=True)
class CombinationTable:
    changes: tuple[Switch, ...]
    rows: tuple[CombinationRow, ...]
    base: str
    scale: float
    start: int
    """Key of the combination shown first: the recommended scheme's."""

    @property
    def document(self) -> dict[str, Any]:
        """By key, for the script."""
        fields = ("step", "range", "gain", "limit", "x", "schemes", "measured")
        return {str(row.key): {name: getattr(row, name) for name in fields} for row in self.rows}


def combination_table(diagnosis: IllustratedDiagnosis) -> CombinationTable | None:
    """None where nothing could be replayed."""
    what_if = diagnosis.what_if
    if what_if is None or not what_if.combinations:
        return None
    base = what_if.combinations[0].estimate.base_ns
    most = max(base, *(combination.estimate.high_ns for combination in what_if.combinations))
    scale = BAR / most
    alone = {
        combination.chosen[0]: combination.estimate
        for combination in what_if.combinations
        if len(combination.chosen) == 1
    }
    start = _start(diagnosis, what_if.changes)
    changes = tuple(
        Switch(_name(edits), _places(edits), formatting.gain(alone[k].speedup) if k in alone else "", k in start)
        for k, edits in enumerate(what_if.changes)
    )
    rows = [_row(combination, changes, diagnosis, scale) for combination in what_if.combinations]
    return CombinationTable(
        changes=changes,
        rows=tuple(sorted(rows, key=lambda row: row.x[0])),
        base=f"{step_ms(base, base)} ms",
        scale=round(base * scale, 1),
        start=sum(1 << k for k in start),
    )


def _row(
    combination: Combination, changes: Sequence[Switch], diagnosis: IllustratedDiagnosis, scale: float
) -> CombinationRow:
    assert diagnosis.what_if is not None
    estimate = combination.estimate
    schemes = _same(diagnosis.what_if.changes, combination.chosen, diagnosis)
    return CombinationRow(
        key=sum(1 << k for k in combination.chosen),
        names=tuple(changes[k].name for k in combination.chosen),
        step=f"{step_ms(estimate.step_ns, estimate.base_ns)} ms",
        range=say(
            "{low} to {high} ms",
            low=step_ms(estimate.low_ns, estimate.base_ns),
            high=step_ms(estimate.high_ns, estimate.base_ns),
        ),
        gain=formatting.gain(told_speedup(estimate.base_ns, estimate.step_ns)),
        limit=wording.BINDING[estimate.binding],
        x=(round(estimate.step_ns * scale, 1), round(estimate.low_ns * scale, 1), round(estimate.high_ns * scale, 1)),
        schemes=schemes,
        measured=_measured(schemes, diagnosis),
    )


def _name(edits: Sequence[Edit]) -> str:
    return label((edit.kind for edit in edits), max(edit.interval for edit in edits))


def _places(edits: Sequence[Edit]) -> str:
    return ", ".join(dict.fromkeys(formatting.clean(str(place)) for edit in edits for place in edit.locations))


def _same(changes: Sequence[Sequence[Edit]], chosen: Sequence[int], diagnosis: PlannedDiagnosis) -> tuple[str, ...]:
    """Schemes that are just this combination."""
    edits = {edit for k in chosen for edit in changes[k]}
    return tuple(scheme.id for scheme in diagnosis.schemes if scheme.edits and set(scheme.edits) == edits)


def _measured(schemes: Sequence[str], diagnosis: PlannedDiagnosis) -> str:
    """What verify found for one of these schemes; empty where it was not asked."""
    for trial in diagnosis.verifications:
        if trial.scheme in schemes and trial.base_ns is not None and trial.patched_ns is not None:
            before, after = (step_ms(ns, trial.base_ns) for ns in (trial.base_ns, trial.patched_ns))
            return say("verify measured {before} → {after} ms", before=before, after=after)
    return ""


def _start(diagnosis: IllustratedDiagnosis, changes: Sequence[Sequence[Edit]]) -> set[int]:
    mine = set(diagnosis.recommended.edits) if diagnosis.recommended else set()
    return {k for k, edits in enumerate(changes) if mine and set(edits) <= mine}
