"""Real traces with one signal taken away: what depends on it is null, what does not stays, and no 0 is made up.

The table of the package says what needs which signal; the tables here say what each stripped signal takes with it.
"""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import pytest

from tests.support import plain_trace
from tests.support.builders import Machine, loop
from tests.support.places import TRACES
from tests.support.plain_trace import STRIPPED
from tracelens import pipeline
from tracelens.cli import main
from tracelens.findings.signal_dependencies import NEEDS
from tracelens.model import PlannedDiagnosis
from tracelens.report import json as json_report
from tracelens.report import wording

FILES = (
    "h200/mlp_base_ns",
    "h200/mlp_v23_ns",
    "h200/conv_base_ns",
    "hta/a100_alexnet_cuda_sync",
    "hta/event_sync_small",
    "hta/world128_sampled_rank0",
    "amd/mi300_vit_stacks",
    "amd/h100_bert_small_launch_bound",
    "amd/mi210_gpu_only",
)
TAKES: dict[str, tuple[str, ...]] = {
    "stacks": ("source_lines",),
    "correlation": ("links",),
    "loader marks": ("loader_marks",),
    "calls": ("calls", "links"),
}
"""Stripped signal → signals of the package's table that are missing then."""
NOTHING_LEFT = ("copies", "gpu")
"""Without these no step is complete, where there were any."""
SCALARS = (
    "gpu_busy_share",
    "idle_share",
    "exposed_together_us_per_step",
    "breakdown.wall_us",
    *(f"breakdown.parts.{part}" for part in ("compute", "communication_exposed", "copy_exposed", "idle_other")),
    *(key for key in NEEDS if "[]" not in key and key != "exposed_together_us_per_step"),
    *(f"overlap.{key}" for key in ("h2d_us_per_step", "h2d_hidden_us_per_step", "h2d_exposed_us_per_step")),
    "overlap.streams_used",
    "overlap.concurrent_share",
    *(f"steps.{key}" for key in ("count", "source", "median_us", "p05_us", "p95_us", "unprofiled_median_us")),
)
FOLLOWS: dict[str, tuple[str, ...]] = {
    "stacks": ("breakdown.parts.idle_dataloader",),  # stacks without a DataLoader in them show that there is none
    "loader marks": ("breakdown.parts.idle_host", "breakdown.parts.idle_sync", "exposed_together_us_per_step"),
    "correlation": ("breakdown.parts.idle_other",),
    "calls": ("breakdown.parts.idle_other",),
    "sync rows": ("exposed_together_us_per_step", "breakdown.parts.idle_sync", "breakdown.parts.idle_host"),
}
"""Numbers that take over what is not told any more, or that are told apart less well; they are never a new zero."""


@functools.cache
def whole(name: str) -> plain_trace.PlainTrace:
    path = TRACES / f"{name}.json.gz"
    if not path.exists():
        pytest.skip(f"{name} is not at hand")
    return plain_trace.read(path)


def examined(path: Path) -> dict[str, Any]:
    return json_report.document(pipeline.diagnose(pipeline.open_inputs((path,))))


@functools.cache
def answers(name: str, folder: Path) -> dict[str, Any]:
    path = folder / f"{name.replace('/', '-')}.json"
    path.write_bytes(whole(name).raw)
    return examined(path)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("traces")


def at(document: dict[str, Any], key: str) -> Any:
    """The value at a dotted key, None below a null."""
    value: Any = document
    for name in key.split("."):
        value = None if value is None else value[name]
    return value


@pytest.mark.slow
@pytest.mark.skipif(not TRACES.exists(), reason="the shared traces are not at hand")
@pytest.mark.parametrize("signal", STRIPPED)
@pytest.mark.parametrize("name", FILES)
def test_a_missing_signal_makes_numbers_unknown_and_never_zero(
    tmp_path: Path, folder: Path, name: str, signal: str
) -> None:
    path = tmp_path / "stripped.json"
    document = STRIPPED[signal](whole(name))
    path.write_text(json.dumps(document), encoding="utf-8")
    before, after = answers(name, folder), examined(path)
    gone = len(document["traceEvents"]) < len(whole(name).document["traceEvents"]) or "args" in signal
    missing = set(TAKES.get(signal, ()))
    # Without its marks a step is something else; without marks it is the span of calls and GPU work.
    other_step = ("step marks", *(("calls",) if before["steps"]["source"] in ("none", "cycle") else ()))
    for key in SCALARS:
        was, now = at(before, key), at(after, key)
        if signal in other_step or (signal in NOTHING_LEFT and gone):
            assert now != 0 or was in (0, None) or signal in other_step, key
            continue
        if missing & set(NEEDS.get(key, ())) and (gone or signal == "correlation"):
            assert now is None, key
        elif key not in FOLLOWS.get(signal, ()):
            assert now == pytest.approx(was, abs=1e-6), key
        else:
            assert now != 0 or was in (0, None), key
    if signal in NOTHING_LEFT and gone and after["traces"][0]["completeness"]["complete"] is False:
        assert after["breakdown"] is None and after["gpu_busy_share"] is None and after["overlap"] is None
    parts = (after["breakdown"] or {"parts": {}, "wall_us": 0})["parts"]
    assert sum(us for us in parts.values() if us is not None) == pytest.approx(at(after, "breakdown.wall_us") or 0)
    for wait in after["syncs"]:
        if "links" in missing:
            assert wait["gpu_idle_us_per_step"] is None and wait["exposed_us_per_step"] is None
        if wait["kind"] == "alloc":
            assert wait["exposed_us_per_step"] is None
    if after["syncs"] and all(w["location"] is None for w in after["syncs"] if w["verdict"] != "window_edge"):
        only_edges = all(wait["verdict"] == "window_edge" for wait in after["syncs"])
        assert only_edges or "source_lines" in [item["detector"] for item in after["abstentions"]]


def stripped(tmp_path: Path, drop: str) -> PlannedDiagnosis:
    document = loop(6).document()
    path = tmp_path / "trace.json"
    file = plain_trace.PlainTrace(b"", document)
    path.write_text(json.dumps(STRIPPED[drop](file)), encoding="utf-8")
    return pipeline.plan(pipeline.examine(pipeline.open_inputs((path,))))


def test_without_correlation_the_reason_is_not_that_calls_are_missing(tmp_path: Path) -> None:
    planned = stripped(tmp_path, "correlation")
    said = json.dumps(json_report.document(planned))
    assert "no correlation ids" in said and "calls were not recorded" not in said


def test_allocator_calls_have_no_replayed_cost(tmp_path: Path) -> None:
    machine = Machine()
    for number in range(6):
        with machine.step(number):
            machine.events.call("cudaMalloc", machine.now, 50)
            machine.now += 50
            machine.launch("gemm", 100)
            machine.item()
    path = machine.events.write(tmp_path / "trace.json")
    waits = {wait["kind"]: wait for wait in examined(path)["syncs"]}
    assert waits["alloc"]["exposed_us_per_step"] is None and waits["alloc"]["wait_us_per_step"] == 50


def unknown_runtime(tmp_path: Path) -> Path:
    """A loop whose synchronize calls belong to a runtime that is not known."""
    text = json.dumps(loop(6).document())
    for known in ("cudaStreamSynchronize", "cudaDeviceSynchronize"):
        text = text.replace(known, "acc_synchronize")
    path = tmp_path / "trace.json"
    path.write_text(text.replace('"cuda_runtime"', '"mtia_runtime"'), encoding="utf-8")
    return path


def test_the_waits_of_an_unknown_runtime_are_not_judged(tmp_path: Path) -> None:
    planned = pipeline.plan(pipeline.examine(pipeline.open_inputs((unknown_runtime(tmp_path),))))
    document = json_report.document(planned)
    assert "never waits" not in planned.recommendation.verdict and "acc_synchronize" in planned.recommendation.verdict
    assert "acc_synchronize" in wording.no_waits(planned)
    assert at(document, "breakdown.parts.idle_sync") is None and document["exposed_together_us_per_step"] is None
    assert "waits" in [item["detector"] for item in document["abstentions"]]


def test_no_gate_on_waits_passes_for_an_unknown_runtime(tmp_path: Path) -> None:
    path = str(unknown_runtime(tmp_path))
    assert main(["check", path, "--max-syncs-per-step", "1000"]) == 3
    assert main(["check", path, "--max-exposed-ms", "1000"]) == 3
