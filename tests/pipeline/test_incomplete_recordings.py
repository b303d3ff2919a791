"""Cut and damaged files of real trainings: what is said of them holds for the whole file, or is not said.

The expected busy share is computed from the whole file's JSON events in plain Python (`support/plain_trace`).
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support import plain_trace
from tests.support.builders import loop
from tests.support.judged import diagnosed, made_up, untruths
from tests.support.places import TRACES
from tests.support.plain_trace import PlainTrace
from tracelens import pipeline
from tracelens.cli import main
from tracelens.errors import InputError
from tracelens.findings import kept_steps
from tracelens.report import json as json_report
from tracelens.report import wording

FILES = (
    "h200/mlp_base_ns",
    "h200/conv_base_ns",
    "hta/a100_alexnet_cuda_sync",
    "hta/world128_sampled_rank0",
    "hta/mi250_rocm",
    "amd/mi300_vit_stacks",
    "amd/h100_bert_small_launch_bound",
    "amd/mi210_gpu_only",
)
CUTS = (0.55, 0.8, 0.93)
DAMAGE: dict[str, Callable[[bytes, float], bytes]] = {
    "cut.json": plain_trace.cut,
    "cut.json.gz": plain_trace.cut_archive,
    "broken.json.gz": plain_trace.broken_archive,
    "holes.json": lambda raw, share: plain_trace.with_holes(raw, (share - 0.3, share - 0.1, share)),
}

real = pytest.mark.skipif(not TRACES.exists(), reason="the shared traces are not at hand")


@functools.cache
def whole(name: str) -> PlainTrace:
    path = TRACES / f"{name}.json.gz"
    if not path.exists():
        pytest.skip(f"{name} is not at hand")
    return plain_trace.read(path)


@real
@pytest.mark.slow
@pytest.mark.parametrize("kind", DAMAGE)
@pytest.mark.parametrize("name", FILES)
def test_what_is_said_of_a_damaged_file_is_true_of_the_whole_one(tmp_path: Path, name: str, kind: str) -> None:
    file = whole(name)
    for share in CUTS:
        path = tmp_path / kind
        path.write_bytes(DAMAGE[kind](file.raw, share))
        try:
            diagnosis = diagnosed(path)
        except InputError:
            continue
        assert list(untruths(file, diagnosis)) == []


@real
@pytest.mark.slow
@pytest.mark.parametrize("share", [0.6, 0.75, 0.9, 0.99])
def test_some_steps_of_a_cut_file_are_still_judged(tmp_path: Path, share: float) -> None:
    """The more of the file there is, the more steps; the whole file has eight."""
    path = tmp_path / "cut.json"
    path.write_bytes(plain_trace.cut(whole("h200/conv_base_ns").raw, share))
    coverage = diagnosed(path).timeline.coverage
    assert coverage.steps == 8
    assert {0.6: 1, 0.75: 4, 0.9: 6, 0.99: 7}[share] <= coverage.complete_steps < 8


@real
@pytest.mark.slow
@pytest.mark.parametrize("share", CUTS)
def test_no_gate_passes_on_a_cut_file(tmp_path: Path, share: float) -> None:
    path = tmp_path / "cut.json"
    path.write_bytes(plain_trace.cut(whole("h200/mlp_base_ns").raw, share))
    for budget in ("--max-exposed-ms", "--max-syncs-per-step", "--max-step-ms"):
        assert main(["check", str(path), budget, "1000000"]) == 3
    assert main(["check", str(path), "--max-idle-share", "1"]) == 3


def cut_before_gpu_rows(tmp_path: Path, *, closed: bool) -> Path:
    """A loop of which the file has the launches, and no GPU row: cut off, or never recorded."""
    document = loop(6).document()
    rows = [row for row in document["traceEvents"] if not plain_trace.is_gpu(row)]
    text = json.dumps({**document, "traceEvents": rows})
    path = tmp_path / "trace.json"
    path.write_text(text if closed else text[: text.rindex("]")], encoding="utf-8")
    return path


@pytest.mark.parametrize("closed", [False, True])
def test_launches_without_gpu_rows_are_no_machine_without_a_gpu(tmp_path: Path, closed: bool) -> None:
    path = cut_before_gpu_rows(tmp_path, closed=closed)
    planned = pipeline.plan(pipeline.examine(pipeline.open_inputs((path,))))
    document = json_report.document(planned)
    assert list(made_up(document)) == []
    text = json.dumps(document) + wording.symptom(planned) + wording.no_waits(planned)
    assert "No GPU work was recorded" not in text and "never waits" not in text
    reason = "the GPU rows are missing" if closed else "the file ends early"
    assert reason in planned.recommendation.verdict
    assert all(reason in scheme.reasons[0] for scheme in planned.schemes)


def with_operators(document: dict[str, Any]) -> dict[str, Any]:
    """A framework operation around each call, tied to it by its id, as a profiler that records the CPU has them."""
    operators = []
    for number, row in enumerate(row for row in document["traceEvents"] if plain_trace.is_call(row)):
        row["args"]["External id"] = number + 1
        operators.append({**row, "cat": "cpu_op", "name": f"aten::{row['name']}", "args": {"External id": number + 1}})
    return {**document, "traceEvents": [*operators, *document["traceEvents"]]}


def test_a_lost_kernel_takes_its_step_out_of_the_statistics(tmp_path: Path) -> None:
    """Ten steps of the same work; of the fourth step's kernel only a damaged row is left."""
    document = with_operators(loop(10).document())
    rows = [json.dumps(row) for row in document["traceEvents"]]
    kernels = [at for at, row in enumerate(document["traceEvents"]) if row.get("cat") == "kernel"]
    rows[kernels[3]] = rows[kernels[3]][:40]
    path, before = tmp_path / "trace.json", tmp_path / "whole.json"
    path.write_text('{"traceEvents": [' + ", ".join(rows) + "]}", encoding="utf-8")
    before.write_text(json.dumps(document), encoding="utf-8")
    diagnosis = diagnosed(path)
    assert diagnosis.timeline.trace.completeness.lost_events == 1
    judged = kept_steps.select(diagnosis.timeline).positions.tolist()
    assert 3 not in judged and {0, 1, 2, 6, 7, 8} <= set(judged)
    assert diagnosis.gpu_busy_share == pytest.approx(diagnosed(before).gpu_busy_share)


def test_a_whole_recording_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(loop(6).document()), encoding="utf-8")
    document = json_report.document(diagnosed(path))
    assert document["coverage"] is None and document["traces"][0]["completeness"]["complete"] is True
    assert not [item for item in document["abstentions"] if item["detector"] == "recording"]


def test_one_cut_file_among_the_ranks_fails_no_rank_and_passes_no_gate(tmp_path: Path) -> None:
    good, cut = tmp_path / "rank0.json", tmp_path / "rank1.json"
    good.write_text(json.dumps(loop(6).document()), encoding="utf-8")
    cut.write_text(cut_before_gpu_rows(tmp_path, closed=False).read_text(encoding="utf-8"), encoding="utf-8")
    document = json_report.document(pipeline.diagnose(pipeline.open_inputs((good, cut))))
    assert document["gpu_busy_share"] is not None
    assert "rank 1: the file ends early" in [item["missing"] for item in document["abstentions"]]
