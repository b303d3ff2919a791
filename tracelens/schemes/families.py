"""Which kinds of Edits stand or fall together when a plan tries to do without them.

In: the registry of kinds. Out: sets of kinds, in the order in which they are dropped.
"""

from __future__ import annotations

from tracelens.edit_kinds import EDIT_DEFINITIONS, EditKind, NotReplayed


def dropped_together() -> tuple[frozenset[EditKind], ...]:
    """Sets of kinds that are judged and dropped as a whole, in the order in which a plan tries to do without them.

    Unsafe kinds first, then safe ones from the highest number down: what changes a script most goes first. Kinds
    without a prediction are in no set.
    """
    judged = [one for one in EDIT_DEFINITIONS.values() if not isinstance(one.replay, NotReplayed)]
    judged.sort(key=lambda one: (one.tier != "unsafe", one.hunk if one.tier == "unsafe" else -one.hunk))
    return tuple(dict.fromkeys(frozenset({one.id, *one.judged_with}) for one in judged))
