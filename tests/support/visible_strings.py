"""Which phrases of a module stand in no catalogue: literals of two words and more that no `say` is around."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from string import Formatter

from tests.support.sources import nodes_of

PHRASE = re.compile(r"[A-Za-z]{2,},? [a-z]{2,}")
MARKS = {"say", "say_count", "joined"}
WORDS = {"words", "_words"}
"""Of lists of names, written as one text."""
HELP = {"help", "short_help"}
"""Arguments of an option or a command that the catalogue reads from the commands themselves (`cli/help_texts.py`)."""


def unmarked(path: Path) -> Iterator[tuple[int, str]]:
    """Line and text of each such literal; docstrings, annotations and what a failed assertion says are for
    developers; texts of `--help` are marked by where they stand."""
    excused = set(_excused(path))
    for node in nodes_of(path):
        is_text = isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in excused
        if is_text and PHRASE.search(node.value):
            yield node.lineno, node.value


def marked(path: Path) -> int:
    """How many sentences the module marks."""
    return sum(isinstance(node, ast.Call) and _name(node) in MARKS for node in nodes_of(path))


def dynamic(path: Path) -> Iterator[int]:
    """Lines that mark something else than a literal, which no extraction finds."""
    for node in nodes_of(path):
        if isinstance(node, ast.Call) and _name(node) in MARKS:
            templates = node.args[: 2 if _name(node) == "say_count" else 1]
            if not all(isinstance(one, ast.Constant) and isinstance(one.value, str) for one in templates):
                yield node.lineno


def without_value(path: Path) -> Iterator[int]:
    """Lines that mark a template with a field without its value, or a value without its field."""
    for node in nodes_of(path):
        if isinstance(node, ast.Call) and _name(node) in ("say", "say_count"):
            given = {keyword.arg for keyword in node.keywords}
            templates = [one.value for one in node.args if isinstance(one, ast.Constant) and isinstance(one.value, str)]
            wanted = {
                name for template in templates for _, name, _, _ in Formatter().parse(template) if name is not None
            }
            implied = {"count"} if _name(node) == "say_count" else set()
            if templates and wanted - implied != given and None not in given:
                yield node.lineno


def _name(call: ast.Call) -> str:
    return call.func.id if isinstance(call.func, ast.Name) else ""


def _excused(path: Path) -> Iterator[int]:
    for node in nodes_of(path):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield id(node.value)
        elif isinstance(node, ast.Call) and _name(node) in MARKS | WORDS:
            yield from map(id, node.args)
        elif (isinstance(node, ast.keyword) and node.arg in HELP) or (
            isinstance(node, ast.Raise) and _raises_bug(node)
        ):
            yield from (id(inner) for inner in ast.walk(node))


def _raises_bug(node: ast.Raise) -> bool:
    return isinstance(node.exc, ast.Call) and _name(node.exc) in ("AssertionError", "ValueError", "TypeError")
