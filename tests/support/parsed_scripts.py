"""Small sources, parsed as the patcher parses a script."""

from __future__ import annotations

import textwrap
from pathlib import Path

import libcst as cst

from tracelens.patch.code.names import walk
from tracelens.patch.code.source import SourceFile, parse


def parsed(folder: Path, text: str, **others: str) -> SourceFile:
    """`text` as train.py in `folder`, beside the project's other files (without their `.py`)."""
    for name, content in others.items():
        (folder / f"{name}.py").write_text(textwrap.dedent(content), encoding="utf-8")
    path = folder / "train.py"
    path.write_text(textwrap.dedent(text).lstrip(), encoding="utf-8")
    return parse(path, path.name, path.read_bytes())


def expression(text: str) -> cst.BaseExpression:
    """An expression without a file around it."""
    return cst.parse_expression(text)


def loop_at(source: SourceFile, line: int) -> cst.For | cst.While:
    """The loop that begins in a line."""
    return next(n for n in walk(source.module) if isinstance(n, (cst.For, cst.While)) and source.line(n) == line)


def call_of(source: SourceFile, name: str) -> cst.Call:
    """The only call of something with this last name."""
    (call,) = source.calls[name]
    return call
