"""Guards against values that are no numbers: what is one, and how it ends the training."""

from __future__ import annotations

from pathlib import Path

import libcst as cst
import pytest

from tests.support.parsed_scripts import expression, parsed
from tracelens.patch.loop import guards

HEAD = "import math, sys\nimport torch\n"


def found(folder: Path, text: str) -> list[tuple[str, str]]:
    return [(guard.ending, guard.other) for guard in guards.find(parsed(folder, f"{HEAD}{text}\n"))]


# ------------------------------------------------------------------------------------------------ what is a check


@pytest.mark.parametrize(
    "test",
    [
        "math.isnan(loss)",
        "not torch.isfinite(loss).all()",
        "torch.isnan(loss).any().item()",
        "loss.isnan() | loss.isinf()",
        "~torch.isfinite(loss)",
        "loss != loss",
        "math.isnan(loss) or loss > 1e5",
        'math.isnan(loss) or loss == float("inf")',
        "any([math.isnan(a), math.isinf(b)])",
    ],
)
def test_a_condition_that_asks_for_values_that_are_no_numbers(test: str, tmp_path: Path) -> None:
    assert found(tmp_path, f"if {test}:\n    sys.exit(1)") == [("ends the program", "")]


@pytest.mark.parametrize(
    "test", ["loss > 1e5", "math.isnan(loss) and step", "math.isnan(loss) or loss > limit", "a.x != a.x", "bad"]
)
def test_other_conditions_are_no_guards(test: str, tmp_path: Path) -> None:
    assert found(tmp_path, f"if {test}:\n    sys.exit(1)") == []


# ---------------------------------------------------------------------------------------------------- how it ends


@pytest.mark.parametrize(
    ("body", "ending"),
    [
        ("raise ValueError(loss)", "raises an error"),
        ("print(loss)\n    raise ValueError", "raises an error"),
        ("assert False", "raises an error"),
        ("sys.exit(1)", "ends the program"),
        ("exit()", "ends the program"),
        ("break", "ends the loop"),
    ],
)
def test_how_a_guard_ends_the_training(body: str, ending: str, tmp_path: Path) -> None:
    assert found(tmp_path, f"while True:\n  if math.isnan(loss):\n    {body}") == [(ending, "")]


def test_an_assertion_is_a_guard(tmp_path: Path) -> None:
    assert found(tmp_path, 'assert torch.isfinite(loss), "diverged"') == [("raises an error", "")]


@pytest.mark.parametrize(
    ("body", "other"),
    [
        ("continue", "it does something else than to end the training (`continue`)"),
        ("loss = 0", "it does something else than to end the training"),
        ("if x:\n        break", "it does something else than to end the training (`break`)"),
        ("raise StopIteration", "it raises what ends a generator, and the loop runs over one then"),
        ("break\n  else:\n    pass", "it has an `else`"),
    ],
)
def test_what_a_check_does_instead_is_told(body: str, other: str, tmp_path: Path) -> None:
    assert found(tmp_path, f"while True:\n  if math.isnan(loss):\n    {body}") == [("", other)]


# ---------------------------------------------------------------------------------------------------------- parts


def test_a_condition_is_taken_apart_where_words_join_it(tmp_path: Path) -> None:
    names = parsed(tmp_path, HEAD).names
    leaves = guards.looked_at(expression("not a and (any([b, c]) or d == 1)"), names)
    assert [cst.Module([]).code_for_node(leaf).strip("()") for leaf in leaves] == ["a", "b", "c", "d == 1"]


def test_the_tensor_of_a_check_is_what_is_kept(tmp_path: Path) -> None:
    """`math.isnan(loss)` reads a number of `loss`; `torch.isnan(loss)` stays a tensor as a whole."""
    source = parsed(tmp_path, f"{HEAD}assert not math.isnan(loss)\nassert torch.isfinite(loss)\n")
    kept = [tensor for guard in guards.find(source) for _, tensor in guards.parts(guard.node, source.names)]
    assert [source.code(tensor) for tensor in kept if tensor is not None] == ["loss", "torch.isfinite(loss)"]


def test_a_check_that_reads_already_keeps_no_tensor(tmp_path: Path) -> None:
    source = parsed(tmp_path, f"{HEAD}assert math.isfinite(loss.item())\n")
    (guard,) = guards.find(source)
    assert [tensor for _, tensor in guards.parts(guard.node, source.names)] == [None]
