"""Each trouble that `doctor` knows, provoked, with its cure; and a machine that is fine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.support.places import ROOT
from tracelens.cli import doctor, machine_checks, main, torch_probe
from tracelens.cli.machine_facts import Check, MachineFacts

GIB = 1 << 30
WELL: dict[str, Any] = {
    "version": "2.11.0+cu130", "cuda": "13.0", "hip": None, "available": True, "device": "NVIDIA H200", "kernels": 2,
    "error": None, "free_bytes": 138 * GIB, "total_bytes": 140 * GIB, "arch_ok": True, "activities": ["CPU", "CUDA"],
    "profiler_active": False, "path": "/x",
}  # fmt: skip
GPUS = {"driver": "580.159.04", "gpus": ["NVIDIA H200"]}


def installed(name: str) -> str | None:
    return {"nvidia-ml-py": "13.615.71"}.get(name)


def machine(
    tmp_path: Path,
    torch: Mapping[str, Any] | str | None = None,
    environment: Mapping[str, str] | None = None,
    **changes: Any,
) -> MachineFacts:
    facts = {**WELL, **torch} if isinstance(torch, Mapping) else torch or WELL
    none = tmp_path / "none"
    given = {
        "torch": facts, "gpus": GPUS, "folder": tmp_path, "environment": environment or {}, "admin_only": none,
        "driver_file": none, "shared_memory": tmp_path, "version": installed,
    }  # fmt: skip
    return MachineFacts(**{**given, **changes})


def found(looked_at: MachineFacts) -> dict[str, Check]:
    return {check.name: check for check in machine_checks.checks(looked_at)}


def test_a_machine_that_is_well_has_nothing_bad(tmp_path: Path) -> None:
    assert {name: check.good for name, check in found(machine(tmp_path)).items() if check.good is not True} == {}


NO_GPU: dict[str, Any] = {"available": False, "device": None, "kernels": None, "free_bytes": None, "total_bytes": None}
TROUBLES: list[tuple[str, dict[str, Any], str, bool | None, str]] = [
    ("torch is missing", {"torch": "No module named 'torch'"}, "torch", False, "install PyTorch 2.0"),
    (
        "a library is missing",
        {"torch": "libcudart.so.13: cannot open shared object file"},
        "torch",
        False,
        "LD_LIBRARY_PATH",
    ),
    (
        "numpy does not fit",
        {"torch": "A module compiled using NumPy 1.x cannot run"},
        "torch",
        False,
        "pip install -U torch numpy",
    ),
    ("torch is old", {"torch": {"version": "1.13.1"}}, "torch", False, "2.0 or newer"),
    ("a build without a GPU", {"torch": {**NO_GPU, "cuda": None}}, "GPU", None, "install a CUDA build"),
    ("no driver", {"torch": NO_GPU, "gpus": {}}, "GPU", None, "--gpus all"),
    (
        "a hidden GPU",
        {"torch": NO_GPU, "environment": {"CUDA_VISIBLE_DEVICES": ""}},
        "GPU",
        None,
        "unset CUDA_VISIBLE_DEVICES",
    ),
    ("a hidden GPU, by number", {"torch": NO_GPU, "environment": {"CUDA_VISIBLE_DEVICES": "-1"}}, "GPU", None, "unset"),
    (
        "an old driver",
        {"torch": NO_GPU, "gpus": {"driver": "535.1", "gpus": ["x"]}},
        "driver",
        False,
        "update the driver to 580",
    ),
    (
        "an old driver for CUDA 12",
        {"torch": {**NO_GPU, "cuda": "12.4"}, "gpus": {"driver": "470.2"}},
        "driver",
        False,
        "525",
    ),
    ("no kernels for this GPU", {"torch": {"arch_ok": False}}, "torch build", False, "newer builds"),
    ("a profiler without CUDA", {"torch": {"activities": ["CPU"]}}, "torch build", False, "install PyTorch from pip"),
    ("out of memory", {"torch": {"error": "CUDA out of memory. Tried"}}, "torch build", False, "nvidia-smi names it"),
    (
        "a kernel that cannot run",
        {"torch": {"error": "no kernel image is available"}},
        "torch build",
        False,
        "for this GPU",
    ),
    (
        "CUPTI is taken",
        {"torch": {"error": "CUPTI initialization failed"}},
        "torch build",
        False,
        "stop other profilers",
    ),
    ("no kernels recorded", {"torch": {"kernels": 0}}, "GPU events", False, "stop other profilers"),
    ("Nsight is attached", {"environment": {"NSYS_PROFILING_SESSION_ID": "7"}}, "other profilers", False, "unset NSYS"),
    ("a daemon", {"environment": {"KINETO_USE_DAEMON": "1"}}, "other profilers", False, "unset KINETO_USE_DAEMON"),
    ("a profiler on import", {"torch": {"profiler_active": True}}, "other profilers", False, "one process has room"),
    ("no NVML", {"gpus": {}, "version": lambda _: None}, "NVML", None, "pip install nvidia-ml-py"),
    ("the old pynvml", {"version": lambda name: "13.0.1"}, "package pynvml", None, "pip uninstall pynvml"),
    ("a foreign tracelens", {"version": lambda name: "0.7.0"}, "package tracelens", False, "pip uninstall tracelens"),
    ("a GPU in use", {"torch": {"free_bytes": 3 * GIB}}, "GPU memory", None, "nvidia-smi names it"),
    ("no caching", {"environment": {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}}, "allocator", False, "unset"),
    ("blocking launches", {"environment": {"CUDA_LAUNCH_BLOCKING": "1"}}, "CUDA_LAUNCH_BLOCKING", False, "unset"),
    ("a cache that is gone", {"environment": {"HF_HOME": "/no/such/folder"}}, "HF_HOME", None, "create it"),
]


@pytest.mark.parametrize(
    ("changes", "name", "good", "cure"), [row[1:] for row in TROUBLES], ids=[row[0] for row in TROUBLES]
)
def test_each_trouble_is_found_and_carries_its_cure(
    changes: dict[str, Any], name: str, good: bool | None, cure: str, tmp_path: Path
) -> None:
    check = found(machine(tmp_path, **changes))[name]
    assert check.good is good
    assert cure in check.cure


def test_the_permission_of_the_driver_matters_only_where_no_kernel_was_recorded(tmp_path: Path) -> None:
    params = tmp_path / "params"
    params.write_text("RmProfilingAdminOnly: 1\n")
    assert found(machine(tmp_path, admin_only=params))["CUPTI permission"].good is None
    bad = found(machine(tmp_path, {"kernels": 0}, admin_only=params))["CUPTI permission"]
    assert bad.good is False and "NVreg_RestrictProfilingToAdminUsers=0" in bad.cure


def test_the_driver_is_read_from_the_kernel_where_nvml_is_silent(tmp_path: Path) -> None:
    version = tmp_path / "version"
    version.write_text("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  535.54.03  Release Build\n")
    check = found(machine(tmp_path, gpus={}, driver_file=version))["driver"]
    assert check.good is False and check.found.startswith("535.54.03")


def test_a_variable_that_turns_something_off_is_no_trouble(tmp_path: Path) -> None:
    environment = {"KINETO_USE_DAEMON": "0", "CUDA_LAUNCH_BLOCKING": "0"}
    names = found(machine(tmp_path, environment=environment))
    assert names["other profilers"].good and "CUDA_LAUNCH_BLOCKING" not in names


def test_a_full_disk_and_a_folder_that_cannot_be_written_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = type("Usage", (), {"free": 5 << 20, "total": 64 << 20})
    monkeypatch.setattr(machine_checks.shutil, "disk_usage", lambda _: usage)
    monkeypatch.setattr(machine_checks.os, "access", lambda *_: False)
    checks = found(machine(tmp_path))
    assert checks["disk"].good is False and checks["run folder"].good is False
    assert checks["shared memory"].good is None and "--shm-size" in checks["shared memory"].cure


def test_a_folder_that_is_gone_is_said(tmp_path: Path) -> None:
    assert found(machine(tmp_path, folder=tmp_path / "gone"))["disk"].good is False


def test_one_core_is_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_checks.os, "sched_getaffinity", lambda _: {0}, raising=False)
    assert found(machine(tmp_path))["cores"].good is None


def test_a_package_of_nearly_our_name_is_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "TraceLens").mkdir()
    (tmp_path / "TraceLens" / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert "environments of their own" in found(machine(tmp_path))["package TraceLens"].cure


def test_every_bad_or_missing_answer_has_a_cure(tmp_path: Path) -> None:
    for _, changes, *_rest in TROUBLES:
        assert [
            check
            for check in machine_checks.checks(machine(tmp_path, **changes))
            if check.good is not True and not check.cure
        ] == []


# ----------------------------------------------------------------------------------------------------- asking torch


def answer(monkeypatch: pytest.MonkeyPatch, code: str) -> dict[str, Any] | str:
    monkeypatch.setattr(torch_probe, "PROBE", code)
    return torch_probe.ask()


@pytest.mark.programs
@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("raise ImportError('libcudart.so.13: cannot open shared object file')", "cannot open shared object"),
        ("import sys; sys.exit(3)", "exit code 3"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "ended by signal 9"),
        ("print('hello')", "something else than facts: hello"),
        ("print('[1]')", "something else than facts"),
        ("pass", "exit code 0"),
    ],
)
def test_a_torch_that_does_not_answer_is_described(code: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = answer(monkeypatch, code)
    assert isinstance(found, str) and said in found


@pytest.mark.programs
def test_a_torch_that_takes_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_probe, "TORCH_SECONDS", 0.2)
    assert answer(monkeypatch, "import time; time.sleep(30)") == "importing torch took longer than 0.2 s"


@pytest.mark.programs
def test_torch_here_answers_every_question() -> None:
    facts = torch_probe.ask()
    assert isinstance(facts, dict) and set(WELL) == set(facts)
    assert facts["available"] in (True, False) and "CPU" in facts["activities"]


# -------------------------------------------------------------------------------------------------------- the command


def test_the_command_reports_for_people_and_programs(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(doctor, "look_around", lambda: machine(tmp_path, torch="No module named 'torch'\x1b[31m"))
    monkeypatch.setattr(doctor, "calibrated", lambda: (Check("calibration", None, "nothing was measured", "none"),))
    assert main(["doctor", "--format", "json", "--calibrate"]) == 1
    document = json.loads(capsys.readouterr().out)
    schema = json.loads((ROOT / "docs" / "doctor.schema.json").read_text())
    jsonschema.Draft202012Validator(schema).validate(document)
    assert document["verdict"] == "Mend this first: torch."
    assert document["checks"][-1]["name"] == "calibration"
    assert main(["doctor"]) == 1
    out = capsys.readouterr().out
    assert "BAD  torch: No module named 'torch'\\x1b[31m\n     → install PyTorch" in out and "\x1b" not in out
    assert out.rstrip().endswith("next: tracelens doctor")


def test_a_machine_that_can_record_is_sent_to_record(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(doctor, "look_around", lambda: machine(tmp_path))
    assert main(["doctor"]) == 0
    assert capsys.readouterr().out.rstrip().endswith("This machine can record.\n\nnext: tracelens profile train.py")


@pytest.mark.programs
def test_doctor_works_where_torch_is_not_installed(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError('no torch on this laptop')\n")
    path = f"{tmp_path}:{ROOT}"
    done = subprocess.run(
        [sys.executable, "-m", "tracelens", "doctor"], capture_output=True, text=True, check=False, cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip
    assert done.returncode == 1 and "no torch on this laptop" in done.stdout and "Traceback" not in done.stderr
