"""The training monitor: statistics that can be worked out in the head, its file, and what it costs."""

from __future__ import annotations

import json
import os
import time
from itertools import chain, repeat
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from tracelens import run
from tracelens.capture import hardware_monitor as capture_monitor
from tracelens.errors import UsageError
from tracelens.monitor import TrainingMonitor


def wait_for_samples(folder: Path, count: int) -> None:
    """Until the monitor has written so many samples, however busy the machine is; keeps this thread busy."""
    end = time.monotonic() + 60
    while len(run.samples(folder)) < count and time.monotonic() < end:
        pass


def test_statistics_of_known_iterations() -> None:
    monitor = TrainingMonitor()
    for number in range(100):
        monitor.log_iteration(0.010 if number != 7 else 0.110)
    iterations = monitor.get_summary().iterations
    assert iterations.count == 100
    assert iterations.mean_ms == pytest.approx(11.0)
    assert iterations.median_ms == pytest.approx(10.0)
    assert iterations.p95_ms == pytest.approx(10.0)
    assert iterations.longest_ms == pytest.approx(110.0)
    assert iterations.outliers == (7,)


def test_the_95th_percentile_is_the_nearest_rank_and_needs_twenty() -> None:
    monitor = TrainingMonitor()
    for milliseconds in range(1, 20):
        monitor.log_iteration(milliseconds / 1e3)
    assert monitor.get_summary().iterations.p95_ms is None
    monitor.log_iteration(0.020)
    assert monitor.get_summary().iterations.p95_ms == pytest.approx(19.0)


def test_small_variations_are_no_outliers() -> None:
    monitor = TrainingMonitor()
    for number in range(50):
        monitor.log_iteration(0.010 + (0.001 if number == 3 else 0.0))
    assert monitor.get_summary().iterations.outliers == ()


@pytest.mark.parametrize("seconds", [-1.0, float("nan"), float("inf")])
def test_what_is_no_duration_is_refused(seconds: float) -> None:
    with pytest.raises(ValueError, match="cannot take"):
        TrainingMonitor().log_iteration(seconds)


def test_as_the_seeds_use_it(tmp_path: Path) -> None:
    monitor = TrainingMonitor(tmp_path / "monitor.jsonl", period_seconds=0.02)
    monitor.start_monitoring()
    for _ in range(25):
        monitor.log_iteration(0.004)
    wait_for_samples(tmp_path, 2)
    monitor.stop_monitoring()
    monitor.stop_monitoring()
    text = str(monitor.get_summary())
    assert "25 iterations" in text
    assert "median 4.00 ms" in text
    assert "GPU: not available" in text or "GPU 0: " in text
    rows = run.rows(tmp_path / "monitor.jsonl")
    logged = [row for row in rows if "iteration" in row]
    assert [row["iteration"] for row in logged] == list(range(25))
    assert len(run.samples(tmp_path)) == len(rows) - 25 >= 2
    assert json.dumps(monitor.get_summary().as_dict())
    with pytest.raises(UsageError, match="started before"):
        monitor.start_monitoring()


def test_the_calls_of_the_seeds_guide_and_not_a_word_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No argument anywhere, wall clock times, the summary printed as it is."""
    monkeypatch.chdir(tmp_path)
    monitor = TrainingMonitor()
    monitor.start_monitoring()
    for _ in range(3):
        start_time = time.time()
        time.sleep(0.01)
        monitor.log_iteration(time.time() - start_time)
    monitor.stop_monitoring()
    print(monitor.get_summary())
    first, *others = capsys.readouterr().out.splitlines()
    assert first.startswith("3 iterations in ")
    assert any(line.startswith("GPU") for line in others)
    assert any(line.startswith("process: CPU ") for line in others)
    rows = run.rows(tmp_path / "monitor.jsonl")
    assert [row["iteration"] for row in rows if "iteration" in row] == [0, 1, 2]
    assert all(row["iteration_seconds"] >= 0.01 for row in rows if "iteration" in row)


def test_around_a_loader_it_times_each_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("tracelens.monitor.time", SimpleNamespace(perf_counter=lambda: now[0]))
    monitor = TrainingMonitor()
    for number in monitor.watch(range(4)):
        now[0] += 0.01 if number != 2 else 0.05
    iterations = monitor.get_summary().iterations
    assert iterations.count == 4
    assert iterations.mean_ms == pytest.approx(20.0)
    assert iterations.longest_ms == pytest.approx(50.0)
    assert iterations.outliers == (2,)


def test_an_older_file_is_kept_and_a_bad_place_said(tmp_path: Path) -> None:
    path = tmp_path / "monitor.jsonl"
    path.write_text("mine\n")
    with TrainingMonitor(path):
        pass
    assert (tmp_path / "monitor.jsonl.1").read_text() == "mine\n"
    with pytest.raises(UsageError, match="cannot be written"):
        TrainingMonitor(path / "below" / "m.jsonl").start_monitoring()
    with pytest.raises(UsageError, match="period_seconds"):
        TrainingMonitor(period_seconds=0)


def test_gpus_are_averaged_and_what_is_missing_stays_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = chain([(50, 100.0, 1), (100, None, 4)], repeat((75, 200.0, 0)))

    class Gpus:
        def sample(self, *, pcie: bool = False) -> list[dict[str, object]]:
            utilization, power, reasons = next(rows)
            one = {"index": 0, "utilization": utilization, "power_w": power, "throttle_reasons": reasons}
            return [one, {"index": 1, "utilization": None}]

        def close(self) -> None: ...

    monkeypatch.setattr(capture_monitor, "_GpuSampler", Gpus)
    with TrainingMonitor(tmp_path / "monitor.jsonl", period_seconds=0.01) as monitor:
        wait_for_samples(tmp_path, 10)
    gpus = monitor.get_summary().gpus
    assert gpus is not None
    assert gpus[0].utilization_mean == pytest.approx(75, abs=1)
    assert gpus[0].power_mean_w is not None
    assert gpus[0].throttle_reasons == 5
    assert (gpus[1].utilization_mean, gpus[1].power_mean_w, gpus[1].throttle_reasons) == (None, None, None)
    assert "GPU 1: utilization not available" in str(monitor.get_summary())


def test_the_first_sample_of_a_process_is_no_measured_zero() -> None:
    """psutil's first answer for a process is always 0.0: it only sets the reference."""
    tree = capture_monitor._ProcessTree(os.getpid())
    first = tree.sample()
    assert first["process_cpu_percent"] is None and first["process_memory"] > 0
    until = time.process_time() + 0.05
    while time.process_time() < until:
        pass
    assert tree.sample()["process_cpu_percent"] > 0


def test_the_first_row_of_the_file_is_no_measured_zero(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class HalfACore(psutil.Process):
        """Has used half a core since the last call, whatever the machine does; 0.0 at the first one, as psutil."""

        asked = False

        def cpu_percent(self, interval: float | None = None) -> float:
            self.asked, asked = True, self.asked
            return 50.0 if asked else 0.0

    monkeypatch.setattr(psutil, "Process", HalfACore)
    with TrainingMonitor(tmp_path / "monitor.jsonl", period_seconds=0.01):
        wait_for_samples(tmp_path, 3)
    shares = [row["process_cpu_percent"] for row in run.samples(tmp_path)]
    assert len(shares) >= 3 and all(share is not None and share >= 50 for share in shares)
