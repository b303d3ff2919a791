"""Lines of output that are written every N batches only, and how they are known again.

In: a node of a parsed file. Out: whether it stands below a condition that a patch put there. Apart because recipes
that do not thin anything have to know it too: what such a statement reads is read rarely by now.
"""

from __future__ import annotations

import libcst as cst

from tracelens.patch.loops import Blocked
from tracelens.patch.source import SourceFile

MARK = "# thinned by tracelens"
"""Behind the condition: it tells readers where it comes from, and a second run that nothing is left to do."""


def is_thinned(source: SourceFile, node: cst.CSTNode) -> bool:
    return any(
        isinstance(above, cst.If) and MARK in source.line_text(source.line(above)) for above in source.ancestors(node)
    )


def check_not_thinned(source: SourceFile, node: cst.CSTNode) -> None:
    """Raise `Blocked` where a patch has made a read rare already."""
    if is_thinned(source, node):
        raise Blocked(None, "it is thinned out already", "nothing to do")
