"""The bundled Runs: recorded by TraceLens on an H200 and read here from load to report, each with its answer."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.support.places import SAMPLES
from tracelens import run
from tracelens.cli import main

ANSWERS = {
    "sync_every_batch": "event-interval",
    "gpu_bound": None,
    "pageable_copies": "pinned-copy",
    "host_bound": None,
    "loader_bound": None,
}
BINDING_WORDS = {"gpu_bound": "GPU", "host_bound": "launch-bound", "loader_bound": "DataLoader"}


@pytest.fixture(scope="module", params=ANSWERS)
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """A copy of one case, so that nothing is written into the checkout."""
    folder = tmp_path_factory.mktemp("samples") / request.param
    shutil.copytree(SAMPLES / request.param, folder)
    return request.param, folder


def document(folder: Path, command: str, capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    assert main([command, str(folder / "run"), "--format", "json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_it_was_recorded_on_an_h200_and_is_small(case: tuple[str, Path]) -> None:
    _, folder = case
    recorded = run.read(folder / "run")
    assert recorded.complete
    assert "H200" in recorded.meta["environment"]["gpus"][0]
    trace = recorded.recordings[0].trace_path
    assert trace is not None
    assert trace.stat().st_size < 1_500_000
    assert recorded.meta["script"]["sha256"] == run.sha256((folder / "train.py").read_bytes())


def test_it_names_no_path_of_the_machine_it_was_recorded_on(case: tuple[str, Path]) -> None:
    _, folder = case
    for file in sorted((folder / "run").rglob("*.json")):
        # a path below a root folder inside JSON text; /usr/local/cuda is where every CUDA image has it
        found = re.findall(r'"(/(?:work|root|home|opt|tmp)/[^"]*)"', file.read_text(encoding="utf-8"))
        assert not found, f"{file.name}: {found[:3]}"


@pytest.mark.slow
def test_it_recommends_what_it_stands_for(case: tuple[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    name, folder = case
    answer = document(folder, "recommend", capsys)
    recommendation = answer["recommendation"]
    assert isinstance(recommendation, dict)
    assert recommendation["scheme"] == ANSWERS[name], recommendation["verdict"]
    if name in BINDING_WORDS:
        assert BINDING_WORDS[name].lower() in str(recommendation["verdict"]).lower()


@pytest.mark.slow
def test_what_more_workers_give_is_one_number_wherever_it_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two workers set the pace; four, each as fast as they are, halve the step. With eight Python takes its part."""
    shutil.copytree(SAMPLES / "loader_bound", tmp_path / "loader")
    answer: Any = document(tmp_path / "loader", "recommend", capsys)
    levers = {lever["id"]: lever["predicted"] for lever in answer["levers"]}
    (owner,) = (owner for owner in answer["owners"] if owner["kind"] == "dataloader")
    base_us = answer["baseline"]["step_us"]
    assert levers["workers=4"]["speedup"] == pytest.approx(2, rel=1e-3)
    assert owner["instead"] == "8 workers instead of 2"
    for key, ratio in (("recoverable_us_per_step", "speedup"), ("low_us", "low"), ("high_us", "high")):
        assert base_us / levers["workers=8"][ratio] == pytest.approx(base_us - owner[key], rel=1e-6)
    said = f"with 8 workers instead of 2 a step takes {(base_us - owner['recoverable_us_per_step']) / 1e3:.2f} ms"
    assert said in answer["verdict"]


@pytest.mark.slow
def test_its_stalls_have_source_lines(case: tuple[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    _, folder = case
    syncs = document(folder, "analyze", capsys)["syncs"]
    assert isinstance(syncs, list)
    inside = [row for row in syncs if row["verdict"] != "window_edge"]
    blocked = sum(row["wait_us_per_step"] for row in inside)
    located = sum(row["wait_us_per_step"] for row in inside if row["location"])
    assert located >= 0.95 * blocked
    assert all(row["location"]["path"] == "train.py" for row in inside if row["location"])


def test_its_verification_is_in_it(case: tuple[str, Path]) -> None:
    name, folder = case
    verified = json.loads((folder / "run" / "verify.json").read_text(encoding="utf-8"))
    text = json.dumps(verified)
    assert "different numbers" not in text
    if ANSWERS[name]:
        assert ANSWERS[name] in text


@pytest.mark.slow
def test_its_report_is_one_file(case: tuple[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    _, folder = case
    assert main(["report", str(folder / "run"), "-o", str(folder / "report.html")]) == 0
    capsys.readouterr()
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert page.lower().startswith("<!doctype html>")
    assert not re.findall(r'(?:src|href)="https?://', page.split("<footer")[0])
