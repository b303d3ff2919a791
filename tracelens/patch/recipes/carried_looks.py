"""Whether a look can be given a dict or a list of numbers made for it, in place of the one that carries the tensors.

In: the place of a look. Out: nothing, or `Blocked`: a method that changes what it is called on would change the copy
alone, and who keeps what it is handed would not see what is put in later.
"""

from __future__ import annotations

import libcst as cst

from tracelens.messages import say
from tracelens.patch.code.names import last_name
from tracelens.patch.code.source import SourceFile
from tracelens.patch.effects.words import words
from tracelens.patch.loop.loops import RETURN_TENSOR, Blocked, innermost_loop
from tracelens.patch.recipes.carried_forms import is_target, places
from tracelens.patch.recipes.project_calls import place

_CHANGES = words("pop popitem setdefault sort extend insert remove reverse append update add clear")
_ONLY_LOOK = words(
    "print str repr format len sum min max sorted list tuple any all enumerate zip map join dumps dump log info debug"
    " warning error write writerow add_scalar add_scalars log_metrics set_postfix mean median array tensor stack"
)
"""Last names of functions that keep nothing of what they are handed, and change nothing in it."""


def check(source: SourceFile, node: cst.BaseExpression) -> None:
    """Raise `Blocked` where a dict or a list is changed by its look, or kept and changed later."""
    parent = source.parent(node)
    if isinstance(parent, cst.Attribute) and parent.attr.value in _CHANGES:
        raise Blocked(None, say("{place} changes what holds the values", place=place(source, node)), RETURN_TENSOR)
    call = source.parent(parent) if isinstance(parent, cst.Arg) else None
    last = last_name(call.func) if isinstance(call, cst.Call) else ""
    if not isinstance(call, cst.Call) or not isinstance(node, cst.Name) or last in _ONLY_LOOK:
        return
    if _is_used_again(source, node):
        told = say("{place} hands it to `{call}`, and it is used again below", place=place(source, node), call=last)
        raise Blocked(None, told, RETURN_TENSOR)


def _is_used_again(source: SourceFile, node: cst.Name) -> bool:
    """Whether what has the name may be used behind a place, also in the next round of its loop."""
    found = places(source, node) or ()
    uses = [one for one in found if one is not node and not is_target(source, one)]
    end = source.span(node)[1]
    if any(source.span(one)[0] > end for one in uses):
        return True
    loop = innermost_loop(source, node)
    if loop is None:
        return False
    start, last = source.span(loop)
    inside = [one for one in found if start <= source.span(one)[0] < last]
    return not any(is_target(source, one) for one in inside) and any(one in inside for one in uses)
