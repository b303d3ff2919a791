"""What the recommended change looks like, in one line out and one line in.

In: a PlannedDiagnosis. Out: an `EditExcerpt`, or None where no patch is made of the recommendation. The first line that
is replaced says most: what is only added before it prepares it. Where the new line uses a name that the change itself
makes, the line that makes it is shown too; a comment on what is gone is not.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Sequence, Set
from dataclasses import dataclass
from itertools import groupby, pairwise
from pathlib import PurePath
from textwrap import dedent

from tracelens.model import PlannedDiagnosis
from tracelens.report import diff
from tracelens.report.diff import ChangedFile, DiffRow

_MADE = re.compile(r"([A-Za-z_]\w*)(?:\s*:[^=]+)?\s*=(?!=)")
_CALLED = re.compile(r"(\w+)\s*\(")


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
    needed: str = ""
    """The line that makes a name which `added` uses, where the change itself brings it; else empty."""
    needed_line: int = 0
    """The line of the file as it is that `needed` comes before."""

    @property
    def shown(self) -> int:
        """How many of the changed lines stand here."""
        return sum(bool(text) for text in (self.needed, self.removed, self.added))

    @property
    def whole(self) -> bool:
        """Whether that is the whole change."""
        return self.shown >= self.lines_in + self.lines_out and not self.new_files


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
    if before is not None and after is not None:
        texts[-1] = _without_old_comment(texts[0], texts[-1])
    needed, needed_line = _maker(_rows(shown), texts[-1]) if after is not None else ("", 0)
    return EditExcerpt(
        path=shown.path,
        line=(row.old or row.new or 0) if row is not None else 0,
        removed=texts[0] if before is not None else "",
        added=texts[-1] if after is not None else "",
        lines_in=kinds.count("add"),
        lines_out=kinds.count("del"),
        new_files=tuple(PurePath(file.path).name for file in files if file.created),
        needed=needed,
        needed_line=needed_line,
    )


def _without_old_comment(removed: str, added: str) -> str:
    """The new line without the comment of the old one, where it calls nothing that the old one called: what was said
    of the call that is gone ("wait for the step") does not hold of the new one."""
    comment = _comment(removed)
    if not comment or not added.endswith(comment) or set(_CALLED.findall(removed)) & set(_CALLED.findall(added)):
        return added
    return added.removesuffix(comment).rstrip()


def _comment(text: str) -> str:
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(text.strip()).readline))
    except (tokenize.TokenError, SyntaxError):
        return ""
    return next((token.string for token in tokens if token.type == tokenize.COMMENT), "")


def _maker(rows: Sequence[DiffRow], added: str) -> tuple[str, int]:
    """The line of the change that makes a name which `added` uses, and the line of the file that it comes before;
    ("", 0) where it stands alone, or the name is made in more than a line."""
    for place, row in enumerate(rows):
        made = _MADE.match(row.text.strip()) if row.kind == "add" else None
        if made is None or row.text.strip() == added or not re.search(rf"\b{made[1]}\b", added):
            continue
        before = next((later.old for later in rows[_block_of(place, rows) :] if later.old is not None), None)
        if before is not None and _is_whole(row.text.strip()):
            return row.text.strip(), before
    return "", 0


def _block_of(place: int, rows: Sequence[DiffRow]) -> int:
    """Where the lines begin that go and come together with this one: it stands in their place, not behind them."""
    while place > 0 and rows[place - 1].kind in ("add", "del"):
        place -= 1
    return place


def _is_whole(text: str) -> bool:
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True


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
