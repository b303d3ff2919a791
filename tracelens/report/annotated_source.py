"""The training loop line by line: what each line costs, which lines pay only together, and the change in its place.

In: a PlannedDiagnosis. Out: `AnnotatedFile`s whose lines the template writes down, bars as percent of the longest one.
The first screen shows the few costly lines, the section below the whole loop.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from tracelens.model import PlannedDiagnosis
from tracelens.report import diff, line_times
from tracelens.report.diff import ChangedFile, DiffRow
from tracelens.report.edit_excerpt import EditExcerpt, EditRow
from tracelens.report.line_times import CostlyLine

MOST_LINES = 60
"""Lines of a loop that is shown as a whole; of a longer one only what costs and what changes, with its neighbours."""
CONTEXT = 2
MOST_FILES = 4

Bracket = Literal["", "first", "inside", "last"]
RowKind = Literal["same", "add", "del", "gap"]


@dataclass(frozen=True, slots=True)
class TimeBar:
    """A time and its length in percent."""

    text: str
    width: float


@dataclass(frozen=True, slots=True)
class SourceRow:
    """A line as it is shown. `group` is where in the bracket it stands: first, inside, last or not."""

    kind: RowKind
    number: int | None
    text: str
    blocked: TimeBar | None = None
    idle: TimeBar | None = None
    hot: bool = False
    group: Bracket = ""
    also: bool = False
    """Whether the change has another line in its place, which is not shown."""

    @property
    def css(self) -> str:
        names = (self.kind, "hot" * self.hot, f"group-{self.group}" * bool(self.group), "nobar" * self.bare)
        return " ".join(name for name in names if name)

    @property
    def bare(self) -> bool:
        return self.blocked is None and self.idle is None


@dataclass(frozen=True, slots=True)
class AnnotatedFile:
    path: str
    rows: tuple[SourceRow, ...]
    added: int = 0
    removed: int = 0


@dataclass(frozen=True, slots=True)
class AnnotatedSource:
    """`created` are files that the change adds."""

    files: tuple[AnnotatedFile, ...]
    created: tuple[ChangedFile, ...] = ()
    changed: bool = False


@dataclass(frozen=True, slots=True)
class _Marks:
    """What is drawn beside the lines of all files: one scale, one bracket."""

    times: Mapping[line_times.Line, CostlyLine]
    most_ns: int
    hot: frozenset[line_times.Line]
    group: tuple[line_times.Line, ...] = ()

    def row(self, path: str, number: int, text: str, kind: RowKind = "same") -> SourceRow:
        key, times = (path, number), self.times.get((path, number))
        return SourceRow(
            kind,
            number,
            text,
            self._bar(times, times.host_blocked_ns) if times else None,
            self._bar(times, times.gpu_idle_ns) if times else None,
            key in self.hot,
            self.place(path, number),
        )

    def place(self, path: str, number: int) -> Bracket:
        lines = [line for other, line in self.group if other == path]
        if len(lines) < 2 or not min(lines) <= number <= max(lines):
            return ""
        return "first" if number == min(lines) else "last" if number == max(lines) else "inside"

    def _bar(self, line: CostlyLine, ns: int | None) -> TimeBar | None:
        return TimeBar(line.told(ns), round(100 * ns / self.most_ns, 1)) if ns else None


def frame(
    diagnosis: PlannedDiagnosis, lines: Sequence[CostlyLine], edit: EditExcerpt | None
) -> tuple[AnnotatedFile, ...]:
    """The costly lines of the first screen, with a gap where lines between them are left out, and the edit in its
    place: one line out, one in."""
    marks = _marks(diagnosis, lines)
    by_path: dict[str, list[CostlyLine]] = defaultdict(list)
    for line in lines:
        by_path[line.place.path].append(line)
    rows_of = {path: list(_frame_rows(marks, path, own)) for path, own in by_path.items()}
    if edit is not None:
        source = diagnosis.sources.get(edit.path, "").expandtabs(4).splitlines()
        rows_of[edit.path] = list(_with_edit(rows_of.get(edit.path, ()), edit, source, marks))
    return tuple(AnnotatedFile(path, _with_gaps(_pieces(_dedented(rows)))) for path, rows in rows_of.items() if rows)


def _with_edit(
    rows: Sequence[SourceRow], edit: EditExcerpt, source: Sequence[str], marks: _Marks
) -> Iterator[SourceRow]:
    """The rows with those of the lines that go marked, and the lines that come before or behind them."""
    of_line = {row.number: row for row in rows if row.number is not None}
    gone = {row.line for row in edit.rows if row.kind == "del" and row.line <= len(source)}
    for number in gone:
        known = of_line.get(number) or marks.row(edit.path, number, source[number - 1])
        of_line[number] = replace(known, kind="del")
    of_line |= {number: replace(of_line[number], also=True) for number in edit.hidden & of_line.keys()}
    come: dict[int, list[str]] = defaultdict(list)
    for place, row in enumerate(edit.rows):
        if row.kind == "add":
            come[_behind(edit.rows, place)].append(row.text.expandtabs(4))
    for number in [one - 1 for one in come if one not in of_line and 1 < one <= len(source) + 1]:
        of_line.setdefault(number, marks.row(edit.path, number, source[number - 1]))  # says where what comes stands
    for number in sorted({*of_line, *come}):
        own = of_line.get(number)
        within: Bracket = "inside" if own is not None and own.group in ("first", "inside") else ""
        added = [SourceRow("add", None, text, group=within if number in gone else "") for text in come.get(number, ())]
        yield from (*([own] if own else ()), *added) if number in gone else (*added, *([own] if own else ()))


def _behind(rows: Sequence[EditRow], place: int) -> int:
    """The line that goes right before a line that comes, else the one that this comes before."""
    before = next((row for row in reversed(rows[:place]) if row.kind == "del"), None)
    return max(before.line, rows[place].line) if before is not None else rows[place].line


def annotated_source(diagnosis: PlannedDiagnosis) -> AnnotatedSource:
    """The loop and every file that the recommended change touches; no file where no source is at hand."""
    times = line_times.line_times(diagnosis)
    marks = _marks(diagnosis, times.values())
    changed = diff.parse(change.diff) if (change := diagnosis.recommended_patch) is not None else ()
    by_path = {file.path: file for file in changed if not file.created}
    cost: dict[str, int] = defaultdict(int)
    for (path, _), line in times.items():
        cost[path] += line.most_ns
    paths = sorted({*cost, *by_path} & diagnosis.sources.keys(), key=lambda path: (-cost[path], path))[:MOST_FILES]
    files = (_file(path, diagnosis.sources[path], marks, by_path.get(path)) for path in paths)
    shown = tuple(file for file in files if file.rows)
    return AnnotatedSource(shown, tuple(file for file in changed if file.created), any(file.added for file in shown))


def _marks(diagnosis: PlannedDiagnosis, lines: Iterable[CostlyLine]) -> _Marks:
    times = {(line.place.path, line.place.line): line for line in lines if line.place.line is not None}
    most = max((line.most_ns for line in times.values()), default=0)
    return _Marks(times, max(most, 1), frozenset(line_times.recommended_lines(diagnosis)), line_times.group(diagnosis))


def _frame_rows(marks: _Marks, path: str, lines: Sequence[CostlyLine]) -> Iterator[SourceRow]:
    for line in lines:
        if line.place.line is not None:
            yield marks.row(path, line.place.line, line.text)


# ------------------------------------------------------------------------------------------------------ one file


@dataclass(slots=True)
class _LineChange:
    """A file's part of the diff by lines of the file as it is: what goes, what comes before a line, what is shown."""

    removed: set[int] = field(default_factory=set)
    before: dict[int, list[str]] = field(default_factory=lambda: defaultdict(list))
    shown: set[int] = field(default_factory=set)


def _file(path: str, source: str, marks: _Marks, changed: ChangedFile | None) -> AnnotatedFile:
    lines = source.expandtabs(4).splitlines()
    change = _change(changed.rows if changed is not None else ())
    timed = {number for other, number in marks.times if other == path}
    wanted = {number for number in _loop(source, timed) | change.shown if 1 <= number <= len(lines)}
    rows: list[SourceRow] = []
    for number in sorted(wanted | change.before.keys()):
        inside: Bracket = "inside" if marks.place(path, number) in ("inside", "last") else ""
        rows += [SourceRow("add", None, text, group=inside) for text in change.before.get(number, ())]
        if number in wanted:
            rows.append(marks.row(path, number, lines[number - 1], "del" if number in change.removed else "same"))
    added = sum(len(texts) for texts in change.before.values())
    return AnnotatedFile(path, _with_gaps(map(_dedented, _pieces(rows))), added, len(change.removed))


def _change(rows: Iterable[DiffRow]) -> _LineChange:
    out, following = _LineChange(), 1
    for row in rows:
        if row.kind == "add":
            out.before[following].append(row.text.expandtabs(4))
        elif row.old is not None:
            following = row.old + 1
            if row.kind == "del":
                out.removed.add(row.old)
    out.shown = {number - 1 for number in out.before} | out.removed
    return out


def _loop(source: str, timed: set[int]) -> set[int]:
    """The innermost loop around all timed lines; of a long one, and without one, the lines with their neighbours."""
    if not timed:
        return set()
    near = {number + by for number in timed for by in range(-CONTEXT, CONTEXT + 1)}
    spans = [span for span in _spans(source) if span[0] <= min(timed) and max(timed) <= span[1]]
    first, last = max(spans, default=(0, MOST_LINES))
    return set(range(first, last + 1)) if spans and last - first < MOST_LINES else near


def _spans(source: str) -> list[tuple[int, int]]:
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return []
    loops = (node for node in ast.walk(tree) if isinstance(node, ast.For | ast.While | ast.AsyncFor))
    return [(loop.lineno, loop.end_lineno or loop.lineno) for loop in loops]


def _with_gaps(pieces: Iterable[Sequence[SourceRow]]) -> tuple[SourceRow, ...]:
    """The pieces with a gap between them, where lines are left out."""
    out: list[SourceRow] = []
    for piece in pieces:
        out += [*([SourceRow("gap", None, "")] if out else []), *piece]
    return tuple(out)


def _pieces(rows: Iterable[SourceRow]) -> Iterator[list[SourceRow]]:
    piece: list[SourceRow] = []
    before: int | None = None
    for row in rows:
        if row.number is not None:
            if before is not None and row.number > before + 1:
                yield piece
                piece = []
            before = row.number
        piece.append(row)
    if piece:
        yield piece


def _dedented(rows: Sequence[SourceRow]) -> list[SourceRow]:
    """Without the indentation that all of them share."""
    depths = [len(row.text) - len(row.text.lstrip()) for row in rows if row.text.strip()]
    least = min(depths, default=0)
    return [replace(row, text=row.text[least:]) for row in rows]
