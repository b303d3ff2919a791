"""One more argument for a call, in the call's own layout.

In: a call and the argument's text. Out: a splice. Apart because the recipes for copies and for workers share it.
"""

from __future__ import annotations

import libcst as cst

from tracelens.patch.code.source import SourceFile, Splice


def with_argument(source: SourceFile, call: cst.Call, text: str) -> Splice:
    """One more argument at the end of a call, in its own layout: on a line of its own if the others are."""
    if not call.args:
        _, end = source.span(call)
        return Splice(end - 1, end - 1, text)
    last = call.args[-1]
    _, end = source.outer_span(last.value)
    line = source.line(last)
    indent = source.text[source.line_start(line) : source.span(last)[0]]
    if not indent.strip() and isinstance(last.comma, cst.Comma) and source.last_line(last.value) == line:
        return Splice(end, end, f",\n{indent}{text}")
    return Splice(end, end, f", {text}")
