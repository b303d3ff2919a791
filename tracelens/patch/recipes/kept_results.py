"""What was worked out of one parsed file, kept as long as the file is: schemes and levers share most of their Edits.

In: a SourceFile, and all that the work depends on beside it. Out: the result of the first time. Nothing is kept across
two states of a file: a changed file is another SourceFile.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import fields
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from tracelens.patch.code.source import SourceFile
from tracelens.patch.proposal import RecipeAnswer, RecipeRequest

Result = TypeVar("Result")

_ASKED = tuple(one.name for one in fields(RecipeRequest) if one.name not in ("source", "names"))
"""The source is what the answers are kept by, and the names are its own."""
_KEPT: WeakKeyDictionary[SourceFile, dict[Hashable, Any]] = WeakKeyDictionary()


def once(source: SourceFile, asked: Hashable, work: Callable[[], Result]) -> Result:
    """`work()`, or what it returned when the same was asked of the same file. `asked`: everything it depends on."""
    kept = _KEPT.setdefault(source, {})
    if asked not in kept:
        kept[asked] = work()
    result: Result = kept[asked]
    return result


def answered(propose: Callable[[RecipeRequest], RecipeAnswer], request: RecipeRequest) -> RecipeAnswer:
    """What a recipe answers to a request."""
    asked = tuple(getattr(request, name) for name in _ASKED)
    return once(request.source, (propose, *asked), lambda: propose(request))
