"""Which lines of a file run once per batch: loops that train, also by a function of their own, and step functions."""

from __future__ import annotations

import ast

import pytest

from tracelens.patch.code.batches import batches

STEP = """
def training_step(x):
    loss = model(x).mean()
    loss.backward()
    optimizer.step()
    return loss


"""
METHODS = """
class Trainer:
    def step(self, x):
        self.loss(x).backward()

    def run_batch(self, x):
        return self.step(x).item()

    def fit(self, loader):
        for epoch in range(3):
            for x in loader:
                self.total += self.run_batch(x)
            self.scheduler.step()

"""


def lines(text: str, *others: str) -> tuple[list[str], list[str]]:
    """The first line of each training loop, and the names of the step functions."""
    found = batches(ast.parse(text), map(ast.parse, others))
    return [text.splitlines()[loop.lineno - 1].strip() for loop in found.loops], [f.name for f in found.functions]


@pytest.mark.parametrize(
    "call", ["loss = training_step(x)", "total += training_step(x).item()", "trainer.training_step(x)"]
)
def test_a_loop_whose_step_is_a_function_of_the_file_trains(call: str) -> None:
    """Nothing was patched and nothing declined: the place was not seen."""
    assert lines(f"{STEP}for x in loader:\n    {call}\n") == (["for x in loader:"], ["training_step"])


def test_the_step_may_be_two_calls_away_and_the_loop_of_epochs_is_none() -> None:
    """`self.scheduler.step()` is torch's, though the file has a method of that name."""
    assert lines(METHODS) == (["for x in loader:"], ["step", "run_batch"])


@pytest.mark.parametrize(
    "text",
    [
        "def validate():\n    return 1\n\n\nfor x in loader:\n    validate()\n",
        "def train_epoch():\n    for x in loader:\n        validate()\n\n\nfor epoch in range(3):\n    train_epoch()\n",
        "for epoch in range(3):\n    scheduler.step()\n",
    ],
)
def test_other_loops_do_not(text: str) -> None:
    assert lines(text) == ([], [])


def test_a_function_around_a_training_loop_is_no_step() -> None:
    epoch = "def train_epoch():\n    for x in loader:\n        training_step(x)\n\n\n"
    text = f"{STEP}{epoch}for number in range(3):\n    train_epoch()\n"
    assert lines(text) == (["for x in loader:"], ["training_step"])


def test_a_main_that_makes_one_step_is_no_step_of_a_loop() -> None:
    assert lines(f"{STEP}def main():\n    training_step(x)\n\n\nmain()\n") == ([], ["training_step"])


LOOP = "for x in loader:\n    total += learner.training_step(x).item()\n"
OTHER = "def training_step(self, x):\n    return self.net(x)\n"


@pytest.mark.parametrize(
    "other", ["", "class Base:\n    def training_step(self, x):\n        raise NotImplementedError\n"]
)
def test_a_loop_whose_step_is_a_function_of_another_file_trains(other: str) -> None:
    """Nothing was patched and nothing declined: the place was not seen."""
    assert lines(LOOP) == ([], [])
    assert lines(LOOP, METHODS, STEP, other) == (["for x in loader:"], [])


@pytest.mark.parametrize("text", [f"{OTHER}{LOOP}", LOOP.replace("learner.training_step", "optimizer.training_step")])
def test_a_function_of_the_file_and_the_step_of_an_optimizer_are_no_other_files(text: str) -> None:
    assert lines(text, STEP) == ([], [])


def test_a_name_that_also_means_something_else_in_other_files_is_no_step() -> None:
    assert lines(LOOP, STEP, OTHER) == ([], [])
    assert lines(LOOP, f"{STEP}{OTHER}") == ([], [])
