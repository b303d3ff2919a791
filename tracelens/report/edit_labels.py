"""What Edits are called as switches of the report.

In: kinds of Edits that make one change, and the interval. Out: a few words.
"""

from __future__ import annotations

from collections.abc import Iterable

from tracelens.edit_kinds import EditKind, definition
from tracelens.messages import say


def label(kinds: Iterable[EditKind], interval: int) -> str:
    """What one change of the report's switches does; several kinds are those of one number."""
    chosen = [definition(kind) for kind in dict.fromkeys(kinds)]
    first = chosen[0]
    text = first.label
    if len(chosen) > 1:
        text = first.label_joined or first.label
    elif interval == 1 and first.label_at_once:
        text = first.label_at_once
    return say(text, n=interval)
