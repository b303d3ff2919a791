"""What a loop writes through another object: the file behind `csv.writer(file)`.

In: the facts of a loop, and keys of objects that are written to. Out: the keys of their files. A `file.flush()` beside
a row of the writer belongs to the row: alone it would write out nothing.
"""

from __future__ import annotations

from functools import lru_cache

import libcst as cst

from tracelens.patch.code.names import assigned, key, of_kinds, root_key
from tracelens.patch.code.source import PARSED_FILES
from tracelens.patch.effects.words import words
from tracelens.patch.loop.facts import LoopFacts

WRITERS = words("csv.writer csv.DictWriter")


def files_behind(facts: LoopFacts, objects: frozenset[str]) -> frozenset[str]:
    """The keys of the files that writers among `objects` were made for, anywhere in the file."""
    return frozenset(
        key(value.args[0].value)
        for target, value in _made_by_calls(facts.source.module)
        if value.args and facts.names.qualified(value.func) in WRITERS
        if root_key(target) in objects and isinstance(value.args[0].value, (cst.Name, cst.Attribute))
    )


@lru_cache(maxsize=PARSED_FILES)
def _made_by_calls(module: cst.Module) -> tuple[tuple[cst.BaseExpression, cst.Call], ...]:
    """What is assigned the value of a call, with the call."""
    pairs = (pair for node in of_kinds(module, (cst.Assign, cst.AnnAssign)) for pair in assigned(node))
    return tuple((target, value) for target, value in pairs if isinstance(value, cst.Call))
