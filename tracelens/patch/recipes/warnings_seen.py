"""Whether the project looks at Python's warnings, of which reads that wait make fewer.

In: a request and the calls that read. Out: what is not known, as a clause; empty where nobody would notice. Of a
tensor with a graph `float(loss)` warns once on standard error, and the value that waits has no graph. What of Python's
module a file uses is asked by what its names mean; a use that is not known to be harmless looks at warnings.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from tracelens.messages import say
from tracelens.patch.code.names import method_of
from tracelens.patch.effects import syntax
from tracelens.patch.loop.sites import Site
from tracelens.patch.proposal import RecipeRequest

_ACTIONS = frozenset({"ignore", "default", "once", "module", "always", "all"})
_CATEGORIES = re.compile(r"\w*(Warning|Deprecated\w*)$")
_ELSEWHERE = re.compile(r"\bcaptureWarnings\b|\bPYTHONWARNINGS\b|\bpytest\.warns\b|[\"']warnings[\"']")
"""Other ways to look at them: by the logging module, from the outside, and to the module by its name as a text."""


def doubt(request: RecipeRequest, sites: Iterable[Site]) -> str:
    """Why a warning that no longer comes may be missed."""
    warns = any(method_of(site.node) in ("", "format") for site in sites)  # `loss.item()` never does
    seen = _seen(request) if warns else ""
    if not seen:
        return ""
    return say("the project looks at warnings (`{seen}`), and torch may warn of this read where it stands", seen=seen)


def _seen(request: RecipeRequest) -> str:
    """The first thing in the files that can run by which somebody sees warnings."""
    source = request.source
    found = _ELSEWHERE.search(source.project_text)
    if found is not None:
        return found.group()
    return next((seen for tree in source.trees.values() for seen in _uses(tree)), "")


def _uses(tree: ast.Module) -> Iterator[str]:
    """What a file does with Python's module, under whatever name, that is not known to be harmless."""
    nodes = tuple(syntax.walk(tree))
    names = dict(pair for node in nodes for pair in _imported(node))
    inner = {id(node.value) for node in nodes if isinstance(node, ast.Attribute)}
    calls = {id(node.func): node for node in nodes if isinstance(node, ast.Call)}
    for node in nodes:
        part = _part(node, names) if id(node) not in inner else None
        if part is not None and not _is_harmless(part, calls.get(id(node))):
            yield ast.unparse(node)


def _imported(node: ast.AST) -> Iterator[tuple[str, str]]:
    """The file's names for the module (``), or for a part of it."""
    if isinstance(node, ast.Import):
        yield from ((one.asname or one.name, "") for one in node.names if one.name == "warnings")
    elif isinstance(node, ast.ImportFrom) and node.module == "warnings" and not node.level:
        yield from ((one.asname or one.name, one.name) for one in node.names)


def _part(node: ast.AST, names: dict[str, str]) -> str | None:
    """Which part of the module an expression is; None for anything else."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return node.attr if names.get(node.value.id) == "" else None
    return names.get(node.id) if isinstance(node, ast.Name) else None


def _is_harmless(part: str, call: ast.Call | None) -> bool:
    """Whether warnings neither become errors by it nor come to anybody else."""
    if part == "warn" or (part == "catch_warnings" and call is not None and not call.args and not call.keywords):
        return True
    if part == "resetwarnings" or _CATEGORIES.match(part):
        return True
    if part not in ("simplefilter", "filterwarnings") or call is None:
        return False
    given = [*call.args[:1], *(word.value for word in call.keywords if word.arg in ("action", None))]
    action = given[0].value if given and isinstance(given[0], ast.Constant) else None
    return action in _ACTIONS
