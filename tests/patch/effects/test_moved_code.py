"""What changes nothing for Python makes no answer less careful; what adds something unknown makes none less careful.

The cases are the known mistakes, the hostile loops and the ordinary ones.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.hostile_moves import HOSTILE
from tests.support.moves import LATER, Case, asked_once, in_function, one_file, two_files

CARE = {"safe": 0, "checked": 1, "refused": 2}
PROVED = Case(before="losses = []", body="STEP\nlosses.append(loss.item())  # later\nprint(i, loss.item())  # later")
CASES: Mapping[str, Case] = {**HOSTILE, "an ordinary loop": PROVED}
UNKNOWN = (
    Case(body="", code="import elsewhere\n", before="elsewhere.set_up(model, opt)"),
    Case(body="elsewhere.step(loss)", code="import elsewhere\n"),
    Case(body="elsewhere.step()", code="import elsewhere\n", before="model = elsewhere.wrapped(model)"),
    Case(body="watched.look(i)", code="import elsewhere\n", before="watched = elsewhere.Watcher(opt)"),
    Case(body="", code="import elsewhere\nclass Own(elsewhere.Base):\n    pass\n", before="own = Own(model)"),
)


def _care(files: Mapping[str, str]) -> int:
    return CARE[asked_once(files).tier]


def _renamed(case: Case) -> Case:
    """All classes and functions of the case under other names."""
    names = {
        node.name
        for node in ast.walk(ast.parse(case.code))
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and not node.name.startswith("__")
    }
    names -= {"forward", "backward", "step", "emit", "write", "flush", "update"}  # libraries call them by their names
    names -= {"after"}  # and `setattr` by a text

    def other(text: str) -> str:
        for name in names:
            text = re.sub(rf"(?<![\w'\"]){name}\b(?!=)", f"other_{name}", text)
        return text

    return replace(case, code=other(case.code), before=other(case.before), over=other(case.over), body=other(case.body))


def _wrapped(case: Case) -> Case:
    """Each call that stands alone in the body and stays there is made by a function of its own."""
    lines = []
    for line in case.body.splitlines():
        call = re.fullmatch(r"(\s*)([\w.]+)\((.*)\)", line)
        alone = call is not None and LATER not in line and not re.search(r"^\s*(if|for|print|exec)|locals", line)
        lines.append(f"{call[1]}(lambda: {call[2]}({call[3]}))()" if alone and call is not None else line)
    return replace(case, body="\n".join(lines))


def _method(case: Case) -> Case:
    """Functions that the case defines and the loop calls become static methods of a class."""
    functions = [node.name for node in ast.parse(case.code).body if isinstance(node, ast.FunctionDef)]
    made = "class Tools:\n" + "".join(f"    {name} = staticmethod({name})\n" for name in functions)
    body = case.body
    for name in functions:
        body = re.sub(rf"(?<![\w.]){name}\(", f"Tools.{name}(", body)
    return replace(case, code=case.code + "\n" + made, body=body) if functions else case


CHANGES: Mapping[str, Callable[[Case], Case]] = {"renamed": _renamed, "wrapped": _wrapped, "made a method": _method}
REWRITTEN = [
    (loop, change)
    for (loop, case), (change, made) in product(CASES.items(), CHANGES.items())
    if one_file(made(case), in_function) != one_file(case, in_function)
]
"""A case without functions has none to rename: its answer would be held against itself."""


@pytest.mark.parametrize("loop", CASES)
def test_definitions_in_another_file_make_no_answer_less_careful(loop: str) -> None:
    assert _care(two_files(CASES[loop], in_function)) >= _care(one_file(CASES[loop], in_function))


@pytest.mark.slow
@pytest.mark.parametrize(("loop", "change"), REWRITTEN)
def test_another_way_to_write_it_makes_no_answer_less_careful(loop: str, change: str) -> None:
    before, after = CASES[loop], CHANGES[change](CASES[loop])
    assert _care(one_file(after, in_function)) >= min(_care(one_file(before, in_function)), CARE["checked"])


@pytest.mark.slow
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
@given(st.sampled_from(sorted(CASES)), st.lists(st.sampled_from(UNKNOWN), min_size=1, max_size=2))
def test_unknown_code_makes_no_answer_less_careful(loop: str, more: list[Case]) -> None:
    case = CASES[loop]
    for one in more:
        case = replace(
            case,
            code="\n".join([one.code, case.code]),
            before="\n".join([case.before, one.before]),
            body="\n".join([case.body.strip("\n"), one.body]),
        )
    assert _care(one_file(case, in_function)) >= _care(one_file(CASES[loop], in_function))
