"""What makes two recordings incomparable, and that what one side does not know is no difference."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support import report_cases as cases
from tracelens.model import Diagnosis, RankRecording, Run
from tracelens.report.comparability import obstacles


def recorded(torch: str | None = "2.9.0", loader: dict[str, Any] | None = None, **trace: Any) -> Diagnosis:
    """A Diagnosis of a Run with this PyTorch and loader; `trace`: device and world_size."""
    rank = RankRecording(0, None, meta={"loaders": [loader]} if loader else {})
    run = Run(Path("run"), (), None, Path(), True, (rank,), {"environment": {"torch": torch}})
    made = cases.diagnosis(run=run)
    return replace(made, timeline=replace(made.timeline, trace=replace(made.timeline.trace, **trace)))


def batch(samples: int, weight: int) -> Diagnosis:
    return recorded(loader={"batch_size": samples, "batch_bytes": weight})


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (recorded(device="A"), recorded(device="B"), "device: A against B"),
        (recorded(world_size=2), recorded(world_size=4), "world size: 2 against 4"),
        (recorded("2.8.1"), recorded("2.9.0"), "torch: 2.8 against 2.9"),
        (batch(4, 64), batch(8, 128), "batch: 4 samples, 64 bytes against 8 samples, 128 bytes"),
    ],
)
def test_a_difference_is_told_with_both_sides(before: Diagnosis, after: Diagnosis, told: str) -> None:
    assert obstacles((before, after), 1) == (told,)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (recorded(), recorded()),
        (recorded("2.9.0"), recorded("2.9.1+cu130")),
        (recorded(None), recorded("2.9.0")),
        (recorded(device=None), recorded(device="B")),
        (recorded(), batch(4, 64)),
        (recorded(world_size=None), recorded(world_size=1)),
    ],
    ids=["the same", "a patch release", "torch unknown", "device unknown", "batch unknown", "one rank"],
)
def test_these_are_no_differences(before: Diagnosis, after: Diagnosis) -> None:
    assert obstacles((before, after), 1) == ()


def test_each_side_is_the_set_of_its_starts() -> None:
    starts = (recorded(device="A"), recorded(device="A"), recorded(device="A"), recorded(device="B"))
    assert obstacles(starts, 2) == ("device: A against A, B",)


def test_a_difference_that_is_wanted_is_left_out() -> None:
    starts = (recorded("2.8.0", device="A"), recorded("2.9.0", device="B"))
    assert obstacles(starts, 1, despite=("device",)) == ("torch: 2.8 against 2.9",)


def test_a_trace_without_a_run_knows_neither_torch_nor_batch() -> None:
    assert obstacles((cases.diagnosis(run=None), recorded("2.8.0")), 1, despite=("device", "world-size")) == ()
