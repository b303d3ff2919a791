"""One source file as bytes, as text and as a syntax tree, and how pieces of it are replaced.

In: a file. Out: `SourceFile`, from which recipes cut text by node, and new bytes made by splices. Recipes change
text, not trees: whatever no splice covers stays the same to the byte, so formatting, line ends and a missing last
newline need no care anywhere else.
"""

from __future__ import annotations

import ast
import bisect
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TypeVar

import libcst as cst

from tracelens.messages import say
from tracelens.patch.code.names import FileNames, children, dotted, rebound, walk
from tracelens.patch.code.spans import Span, text_and_spans
from tracelens.patch.code.star_imports import brought, starred
from tracelens.patch.code.survey import survey
from tracelens.patch.effects import places
from tracelens.patch.effects.file_effects import FileEffects, file_effects
from tracelens.patch.effects.project import Project

_LINE_END = re.compile(r"\r\n|\r|\n")
KEEP_COMMENT = re.compile(r"#\s*tracelens:\s*keep\b")
_BLANK_END = re.compile(rb"(?<=[\r\n])\s+\Z")
"""Empty lines at the end, of which LibCST loses one where the last is of blanks only: they are put back as text."""


PARSED_FILES = 16
"""Parsed files that are kept: a patch per scheme is made of the same few files, and each is parsed before and after."""


class ReasonedError(Exception):
    """Something that cannot be done; `reason` says why, for people, in their language."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Unreadable(ReasonedError):
    """The file cannot be taken apart."""


class Conflict(ReasonedError):
    """Two splices want the same text."""


@dataclass(frozen=True, slots=True)
class Splice:
    """Replace the characters [start, end) by `text`. Insertions at one place keep the order of `rank`."""

    start: int
    end: int
    text: str
    rank: int = 0


Kind = TypeVar("Kind", bound=cst.CSTNode)


@dataclass(frozen=True, eq=False)
class SourceFile:
    """A parsed file; compared by identity, as its nodes are. Offsets count characters of `text`."""

    path: Path
    shown: str
    """The path relative to the project's root, with forward slashes."""
    data: bytes
    text: str
    module: cst.Module
    spans: Mapping[cst.CSTNode, Span]
    entry: Path | None = None
    """The script that was started: it hands its models, data sets and callbacks to the functions of other files."""

    @property
    def root(self) -> Path:
        """The project's root, to which the file is shown relative."""
        return self.path.parents[self.shown.count("/")]

    @cached_property
    def names(self) -> FileNames:
        stars = starred(self.module)
        return survey(self.module, brought(stars, self.project, self.path) if stars else {})

    @cached_property
    def effects(self) -> FileEffects:
        """What the project does around this file: may statements of its loops run later?"""
        return file_effects(self.root, self.entry, self.path, self.text)

    @cached_property
    def project(self) -> Project:
        """The project's files, with this one's text."""
        known = self.effects.project
        return known if known.changed.get(self.path) == self.text else Project(self.root, {self.path: self.text})

    @cached_property
    def others(self) -> tuple[Path, ...]:
        """The project's files whose functions can be behind a call in this one."""
        started = [] if self.entry is None else [self.entry]
        return self.project.imported(self.path, *started)

    @cached_property
    def trees(self) -> Mapping[Path, ast.Module]:
        """This file, the script that was started and all that they import of the project, parsed."""
        paths = dict.fromkeys((self.path, *([] if self.entry is None else [self.entry]), *self.others))
        return {path: tree for path in paths if (tree := self.project.tree(path)) is not None}

    @cached_property
    def project_text(self) -> str:
        """This file and the project's files that it imports, to be searched for words."""
        others = (path.read_bytes() for path in self.others)
        return "\n".join([self.text, *(data.decode("utf-8", errors="replace") for data in others)])

    @cached_property
    def parents(self) -> Mapping[cst.CSTNode, cst.CSTNode]:
        return {child: node for node in walk(self.module) for child in children(node)}

    @cached_property
    def calls(self) -> Mapping[str, tuple[cst.Call, ...]]:
        """All calls in the file, by the last name of what is called."""
        found: dict[str, list[cst.Call]] = {}
        for node in walk(self.module):
            if isinstance(node, cst.Call):
                found.setdefault(dotted(node.func).rpartition(".")[2], []).append(node)
        return {name: tuple(calls) for name, calls in found.items()}

    @cached_property
    def identifiers(self) -> frozenset[str]:
        return frozenset(node.value for node in walk(self.module) if isinstance(node, cst.Name))

    def means_builtin(self, name: str) -> bool:
        """Whether a name such as `enumerate` is Python's own in the whole file."""
        if name in self.names.functions or name in self.names.classes or name in self.names.imports:
            return False
        for node in walk(self.module):
            if isinstance(node, cst.Param) and node.name.value == name:
                return False
            if isinstance(node, (cst.BaseSmallStatement, cst.For, cst.With)) and name in rebound(node):
                return False
        return True

    @cached_property
    def line_starts(self) -> tuple[int, ...]:
        return (0, *(match.end() for match in _LINE_END.finditer(self.text)))

    @property
    def newline(self) -> str:
        return self.module.default_newline

    def line_start(self, line: int) -> int:
        """Where the line begins; the end of the text for the line after the last."""
        return self.line_starts[line - 1] if line <= len(self.line_starts) else len(self.text)

    def line_text(self, line: int) -> str:
        return self.text[self.line_start(line) : self.line_start(line + 1)]

    def span(self, node: cst.CSTNode) -> Span:
        """The characters of a node, without the parentheses around it."""
        return self.spans[node]

    def outer_span(self, node: cst.BaseExpression) -> tuple[int, int]:
        """The characters of an expression, with the parentheses around it."""
        start, end = self.span(node)
        for _ in node.lpar:
            start = self.text.rindex("(", 0, start)
        for _ in node.rpar:
            end = self.text.index(")", end) + 1
        return start, end

    def code(self, node: cst.CSTNode) -> str:
        if isinstance(node, cst.BaseExpression):
            start, end = self.outer_span(node)
        else:
            start, end = self.span(node)
        return self.text[start:end]

    def line(self, node: cst.CSTNode) -> int:
        return bisect.bisect_right(self.line_starts, self.spans[node][0])

    def last_line(self, node: cst.CSTNode) -> int:
        return bisect.bisect_right(self.line_starts, self.spans[node][1])

    def covers(self, node: cst.CSTNode, line: int | None) -> bool:
        """Whether a line is one of a node's."""
        return line is not None and self.line(node) <= line <= self.last_line(node)

    def parent(self, node: cst.CSTNode) -> cst.CSTNode | None:
        return self.parents.get(node)

    def function_around(self, node: cst.CSTNode) -> str | None:
        """The name of the innermost function that holds a node."""
        inner = self.innermost(cst.FunctionDef, node)
        return inner.name.value if inner is not None else None

    def innermost(self, kind: type[Kind], node: cst.CSTNode) -> Kind | None:
        """The innermost node of a kind that holds a node."""
        return next((one for one in self.ancestors(node) if isinstance(one, kind)), None)

    def ancestors(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        current = self.parents.get(node)
        while current is not None:
            yield current
            current = self.parents.get(current)

    def indentation(self, statement: cst.CSTNode) -> str:
        """The white space before a statement that begins its line."""
        line = self.line(statement)
        return self.text[self.line_start(line) : self.span(statement)[0]]

    def place(self, node: cst.CSTNode) -> places.Span:
        """Where `effects` has a node, as Python's parser counts: columns in bytes."""
        first, last = self.line(node), self.last_line(node)
        start, end = self.span(node)
        before = self.text[self.line_start(first) : start], self.text[self.line_start(last) : end]
        place = places.Span(first, len(before[0].encode()), last, len(before[1].encode()))
        return self.effects.place(self.text, place)

    def kept_by_comment(self, node: cst.CSTNode) -> bool:
        """Whether `# tracelens: keep` stands on one of the node's lines or alone on the line above."""
        first, last = self.line(node), self.last_line(node)
        above = self.line_text(first - 1).strip() if first > 1 else ""
        if above.startswith("#") and KEEP_COMMENT.search(above):
            return True
        return any(KEEP_COMMENT.search(self.line_text(line)) for line in range(first, last + 1))


@lru_cache(maxsize=PARSED_FILES)
def parse(path: Path, shown: str, data: bytes, entry: Path | None = None) -> SourceFile:
    """Take a file apart; raises `Unreadable` if it is no Python that this program can give back to the byte."""
    _check_syntax(shown, data)
    try:
        module, text, spans = _parsed(data)
        if text.encode(module.encoding) != data and (tail := _BLANK_END.search(data)) is not None:
            module, text, spans = _parsed(data[: tail.start()])
            text += tail.group().decode()
        same = text.encode(module.encoding) == data
    except cst.ParserSyntaxError as error:
        raise Unreadable(say("does not parse as Python 3, line {raw_line}", raw_line=error.raw_line)) from None
    except (UnicodeError, LookupError, SyntaxError) as error:  # SyntaxError: no, or a wrong, coding line
        raise Unreadable(say("cannot be decoded: {error}", error=error)) from None
    except RecursionError:
        raise Unreadable(say("is nested too deeply")) from None
    if not same:
        raise Unreadable(say("cannot be written back byte for byte"))
    return SourceFile(path, shown, data, text, module, spans, entry)


def parse_beside(source: SourceFile, path: Path) -> SourceFile:
    """Another file of the same project, asked by itself. Raises `Unreadable`, or `OSError` where it is gone."""
    return parse(path, path.relative_to(source.root).as_posix(), path.read_bytes(), path)


def _parsed(data: bytes) -> tuple[cst.Module, str, Mapping[cst.CSTNode, Span]]:
    module = cst.parse_module(data)
    return module, *text_and_spans(module)


def _check_syntax(shown: str, data: bytes) -> None:
    """Python's own parser first: LibCST lets a wrong coding line escape, and deep nesting can end its process."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the user's code, not for them here
            compile(data, shown, "exec", ast.PyCF_ONLY_AST, dont_inherit=True)
    except SyntaxError as error:
        if error.lineno:
            raise Unreadable(say("does not parse as Python 3, line {line}", line=error.lineno)) from None
        raise Unreadable(say("does not parse as Python 3: {error}", error=error.msg)) from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise Unreadable(say("cannot be parsed: {error}", error=error or say("it is nested too deeply"))) from None


def apply_splices(source: SourceFile, splices: Sequence[Splice]) -> bytes:
    """The file's bytes with all splices made; raises `Conflict` where two of them overlap."""
    ordered = sorted(splices, key=lambda splice: (splice.start, splice.end, splice.rank))
    pieces, position = [], 0
    for splice in ordered:
        if splice.start < position:
            raise Conflict(say("two changes overlap at character {start}", start=splice.start))
        pieces += [source.text[position : splice.start], _with_newlines(splice.text, source.newline)]
        position = splice.end
    pieces.append(source.text[position:])
    return "".join(pieces).encode(source.module.encoding)


def moved_lines(source: SourceFile, splices: Sequence[Splice]) -> tuple[int | None, ...]:
    """Where each line of the file stands once all splices are made, first line first; None if its start is gone."""
    ordered = sorted(splices, key=lambda splice: (splice.start, splice.end))
    out: list[int | None] = []
    added, done = 0, 0
    for number, start in enumerate(source.line_starts, 1):
        while done < len(ordered) and ordered[done].end <= start:
            gone = source.text[ordered[done].start : ordered[done].end]
            added += len(_LINE_END.findall(ordered[done].text)) - len(_LINE_END.findall(gone))
            done += 1
        cut = done < len(ordered) and ordered[done].start <= start < ordered[done].end
        out.append(None if cut else number + added)
    return tuple(out)


def _with_newlines(text: str, newline: str) -> str:
    return text if newline == "\n" else _LINE_END.sub(newline, text)
