"""A C++ program is recognized, and is offered nothing of Python's."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from tests.support.builders import Machine
from tests.support.places import TRACES
from tracelens import pipeline
from tracelens.cli import main
from tracelens.findings import program_language
from tracelens.model import Abstention

LIBTORCH = TRACES / "h200" / "libtorch_small_base.json.gz"
RECORD = Abstention("steps", "no steps were found", "record steps: tracelens profile SCRIPT")
LONGER = Abstention("replay", "2 complete steps, 3 are needed", "record a longer window: --steps 20")


def program(*marks: str) -> str | None:
    """A backward pass, with rows of these names beside it."""
    machine = Machine()
    machine.launch("gemm", 50)
    machine.events.add("cpu_op", "autograd::engine::evaluate_function: MmBackward0", 0, 20)
    for mark in marks:
        machine.events.annotation(mark, 0, 100)
    return machine.trace().program


def test_a_backward_pass_without_a_row_of_pythons_is_a_cpp_program() -> None:
    assert program() == "cpp"
    assert program("forward") == "cpp", "a program may mark its own spans"


@pytest.mark.parametrize(
    "mark", ["ProfilerStep#3", "Optimizer.step#SGD.step", "enumerate(DataLoader)#_Single.__next__"]
)
def test_what_torchs_python_leaves_of_itself_tells_python(mark: str) -> None:
    assert program(mark) is None


def test_without_a_backward_pass_nothing_is_told() -> None:
    machine = Machine()
    machine.launch("gemm", 50)
    assert machine.trace().program is None


def test_hints_that_need_python_are_not_given() -> None:
    machine = Machine()
    with machine.step(0):
        machine.launch("gemm", 50)
    python = machine.trace()
    assert program_language.hints(python, (RECORD, LONGER)) == (RECORD, LONGER)
    told = program_language.hints(replace(python, program="cpp"), (RECORD, LONGER))
    assert told == (replace(RECORD, hint=program_language.IN_CPP), LONGER)


@pytest.mark.slow
@pytest.mark.skipif(not LIBTORCH.exists(), reason="the shared traces are not at hand")
@pytest.mark.parametrize("command", ["analyze", "recommend"])
def test_no_remedy_of_pythons_is_shown_for_a_libtorch_program(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "160")  # a narrow table breaks the sentence in two
    assert main([command, "-v", str(LIBTORCH)]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert not re.findall(r"torch\.compile|autocast|tracelens profile|with_stack|train\.py|workers", text)
    assert "the program is C++" in text


@pytest.mark.slow
@pytest.mark.skipif(not LIBTORCH.exists(), reason="the shared traces are not at hand")
def test_of_the_levers_only_schemes_are_listed_for_a_libtorch_program() -> None:
    planned = pipeline.plan(pipeline.examine(pipeline.open_inputs((LIBTORCH,))))
    assert {lever.family for lever in planned.levers} == {"scheme"}
    assert not planned.measures
