"""Samples GPUs (NVML) and CPUs (psutil) while a job runs, from a thread of its own.

In: the process id of the command. Out: monitor.jsonl, one object per line, with the host's Unix time:
    {"unix_ns", "gpus": [{"index", "utilization", "memory_utilization", "memory_used", "memory_total", "power_w",
     "temperature_c", "sm_clock_mhz", "throttle_reasons"}, …] | null,
     "cpu_percent", "memory_used", "process_cpu_percent", "process_memory", "processes",
     "cpu_limit_periods", "cpu_limit_stopped"}   (counts that only rise, see `cpu_limit`)
In every tenth row each GPU also has "pcie_rx_kb_s" and "pcie_tx_kb_s". `tracelens.monitor` writes rows
    {"unix_ns", "iteration", "iteration_seconds"}
between them. What is not available (no NVML, no permission, MIG) is null, never 0. NVML averages utilization over a
window of 1/6 s to 1 s, so a sample is not a point in time. No setting of a device is changed.
"""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from tracelens.capture.cpu_limit import CpuLimit

PERIOD_SECONDS = 0.2
"""NVML updates its utilization about every 167 ms; sampling faster repeats the same number."""
TREE_SECONDS = 2.0
"""How often the job's process tree is read again, which walks over every process of the machine."""
PCIE_EVERY = 10
"""PCIe traffic is read in every tenth sample: NVML counts for 20 ms per direction and device."""
MOST_LINES = 100_000
"""Samples are written for five and a half hours, some 40 MB."""


class HardwareMonitor:
    """Samples between `start` and `stop`, in a thread of its own. A full disk ends the samples, not the job."""

    def __init__(self, path: Path, process: int, period_seconds: float = PERIOD_SECONDS) -> None:
        self._path = path
        self._period = period_seconds
        self._process_tree = _ProcessTree(process)
        self._cpu_limit = CpuLimit(process)
        self._gpus = _GpuSampler()
        self._notes: deque[dict[str, Any]] = deque(maxlen=MOST_LINES)
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tracelens-monitor", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def note(self, row: dict[str, Any]) -> None:
        """Write `row` (with its own "unix_ns") before the next sample."""
        self._notes.append(row)

    def stop(self) -> None:
        """Write the remaining rows and end; does nothing the second time."""
        self._done.set()
        if self._thread.is_alive():
            self._thread.join(timeout=2.0)
        self._gpus.close()

    def _run(self) -> None:
        psutil.cpu_percent()  # the first call only sets the reference
        self._process_tree.sample()
        try:
            with self._path.open("w", encoding="utf-8") as out:
                for number in range(MOST_LINES):
                    ending = self._done.wait(self._period)
                    while self._notes:
                        out.write(json.dumps(self._notes.popleft()) + "\n")
                    if ending:
                        return
                    out.write(json.dumps(self._sample(number)) + "\n")
                    out.flush()
        except OSError:  # no room
            return

    def _sample(self, number: int) -> dict[str, Any]:
        limit = self._cpu_limit.read()
        return {
            "unix_ns": time.time_ns(),
            "gpus": self._gpus.sample(pcie=number % PCIE_EVERY == 0),
            "cpu_percent": psutil.cpu_percent(),
            "memory_used": psutil.virtual_memory().used,
            **self._process_tree.sample(),
            "cpu_limit_periods": None if limit is None else limit.periods,
            "cpu_limit_stopped": None if limit is None else limit.stopped,
        }


def describe_gpus() -> dict[str, Any]:
    """Driver and devices by NVML: {"driver", "gpus": [name, …] | None, "gpu_memory_bytes"}; None where unknown."""
    gpus = _GpuSampler()
    try:
        return gpus.describe()
    finally:
        gpus.close()


class _ProcessTree:
    """The job's processes: the command and all its descendants."""

    def __init__(self, process: int) -> None:
        self._root = process
        self._read = 0.0
        self._members: dict[int, psutil.Process] = {}

    def sample(self) -> dict[str, Any]:
        known = self._members
        self._refresh()
        shares, memory, alive = [], 0, 0
        for number, member in self._members.items():
            try:
                used = member.cpu_percent()  # 0 at its first call, which only sets the reference
                memory += member.memory_info().rss
                alive += 1
            except psutil.Error:
                continue
            if number in known:
                shares.append(used)
        return {
            "process_cpu_percent": round(sum(shares), 1) if shares else None,
            "process_memory": memory if alive else None,
            "processes": alive,
        }

    def _refresh(self) -> None:
        if time.monotonic() - self._read < TREE_SECONDS:
            return
        self._read = time.monotonic()
        try:
            root = psutil.Process(self._root)
            tree = [root, *root.children(recursive=True)]
        except psutil.Error:
            return
        self._members = {process.pid: self._members.get(process.pid, process) for process in tree}


class _GpuSampler:
    """Reads the GPUs through NVML; a value that the device does not report is None."""

    def __init__(self) -> None:
        self._nvml: Any = None
        self._handles: list[Any] = []
        try:
            import pynvml
        except ImportError:
            return
        try:
            pynvml.nvmlInit()
            count = pynvml.nvmlDeviceGetCount()
            self._handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(count)]
            self._nvml = pynvml
        except pynvml.NVMLError:
            return

    def sample(self, *, pcie: bool = False) -> list[dict[str, Any]] | None:
        """One dictionary per device, None without NVML; `pcie` adds the traffic, which takes 40 ms per device."""
        if self._nvml is None:
            return None
        return [
            self._device(index, handle) | (self._traffic(handle) if pcie else {})
            for index, handle in enumerate(self._handles)
        ]

    def describe(self) -> dict[str, Any]:
        if self._nvml is None:
            return {"driver": None, "gpus": None, "gpu_memory_bytes": None}
        names = [self._ask(self._nvml.nvmlDeviceGetName, handle) for handle in self._handles]
        sizes = [self._ask(self._nvml.nvmlDeviceGetMemoryInfo, handle) for handle in self._handles]
        return {
            "driver": _text(self._ask(self._nvml.nvmlSystemGetDriverVersion)),
            "gpus": [_text(name) for name in names],
            "gpu_memory_bytes": [getattr(size, "total", None) for size in sizes],
        }

    def close(self) -> None:
        if self._nvml is not None:
            nvml, self._nvml = self._nvml, None
            self._handles = []
            try:
                nvml.nvmlShutdown()
            except nvml.NVMLError:
                return

    def _device(self, index: int, handle: Any) -> dict[str, Any]:
        nvml = self._nvml
        usage = self._ask(nvml.nvmlDeviceGetUtilizationRates, handle)
        memory = self._ask(nvml.nvmlDeviceGetMemoryInfo, handle)
        power = self._ask(nvml.nvmlDeviceGetPowerUsage, handle)
        reasons = getattr(nvml, "nvmlDeviceGetCurrentClocksThrottleReasons", None)
        return {
            "index": index,
            "utilization": getattr(usage, "gpu", None),
            "memory_utilization": getattr(usage, "memory", None),
            "memory_used": getattr(memory, "used", None),
            "memory_total": getattr(memory, "total", None),
            "power_w": None if power is None else power / 1000,
            "temperature_c": self._ask(nvml.nvmlDeviceGetTemperature, handle, nvml.NVML_TEMPERATURE_GPU),
            "sm_clock_mhz": self._ask(nvml.nvmlDeviceGetClockInfo, handle, nvml.NVML_CLOCK_SM),
            "throttle_reasons": None if reasons is None else self._ask(reasons, handle),
        }

    def _traffic(self, handle: Any) -> dict[str, Any]:
        nvml = self._nvml
        question = getattr(nvml, "nvmlDeviceGetPcieThroughput", None)
        if question is None:
            return {"pcie_rx_kb_s": None, "pcie_tx_kb_s": None}
        return {
            "pcie_rx_kb_s": self._ask(question, handle, nvml.NVML_PCIE_UTIL_RX_BYTES),
            "pcie_tx_kb_s": self._ask(question, handle, nvml.NVML_PCIE_UTIL_TX_BYTES),
        }

    def _ask(self, question: Callable[..., Any], *words: Any) -> Any:
        try:
            return question(*words)
        except self._nvml.NVMLError:  # not supported here, no permission, MIG
            return None


def _text(value: Any) -> str | None:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
