"""Samples of the machine: what is not told is null, and a zero is a zero."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tracelens.capture import hardware_monitor
from tracelens.errors import UsageError
from tracelens.monitor import TrainingMonitor


class FakeNvml:
    """Two devices, of which one answers nothing but its memory (as MIG does)."""

    NVML_TEMPERATURE_GPU = 0
    NVML_CLOCK_SM = 1

    class NVMLError(Exception):
        pass

    def nvmlInit(self) -> None: ...
    def nvmlShutdown(self) -> None: ...

    def nvmlDeviceGetCount(self) -> int:
        return 2

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        return index

    def nvmlDeviceGetMemoryInfo(self, handle: int) -> Any:
        return SimpleNamespace(used=5, total=10)

    def nvmlDeviceGetUtilizationRates(self, handle: int) -> Any:
        return self._unless_mig(handle, SimpleNamespace(gpu=0, memory=3))

    def nvmlDeviceGetPowerUsage(self, handle: int) -> Any:
        return self._unless_mig(handle, 250_000)

    def nvmlDeviceGetTemperature(self, handle: int, kind: int) -> Any:
        return self._unless_mig(handle, 40)

    def nvmlDeviceGetClockInfo(self, handle: int, kind: int) -> Any:
        return self._unless_mig(handle, 1980)

    def nvmlDeviceGetName(self, handle: int) -> bytes:
        return b"H200"

    def nvmlSystemGetDriverVersion(self) -> str:
        return "580.1"

    def _unless_mig(self, handle: int, value: Any) -> Any:
        if handle == 1:
            raise self.NVMLError
        return value


def test_what_a_device_does_not_tell_is_null_and_a_zero_is_a_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml())
    gpus = hardware_monitor._GpuSampler()
    first, second = gpus.sample() or ()
    assert (first["utilization"], first["power_w"], first["memory_used"]) == (0, 250.0, 5)
    assert (second["utilization"], second["power_w"], second["memory_used"]) == (None, None, 5)
    assert hardware_monitor.describe_gpus() == {
        "driver": "580.1",
        "gpus": ["H200", "H200"],
        "gpu_memory_bytes": [10, 10],
    }


def test_without_nvml_there_is_no_gpu_and_no_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert hardware_monitor._GpuSampler().sample() is None
    assert hardware_monitor.describe_gpus() == {"driver": None, "gpus": None, "gpu_memory_bytes": None}


def test_a_monitor_says_that_its_file_cannot_be_one(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be written"):
        TrainingMonitor(tmp_path).start_monitoring()


def test_two_monitors_of_one_file_do_not_mix_their_rows(tmp_path: Path) -> None:
    """Ranks that share a folder, each with its own monitor: the first one writes."""
    path = tmp_path / "monitor.jsonl"
    with TrainingMonitor(path) as first, TrainingMonitor(path) as second:
        for _ in range(3):
            first.log_iteration(0.25)
            second.log_iteration(0.75)
    assert (first.get_summary().iterations.count, second.get_summary().iterations.count) == (3, 3)
    files = sorted(tmp_path.iterdir())
    rows = [[json.loads(line) for line in file.read_text().splitlines()] for file in files]
    found = [{row["iteration_seconds"] for row in one if "iteration" in row} for one in rows]
    assert sorted(map(sorted, found)) == [[0.25], [0.75]]
    with TrainingMonitor(path) as again:
        again.log_iteration(0.5)
    assert again.get_summary().file == str(path)  # nobody writes there any more; what was there is kept
    assert (tmp_path / "monitor.jsonl.1").is_file()


def test_each_rank_has_a_monitors_file_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "3")
    with TrainingMonitor(tmp_path / "monitor.jsonl") as monitor:
        monitor.log_iteration(0.5)
    assert monitor.get_summary().file == str(tmp_path / "monitor-rank3.jsonl")
