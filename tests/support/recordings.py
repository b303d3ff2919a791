"""Recordings to try screens and pages on: the bundled Runs, and traces of other machines beside the checkout."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.places import TRACES
from tests.support.sample_plans import sample_plan
from tracelens import pipeline
from tracelens.model import IllustratedDiagnosis

RUNS = ("sync_every_batch", "loader_bound", "gpu_bound", "host_bound", "pageable_copies")
RECORDED_ELSEWHERE = (
    "amd/mi300_resnet_training_stacks",
    "hta/v100_world2_multistream_5steps",
    "h200/tf_base_ns",
)


def plan_of(name: str) -> IllustratedDiagnosis:
    """The plan of that Run or trace; skips the test where it is not beside this checkout."""
    if name in RUNS:
        return sample_plan(name)
    found = sorted((TRACES / name).parent.glob(f"{Path(name).name}*.gz"))
    if not found:
        pytest.skip(f"{name} is not among the shared traces beside this checkout")
    examined = pipeline.examine(pipeline.open_inputs((found[0],)))
    return pipeline.illustrate(examined, pipeline.plan(examined))
