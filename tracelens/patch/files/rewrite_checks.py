"""No rewrite is trusted: what a rewritten file must pass before anyone sees it.

In: a file before and after. Out: nothing, or a sentence that says what is wrong; then the whole file is given up.
"""

from __future__ import annotations

import ast
import builtins
import io
import tokenize
import warnings
from collections import Counter
from functools import lru_cache
from typing import NamedTuple

from tracelens.messages import say
from tracelens.patch.code.source import PARSED_FILES, SourceFile, Unreadable, parse
from tracelens.patch.effects import syntax
from tracelens.patch.files import outdated_comments

_WRITTEN = frozenset(dir(builtins)) | {"torch"}
"""Names that recipes write without asking for whom they stand."""


def rewrite_mistake(before: SourceFile, after: bytes) -> str | None:
    """What is wrong with a rewritten file, in a sentence; None if it parses, compiles and kept its comments, but for
    those that say of a waiting line that it waits."""
    try:
        parse(before.path, before.shown, after, before.entry)  # kept for those who read the result
    except Unreadable as error:
        return say("the patched file {reason}", reason=error.reason)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the user's own code, such as invalid escapes: not ours to report
            compile(after, before.shown, "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        return say("the patched file does not compile: {error}", error=error)
    own = _other_meaning(before, after)
    if own is not None:
        return say("the file has a `{own}` of its own, and the change needs Python's or torch's", own=own)
    lost = _comments(before.data) - _comments(after) - outdated_comments.of_waits(before.data)
    if lost:
        return say("a comment would be lost: {lost}", lost=next(iter(lost)))
    return None


@lru_cache(maxsize=PARSED_FILES)
def _comments(data: bytes) -> Counter[str]:
    tokens = tokenize.tokenize(io.BytesIO(data).readline)
    return Counter(token.string.strip() for token in tokens if token.type == tokenize.COMMENT)


def _other_meaning(before: SourceFile, after: bytes) -> str | None:
    """A name that the rewritten file calls more often, for a builtin or torch, and that means something else in it."""
    old, new = _names(before.data), _names(after)
    more = sorted(name for name in new.used.keys() & _WRITTEN if new.used[name] > old.used[name])
    bound = old.bound.union(*(_names(path.read_bytes()).bound for path in before.others if "*" in old.bound and more))
    return next((name for name in more if name in bound), None)


class _NameUses(NamedTuple):
    """The names that a file calls or takes attributes of, with how often, and those that it binds other than by
    importing torch."""

    used: Counter[str]
    bound: frozenset[str]


@lru_cache(maxsize=PARSED_FILES)
def _names(data: bytes) -> _NameUses:
    used: Counter[str] = Counter()
    bound: set[str] = set()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = ast.parse(data)
    for node in syntax.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id=name)) | ast.Attribute(value=ast.Name(id=name)):
                used[name] += 1
            case (
                ast.Name(id=name, ctx=ast.Store())
                | ast.arg(arg=name)
                | ast.FunctionDef(name=name)
                | ast.ClassDef(name=name)
            ):
                bound.add(name)
            case ast.AsyncFunctionDef(name=name) | ast.ExceptHandler(name=str(name)):
                bound.add(name)
            case ast.ImportFrom(names=[ast.alias(name="*")]):
                bound.add("*")
            case ast.alias(name=full, asname=asname):
                name = asname or full.partition(".")[0]
                bound |= {name} - ({"torch"} if full.partition(".")[0] == "torch" else set())
    return _NameUses(used, frozenset(bound))
