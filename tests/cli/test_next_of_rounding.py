"""The command that `fix` and `try` end with where what gains rounds otherwise."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tracelens.cli.fix import _without_a_change
from tracelens.cli.try_levers import _next
from tracelens.fixing.choice import Unfixed
from tracelens.model import Lever, LeverCombination, LeverNumbers, Speedup

GAIN = Speedup(2.0, 1.9, 2.1)


def lever(name: str, command: str | None) -> Lever:
    return Lever(name, "precision", "measured", name, "", measured=GAIN, numbers="inside_seed_band", command=command)


@pytest.mark.parametrize(
    ("unfixed", "words"),
    [
        (Unfixed(True, "", "gc-collect", ("bf16", "fused")), ("fix", "run/", "bf16", "fused")),
        (Unfixed(False, "", "gc-collect"), ("try", "run/", "gc-collect")),
        (Unfixed(True, ""), ("recommend", "run/")),
        (None, ("recommend", "run/")),
    ],
)
def test_fix_names_what_was_measured_to_gain_before_what_nobody_knows(
    unfixed: Unfixed | None, words: tuple[str, ...]
) -> None:
    assert _without_a_change(unfixed, ("run/",), ()) == words


def test_fix_has_tried_what_recommend_has_tried() -> None:
    unfixed, both = Unfixed(False, "", "compile"), ("compile", "compile=reduce-overhead")
    assert _without_a_change(unfixed, ("run/",), both) == ("try", "run/", *both)
    assert _without_a_change(unfixed, ("run/",), ("bf16",)) == ("try", "run/", "compile")
    assert _without_a_change(Unfixed(True, ""), ("run/",), both) == ("try", "run/", *both)


@pytest.mark.parametrize(
    ("members", "commands", "numbers", "words"),
    [
        (("bf16", "fused"), {"bf16": "fix bf16", "fused": "fix fused"}, "inside_seed_band", ("bf16", "fused")),
        (("bf16", "fp16"), {"bf16": "fix bf16", "fp16": None}, "inside_seed_band", None),
        (("fp16",), {"fp16": None}, "inside_seed_band", None),
    ],
)
def test_try_ends_with_fix_where_a_recipe_writes_all_of_the_best(
    members: tuple[str, ...], commands: dict[str, str | None], numbers: LeverNumbers, words: tuple[str, ...] | None
) -> None:
    levers = [lever(name, command) for name, command in commands.items()]
    diagnosis: Any = SimpleNamespace(levers=levers, combination=LeverCombination(members, GAIN, numbers, None))
    then = ("fix", "run/", *words) if words else ("recommend", "run/")
    assert _next(diagnosis, ("run/",), ("tf32",), 600.0) == then


def test_what_was_begun_gets_more_time_where_nothing_else_came_of_it() -> None:
    diagnosis: Any = SimpleNamespace(levers=(), combination=None)
    assert _next(diagnosis, ("run/",), ("compile", "batch=2x"), 300.0) == (
        *("try", "run/", "compile", "batch=2x", "--budget"),
        "10m",
    )
    assert _next(diagnosis, ("run/",), ("compile",), 900.0)[-1] == "30m"
