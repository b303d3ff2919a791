"""`doctor --calibrate`: what is measured, where it is kept, and that a Run and its replay get it."""

from __future__ import annotations

import json
import shutil
import sys
import time
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from tests.support.places import ROOT
from tracelens.capture import calibration
from tracelens.capture.run_json import LaunchRecord, RunJsonWriter
from tracelens.cli import doctor
from tracelens.errors import UsageError
from tracelens.replay.calibration import Calibration

SAMPLE = ROOT / "sample_traces" / "sync_every_batch" / "run"
FOUND = {"gpu": "NVIDIA H200", "torch": "2.11.0+cu130", "cuda": "13.0", "skipped": {}, "event_record_ns": 2500.0}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(calibration.CACHE_VARIABLE, str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_the_line_through_three_sizes() -> None:
    machine = pytest.importorskip("tracelens.capture.calibration_child.micro_benchmarks")
    # 10 µs and then 2 bytes per ns, that is 2,000 per µs.
    fitted = machine.line([(1_000, 10_500.0), (2_000_000, 1_010_000.0), (4_000_000, 2_010_000.0)])
    assert (fitted.fixed_ns, fitted.bytes_per_us) == (pytest.approx(10_000), pytest.approx(2_000))
    assert machine.line([(1, 5.0), (2, 7.0), (3, 7.0)]) is None


def test_what_was_measured_is_found_again_for_the_same_gpu_and_torch_only(cache: Path) -> None:
    assert calibration.read_cache("NVIDIA H200", "2.11.0+cu130") is None
    path = calibration.write_cache(FOUND)
    assert path.parent == cache
    assert calibration.read_cache("NVIDIA H200", "2.11.0+cu130") == FOUND
    assert calibration.read_cache("NVIDIA H100", "2.11.0+cu130") is None
    assert calibration.read_cache("NVIDIA H200", "2.12.0") is None
    assert calibration.read_cache(None, None) is None
    path.write_text("{")
    assert calibration.read_cache("NVIDIA H200", "2.11.0+cu130") is None
    path.write_text(json.dumps({**FOUND, "gpu": "another"}))
    assert calibration.read_cache("NVIDIA H200", "2.11.0+cu130") is None


def test_a_name_of_a_gpu_leads_nowhere_else(cache: Path) -> None:
    path = calibration.write_cache({**FOUND, "gpu": "../../x/y", "torch": "a" * 999})
    assert path.parent == cache
    assert len(path.name) < 255


def test_a_place_that_cannot_be_written_is_said(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.write_text("a file")
    with pytest.raises(UsageError, match="cannot be written"):
        calibration.write_cache(FOUND)
    monkeypatch.delenv(calibration.CACHE_VARIABLE)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", _no_home)
    assert calibration.read_cache("NVIDIA H200", "2.11.0+cu130") is None
    with pytest.raises(UsageError, match="no home folder"):
        calibration.write_cache(FOUND)


def _no_home() -> Path:
    raise RuntimeError("Could not determine home directory.")


def test_a_new_run_carries_the_constants_and_the_replay_takes_them(tmp_path: Path) -> None:
    calibration.write_cache(FOUND)
    folder = tmp_path / "run"
    (folder / "rank0").mkdir(parents=True)
    entry: dict[str, Any] = {"rank": 0, "world_size": 1, "trace": None, "complete": True}
    process = {"device": "NVIDIA H200", "torch": "2.11.0+cu130"}
    (folder / "rank0" / "rank.json").write_text(json.dumps({**entry, "process": process}))
    ledger = RunJsonWriter(folder, LaunchRecord("script", ("python", "x.py"), tmp_path, None, {}, False, 10))
    ledger.collect()
    ledger.close(0, None)
    meta = json.loads((folder / "run.json").read_text())
    assert meta["calibration"] == {"event_record_ns": 2500.0}
    assert Calibration.from_run(meta).event_record_ns == 2500
    assert Calibration().event_record_ns != 2500


@pytest.mark.slow
def test_what_was_measured_changes_the_estimates(cache: Path, tmp_path: Path) -> None:
    """From the file that `doctor --calibrate` keeps to a printed estimate; the recording is one of an H200."""
    from tracelens import pipeline

    told = {}
    for measured in (None, 20_000.0):
        folder = tmp_path / str(measured)
        shutil.copytree(SAMPLE, folder)
        meta = json.loads((folder / "run.json").read_text())
        if measured is not None:
            calibration.write_cache({**FOUND, "gpu": "G", "torch": "T", "pinned_bytes_per_us": measured})
            meta["calibration"] = calibration.values(calibration.read_cache("G", "T") or {})
        (folder / "run.json").write_text(json.dumps(meta))
        schemes = pipeline.plan(pipeline.examine(pipeline.open_inputs((folder,)))).schemes
        estimates = [scheme.estimate for scheme in schemes if scheme.estimate is not None]
        told[measured] = {text for estimate in estimates for text in estimate.assumptions if "pinned memory" in text}
    assert told[None] == {"copies from pinned memory run at 50 GB/s"}
    assert told[20_000.0] == {"copies from pinned memory run at 20 GB/s"}


@pytest.mark.programs
def test_without_a_gpu_nothing_is_measured_and_that_is_said() -> None:
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("there is a GPU here: test_the_machine_is_measured covers it")
    with pytest.raises(UsageError, match="sees no GPU"):
        calibration.measure()


@pytest.mark.programs
def test_an_interpreter_without_torch_is_told(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho 'ModuleNotFoundError: No module named torch' >&2\nexit 1\n")
    python.chmod(0o755)
    with pytest.raises(UsageError, match="No module named torch"):
        calibration.measure(str(python))


@pytest.mark.programs
@pytest.mark.parametrize("ending", ["kill -SEGV $$", "sleep 60"])
def test_a_piece_that_never_returns_costs_only_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    python = tmp_path / "python"
    lines = [FOUND, {**FOUND, "queue_limit": 1024.0, "skipped": {"rows": "it did not return"}}]
    said = "\n".join(f"echo '{json.dumps(one)}'" for one in lines)
    python.write_text(f'#!/bin/sh\n{said}\nprintf \'{{"gpu": "cut\'\n{ending}\n')
    python.chmod(0o755)
    monkeypatch.setattr(calibration, "TIMEOUT_SECONDS", 1.0)
    begin = time.monotonic()
    found = calibration.measure(str(python))
    assert time.monotonic() - begin < 30
    assert calibration.values(found) == {"event_record_ns": 2500.0, "queue_limit": 1024.0}
    assert found["skipped"] == {"rows": "it did not return"}


def test_pieces_that_fail_leave_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = pytest.importorskip("tracelens.capture.calibration_child.micro_benchmarks")

    def _one() -> dict[str, float]:
        return {"sync_issue_ns": 3000.0, "staging_bytes": 0.0}

    def _two() -> dict[str, float]:
        raise RuntimeError("out of memory\nand more")

    def _three() -> dict[str, float]:
        return {"queue_limit": 1024.0}

    monkeypatch.setattr(machine, "_BENCHMARKS", (_one, _two, _three))
    monkeypatch.setattr(machine.torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(machine.torch.cuda, "get_device_name", lambda: "GPU")
    told = [json.loads(json.dumps(one)) for one in machine.measure()]
    assert told[0]["skipped"] == {"one": "it did not return", "two": "not reached", "three": "not reached"}
    assert calibration.values(told[-1]) == {"sync_issue_ns": 3000.0, "queue_limit": 1024.0}  # nothing measured is not 0
    assert told[-1]["skipped"] == {"two": "out of memory"}


def test_doctor_keeps_what_it_measured_and_says_so(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = {**FOUND, "pinned_bytes_per_us": 50_000.0, "skipped": {"queue": "no such function"}}
    monkeypatch.setattr(calibration, "measure", lambda: found)
    (check,) = doctor.calibrated()
    assert check.good
    assert check.found == "2 constants of NVIDIA H200 under torch 2.11.0+cu130: pinned copies 50.0 GB/s"
    assert check.cure.endswith("recordings made from now on carry them; could not be measured: queue")
    assert calibration.read_cache("NVIDIA H200", "2.11.0+cu130") == found


def test_doctor_notes_what_stands_in_the_way(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise UsageError("torch sees no GPU here", hint="a GPU is needed")

    monkeypatch.setattr(calibration, "measure", refuse)
    (check,) = doctor.calibrated()
    assert (check.good, check.found, check.cure) == (None, "not available: torch sees no GPU here", "a GPU is needed")


@pytest.mark.gpu
def test_the_machine_is_measured() -> None:
    if not pytest.importorskip("torch").cuda.is_available():
        pytest.skip("needs a GPU")
    found = calibration.measure(sys.executable)
    assert found["skipped"] == {}
    measured = calibration.values(found)
    assert set(measured) <= {field.name for field in fields(Calibration)}
    assert {"event_record_ns", "pinned_bytes_per_us", "staging_bytes", "queue_limit", "pin_main_bytes_per_us"} <= set(
        measured
    )
    assert 300 < measured["event_record_ns"] < 50_000
    assert 5_000 < measured["pinned_bytes_per_us"] < 500_000
    assert 200 < measured["queue_limit"] < 4_096
