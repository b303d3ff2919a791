"""Issues as GitHub's workflow commands: annotations beside the lines of a pull request.

In: issues. Out: lines such as `::warning file=train.py,line=88,title=sync_stall::…`. Whatever stands in a message or
path came from a trace, and must not be able to end its line or start a command of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from tracelens.report.issues import Issue

Severity = Literal["error", "warning", "notice"]
MOST = 10
"""GitHub shows ten annotations of a kind per step and drops the rest without a word."""
SEVERITY: dict[str, Severity] = {"warning": "warning", "note": "notice"}


def render(verdict: str, issues: Sequence[Issue], *, failed: bool | None = None) -> str:
    """The verdict as an annotation of its own, then the costliest issues, then how many more there are.

    `failed`: True makes the verdict and the new issues errors; None is a report, which never does.
    """
    return "\n".join(_lines(verdict, issues, failed is True)) + "\n"


def _lines(verdict: str, issues: Sequence[Issue], failed: bool) -> Iterator[str]:
    yield command("error" if failed else "notice", verdict, title="TraceLens")
    shown = [issue for issue in issues if issue.state != "allowed"]
    kept = MOST - 1  # the verdict is one of the ten
    for issue in shown[:kept]:
        known = " (in the baseline)" if issue.state == "known" else ""
        yield command(
            _severity(issue, failed), issue.message + known, issue.path, issue.line, f"TraceLens {issue.rule}"
        )
    if len(shown) > kept:
        yield f"{len(shown) - kept} more findings: GitHub shows ten annotations, the report has all"


def _severity(issue: Issue, failed: bool) -> Severity:
    if failed and issue.state == "new" and issue.level == "warning":
        return "error"
    return "notice" if issue.state == "known" else SEVERITY[issue.level]


def command(
    severity: Severity, message: str, path: str | None = None, line: int | None = None, title: str = "TraceLens"
) -> str:
    """One workflow command. A path that GitHub cannot show (outside the repository) is left out by the caller."""
    properties = [f"file={_property(path)}"] if path else []
    properties += [f"line={line}"] if path and line else []
    properties.append(f"title={_property(title)}")
    return f"::{severity} {','.join(properties)}::{_data(message)}"


def _data(text: str) -> str:
    """A message. The per cent sign comes first, or it would escape the escapes."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
