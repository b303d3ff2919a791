"""Issues as SARIF 2.1.0, the format that code-scanning services read.

In: a Diagnosis, issues, the texts of the rules. Out: a dict that OASIS's schema accepts. Paths are relative to the
root of the repository and percent-encoded; a place outside of it gets no location, because a service would show a
wrong file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import tracelens
from tracelens.model import Diagnosis, Location, PlannedDiagnosis
from tracelens.report import formatting, wording
from tracelens.report.issues import Issue, State, in_repository

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
ROOT = "%SRCROOT%"
MOST_RESULTS = 5_000
"""GitHub shows no more than that of one run, and refuses files of more than 25,000."""
MOST_FIX_BYTES = 1 << 20
"""Of one file: the log must stay below GitHub's 10 MB."""
BASELINE: dict[State, str] = {"new": "new", "known": "unchanged", "allowed": "unchanged"}


@dataclass(frozen=True, slots=True)
class RuleText:
    """What a rule is about, for the list of rules."""

    id: str
    title: str
    meaning: str
    helps: tuple[str, ...] = ()


def document(
    diagnosis: Diagnosis, issues: Sequence[Issue], rules: Iterable[RuleText], *, compared: bool = False
) -> dict[str, Any]:
    """One run. `compared`: the issues were held against a baseline, so that their state means something."""
    known = {rule.id: rule for rule in rules}
    used = sorted({issue.rule for issue in issues})
    texts = [known.get(name) or _unknown_rule(name) for name in used]
    fixes = _fixes(diagnosis) if isinstance(diagnosis, PlannedDiagnosis) else {}
    results = [_result(issue, used.index(issue.rule), compared, fixes) for issue in issues[:MOST_RESULTS]]
    run = {
        "tool": {"driver": {"name": "TraceLens", "version": tracelens.__version__, "rules": [*map(_rule, texts)]}},
        "invocations": [{"executionSuccessful": True, "toolExecutionNotifications": _notifications(diagnosis)}],
        "originalUriBaseIds": {ROOT: {"description": {"text": "The root of the repository."}}},
        "columnKind": "unicodeCodePoints",
        "results": results,
        "properties": {"verdict": wording.verdict(diagnosis)},
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _unknown_rule(name: str) -> RuleText:
    title = formatting.readable_id(name)
    return RuleText(name, title, title)


def _rule(text: RuleText) -> dict[str, Any]:
    helps = [f"- {line}" for line in text.helps] or ["No scheme of ours changes it."]
    help_text = "\n".join((text.meaning, "", "What helps:", *helps, "", f"See: tracelens rules {text.id}"))
    return {
        "id": text.id,
        "name": "".join(word.capitalize() for word in formatting.readable_id(text.id).split()),
        "shortDescription": {"text": text.title},
        "fullDescription": {"text": text.meaning},
        "help": {"text": help_text, "markdown": help_text},
        "defaultConfiguration": {"level": "warning"},
        "properties": {"tags": ["performance", "gpu"]},
    }


def _result(issue: Issue, index: int, compared: bool, fixes: Mapping[str, Any]) -> dict[str, Any]:
    result: dict[str, Any] = {
        "ruleId": issue.rule,
        "ruleIndex": index,
        "level": issue.level,
        "message": {"text": issue.message},
        "locations": _locations(issue),
        "partialFingerprints": {"tracelens/v1": issue.fingerprint},
        "rank": min(100.0, round(100 * max(issue.share, 0.0), 1)),
        "properties": {"costMillisecondsPerStep": issue.cost_ns / 1e6, "shareOfStep": issue.share},
    }
    if compared:
        result["baselineState"] = BASELINE[issue.state]
    if issue.state == "allowed":
        result["suppressions"] = [{"kind": "external", "justification": "on the allow-list of tracelens check"}]
    if issue.place in fixes:
        result["fixes"] = [fixes[issue.place]]
    return result


def _locations(issue: Issue) -> list[dict[str, Any]]:
    if issue.path is None:
        return []
    place: dict[str, Any] = {"artifactLocation": _artifact(issue.path)}
    if issue.line:
        place["region"] = {"startLine": issue.line}
    logical = [{"name": issue.function, "kind": "function"}] if issue.function else []
    return [{"physicalLocation": place, **({"logicalLocations": logical} if logical else {})}]


def _artifact(path: str) -> dict[str, Any]:
    return {"uri": quote(path.encode("utf-8", "surrogateescape")), "uriBaseId": ROOT}


def _notifications(diagnosis: Diagnosis) -> list[dict[str, Any]]:
    """What could not be judged, so that an empty list of results is not read as a clean bill of health."""
    return [
        {"level": "note", "message": {"text": f"{', '.join(names)}: {missing}. {formatting.capitalized(hint)}."}}
        for names, missing, hint in wording.grouped_abstentions(diagnosis)
    ]


def _fixes(diagnosis: PlannedDiagnosis) -> dict[str, Any]:
    """Per place that the recommended patch changes, the fix: the whole patch, because half of it would be wrong.

    None where the patch adds a file: a SARIF fix can only change files that exist, `tracelens apply` can do both.
    """
    change = diagnosis.recommended_to_write
    if change is None or change.empty or any(file.before is None for file in change.files):
        return {}
    if any(len(file.after) > MOST_FIX_BYTES for file in change.files):
        return {}
    places = [in_repository(Location(str(change.root / file.path), None), diagnosis.run) for file in change.files]
    changes = [
        {"artifactLocation": _artifact(place), "replacements": [_whole(file.before or b"", file.after)]}
        for place, file in zip(places, change.files, strict=True)
        if place is not None
    ]
    if len(changes) < len(places):
        return {}
    command = f"tracelens apply --lever {diagnosis.recommendation.scheme}"
    fix = {"description": {"text": command}, "artifactChanges": changes}
    return {formatting.clean(str(hunk.location)): fix for hunk in change.hunks if hunk.tier != "manual"}


def _whole(before: bytes, after: bytes) -> dict[str, Any]:
    """One replacement of the whole text, which needs no columns of single hunks."""
    lines = before.decode("utf-8", "replace").splitlines(keepends=True) or [""]
    region = {"startLine": 1, "startColumn": 1, "endLine": len(lines), "endColumn": len(lines[-1]) + 1}
    return {"deletedRegion": region, "insertedContent": {"text": after.decode("utf-8", "replace")}}
