"""The bundled Runs as `report` plans them, each once per process: a plan is frozen, so that tests can share it."""

from __future__ import annotations

from functools import cache

from tests.support.places import SAMPLES
from tracelens.cli.planning import PlanOptions, planned
from tracelens.model import IllustratedDiagnosis


@cache
def sample_plan(name: str) -> IllustratedDiagnosis:
    """The plan of the Run in the checkout, into which nothing is written."""
    return planned((SAMPLES / name / "run",), PlanOptions())
