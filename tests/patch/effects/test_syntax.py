"""The parts of a tree are those that `ast` tells, but for what says whether a name is read or stored."""

from __future__ import annotations

import ast

import pytest

from tests.support.places import ROOT
from tracelens.patch.effects import syntax

MATCHED = """
match value:
    case {"a": [1, *rest], **others} | Point(x=0) as found if found:
        del value.part[0], value[(yield)]
    case _:
        pass
"""
SOURCES = {
    "every kind of pattern": MATCHED,
    "this file": (ROOT / "tests/patch/effects/test_syntax.py").read_text(encoding="utf-8"),
    "names": (ROOT / "tracelens/patch/code/names.py").read_text(encoding="utf-8"),
    "a script": (ROOT / "tests/support/scripts/plain.py").read_text(encoding="utf-8"),
    "what few write": "async def f(a, /, *b, c=1, **d):\n    global e\n    async for x in a: x: int = {**d, 1: -x}\n"
    "    with open(f'{x!r:>{c}}') as y, b: return lambda z: [z for z in y if not z]\n"
    "    try: import os.path as p\n    except* (A, B) as e: raise e from None\n",
}


@pytest.mark.parametrize("name", SOURCES)
def test_the_parts_are_those_of_ast_in_its_order(name: str) -> None:
    tree = ast.parse(SOURCES[name])
    every = [node for node in ast.walk(tree) if not isinstance(node, ast.expr_context)]
    assert list(syntax.walk(tree)) == every
    for node in every:
        assert syntax.children(node) == [
            one for one in ast.iter_child_nodes(node) if not isinstance(one, ast.expr_context)
        ]


def test_a_node_that_was_made_by_hand_may_lack_fields() -> None:
    assert [type(one) for one in syntax.walk(ast.Call(func=ast.Name(id="f")))] == [ast.Call, ast.Name]
