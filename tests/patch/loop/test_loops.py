"""The training loop around a place, and what in its surroundings stands in the way."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.parsed_scripts import call_of, expression, parsed
from tracelens.patch.code.source import SourceFile
from tracelens.patch.loop import loops
from tracelens.patch.loop.loops import Blocked


def line_of_loop(folder: Path, text: str) -> int:
    """Where the training loop around `place()` begins."""
    source = parsed(folder, text)
    return source.line(loops.training_loop(source, call_of(source, "place")))


def obstacle(ask: Callable[[], object]) -> str:
    with pytest.raises(Blocked) as blocked:
        ask()
    return blocked.value.obstacle


def outside(source: SourceFile) -> str:
    return obstacle(lambda: loops.training_loop(source, call_of(source, "place")))


# -------------------------------------------------------------------------------------------------- which loop it is


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("for e in range(2):\n    for x in data:\n        optimizer.step()\n        place()\n", 2),
        ("for e in range(2):\n    for x in data:\n        scaler.step(o)\n        place()\n    scheduler.step()\n", 2),
        ("for x in data:\n    for part in x:\n        loss.backward()\n        place()\n    opt.step()\n", 1),
        ("for e in range(2):\n    for x in data:\n        loss.backward()\n        place()\n", 2),
        ("for e in range(2):\n    for x in data:\n        place()\n", 2),
        ("while going:\n    optimizer.step()\n    place()\n", 1),
    ],
    ids=["in epochs", "with a scheduler", "accumulation", "only backward", "neither", "while"],
)
def test_the_loop_whose_passes_are_the_batches(text: str, line: int, tmp_path: Path) -> None:
    assert line_of_loop(tmp_path, text) == line


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("place()\n", "it is not in a loop of its own function"),
        (
            "def step():\n    place()\nfor x in data:\n    step()\n",
            "it is not in a loop of its own function: line 4 calls `step` in one",
        ),
        ("async def f():\n    async for x in data:\n        place()\n", "the training loop is an async for"),
    ],
)
def test_a_place_without_a_loop_of_its_own_is_told(text: str, told: str, tmp_path: Path) -> None:
    assert outside(parsed(tmp_path, text)) == told


def test_a_while_loop_has_no_for_line_to_take_batches_from(tmp_path: Path) -> None:
    source = parsed(tmp_path, "while going:\n    optimizer.step()\n    place()\n")
    assert obstacle(lambda: loops.loop_over_batches(source, call_of(source, "place"))) == (
        "the training loop is a while loop"
    )


# ------------------------------------------------------------------------------------------------------ in few batches


@pytest.mark.parametrize(
    "test", ["step % 10 == 0", "step == 5", "step >= limit", "args.log", "save_now", "is_last and x", "batch == end"]
)
def test_a_condition_that_holds_for_few_batches(test: str) -> None:
    assert loops.is_rare(expression(test), frozenset({"step", "batch"}))


@pytest.mark.parametrize(
    "test", ["limit == 5", "step % 1 == 0", "step < 5", 'device.type == "cuda"', "ready", "step is None"]
)
def test_a_condition_that_may_hold_for_each_batch(test: str) -> None:
    assert not loops.is_rare(expression(test), frozenset({"step"}))


# ------------------------------------------------------------------------------------------------------- in the way


@pytest.mark.parametrize(
    ("imported", "told"),
    [
        ("import pytorch_lightning as pl", "the file uses Lightning, which owns a part of the loop"),
        ("from accelerate import Accelerator", "the file uses Accelerate, which owns a part of the loop"),
        ("from transformers import Trainer", "the loop belongs to transformers.Trainer"),
    ],
)
def test_a_framework_owns_its_loop(imported: str, told: str, tmp_path: Path) -> None:
    names = parsed(tmp_path, f"{imported}\n").names
    assert obstacle(lambda: loops.check_framework(names)) == told


@pytest.mark.parametrize(
    ("imported", "reads"),
    [("import torch", False), ("from transformers import AutoModel", False), ("import accelerate", True)],
)
def test_what_a_loss_is_used_for_is_the_scripts_own(imported: str, reads: bool, tmp_path: Path) -> None:
    loops.check_framework(parsed(tmp_path, f"{imported}\n").names, reads)


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("yield 1", "the loop is in a generator"),
        ("print(locals())", "`locals()` can see every name of the function"),
        ('exec("x = 1")', "`exec()` can see every name of the function"),
    ],
)
def test_a_function_that_code_can_look_into_stays(body: str, told: str, tmp_path: Path) -> None:
    source = parsed(tmp_path, f"def f():\n    {body}\n    place()\n")
    scope = loops.scope_of(source, call_of(source, "place"))
    assert obstacle(lambda: loops.check_scope(scope)) == told


@pytest.mark.parametrize("body", ["print(vars(args))", "def inner():\n        yield 1", "print(x)"])
def test_other_functions_may_be_changed(body: str, tmp_path: Path) -> None:
    source = parsed(tmp_path, f"def f():\n    {body}\n    place()\n")
    loops.check_scope(loops.scope_of(source, call_of(source, "place")))


def test_a_place_in_a_class_body_has_no_names_of_its_own(tmp_path: Path) -> None:
    source = parsed(tmp_path, "class C:\n    x = place()\n")
    assert obstacle(lambda: loops.scope_of(source, call_of(source, "place"))) == (
        "it stands in a class body or a lambda"
    )


def test_work_on_other_streams_threads_and_gpus_is_told_once_each(tmp_path: Path) -> None:
    source = parsed(
        tmp_path,
        """
        import threading
        import torch
        side = torch.cuda.Stream()
        again = torch.cuda.Stream()
        threading.Thread(target=print)
        """,
    )
    found = [(source.line(node), meaning) for node, meaning in loops.side_work(source.names, source.module)]
    assert found == [(3, "uses side streams"), (5, "starts threads")]
