"""Changes that a reader can switch on and off: every combination, replayed beforehand, as words and geometry.

In: a Diagnosis with its `WhatIf`. Out: `Tryout` for the template, and the same as plain values for the script, which
only looks combinations up: nothing is added up in the page, because gains of two changes do not add up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tracelens.edit_kinds import label
from tracelens.model import Combination, Edit, IllustratedDiagnosis, PlannedDiagnosis
from tracelens.report import words

BAR = 700.0
"""Width of the step now; the predicted bar is on the same scale."""


@dataclass(frozen=True, slots=True)
class Change:
    """One switch: `alone` is what it gives without the others."""

    name: str
    places: str
    alone: str
    chosen: bool


@dataclass(frozen=True, slots=True)
class Row:
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
class Tryout:
    changes: tuple[Change, ...]
    rows: tuple[Row, ...]
    base: str
    scale: float
    start: int
    """Key of the combination shown first: the recommended scheme's."""

    @property
    def document(self) -> dict[str, Any]:
        """By key, for the script."""
        fields = ("step", "range", "gain", "limit", "x", "schemes", "measured")
        return {str(row.key): {name: getattr(row, name) for name in fields} for row in self.rows}


def of(diagnosis: IllustratedDiagnosis) -> Tryout | None:
    """None where nothing could be replayed."""
    found = diagnosis.what_if
    if found is None or not found.combinations:
        return None
    base = found.combinations[0].estimate.base_ns
    most = max(base, *(one.estimate.high_ns for one in found.combinations))
    scale = BAR / most
    alone = {one.chosen[0]: one.estimate for one in found.combinations if len(one.chosen) == 1}
    start = _start(diagnosis, found.changes)
    changes = tuple(
        Change(_name(edits), _places(edits), words.gain(alone[k].speedup) if k in alone else "", k in start)
        for k, edits in enumerate(found.changes)
    )
    rows = [_row(one, changes, diagnosis, scale) for one in found.combinations]
    return Tryout(
        changes, tuple(sorted(rows, key=lambda row: row.x[0])), words.milliseconds(base), round(base * scale, 1),
        sum(1 << k for k in start),
    )  # fmt: skip


def _row(one: Combination, changes: Sequence[Change], diagnosis: IllustratedDiagnosis, scale: float) -> Row:
    assert diagnosis.what_if is not None
    estimate = one.estimate
    schemes = _same(diagnosis.what_if.changes, one.chosen, diagnosis)
    return Row(
        key=sum(1 << k for k in one.chosen),
        names=tuple(changes[k].name for k in one.chosen),
        step=words.milliseconds(estimate.step_ns),
        range=f"{estimate.low_ns / 1e6:.2f} to {estimate.high_ns / 1e6:.2f} ms",
        gain=words.gain(estimate.speedup),
        limit=words.BINDING[estimate.binding],
        x=(round(estimate.step_ns * scale, 1), round(estimate.low_ns * scale, 1), round(estimate.high_ns * scale, 1)),
        schemes=schemes,
        measured=_measured(schemes, diagnosis),
    )


def _name(edits: Sequence[Edit]) -> str:
    return label((edit.kind for edit in edits), max(edit.interval for edit in edits))


def _places(edits: Sequence[Edit]) -> str:
    return ", ".join(dict.fromkeys(words.clean(str(place)) for edit in edits for place in edit.locations))


def _same(changes: Sequence[Sequence[Edit]], chosen: Sequence[int], diagnosis: PlannedDiagnosis) -> tuple[str, ...]:
    """Schemes that are just this combination."""
    edits = {edit for k in chosen for edit in changes[k]}
    return tuple(scheme.id for scheme in diagnosis.schemes if scheme.edits and set(scheme.edits) == edits)


def _measured(schemes: Sequence[str], diagnosis: PlannedDiagnosis) -> str:
    """What verify found for one of these schemes; empty where it was not asked."""
    for one in diagnosis.verifications:
        if one.scheme in schemes and one.base_ns is not None and one.patched_ns is not None:
            return f"verify measured {words.milliseconds(one.base_ns)} → {words.milliseconds(one.patched_ns)}"
    return ""


def _start(diagnosis: IllustratedDiagnosis, changes: Sequence[Sequence[Edit]]) -> set[int]:
    mine = set(diagnosis.recommended.edits) if diagnosis.recommended else set()
    return {k for k, edits in enumerate(changes) if mine and set(edits) <= mine}
