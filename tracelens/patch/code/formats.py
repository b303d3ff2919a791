"""Text made of values: `"%.3f" % loss`, `"{:.3f}".format(loss)`, `format(loss, ".3f")`, `f"{loss:.3f}"`.

In: an expression. Out: the values that go into its text, each with what Python asks of a tensor there: its number
(`%.3f`) or its own format, which for a tensor without dimensions is that of its number. Values whose text is the
tensor's (`%s`, `{!r}`) are none of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import libcst as cst

from tracelens.patch.code.names import children, method_of, rebound, walk
from tracelens.patch.code.source import PARSED_FILES, SourceFile
from tracelens.patch.effects.words import words

Asked = Literal["number", "formatted"]

_WIDTHS = r"(?P<width>\*|\d+)?(?:\.(?P<precision>\*|\d+))?"
_SPEC = re.compile(rf"%(?P<key>\(\w*\))?[#0\- +]*{_WIDTHS}[hlL]?(?P<letter>.)", re.DOTALL)
NUMERIC = "dieEfFgG"
"""Letters of `%` that ask a value for its number."""
_LOOKS_INSIDE = re.compile(r"\{[^{}:]*[!.\[]")
REDUCES = words("sum mean max min norm prod std var argmax argmin any all")
"""Methods of tensors and arrays that make something new of all elements; what they give shares no memory with them."""
CONVERTS = words("float double half long int bool abs item view reshape squeeze flatten data")
"""What stands between a reduction and the tensor, and changes no other value."""


_GIVE_TEXT = words("format join ljust rjust center strip lstrip rstrip upper lower title replace")


ON_ARRAYS = REDUCES | words("reshape ravel flatten squeeze astype round tolist item copy transpose cumsum nonzero")
"""Methods of arrays on the host that change none of them, and draw and print nothing."""


@dataclass(frozen=True)
class Templates:
    """What formats in a file: the names of constant texts, and whether `format` is Python's own."""

    texts: frozenset[str]
    builtin: bool


@lru_cache(maxsize=PARSED_FILES)
def templates(source: SourceFile) -> Templates:
    """The names that stand for constant texts only, none of which looks at more than numbers."""
    texts: set[str] = set()
    others: set[str] = {*source.names.functions, *source.names.classes, *source.names.imports}
    for node in walk(source.module):
        if isinstance(node, cst.Param):
            others.add(node.name.value)
        elif isinstance(node, (cst.BaseSmallStatement, cst.For, cst.With)):
            (texts if isinstance(node, cst.Assign) and _plain(node.value) else others).update(rebound(node))
        elif isinstance(node, (cst.CompFor, cst.NamedExpr)):
            others |= {part.value for part in walk(node.target) if isinstance(part, cst.Name)}
    return Templates(frozenset(texts - others), "format" not in texts | others)


def values(node: cst.CSTNode, known: Templates) -> Iterator[tuple[cst.BaseExpression, Asked]]:
    """The values that one formatting takes a number of; nothing for other nodes."""
    if isinstance(node, cst.BinaryOperation):
        yield from ((value, "number") for value, letter in percent(node) if letter in NUMERIC)
    elif isinstance(node, cst.FormattedStringExpression):
        if node.conversion is None:
            yield node.expression, "formatted"
    elif isinstance(node, cst.Call) and formats(node, known):
        given = node.args if isinstance(node.func, cst.Attribute) else node.args[:1]
        yield from ((argument.value, "formatted") for argument in given if not argument.star)


def formats(call: cst.Call, known: Templates) -> bool:
    """`"…".format(…)`, `template.format(…)` and `format(…, …)` that see numbers only, not `"{!r} {0.shape}"`."""
    if isinstance(call.func, cst.Name):
        return call.func.value == "format" and known.builtin and len(call.args) == 2
    if not isinstance(call.func, cst.Attribute) or call.func.attr.value != "format":
        return False
    owner = call.func.value
    return owner.value in known.texts if isinstance(owner, cst.Name) else _plain(owner)


def _plain(node: cst.BaseExpression) -> bool:
    """A constant text that asks for no conversion, attribute or element."""
    text = _text(node)
    return text is not None and not _LOOKS_INSIDE.search(text)


def percent(node: cst.BinaryOperation) -> tuple[tuple[cst.BaseExpression, str], ...]:
    """The values of `"…" % (…)` with the letters of their places; empty where they cannot be told apart."""
    text = _text(node.left) if isinstance(node.operator, cst.Modulo) else None
    found = [match for match in _SPEC.finditer(text or "") if match["letter"] != "%"]
    if text is None or any(m["key"] is not None or "*" in (m["width"], m["precision"]) for m in found):
        return ()
    given = [element.value for element in node.right.elements] if isinstance(node.right, cst.Tuple) else [node.right]
    starred = isinstance(node.right, cst.Tuple) and any(isinstance(e, cst.StarredElement) for e in node.right.elements)
    if starred or len(given) != len(found):
        return ()
    return tuple((value, match["letter"]) for value, match in zip(given, found, strict=True))


def makes_text(node: cst.BaseExpression) -> bool:
    """Whether a value is a text for certain: `"…" % (loss,)`, `"…".format(loss)`, an f-string, a sum of such.

    What stands alone right of `%` may be a text that has its own way to be put into another.
    """
    if isinstance(node, cst.BinaryOperation):
        added = isinstance(node.operator, cst.Add) and makes_text(node.right)
        shown = isinstance(node.operator, cst.Modulo) and isinstance(node.right, (cst.Tuple, cst.Dict, cst.BaseNumber))
        return (added or shown) and makes_text(node.left)
    if isinstance(node, cst.Call):
        method = node.func if isinstance(node.func, cst.Attribute) else None
        return method is not None and method.attr.value in _GIVE_TEXT and makes_text(method.value)
    return isinstance(node, cst.FormattedString) or _text(node) is not None


def reduces(node: cst.BaseExpression) -> bool:
    """Whether a number is computed of a tensor's elements and not read: `100.0 * correct.sum() / len(y)`."""
    if isinstance(node, cst.Call):
        owner, method = node.func, method_of(node)
        return method in REDUCES or (method in CONVERTS and isinstance(owner, cst.Attribute) and reduces(owner.value))
    if isinstance(node, (cst.BinaryOperation, cst.UnaryOperation)):
        return any(isinstance(part, cst.BaseExpression) and reduces(part) for part in children(node))
    return False


def _text(node: cst.BaseExpression) -> str | None:
    """The text of a constant string; None for anything else."""
    if not isinstance(node, (cst.SimpleString, cst.ConcatenatedString)):
        return None
    value = node.evaluated_value
    return value if isinstance(value, str) else None
