"""The modules of the package and of the tests, parsed once per process, for tests of their shape."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

from tests.support.places import ROOT

PACKAGE = ROOT / "tracelens"
MODULES = sorted(PACKAGE.rglob("*.py"))
TESTS = ROOT / "tests"
TEST_MODULES = sorted(TESTS.rglob("*.py"))


def name_of(path: Path) -> str:
    """A module's path below the package."""
    return path.relative_to(PACKAGE).as_posix()


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    """Every node of a module, as `ast.walk` finds them."""
    return tuple(ast.walk(tree_of(path)))
