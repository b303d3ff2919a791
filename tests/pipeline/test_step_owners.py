"""Owners of a real recording on the CPU: a planted line deep in the data set, from the recording to JSON."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.support import lean
from tracelens import pipeline
from tracelens.capture.supervisor.recording import ProfileOptions, profile
from tracelens.capture.window_plan import WindowPlan
from tracelens.model import Diagnosis
from tracelens.report import json as json_report

pytest.importorskip("torch")
pytestmark = pytest.mark.programs
PLANTS = Path(__file__).parents[1] / "owners" / "plants.py"
PLAN = WindowPlan(unprofiled_steps=8, unprofiled_seconds=0.0, clean=6)
LINE = next(
    number for number, text in enumerate(PLANTS.read_text().splitlines(), 1) if re.search("# plant: item$", text)
)
LEAST_US = 8 * 800
"""Eight items that sleep for 0.8 ms each."""


@pytest.fixture(scope="module")
def diagnosis(tmp_path_factory: pytest.TempPathFactory) -> Diagnosis:
    folder = tmp_path_factory.mktemp("owners")
    words = (str(PLANTS), "item", "60")
    wanted = ProfileOptions("script", words, out=folder / "run", cwd=folder, plan=PLAN, monitor=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", lean.SITE)
        assert profile(wanted).complete
    return pipeline.diagnose(pipeline.open_inputs((folder / "run",)))


def test_the_slow_line_of_the_data_set_owns_what_it_takes(diagnosis: Diagnosis) -> None:
    assert diagnosis.owners is not None
    (loader,) = (owner for owner in diagnosis.owners.owners if owner.kind == "dataloader")
    assert loader.owned_ns / 1000 >= LEAST_US
    assert loader.locations[0].line == LINE
    assert loader.locations[0].function == "__getitem__"
    assert "main" in {location.function for location in loader.locations}  # who asked for the batch


def test_the_owners_in_json_add_up_to_the_step(diagnosis: Diagnosis) -> None:
    assert diagnosis.owners is not None
    document = json.loads(json_report.dumps(diagnosis))
    wall_us = diagnosis.owners.wall_ns / 1000
    assert sum(owner["us_per_step"] for owner in document["owners"]) == pytest.approx(wall_us, abs=0.1)
    assert sum(owner["share"] for owner in document["owners"]) == pytest.approx(1, abs=0.001)
    named = sum(owner["share"] for owner in document["owners"] if owner["locations"] or owner["callee"])
    assert named > 0.9
