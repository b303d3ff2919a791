"""What a DataLoader's batches are spent on, from what its processes measured."""

from __future__ import annotations

from typing import Any

import pytest

from tracelens.findings.owners import batch_times
from tracelens.model import BatchPart, BatchTimes, Location, RankRecording

PLACE = {"path": "data.py", "line": 11, "function": "Pictures.__getitem__"}
SPLIT = {
    "batches": 4,
    "workers": 2,
    "fetch_ns": 120_000_000,
    "collate_ns": 8_000_000,
    "transforms": {"Crop": 80_000_000, "Noise": 4_000_000, "Compose": 0},
    "sample_place": PLACE,
    "collate_place": None,
}


def recorded(**split: Any) -> BatchTimes | None:
    loaders = [{"num_workers": 2, "split": None}, {"num_workers": 2, "split": {**SPLIT, **split}}]
    return batch_times.measured(RankRecording(0, None, meta={"loaders": loaders}))


def test_samples_are_what_transforms_and_collating_leave() -> None:
    assert recorded() == BatchTimes(
        2,
        (
            BatchPart("Crop", 20_000_000),
            BatchPart("__getitem__", 7_000_000, Location("data.py", 11, "Pictures.__getitem__")),
            BatchPart("collate_fn", 2_000_000),
            BatchPart("Noise", 1_000_000),
        ),
    )


def test_they_add_up_to_the_batch_even_where_clocks_were_read_in_between() -> None:
    found = recorded(fetch_ns=90_000_000)
    assert found is not None and "__getitem__" not in {part.name for part in found.parts}
    assert found.batch_ns == sum(part.ns for part in found.parts)


@pytest.mark.parametrize(
    ("workers", "said"),
    [
        (
            2,
            "each worker needs 30.00 ms for a batch: Crop 20.00 ms, __getitem__ (data.py:11) 7.00 ms, "
            "collate_fn 2.00 ms, Noise 1.00 ms",
        ),
        (0, "of the time for a batch: Crop 67 %, __getitem__ (data.py:11) 23 %, collate_fn 7 %, Noise 3 %"),
    ],
)
def test_it_is_one_sentence(workers: int, said: str) -> None:
    found = recorded(workers=workers)
    assert found is not None
    assert found.said == said


@pytest.mark.parametrize("meta", [{}, {"loaders": None}, {"loaders": [{"split": None}]}, {"loaders": [{}]}])
def test_what_was_not_measured_is_unknown(meta: dict[str, Any]) -> None:
    assert batch_times.measured(RankRecording(0, None, meta=meta)) is None
    assert batch_times.measured(None) is None
    assert recorded(batches=0) is None
