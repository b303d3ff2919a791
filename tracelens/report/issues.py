"""Findings as issues for tools that keep a list of them: a level, a place in the repository, an identity that lasts.

In: a Diagnosis. Out: `Issue` values, costliest first. Apart from the Finding because GitHub, SARIF and a baseline ask
for the same three things: how bad it is, where it lies seen from the root of the repository, and whether it was there
before.
"""

from __future__ import annotations

import contextlib
import hashlib
import posixpath
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from tracelens.messages import Message
from tracelens.model import Diagnosis, Finding, Location, Run
from tracelens.report import formatting

Level = Literal["warning", "note"]
State = Literal["new", "known", "allowed"]

NOTABLE_SHARE = 0.02
"""Of the step. Below that a gain is called nothing (docs/definitions.md), so a finding is no warning either."""
HEX_DIGITS = 16
"""64 bits of the hash: a project has some dozen findings, not four billion."""


@dataclass(frozen=True, slots=True)
class Issue:
    """One finding. `path` is relative to the repository with forward slashes; None where it does not lie in it."""

    rule: str
    title: str
    message: str
    level: Level
    path: str | None
    line: int | None
    function: str | None
    fingerprint: str
    cost_ns: int
    share: float
    place: str
    """The location as recorded, for people and for the allow-list; empty where there is none."""
    state: State = "new"


def list_issues(diagnosis: Diagnosis) -> tuple[Issue, ...]:
    """Every finding, costliest first."""
    names = fingerprints(diagnosis)
    issues = (_issue(finding, name, diagnosis) for finding, name in zip(diagnosis.findings, names, strict=True))
    return tuple(sorted(issues, key=lambda issue: (-issue.cost_ns, issue.rule, issue.place)))


def fingerprints(diagnosis: Diagnosis) -> tuple[str, ...]:
    """An identity per finding, in their order, that moved lines and other step times do not change.

    It rests on the rule, the file, the function and the call. Several that agree in all four are numbered from the top
    of the file down, so that a second `.item()` beside an old one is new.
    """
    calls = {stall.id: stall.call or stall.api for stall in diagnosis.stalls}
    keys = [_key(finding, calls.get(finding.stall or "", "")) for finding in diagnosis.findings]
    order = sorted(range(len(keys)), key=lambda i: (keys[i], _line(diagnosis.findings[i])))
    seen: Counter[tuple[str, ...]] = Counter()
    out = [""] * len(keys)
    for index in order:
        seen[keys[index]] += 1
        text = "\n".join((*keys[index], str(seen[keys[index]])))
        out[index] = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:HEX_DIGITS]
    return tuple(out)


def judged(issues: Sequence[Issue], known: Collection[str], allowed: Collection[str]) -> tuple[Issue, ...]:
    """The issues with their state: on the allow-list, in the baseline, or new."""

    def state(issue: Issue) -> State:
        if any(allows(entry, issue.place) for entry in allowed):
            return "allowed"
        return "known" if issue.fingerprint in known else "new"

    return tuple(replace(issue, state=state(issue)) for issue in issues)


def allows(entry: str, place: str) -> bool:
    """Whether an entry of the allow-list, `file.py:line` or `file.py`, means this place; leading folders may lack."""
    file, _, line = place.rpartition(":")
    if not line.isdigit():
        file, line = place, ""
    wanted, _, number = entry.rpartition(":")
    if not number.isdigit():
        wanted, number = entry, ""
    wanted = wanted.removeprefix("./")
    same = file == wanted or file.endswith(f"/{wanted}")
    return bool(wanted) and same and number in ("", line)


def document(issue: Issue) -> dict[str, Any]:
    """An issue as the outputs of check and compare have it."""
    return {
        "id": issue.rule,
        "title": issue.title,
        "state": issue.state,
        "place": issue.place or None,
        "cost_us_per_step": issue.cost_ns / 1000,
        "share": issue.share,
        "fingerprint": issue.fingerprint,
    }


def in_repository(location: Location | None, run: Run | None) -> str | None:
    """The location's file as seen from the root of the repository; None where it lies outside or is not known.

    Without a repository, as seen from where the Run was started (from the current folder for a bare trace).
    """
    if location is None:
        return None
    start = run.cwd if run is not None else Path.cwd()
    file = posixpath.normpath((start / location.path).as_posix())
    root = _root(start)
    with contextlib.suppress(ValueError):
        return Path(file).relative_to(root).as_posix()
    return None


def _root(start: Path) -> Path:
    """The nearest folder above that holds a repository, else `start`."""
    with contextlib.suppress(OSError):
        return next((folder for folder in (start, *start.parents) if (folder / ".git").exists()), start)
    return start


def _issue(finding: Finding, fingerprint: str, diagnosis: Diagnosis) -> Issue:
    place = formatting.clean(str(finding.location)) if finding.location else ""
    path = in_repository(finding.location, diagnosis.run)
    cost = f"{formatting.milliseconds(finding.cost_ns)} per step ({formatting.percent(finding.share)})"
    return Issue(
        rule=finding.id,
        title=finding.title if isinstance(finding.title, Message) else formatting.clean(finding.title),
        message=". ".join(_sentences(finding, cost, path, place)) + ".",
        level="warning" if finding.location is not None and finding.share >= NOTABLE_SHARE else "note",
        path=path,
        line=finding.location.line if finding.location else None,
        function=finding.location.function if finding.location else None,
        fingerprint=fingerprint,
        cost_ns=finding.cost_ns,
        share=finding.share,
        place=place,
    )


def _sentences(finding: Finding, cost: str, path: str | None, place: str) -> Iterator[str]:
    where = f" (at {Path(place).name})" if place and path is None else ""
    yield f"{formatting.clean(finding.title)}{where}: {cost}"
    yield formatting.capitalized(finding.evidence).rstrip(".")


def _key(finding: Finding, call: str) -> tuple[str, ...]:
    if finding.location is None:
        return (finding.id, "", "", call)
    path = finding.location.path  # the folders of an absolute path differ from machine to machine
    return (finding.id, Path(path).name if Path(path).is_absolute() else path, finding.location.function or "", call)


def _line(finding: Finding) -> int:
    return finding.location.line or 0 if finding.location else 0
