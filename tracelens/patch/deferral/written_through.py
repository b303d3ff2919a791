"""What a loop writes through another object: the file behind `csv.writer(file)`.

In: the facts of a loop, and keys of objects that are written to. Out: the keys of their files. A `file.flush()` beside
a row of the writer belongs to the row: alone it would write out nothing.
"""

from __future__ import annotations

import libcst as cst

from tracelens.patch.code.names import assigned, key, root_key, walk
from tracelens.patch.effects.words import words
from tracelens.patch.loop.facts import LoopFacts

WRITERS = words("csv.writer csv.DictWriter")


def files_behind(facts: LoopFacts, objects: frozenset[str]) -> frozenset[str]:
    """The keys of the files that writers among `objects` were made for, anywhere in the file."""
    return frozenset(
        key(value.args[0].value)
        for node in walk(facts.source.module)
        if isinstance(node, (cst.Assign, cst.AnnAssign))
        for target, value in assigned(node)
        if isinstance(value, cst.Call) and value.args and facts.names.qualified(value.func) in WRITERS
        if root_key(target) in objects and isinstance(value.args[0].value, (cst.Name, cst.Attribute))
    )
