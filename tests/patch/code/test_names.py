"""Which names a piece of code touches, binds and changes, and what its calls are called."""

from __future__ import annotations

from pathlib import Path

import libcst as cst
import pytest

from tests.support.parsed_scripts import expression, parsed
from tracelens.patch.code import names
from tracelens.patch.code.outside import FILES, OUTPUT


def statement(text: str) -> cst.CSTNode:
    """A small statement, or a compound one."""
    parsed_line = cst.parse_statement(text)
    return parsed_line.body[0] if isinstance(parsed_line, cst.SimpleStatementLine) else parsed_line


# ------------------------------------------------------------------------------------------------- what it is called


@pytest.mark.parametrize(
    ("imported", "called", "full"),
    [
        ("import torch", "torch.cuda.synchronize", "torch.cuda.synchronize"),
        ("from torch import cuda", "cuda.synchronize", "torch.cuda.synchronize"),
        ("import torch.cuda as tc", "tc.synchronize", "torch.cuda.synchronize"),
        ("from torch.cuda import synchronize as wait", "wait", "torch.cuda.synchronize"),
        ("from .tools import wait", "wait", ".tools.wait"),
        ("import torch.nn.functional", "torch.nn.functional.relu", "torch.nn.functional.relu"),
        ("import torch", "make().synchronize", ""),
        ("import torch", "own", "own"),
    ],
)
def test_a_call_has_its_full_name(imported: str, called: str, full: str, tmp_path: Path) -> None:
    assert parsed(tmp_path, f"{imported}\n").names.qualified(expression(called)) == full


# ---------------------------------------------------------------------------------------------------------- its keys


@pytest.mark.parametrize(
    ("text", "root"),
    [("a.b[0].c()", "a"), ("self.total[0]", "self.total"), ("cls.total.x", "self.total"), ("None", None), ("1", None)],
)
def test_the_object_at_the_bottom_of_an_expression(text: str, root: str | None) -> None:
    assert names.root_key(expression(text)) == root


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("a + b.c * self.d", {"a", "b", "self.d"}),
        ("f(x, key=y)", {"f", "x", "y"}),
        ("True and None", set()),
        ("[i for i in many]", {"i", "many"}),
    ],
)
def test_the_names_that_stand_for_values(text: str, keys: set[str]) -> None:
    assert {names.key(variable) for variable in names.variables(expression(text))} == keys


@pytest.mark.parametrize(
    ("text", "bound"),
    [
        ("a, (b, c.d) = x", {"a", "b"}),
        ("a += 1", {"a"}),
        ("a: int = 1", {"a"}),
        ("print(a := 1)", {"a"}),
        ("import a.b", {"a"}),
        ("from a import b as c", {"c"}),
        ("del a", {"a"}),
        ("a[0] = 1", set()),
        ("for a, *b in c: pass", {"a", "b"}),
        ("with c as a: pass", {"a"}),
    ],
)
def test_the_plain_names_that_a_statement_binds(text: str, bound: set[str]) -> None:
    assert names.rebound(statement(text)) == bound


# ------------------------------------------------------------------------------------------------------ its effects


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        ("total += loss", {"total"}),
        ("self.losses[0] = loss", {"self.losses"}),
        ("meter.update(loss)", {"meter"}),
        ("torch.manual_seed(0)", set()),
        ("print(loss)", {OUTPUT}),
        ("print(loss, file=log)", {OUTPUT, FILES, "log"}),
        ("file.write(text)", {"file", OUTPUT, FILES}),
        ("logger.info(text)", {"logger", OUTPUT}),
        ("say(loss)", {OUTPUT}),
        ("compute(loss)", set()),
    ],
)
def test_what_a_statement_changes(text: str, changed: set[str], tmp_path: Path) -> None:
    """`say` of the file prints through another function of it."""
    functions = "def say(x):\n    inner(x)\ndef inner(x):\n    print(x)\ndef compute(x):\n    return x\n"
    known = parsed(tmp_path, f"import torch\n{functions}").names
    assert names.written(statement(text), known) == changed


@pytest.mark.parametrize(
    ("keys", "others", "seen"),
    [
        ({"a"}, {"a", "b"}, True),
        ({"a"}, {"b"}, False),
        ({"self"}, {"self.total"}, True),
        ({"*.total"}, {"self.total"}, True),
        ({"*.other"}, {"self.total"}, False),
        ({"self"}, {"total"}, False),
    ],
)
def test_code_may_see_what_another_piece_changes(keys: set[str], others: set[str], seen: bool) -> None:
    assert names.meets(frozenset(keys), frozenset(others)) is seen


def test_what_makes_a_value_is_known_by_its_full_name(tmp_path: Path) -> None:
    source = parsed(tmp_path, "import torch.optim as o\na = o.SGD(p)\nb, c = list(), x\nd = o.Adam(p) if f else None\n")
    made = {name: source.names.made_by(expression(name)) for name in "abcd"}
    assert made == {"a": {"torch.optim.SGD"}, "b": {"list"}, "c": set(), "d": {"torch.optim.Adam"}}
