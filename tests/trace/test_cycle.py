"""Steps of a trace without marks: the longest sequence that repeats."""

from __future__ import annotations

import numpy as np

from tests.support.trace_tables import words
from tracelens.model import TraceTable
from tracelens.trace import launch_cycle

# ---------------------------------------------------------------------------------------------------------- cycles


def launched(names: list[str], interval: int = 10) -> tuple[TraceTable, TraceTable]:
    """Calls and GPU work of a launch sequence, one launch per `interval` ns."""
    starts = np.arange(len(names)) * interval
    directions = words(["h2d" if name == "copy" else "" for name in names])
    ops = TraceTable({"name": words(names), "call": np.arange(len(names)), "direction": directions})
    return TraceTable({"start_ns": starts}), ops


LAYER = ["norm", "gemm", "gelu", "gemm"]
STEP = ["copy", *LAYER * 6, "loss", *["grad", "gemm", "gemm"] * 6, "adam", "adam"]


def test_steps_begin_with_their_copy() -> None:
    calls, ops = launched(STEP * 5)
    assert list(launch_cycle.boundaries(calls, ops)) == [len(STEP) * 10 * number for number in range(5)]


def test_a_read_every_few_steps_is_no_step() -> None:
    names = [name for number in range(20) for name in (*STEP, *(["read"] if number % 10 == 9 else []))]
    assert len(launch_cycle.boundaries(*launched(names))) == 20


def test_layers_are_no_steps() -> None:
    assert not len(launch_cycle.boundaries(*launched(STEP)))
    assert not len(launch_cycle.boundaries(*launched(STEP * 3)))  # two stretches between three marks: too few to agree


def test_parts_of_a_step_that_are_equally_long_are_no_steps() -> None:
    """A step of two networks: the same kernel updates both, after equally many launches of other kernels."""
    first = ["copy", *["conv", "norm", "relu"] * 8, "loss", "adam"]
    second = ["noise", *["deconv", "norm", "tanh"] * 8, "loss", "adam"]
    calls, ops = launched((first + second) * 6)
    assert list(launch_cycle.boundaries(calls, ops)) == [10 * len(first + second) * number for number in range(6)]


def test_a_sequence_without_a_period_has_no_steps() -> None:
    rng = np.random.default_rng(0)
    assert not len(launch_cycle.boundaries(*launched([f"k{code}" for code in rng.integers(0, 30, 400)])))
    assert not len(launch_cycle.boundaries(*launched([])))
    assert not len(launch_cycle.boundaries(*launched(["k"] * 100)))
