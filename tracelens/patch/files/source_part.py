"""A part of a module's source: some of its definitions, and whatever those need.

In: the source of one module, and names. Out: its lines without the definitions that are not needed. Public classes keep
their special methods and those of their methods that are called; what else a class has it keeps.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from tracelens.patch.effects import syntax

_ABOVE_DEFINITION = re.compile(r"\n{2,}(?=(?:class|def|@))")
_WITHIN_CLASS = re.compile(r"\n{3,}(?=[ ])")
KEPT_PARTS = 16
"""The patches of a Run need the same few parts of one module."""


@dataclass(frozen=True)
class _Piece:
    """A definition: its lines, the names by which it is known, and what it mentions."""

    lines: range
    known_as: frozenset[str]
    mentions: frozenset[str]


@lru_cache(maxsize=KEPT_PARTS)
def part_of(source: bytes, wanted: frozenset[str], docstring: str) -> bytes:
    """The part of a module that is needed for `wanted`: names of definitions, and `Class.method`."""
    text = source.decode()
    tree, pieces = _taken_apart(text)
    kept = _needed(pieces, wanted)
    gone = {line for piece in pieces if piece not in kept for line in piece.lines}
    mentioned = {name for piece in kept for name in piece.mentions}
    lines = text.splitlines(keepends=True)
    first = tree.body[0]
    written = {first.lineno: f'"""{docstring}"""\n'}
    for node in tree.body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            written[node.lineno] = _used_import(node, mentioned)
    gone |= {number for number, line in enumerate(lines, 1) if line.startswith("# ---")}
    gone |= set(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    out = [written.get(number, "" if number in gone else line) for number, line in enumerate(lines, 1)]
    joined = _WITHIN_CLASS.sub("\n\n", _ABOVE_DEFINITION.sub("\n\n\n", "".join(out)))
    return (joined.rstrip("\n") + "\n").encode()


@lru_cache(maxsize=1)
def _taken_apart(text: str) -> tuple[ast.Module, tuple[_Piece, ...]]:
    tree = ast.parse(text)
    return tree, tuple(_pieces(tree))


def _needed(pieces: Sequence[_Piece], wanted: Collection[str]) -> list[_Piece]:
    names = set(wanted)
    kept: list[_Piece] = []
    while more := [piece for piece in pieces if piece not in kept and piece.known_as & names]:
        kept += more
        names |= {name for piece in more for name in piece.mentions}
    return kept


def _pieces(tree: ast.Module) -> Iterator[_Piece]:
    """The definitions of a module, those of public classes without the methods that may be left out."""
    body = [node for node in tree.body if not isinstance(node, (ast.Import, ast.ImportFrom))]
    for number, node in enumerate(body):
        if isinstance(node, ast.Expr):
            continue
        follows = body[number + 1] if number + 1 < len(body) else None
        last = follows if isinstance(follows, ast.Expr) else node  # the docstring of a constant
        lines = set(range(_first_line(node), (last.end_lineno or last.lineno) + 1))
        methods = _methods(node) if isinstance(node, ast.ClassDef) else []
        for method in methods:
            own = range(_first_line(method), (method.end_lineno or method.lineno) + 1)
            lines -= set(own)
            owner = _names(node)[0]
            yield _Piece(own, frozenset({f"{owner}.{method.name}"}), _mentions(syntax.walk(method), owner))
        inner = {part for method in methods for part in syntax.walk(method)}
        owner = node.name if isinstance(node, ast.ClassDef) else ""
        mentions = _mentions((part for part in syntax.walk(node) if part not in inner), owner)
        for stretch in _stretches(sorted(lines)):
            yield _Piece(stretch, frozenset(_names(node)), mentions)


def _methods(node: ast.ClassDef) -> list[ast.FunctionDef]:
    """The methods of a public class that it can do without: not the special ones."""
    if node.name.startswith("_"):
        return []
    return [part for part in node.body if isinstance(part, ast.FunctionDef) and not part.name.startswith("__")]


def _names(node: ast.stmt) -> list[str]:
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [target.id for target in targets if isinstance(target, ast.Name)]


def _mentions(parts: Iterable[ast.AST], owner: str) -> frozenset[str]:
    """Names, and for `self.name` in a class `Class.name`."""
    out: set[str] = set()
    for part in parts:
        if isinstance(part, ast.Name):
            out.add(part.id)
        elif isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name) and part.value.id == "self":
            out.add(f"{owner}.{part.attr}")
    return frozenset(out)


def _first_line(node: ast.stmt) -> int:
    decorators = node.decorator_list if isinstance(node, (ast.FunctionDef, ast.ClassDef)) else []
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])


def _stretches(lines: list[int]) -> Iterator[range]:
    start = 0
    for number in range(1, len(lines) + 1):
        if number == len(lines) or lines[number] != lines[number - 1] + 1:
            yield range(lines[start], lines[number - 1] + 1)
            start = number


def _used_import(node: ast.Import | ast.ImportFrom, mentioned: Collection[str]) -> str:
    """The line of an import, with what is mentioned of it."""
    future = isinstance(node, ast.ImportFrom) and node.module == "__future__"
    names = [alias for alias in node.names if future or (alias.asname or alias.name).partition(".")[0] in mentioned]
    if not names:
        return ""
    return (
        ast.unparse(
            ast.Import(names) if isinstance(node, ast.Import) else ast.ImportFrom(node.module, names, node.level)
        )
        + "\n"
    )
