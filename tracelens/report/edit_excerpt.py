"""What the recommended change looks like, in one line out and one line in.

In: a PlannedDiagnosis. Out: an `EditExcerpt`, or None where no patch is made of the recommendation. The first line that
is replaced says most: what is only added before it prepares it.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from itertools import groupby, pairwise
from pathlib import PurePath
from textwrap import dedent

from tracelens.model import PlannedDiagnosis
from tracelens.report import diff
from tracelens.report.diff import ChangedFile, DiffRow


@dataclass(frozen=True, slots=True)
class EditExcerpt:
    """`removed` and `added` without the indentation that they share; one of them may be empty."""

    path: str
    line: int
    """In the file as it is; of a line that is only added, in the file as it will be."""
    removed: str
    added: str
    lines_in: int
    lines_out: int
    new_files: tuple[str, ...]


def edit_excerpt(diagnosis: PlannedDiagnosis) -> EditExcerpt | None:
    """Of the recommended patch; None where there is none, or where it changes no file of the user's."""
    change = diagnosis.recommended_patch or diagnosis.patches.get(diagnosis.recommendation.lever or "")
    if change is None or change.empty:
        return None
    files = diff.parse(change.diff)
    shown = next((file for file in files if not file.created and _rows(file)), None)
    if shown is None:
        return None
    lines = {hunk.location.line for hunk in change.hunks if hunk.location.path == shown.path}
    before, after = _telling(_rows(shown), lines)
    row = before or after
    kinds = [row.kind for file in files if not file.created for row in file.rows]
    texts = dedent("\n".join(row.text for row in (before, after) if row is not None)).splitlines()
    return EditExcerpt(
        path=shown.path,
        line=(row.old or row.new or 0) if row is not None else 0,
        removed=texts[0] if before is not None else "",
        added=texts[-1] if after is not None else "",
        lines_in=kinds.count("add"),
        lines_out=kinds.count("del"),
        new_files=tuple(PurePath(file.path).name for file in files if file.created),
    )


def _rows(file: ChangedFile) -> Sequence[DiffRow]:
    """The lines that go or come, without blank ones; what stands between two of them keeps its place."""
    rows = [row for row in file.rows if row.kind == "same" or row.text.strip()]
    return rows if any(row.kind in ("add", "del") for row in rows) else ()


def _telling(rows: Sequence[DiffRow], lines: Set[int | None]) -> tuple[DiffRow | None, DiffRow | None]:
    """The first line that another takes the place of, with that one, where `lines` hold it if they can; else the first
    line that goes, else the first that comes."""
    blocks = [(kind, list(block)) for kind, block in groupby(rows, key=lambda row: row.kind)]
    replaced = [(gone, come) for (kind, gone), (then, come) in pairwise(blocks) if (kind, then) == ("del", "add")]
    replaced.sort(key=lambda pair: lines.isdisjoint(row.old for row in pair[0]))
    if replaced:
        return replaced[0][0][0], replaced[0][1][0]
    first = next((row for row in rows if row.kind == "del"), None)
    return (first, None) if first is not None else (None, next(row for row in rows if row.kind == "add"))
