"""The file of helpers that a patch puts beside a script: which files of a project are one, unchanged.

In: a file's text. Out: whether the vocabulary of `patched_before` says all that it does.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache, lru_cache
from importlib.resources import files

RUNTIME = "tracelens_runtime"
"""The module of the helpers that patches call: a script that is half written has no import of it yet."""
DOCSTRING = "What the patched scripts of this folder call. It needs torch and nothing else."


@lru_cache(maxsize=16)
def is_helper_file(text: str) -> bool:
    """Whether a file holds definitions of today's helpers, whole and unchanged, and nothing else."""
    if not text.startswith("# tracelens runtime "):
        return False
    try:
        return _today().issuperset(_pieces(ast.parse(text)))
    except (SyntaxError, ValueError, RecursionError):
        return False


@cache
def _today() -> frozenset[str]:
    runtime = files("tracelens").joinpath("runtime.py").read_text(encoding="utf-8")
    return frozenset((*_pieces(ast.parse(runtime)), ast.dump(ast.Expr(ast.Constant(DOCSTRING)))))


def _pieces(module: ast.Module) -> Iterator[str]:
    """What a part of the file has or has not: a name of an import, a statement, a method of a class."""
    for statement in module.body:
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            origin = getattr(statement, "module", "")
            yield from (f"{origin} {ast.dump(name)}" for name in statement.names)
        elif isinstance(statement, ast.ClassDef):
            yield f"{statement.name} {[ast.dump(base) for base in (*statement.bases, *statement.decorator_list)]}"
            yield from (f"{statement.name} {ast.dump(part)}" for part in statement.body)
        else:
            yield ast.dump(statement)
