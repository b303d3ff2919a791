"""Whether the project looks at Python's warnings, of which reads that wait make fewer.

In: a request and the calls that read. Out: what is not known, as a clause; empty where nobody would notice. Of a
tensor with a graph `float(loss)` warns once on standard error, and the value that waits has no graph.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import libcst as cst

from tracelens.messages import say
from tracelens.patch.loop.sites import Site
from tracelens.patch.proposal import RecipeRequest

_HARMLESS = r"[\"'](?:ignore|default|once|module|always|all)[\"']"
_SEEN = re.compile(
    rf"\b(?:showwarning|formatwarning|captureWarnings|PYTHONWARNINGS)\b"
    rf"|\b(?:simplefilter|filterwarnings)\(\s*(?:action\s*=\s*)?(?!{_HARMLESS})"
    r"|\bcatch_warnings\(\s*(?!\))"
)
"""Filters that raise or are not known, functions in the place of Python's own, and lists of warnings."""


def doubt(request: RecipeRequest, sites: Iterable[Site]) -> str:
    """Why a warning that no longer comes may be missed."""
    warns = any(not _is_method(site.node) for site in sites)
    found = _SEEN.search(request.source.project_text) if warns else None
    if found is None:
        return ""
    seen = found.group().rstrip("( \n")
    return say("the project looks at warnings (`{seen}`), and torch may warn of this read where it stands", seen=seen)


def _is_method(node: cst.CSTNode) -> bool:
    """`loss.item()` never warns."""
    return isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value != "format"
