"""The gate of `check`: budgets, and findings held against a baseline and an allow-list, as one verdict.

In: a Diagnosis, limits, what all waits that count cost together, the baseline's findings, the allow-list. Out: a
`Gate`. A budget that could not be measured is neither kept nor broken; a finding of a percent that comes and goes with
the noise of a shared host does not fail a gate.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tracelens import jsonfile
from tracelens import run as runs
from tracelens.errors import InputError
from tracelens.jsonfile import Shape
from tracelens.messages import joined, say, say_count
from tracelens.model import Diagnosis
from tracelens.report import formatting
from tracelens.report import issues as listing
from tracelens.report.budget import BudgetResult
from tracelens.report.issues import Issue

_MADE_BY = say("make one: tracelens analyze RUN --format json > baseline.json")
_BASELINE: Shape = {
    "findings": [
        {
            "id": str,
            "title": str,
            "fingerprint": str,
            "location": {"path": str, "line": int, "function": str},
        }
    ]
}


@dataclass(frozen=True, slots=True)
class KnownFinding:
    """A finding of the baseline."""

    fingerprint: str
    rule: str
    title: str
    place: str


@dataclass(frozen=True, slots=True)
class Gate:
    """What was asked and what was found. `compared` is False without a baseline: then no finding fails."""

    items: tuple[BudgetResult, ...]
    issues: tuple[Issue, ...]
    resolved: tuple[KnownFinding, ...]
    compared: bool
    least_share: float
    incomplete: str = ""
    """What is missing from the recording: part of a run can break a budget, but not show that the run keeps it."""
    unused: tuple[str, ...] = ()
    """Entries of the allow-list that allow nothing here: the line has moved, or the wait is gone."""

    @property
    def failing(self) -> tuple[Issue, ...]:
        """New findings that cost enough to fail."""
        if not self.compared:
            return ()
        return tuple(issue for issue in self.issues if issue.state == "new" and issue.share >= self.least_share)

    @property
    def passed(self) -> bool | None:
        """None where a budget could not be judged, or not on the whole recording, and nothing else failed."""
        within = {item.within for item in self.items}
        if False in within or self.failing:
            return False
        return None if None in within or self.incomplete else True

    @property
    def verdict(self) -> str:
        """One sentence, the same in every format."""
        if self.passed is True:
            return say("The gate passes: {kept}.", kept=joined("; ", self._kept()))
        if self.passed is None:
            unknown = [item.name for item in self.items if item.within is None]
            if self.incomplete:
                return say(
                    "The gate cannot be judged: {reason}, so the recording does not show the whole run.",
                    reason=self.incomplete,
                )
            return say("The gate cannot be judged: {budgets} could not be measured.", budgets=joined(", ", unknown))
        return say("The gate fails: {broken}.", broken=joined("; ", self._broken()))

    def _kept(self) -> list[str]:
        kept: list[str] = (
            [say_count("{count} budget kept", "{count} budgets kept", len(self.items))] if self.items else []
        )
        return [*kept, say("no new finding")] if self.compared else kept

    def _broken(self) -> list[str]:
        broken = [item.said for item in self.items if item.within is False]
        new = self.failing
        if new:
            title, place = new[0].title, new[0].place
            broken.append(
                say_count(
                    "{count} new finding, the costliest: {what}, {cost} per step",
                    "{count} new findings, the costliest: {what}, {cost} per step",
                    len(new),
                    what=say("{what} at {where}", what=title, where=place) if place else title,
                    cost=formatting.milliseconds(new[0].cost_ns),
                )
            )
        return broken


def judge(
    diagnosis: Diagnosis,
    items: Sequence[BudgetResult],
    allowed: Sequence[str],
    baseline: Sequence[KnownFinding] | None,
    least_share: float,
) -> Gate:
    """Hold the findings against the baseline and the allow-list."""
    known = {known_finding.fingerprint for known_finding in baseline or ()}
    issues = listing.judged(listing.list_issues(diagnosis), known, allowed)
    present = {issue.fingerprint for issue in issues}
    places = [formatting.clean(str(stall.location)) for stall in diagnosis.stalls if stall.location]
    places += [issue.place for issue in issues]
    return Gate(
        items=tuple(items),
        issues=issues,
        resolved=tuple(known_finding for known_finding in baseline or () if known_finding.fingerprint not in present),
        compared=baseline is not None,
        least_share=least_share,
        incomplete=next((reason for trace in diagnosis.traces if (reason := trace.completeness.reason)), ""),
        unused=tuple(entry for entry in allowed if not any(listing.allows(entry, place) for place in places)),
    )


def allowed_waits(diagnosis: Diagnosis, allowed: Sequence[str]) -> frozenset[str]:
    """Ids of the waits at places on the allow-list."""
    return frozenset(
        stall.id
        for stall in diagnosis.stalls
        if stall.location and any(listing.allows(entry, str(stall.location)) for entry in allowed)
    )


def read_baseline(path: Path) -> tuple[KnownFinding, ...]:
    """The findings of an analysis.json, or of a Run folder that holds one."""
    file = path / runs.ANALYSIS_FILE if runs.is_run(path) else path
    if _is_device(file):
        raise InputError(say("{file} is a device, not an analysis", file=file), hint=_MADE_BY)
    document = jsonfile.read(file, missing=_MADE_BY, damaged=_MADE_BY)
    try:
        jsonfile.check(document, _BASELINE)
        return tuple(_known(entry) for entry in document["findings"])
    except KeyError as error:
        raise InputError(
            say("{file} is not an analysis: {key} is missing", file=file, key=error.args[0]), hint=_MADE_BY
        ) from error
    except (TypeError, ValueError) as error:
        raise InputError(say("{file} is not an analysis: {error}", file=file, error=error), hint=_MADE_BY) from error


def _is_device(path: Path) -> bool:
    """Whether it is a character or block device, because reading one may never end (/dev/zero). A pipe is neither."""
    with contextlib.suppress(OSError):
        return path.is_char_device() or path.is_block_device()
    return False


def _known(entry: Mapping[str, Any]) -> KnownFinding:
    place = entry.get("location") or {}
    line = f":{place['line']}" if place.get("line") else ""
    where = formatting.clean(f"{place['path']}{line}") if place.get("path") else ""
    return KnownFinding(entry["fingerprint"], entry["id"], formatting.clean(entry["title"]), where)


def document(gate: Gate) -> dict[str, Any]:
    """As JSON (docs/check.schema.json)."""
    return {
        "schema_version": 1,
        "verdict": gate.verdict,
        "passed": gate.passed,
        "budgets": [
            {
                "name": item.name,
                "value": item.value,
                "limit": item.limit,
                "unit": item.unit.strip(),
                "within": item.within,
            }
            for item in gate.items
        ],
        "compared": gate.compared,
        "findings": [listing.document(issue) for issue in gate.issues],
        "resolved": [
            {
                "id": finding.rule,
                "title": finding.title,
                "place": finding.place or None,
                "fingerprint": finding.fingerprint,
            }
            for finding in gate.resolved
        ],
        "unused_allowances": list(gate.unused),
    }
