"""The owners of a step as JSON has them, and the steps that take much longer than the others.

In: `Owners`. Out: plain values of `analysis.json`.
"""

from __future__ import annotations

from typing import Any

from tracelens.jsonfile import microseconds
from tracelens.model import BatchTimes, Location, Owner, Owners, SlowSteps


def owners_entry(owners: Owners) -> list[dict[str, Any]]:
    return [
        {
            "kind": owner.kind,
            **_time(owner, owners),
            "locations": [location_entry(location) for location in owner.locations],
            "lines": [{"path": place.path, "line": place.line, "share": share} for place, share in owner.line_shares],
            "callee": owner.callee,
            "group": owner.group,
            "reason": owner.reason,
            "instead": owner.instead,
            **_gain(owner),
            "occurrences": owner.occurrences or None,
            "every_steps": owners.slow.every if owners.slow is not None and owner.occurrences else None,
            "batch": _batch(owner.batch),
            "remedies": list(owner.remedies),
        }
        for owner in owners.owners
    ]


def loops_entry(owners: Owners) -> list[dict[str, Any]]:
    return [
        {
            **_time(loop, owners),
            "first_line": loop.loop[0] if loop.loop else None,
            "last_line": loop.loop[1] if loop.loop else None,
            "locations": [location_entry(location) for location in loop.locations],
            **_gain(loop),
        }
        for loop in owners.loops
    ]


def _time(owner: Owner, owners: Owners) -> dict[str, Any]:
    return {
        "us_per_step": microseconds(owner.owned_ns),
        "profiler_us_per_step": microseconds(owner.profiler_ns),
        "share": owners.share(owner),
    }


def _gain(owner: Owner) -> dict[str, Any]:
    return {
        "recoverable_us_per_step": microseconds(owner.recoverable_ns),
        "low_us": microseconds(owner.low_ns),
        "high_us": microseconds(owner.high_ns),
        "evidence": owner.evidence,
    }


def slow_steps_entry(slow: SlowSteps | None) -> dict[str, Any] | None:
    """Steps that take much longer than the ordinary one, which all else is about; null: none that are worth a word."""
    if slow is None:
        return None
    return {
        "seen": slow.seen,
        "of": slow.steps,
        "every_steps": slow.every,
        "ordinary_us": microseconds(slow.ordinary_ns),
        "mean_us": microseconds(slow.mean_ns),
        "longer_by_us": microseconds(slow.excess_ns),
        "us_per_step": microseconds(slow.per_step_ns),
        "low_us": microseconds(slow.low_ns),
        "high_us": microseconds(slow.high_ns),
        "share": slow.share,
        "lines_known_share": slow.explained,
        "reason": slow.reason,
    }


def _batch(batch: BatchTimes | None) -> dict[str, Any] | None:
    if batch is None:
        return None
    parts = [
        {"name": part.name, "us": microseconds(part.ns), "location": location_entry(part.location)}
        for part in batch.parts
    ]
    return {"workers": batch.workers, "us": microseconds(batch.batch_ns), "parts": parts}


def location_entry(location: Location | None) -> dict[str, Any] | None:
    if location is None:
        return None
    return {"path": location.path, "line": location.line, "function": location.function}
