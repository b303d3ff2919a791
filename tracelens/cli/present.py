"""How an answer leaves: one place that knows every format, so that each command has the same ones.

In: a Diagnosis and how it is to be shown. Out: text on stdout. A command decides what its answer says as text; JSON,
Markdown, annotations and SARIF are made here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracelens.cli import output
from tracelens.cli.options import Presentation

if TYPE_CHECKING:
    from tracelens.model import Diagnosis
    from tracelens.report.issues import Issue
    from tracelens.report.sarif import RuleText


def diagnosis(found: Diagnosis, shown: Presentation, typed: Sequence[str], text: Callable[[], str]) -> None:
    """Print a Diagnosis; `text` makes what a terminal shows, -q leaves its verdict."""
    from tracelens.report import wording

    if shown.quiet and shown.form == "text":
        output.result(wording.headline(found))
    else:
        output.result(rendered(found, shown.form, typed, text))


def rendered(found: Diagnosis, form: str, typed: Sequence[str], text: Callable[[], str]) -> str:
    """A Diagnosis in one of the formats."""
    from tracelens.report import github, issues, markdown, wording
    from tracelens.report import json as json_report

    if form == "json":
        return dumped(json_report.document(found))
    if form == "markdown":
        return markdown.summary(found, typed)
    if form == "github":
        return github.render(wording.headline(found), issues.list_issues(found))
    if form == "sarif":
        return scan(found, issues.list_issues(found))
    return text()


def scan(found: Diagnosis, issues: Sequence[Issue], rules: Path | None = None, *, compared: bool = False) -> str:
    """SARIF, with the texts of the rules."""
    from tracelens.report import sarif

    return dumped(sarif.document(found, issues, rule_texts(rules), compared=compared))


def rule_texts(folder: Path | None = None) -> tuple[RuleText, ...]:
    """What the findings mean, from the rule files."""
    from tracelens.report.sarif import RuleText
    from tracelens.schemes import rules as rule_files

    found = rule_files.load(folder).findings.values()
    return tuple(RuleText(text.id, text.title, text.meaning, text.helps) for text in found)


def dumped(value: Mapping[str, Any]) -> str:
    """JSON in ASCII, which no terminal acts on and no encoding of a stream alters."""
    return json.dumps(value, indent=2, allow_nan=False)
