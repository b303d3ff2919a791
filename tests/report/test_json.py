"""The JSON report keeps its contract: the schema, unknown as null, a measured zero as 0, no path of this machine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.support import report_cases as cases
from tests.support.schemas import SCHEMA
from tracelens.model import BREAKDOWN_PARTS, Run, StepTimes
from tracelens.report import json as report


def validated(document: dict[str, Any]) -> dict[str, Any]:
    jsonschema.Draft202012Validator(SCHEMA).validate(document)
    return document


def test_analysis_and_recommendation_keep_to_the_schema() -> None:
    validated(report.document(cases.diagnosis()))
    validated(report.document(cases.recommended()))


def test_the_schema_is_a_schema_and_names_the_parts_of_the_model() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    parts = SCHEMA["properties"]["breakdown"]["oneOf"][1]["properties"]["parts"]
    assert set(parts["properties"]) == set(BREAKDOWN_PARTS)


def test_the_schema_refuses_a_key_it_does_not_name() -> None:
    document = report.document(cases.diagnosis()) | {"extra": 1}
    with pytest.raises(jsonschema.ValidationError):
        validated(document)


def test_an_analysis_recommends_nothing() -> None:
    document = report.document(cases.diagnosis())
    assert document["schemes"] == [] and document["recommendation"] is None and document["sensitivity"] == {}


def test_times_are_microseconds_and_parts_add_up() -> None:
    document = report.document(cases.diagnosis())
    assert document["steps"]["median_us"] == 10_000.0
    assert sum(document["breakdown"]["parts"].values()) == document["breakdown"]["wall_us"] == 10_000.0


def test_unknown_is_null_and_a_measured_zero_is_zero() -> None:
    exposed, unknown, harmless = report.document(cases.diagnosis())["syncs"]
    assert exposed["exposed_us_per_step"] == 1_500.0
    assert harmless["exposed_us_per_step"] == 0 and harmless["exposed_us_per_step"] is not None
    assert unknown["exposed_us_per_step"] is None and unknown["location"] is None


def test_waits_are_ranked_by_what_they_cost_and_never_by_how_long_they_last() -> None:
    """The costliest first, as on screen; the profiler's own drain last, however long it is."""
    base = cases.diagnosis().stalls[0]
    long, costly = replace(base, id="a", exposed_ns=10, wait_ns=10**9), replace(base, id="b", exposed_ns=20, wait_ns=5)
    owns = replace(base, id="c", exposed_ns=None, verdict="unknown", gpu_idle_ns=10**8, wait_ns=7)
    edge = replace(base, id="d", exposed_ns=None, verdict="window_edge", wait_ns=10**9, gpu_idle_ns=10**9)
    shown = report.document(replace(cases.diagnosis(), stalls=(edge, long, owns, costly)))["syncs"]
    assert [row["wait_us_per_step"] * 1000 for row in shown] == [5, 10**9, 7, 10**9]
    assert [row["verdict"] for row in shown] == ["exposed", "exposed", "unknown", "window_edge"]


def test_no_gpu_means_no_breakdown() -> None:
    bare = replace(cases.diagnosis(), breakdown=None, gpu_busy_share=None, idle_share=None, overlap=None)
    document = validated(report.document(bare))
    assert document["breakdown"] is None and document["gpu_busy_share"] is None


def test_speedup_is_base_over_new() -> None:
    estimate = report.document(cases.recommended())["schemes"][0]["estimate"]
    assert estimate["speedup"] == pytest.approx(9_500 / 8_100)


def test_paths_are_relative_to_the_run(tmp_path: Path) -> None:
    run = Run(tmp_path / "run", ("python", "t.py"), None, tmp_path, True, ())
    inside = cases.trace(path=str(tmp_path / "run" / "rank0" / "x.json.gz"))
    outside = cases.trace(path="/home/somebody/y.json.gz")
    document = report.document(replace(cases.diagnosis(), run=run, traces=(inside, outside)))
    assert [trace["path"] for trace in document["traces"]] == ["rank0/x.json.gz", "y.json.gz"]


def test_a_number_that_is_not_finite_is_a_bug_not_a_token() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        report.dumps(replace(cases.diagnosis(), gpu_busy_share=float("nan")))


def test_without_steps_there_is_no_step_time_and_the_reason_is_told() -> None:
    """The length of the recording, 10 ms here, is not that of a step."""
    found = cases.diagnosis()
    assert report.document(found)["baseline"] == {
        "step_us": 9500.0,
        "source": "unprofiled",
        "reason": None,
        "gpu_busy_share": pytest.approx(7.5 / 9.5),
    }
    none = validated(report.document(replace(found, steps=StepTimes(1, "none", 10_000_000, 10_000_000, 10_000_000))))
    assert none["baseline"]["step_us"] is None and none["baseline"]["reason"].startswith("no steps were found")
    uncertain = report.document(replace(found, steps=replace(found.steps, certain=False)))["baseline"]
    assert uncertain["step_us"] is None and uncertain["reason"].startswith("a part of the recording is missing")


def test_what_the_headline_is_about_is_a_field() -> None:
    assert validated(report.document(cases.diagnosis(headline_kind="gpu")))["headline_kind"] == "gpu"
