"""What the recommended change looks like, in the lines that say most.

In: a PlannedDiagnosis. Out: an `EditExcerpt`, or None where no patch is made of the recommendation. A short change is
shown whole. Of a long one the lines at the recorded places are shown with what takes their place, and the line that
makes a name which these use and the file does not have; of a function its first line.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import PurePath
from typing import Literal

from tracelens.messages import joined, say, say_count
from tracelens.model import PlannedDiagnosis
from tracelens.report import diff
from tracelens.report.diff import DiffRow
from tracelens.report.line_times import CostlyLine

_MADE = re.compile(r"([A-Za-z_]\w*)(?:\s*:[^=]+)?\s*=(?!=)")
_DEFINED = re.compile(r"def\s+([A-Za-z_]\w*)\(.*\):$")
MOST_LINES = 6
"""So many lines of a change fit on the first screen."""


@dataclass(frozen=True, slots=True)
class EditRow:
    """A line that goes or comes, with its indentation."""

    kind: Literal["add", "del"]
    line: int
    """In the file as it is: of a line that comes, the one that it comes before or takes the place of."""
    text: str


@dataclass(frozen=True, slots=True)
class EditExcerpt:
    path: str
    rows: tuple[EditRow, ...]
    """In the order of the change."""
    changed: int
    """How many lines go or come in all, in files that there are."""
    new_files: tuple[str, ...]
    new_lines: int = 0
    """How many lines the new files have together."""
    gone: frozenset[int] = frozenset()
    """All lines of the file that go, also those that are not in `rows`."""

    @property
    def hidden(self) -> frozenset[int]:
        """The lines that go without a row of their own."""
        return self.gone - {row.line for row in self.rows if row.kind == "del"}

    @property
    def line(self) -> int:
        """Where the change happens: the first line that goes, else the first place where one comes."""
        return next((row.line for row in self.rows if row.kind == "del"), self.rows[0].line)

    @property
    def whole(self) -> bool:
        """Whether that is the whole change."""
        return len(self.rows) >= self.changed and not self.new_files


def edit_excerpt(diagnosis: PlannedDiagnosis) -> EditExcerpt | None:
    """Of the recommended patch; None where there is none, or where it changes no file of the user's."""
    change = diagnosis.recommended_patch or diagnosis.patches.get(diagnosis.recommendation.lever or "")
    if change is None or change.empty:
        return None
    files = diff.parse(change.diff)
    own = [(file, blocks) for file in files if not file.created and (blocks := _blocks(file.rows))]
    if not own:
        return None
    places = {(hunk.location.path, hunk.location.line) for hunk in change.hunks}
    shown, blocks = own[0]
    lines = {line for path, line in places if path == shown.path and line is not None}
    return EditExcerpt(
        path=shown.path,
        rows=_telling(blocks, lines),
        changed=sum(row.kind in ("add", "del") for file, _ in own for row in file.rows),
        new_files=tuple(PurePath(file.path).name for file in files if file.created),
        new_lines=sum(row.kind == "add" for file in files if file.created for row in file.rows),
        gone=frozenset(row.line for block in blocks for row in block if row.kind == "del"),
    )


def with_new_files(said: str, count: int, lines: int) -> str:
    """'…, 1 new file of 90 lines', where there are new files."""
    if not count:
        return said
    return say_count(
        "{lines}, {count} new file of {size} lines",
        "{lines}, {count} new files of {size} lines",
        count,
        lines=said,
        size=lines,
    )


def rest_of(
    edit: EditExcerpt | None, next_command: str, lines: Sequence[CostlyLine] = (), *, with_undo: bool = False
) -> str:
    """'3 of 18 lines, 1 new file of 90; …'; with the command that shows all, or `with_undo` what takes it out.
    Of the costly `lines` that stand above it, those are named that it changes without showing how."""
    if edit is None or edit.whole:
        return ""
    said = say("{shown} of {all} lines", shown=len(edit.rows), all=edit.changed)
    too = sorted({one.place.line for one in lines if one.place.path == edit.path and one.place.line in edit.hidden})
    if too:
        said = say("{lines} ({places} changes, too)", lines=said, places=joined(", ", map(str, too)))
    told = with_new_files(said, len(edit.new_files), edit.new_lines)
    verb = next_command.split()[1] if next_command else ""
    if verb == "apply" and with_undo:
        return say("{lines}; revert undoes it.", lines=told)
    if verb == "apply":
        return say("{lines}; all: {command}", lines=told, command=f"{next_command} --dry-run")
    return say("{lines}; fix shows all.", lines=told) if verb == "fix" else say("{sentence}.", sentence=told)


def _blocks(rows: Sequence[DiffRow]) -> list[tuple[EditRow, ...]]:
    """The lines that go and come together, without blank ones."""
    out, line = [], 1
    for changed, block in groupby(rows, key=lambda row: row.kind in ("add", "del")):
        together = list(block)
        if changed:
            first = next((row.old for row in together if row.old is not None), line)
            out.append(tuple(_row(row, first) for row in together if row.text.strip()))
        line = next((row.old + 1 for row in reversed(together) if row.old is not None), line)
    return [block for block in out if block]


def _row(row: DiffRow, first: int) -> EditRow:
    return EditRow("del", row.old or first, row.text) if row.kind == "del" else EditRow("add", first, row.text)


def _telling(blocks: Sequence[tuple[EditRow, ...]], lines: Set[int]) -> tuple[EditRow, ...]:
    """All rows of a short change; else those at `lines` with what takes their place, and what makes their names."""
    every = [row for block in blocks for row in block]
    if len(every) <= MOST_LINES:
        return tuple(every)
    at_places = [block for block in blocks if any(row.kind == "del" and row.line in lines for row in block)]
    replacing = [block for block in blocks if len({row.kind for row in block}) == 2]
    block = next(iter(at_places), next(iter(replacing), blocks[0]))
    gone = [row for row in block if row.kind == "del"]
    gone = [row for row in gone if row.line in lines] or gone[:1]
    come = [row for row in block if row.kind == "add"]
    chosen = [*gone[: MOST_LINES // 2], *come[: MOST_LINES // 2]]
    needed = list(_makers(every, chosen))[: MOST_LINES - len(chosen)]
    wanted = {id(row) for row in (*chosen, *needed)}
    return tuple(_cut_short(row) for row in every if id(row) in wanted)


def _cut_short(row: EditRow) -> EditRow:
    """With a sign that a function goes on, whose body is not shown."""
    defined = row.kind == "add" and _DEFINED.match(row.text.strip()) is not None
    return replace(row, text=f"{row.text.rstrip()} …") if defined else row


def _makers(every: Sequence[EditRow], chosen: Sequence[EditRow]) -> Iterator[EditRow]:
    """The lines of the change that make names which the chosen ones use; none that goes on in a further line."""
    used = {name for row in chosen if row.kind == "add" for name in re.findall(r"[A-Za-z_]\w*", row.text)}
    for row in every:
        text = row.text.strip()
        made = _MADE.match(text) or _DEFINED.match(text) if row.kind == "add" and row not in chosen else None
        if made is not None and made[1] in used and (_is_whole(text) or text.startswith("def ")):
            yield row


def _is_whole(text: str) -> bool:
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True
