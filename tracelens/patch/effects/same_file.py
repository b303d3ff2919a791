"""Files that are written and looked at under one name, as far as the text of the project tells it.

In: what statements do that run later, and a place that reads a file. Out: the name that both have. Two folders may have
files of one name; that a script keeps its log beside a file of the same name that it reads in each batch is no case.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import PurePosixPath

from tracelens.patch.effects import syntax
from tracelens.patch.effects.deeds import Deed
from tracelens.patch.effects.memory import Memory
from tracelens.patch.effects.objects import WRITES, Module, Object, Thing
from tracelens.patch.effects.places import around

_NAME = re.compile(r"[\w-][\w.-]*\.\w+")


class WrittenFiles:
    """The files that moved statements write into; nothing is looked at before it is asked for."""

    def __init__(self, memory: Memory, moved: Iterable[Deed]) -> None:
        self.memory = memory
        self._changed = {one.effect.target for one in moved if one.effect.kind == WRITES}

    def shared_with(self, node: ast.AST) -> str:
        """The name of one that a call names, too; empty where it names none."""
        return min(self._names & frozenset(self._named(node)), default="")

    @cached_property
    def _names(self) -> frozenset[str]:
        changed: list[Object] = [one for one in self._changed if isinstance(one, Thing)]
        held = (one for one in self.memory.reach(changed) if isinstance(one, Thing) and one.kind == "file")
        sites = (one.site for one in held if isinstance(one.site, ast.AST))
        return frozenset(name for site in sites for name in self._named(site))

    def _named(self, node: ast.AST) -> Iterator[str]:
        """The names of files among the texts that a call is given, directly or by a variable of its file."""
        tree = next((one for one in self._trees if node in around(one)), None)
        bound = {} if tree is None else _texts(tree)
        for part in syntax.walk(node):
            text = part.value if isinstance(part, ast.Constant) else bound.get(getattr(part, "id", ""), "")
            name = PurePosixPath(text).name if isinstance(text, str) else ""
            if _NAME.fullmatch(name):
                yield name

    @property
    def _trees(self) -> Iterator[ast.Module]:
        return (one.file.tree for one in self.memory.objects(Module) if one.file.tree is not None)


def _texts(tree: ast.Module) -> dict[str, str]:
    """The variables of a file that get a text, each with its last one."""
    return {
        aim.id: one.value.value
        for one in syntax.walk(tree)
        if isinstance(one, ast.Assign) and isinstance(one.value, ast.Constant) and isinstance(one.value.value, str)
        for aim in one.targets
        if isinstance(aim, ast.Name)
    }
