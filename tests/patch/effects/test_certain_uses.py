"""Which mentions of a name are certain: `w.u` where `w.n` is evaluated, of the same value, in the same batch."""

from __future__ import annotations

import ast

import pytest

from tracelens.patch.effects.certain_uses import mentions

CERTAIN = (
    "for b in l:\n w.u\n if f:\n  sys.exit()\n w.n",
    "for b in l:\n w.u\n w.n",
    "for b in l:\n w.n\n w.u",
    "for b in l:\n if f:\n  w.u\n  w.n",
    "for b in l:\n w.u\n if f:\n  w.n",
    "for b in l:\n if f:\n  w.n\n w.u",
    "for b in l:\n w.n\n for c in d:\n  break\n w.u",
    "for b in l:\n w.u\n w = w.n",
    "for b in l:\n w.u\n for c in d:\n  w.n",
    "for b in l:\n try:\n  w.u\n  w.n\n except E:\n  pass",
    "try:\n for b in l:\n  w.n\n  w.u\nexcept E:\n pass",
    "for b in l:\n try:\n  w.u\n finally:\n  pass\n w.n",
    "for b in l:\n w.u and f\n w.n",
    "for b in l:\n if w.u:\n  w.n",
    "for b in l:\n while w.u:\n  pass\n w.n",
    "for b in l:\n for c in w.u:\n  w.n",
    "for b in l:\n with c:\n  w.u\n  w.n",
    "for b in l:\n x = 1 < w.u < 3\n w.n",
    "for b in l:\n w.u\n [w.n for c in d]",
    "for b in l:\n match w.u:\n  case 1:\n   w.n",
    "w.u\nw.n",
    "for b in l:\n x = w.n if w.u else 1",
    "for b in l:\n g(w.u, w.n)",
    "for b in l:\n assert w.u\n w.n",
    "while w.u:\n w.n\n w = 3",
    "for b in l:\n if w.n:\n  pass\n w.u",
)
UNCERTAIN = (
    "for b in l:\n w.n\n if f:\n  raise E\n w.u",
    "for b in l:\n w.n\n if f:\n  sys.exit()\n w.u",
    "for b in l:\n w.n\n for c in d:\n  exit()\n w.u",
    "for b in l:\n for c in d:\n  pass\n else:\n  w.u\n w.n",
    "for b in l:\n if f:\n  w.u\n w.n",
    "for b in l:\n w.n\n if f:\n  continue\n w.u",
    "for b in l:\n w.n\n for c in d:\n  return\n w.u",
    "for b in l:\n w.u\n w = 3\n w.n",
    "for b in l:\n w = w.u\n w.n",
    "for b in l:\n w = w.n\n w.u",
    "for b in l:\n w.u\n for c in d:\n  w = w.n",
    "for b in l:\n w.u\n for c in d:\n  w.n\n  w = 2",
    "for b in l:\n try:\n  w.u\n except E:\n  pass\n w.n",
    "for b in l:\n try:\n  w.n\n  w.u\n except E:\n  pass",
    "for b in l:\n try:\n  w.u\n finally:\n  w.n",
    "for b in l:\n try:\n  w.u\n finally:\n  continue\n w.n",
    "for b in l:\n f and w.u\n w.n",
    "for w in l:\n for w in w.u:\n  w.n",
    "for b in l:\n for c in w.u:\n  w.n\n  w = 1",
    "for b in l:\n with w.u as w:\n  w.n",
    "for b in l:\n with c:\n  w.u\n w.n",
    "for b in l:\n with c:\n  w.n\n  w.u",
    "for b in l:\n x = 1 < 2 < w.u\n w.n",
    "for b in l:\n x: w.u = 3\n w.n",
    "for b in l:\n [w.u for _ in d]\n w.n",
    "for b in l:\n lambda: w.u\n w.n",
    "for b in l:\n def g():\n  w.u\n w.n",
    "for b in l:\n w.u\n [w.n for w in d]",
    "for b in l:\n match b:\n  case 1:\n   w.u\n w.n",
    "for b in l:\n match w.u:\n  case w:\n   w.n",
    "w.n\nw.u",
    "for b in l:\n if f:\n  w.u\n else:\n  w.n",
    "for b in l:\n while w.n:\n  w.u",
    "for b in l:\n x = w.u if f else w.n",
    "for b in l:\n g(w.u, (w := 3), w.n)",
    "for b in l:\n (w := g(w.u))\n w.n",
    "for b in l:\n w.u\n import w\n w.n",
    "for b in l:\n w.u\n if f:\n  w = 3\n w.n",
    "for b in l:\n w.u\n del w\n w.n",
    "for b in l:\n w.n\n yield 3\n w.u",
    "for b in l:\n try:\n  pass\n except w.u:\n  pass\n w.n",
    "for b in l:\n assert f, w.u\n w.n",
    "for b in l:\n for w in w.u:\n  pass\n w.n",
    "while w.u:\n w = 3\n w.n",
    "for b in l:\n if w.n:\n  pass\n else:\n  w.u",
    "for b in l:\n try:\n  w.n\n finally:\n  w.u",
)


def is_certain(text: str, keeps_errors: bool = False, caught: bool = False) -> bool:
    tree = ast.parse(text)
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    names = {node.attr: node.value for node in nodes if isinstance(node.value, ast.Name)}
    asked = names["n"]
    assert isinstance(asked, ast.Name)
    found = [path[-1] for path in mentions(tree, asked, lambda _: keeps_errors, caught)]
    assert not found or found[0] is asked
    return names["u"] in found


@pytest.mark.parametrize("text", CERTAIN)
def test_a_use_that_runs_with_the_read_is_found(text: str) -> None:
    assert is_certain(text)


@pytest.mark.parametrize("text", UNCERTAIN)
def test_a_use_that_may_not_run_or_has_another_value_is_not(text: str) -> None:
    assert not is_certain(text)


def test_a_block_that_takes_no_exception_is_as_if_it_were_not_there() -> None:
    assert is_certain("for b in l:\n with c:\n  w.u\n w.n", keeps_errors=True)
    assert is_certain("for b in l:\n with c:\n  w.n\n  w.u", keeps_errors=True)


def test_where_a_caller_takes_exceptions_only_what_stands_before_is_certain() -> None:
    assert is_certain("for b in l:\n w.u\n w.n", caught=True)
    assert not is_certain("for b in l:\n w.n\n w.u", caught=True)
