"""Side streams in another file of the project: whether one that can run with the loop's file uses them, and where.

In: a parsed file. Out: the place, "" where there is none. Files are searched as texts first, and parsed where they have
such a word.
"""

from __future__ import annotations

import ast
import re
from functools import lru_cache
from typing import TypeGuard

from tracelens.patch.code.source import PARSED_FILES, SourceFile
from tracelens.patch.effects import syntax
from tracelens.patch.effects.words import words
from tracelens.patch.loop.project_trees import full_name

_NAMES = words("Stream stream ExternalStream StreamContext set_stream")
_WORDS = re.compile(rf"\b({'|'.join(sorted(_NAMES))})\b")
_OF_A_DEVICE = re.compile(r"\b(torch|cuda)\b")


@lru_cache(maxsize=PARSED_FILES)
def place(source: SourceFile) -> str:
    """Where another file uses a stream beside the current one: `ema.py:16`."""
    project = source.project
    having = [path for path in project.having("tream") if path != source.path]
    if not having:
        return ""
    started = [] if source.entry is None else [source.entry]
    near = frozenset(project.around(source.path, *started))
    for path in having:
        file = project.file(path) if path in near else None
        if file is None or file.tree is None or not _WORDS.search(file.text):
            continue
        for node in syntax.walk(file.tree):
            if _is_stream(node, file.tree):
                return f"{file.shown}:{node.lineno}"
    return ""


def _is_stream(node: ast.AST, tree: ast.Module) -> TypeGuard[ast.expr]:
    """`torch.cuda.Stream` however it is written; `client.stream(…)` and `logging.StreamHandler` are others."""
    full = full_name(tree, node)
    if not full and isinstance(node, ast.Attribute) and node.attr in _NAMES:
        full = ast.unparse(node)
    owner, _, name = full.rpartition(".")
    return name in _NAMES and bool(_OF_A_DEVICE.search(owner))
