"""A training monitor for the user's own script: iteration times, GPU and CPU use, without a profiler.

In: the seconds of each iteration, from the script. Out: `monitor.jsonl` (the samples that `tracelens profile` writes,
with rows for iterations between them) and a summary. It may run for a whole training.

    from tracelens.monitor import TrainingMonitor

    monitor = TrainingMonitor()
    monitor.start_monitoring()
    monitor.log_iteration(seconds)          # in the loop
    monitor.stop_monitoring()
    print(monitor.get_summary())

    with TrainingMonitor() as monitor:      # or this, which times the iterations itself
        for batch in monitor.watch(loader):
            ...

Times are host times. The GPU works asynchronously, so a single iteration may be shorter than the work that it started;
over many iterations the mean is the step time.
"""

from __future__ import annotations

import json
import math
import os
import statistics
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from tracelens import run
from tracelens.capture.exclusive_file import ExclusiveFile
from tracelens.capture.hardware_monitor import PERIOD_SECONDS, HardwareMonitor
from tracelens.errors import UsageError
from tracelens.messages import joined, say, shown

Batch = TypeVar("Batch")

RECENT = 100_000
"""Iterations that the statistics cover, the latest ones: 800 kB, more than an hour of a fast loop."""
OUTLIER_SPREADS = 5.0
"""An outlier is more than this many median absolute deviations (scaled to a standard deviation) above the median …"""
OUTLIER_FACTOR = 1.5
"""… and more than this times the median, so that a loop that varies by microseconds has no outliers."""
_MAD_TO_SIGMA = 1.4826
"""The scale of a normal distribution's median absolute deviation; Rousseeuw and Croux 1993, section 1."""


@dataclass(frozen=True)
class Iterations:
    """Statistics over the logged iterations, in milliseconds; None where there are too few iterations."""

    count: int
    mean_ms: float | None
    median_ms: float | None
    p95_ms: float | None
    """By the nearest rank; None below 20 iterations."""
    longest_ms: float | None
    outliers: tuple[int, ...]
    """Numbers (from 0) of the outliers, at most the twenty longest, in order."""


@dataclass(frozen=True)
class Gpu:
    """One device over the monitored time; None is "not available", never 0."""

    index: int
    utilization_mean: float | None
    """NVML's percentage: the share of its own windows (1/6 s to 1 s) in which any kernel ran."""
    memory_used_peak: int | None
    memory_total: int | None
    power_mean_w: float | None
    sm_clock_min_mhz: int | None
    throttle_reasons: int | None
    """Bitwise or of NVML's throttle reasons over all samples."""


@dataclass(frozen=True)
class Summary:
    """The result of a monitor. `str()` gives a few lines of text, `as_dict()` the values for JSON."""

    seconds: float
    iterations: Iterations
    gpus: tuple[Gpu, ...] | None
    """None: no NVML here."""
    process_cpu_percent_mean: float | None
    """Of the process and its descendants; 100 is one core."""
    process_memory_peak: int | None
    file: str | None

    def as_dict(self) -> dict[str, Any]:
        """The values, for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        return "\n".join(map(shown, (*_iteration_lines(self), *_gpu_lines(self), *_host_lines(self))))


class TrainingMonitor:
    """Monitors a training from inside its process. Thread-safe; a monitor can be started once."""

    def __init__(self, path: str | os.PathLike[str] | None = None, *, period_seconds: float = PERIOD_SECONDS) -> None:
        """`path`: the file to write, `monitor.jsonl` in the current folder by default; an older one is renamed.

        Rank 3 writes `monitor-rank3.jsonl`. Where another monitor is writing that file, the process id is added.
        """
        if not 0.01 <= period_seconds <= 3600 or math.isnan(period_seconds):
            raise UsageError(
                say(
                    "period_seconds is {period_seconds}: NVML gives a new value every 1/6 s at best",
                    period_seconds=period_seconds,
                ),
                hint=say("give 0.2, or up to 3600"),
            )
        self._path = Path(run.MONITOR_FILE if path is None else path)
        self._period = period_seconds
        self._seconds: deque[float] = deque(maxlen=RECENT)
        self._count = 0
        self._writer = ExclusiveFile()
        self._monitor: HardwareMonitor | None = None
        self._began: float | None = None
        self._ended: float | None = None
        self._lock = threading.Lock()

    def start_monitoring(self) -> None:
        """Start to sample. Raises `UsageError` if it was started before or the file cannot be made."""
        if self._began is not None:
            raise UsageError(
                say("this monitor was started before"), hint=say("make a new TrainingMonitor for another stretch")
            )
        try:
            self._path = self._writer.claim(self._path)
        except OSError as error:
            raise UsageError(
                say("{path} cannot be written: {strerror}", path=self._path, strerror=error.strerror or error),
                hint=say("give another path"),
            ) from error
        self._began = time.perf_counter()
        self._monitor = HardwareMonitor(self._path, os.getpid(), self._period)
        self._monitor.start()

    def log_iteration(self, seconds: float) -> None:
        """Log an iteration that took `seconds`. Raises `ValueError` for a negative or infinite number."""
        if not seconds >= 0 or math.isinf(seconds):
            raise ValueError(f"an iteration cannot take {seconds} s")
        with self._lock:
            number, self._count = self._count, self._count + 1
            self._seconds.append(seconds)
        if self._monitor is not None:
            self._monitor.note({"unix_ns": time.time_ns(), "iteration": number, "iteration_seconds": seconds})

    def stop_monitoring(self) -> None:
        """Stop sampling; the file is complete afterwards. Does nothing the second time."""
        if self._began is None or self._ended is not None:
            return
        self._ended = time.perf_counter()
        if self._monitor is not None:
            self._monitor.stop()
        self._writer.release()

    def get_summary(self) -> Summary:
        """The summary so far; also while it runs."""
        with self._lock:
            seconds, dropped = list(self._seconds), self._count - len(self._seconds)
        rows = [row for row in run.rows(self._path) if "iteration" not in row] if self._began is not None else []
        known = [row for row in rows if row.get("gpus") is not None]
        return Summary(
            seconds=(self._ended or time.perf_counter()) - self._began if self._began is not None else 0.0,
            iterations=_iterations(seconds, dropped),
            gpus=_gpus(known) if known else None,
            process_cpu_percent_mean=_mean([row.get("process_cpu_percent") for row in rows]),
            process_memory_peak=_most([row.get("process_memory") for row in rows]),
            file=str(self._path) if self._began is not None else None,
        )

    def watch(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        """Yield the batches, and log the time from the request for each to the request for the next."""
        began = time.perf_counter()
        for batch in batches:
            yield batch
            now = time.perf_counter()
            self.log_iteration(now - began)
            began = now

    def __enter__(self) -> TrainingMonitor:
        self.start_monitoring()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.stop_monitoring()


# --------------------------------------------------------------------------------------------------------- statistics


def _iterations(seconds: Sequence[float], dropped: int) -> Iterations:
    if not seconds:
        return Iterations(0, None, None, None, None, ())
    ordered = sorted(seconds)
    p95 = ordered[math.ceil(0.95 * len(ordered)) - 1] * 1e3 if len(ordered) >= 20 else None
    return Iterations(
        count=len(seconds) + dropped,
        mean_ms=statistics.fmean(seconds) * 1e3,
        median_ms=statistics.median(ordered) * 1e3,
        p95_ms=p95,
        longest_ms=ordered[-1] * 1e3,
        outliers=_outliers(seconds, dropped),
    )


def _outliers(seconds: Sequence[float], dropped: int) -> tuple[int, ...]:
    median = statistics.median(seconds)
    spread = statistics.median(abs(duration - median) for duration in seconds) * _MAD_TO_SIGMA
    limit = max(median + OUTLIER_SPREADS * spread, median * OUTLIER_FACTOR)
    longest = sorted(((duration, number) for number, duration in enumerate(seconds) if duration > limit), reverse=True)
    return tuple(sorted(number + dropped for _duration, number in longest[:20]))


def _gpus(rows: Sequence[Mapping[str, Any]]) -> tuple[Gpu, ...]:
    indices = sorted({gpu["index"] for row in rows for gpu in row["gpus"]})
    return tuple(
        _gpu(index, [gpu for row in rows for gpu in row["gpus"] if gpu["index"] == index]) for index in indices
    )


def _gpu(index: int, samples: Sequence[Mapping[str, Any]]) -> Gpu:
    def values(key: str) -> list[Any]:
        return [sample.get(key) for sample in samples]

    reasons = [value for value in values("throttle_reasons") if value is not None]
    clocks = [value for value in values("sm_clock_mhz") if value is not None]
    all_reasons = 0
    for value in reasons:
        all_reasons |= int(value)
    return Gpu(
        index=index,
        utilization_mean=_mean(values("utilization")),
        memory_used_peak=_most(values("memory_used")),
        memory_total=_most(values("memory_total")),
        power_mean_w=_mean(values("power_w")),
        sm_clock_min_mhz=min(clocks, default=None),
        throttle_reasons=all_reasons if reasons else None,
    )


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None


def _most(values: Iterable[int | None]) -> int | None:
    return max((value for value in values if value is not None), default=None)


# --------------------------------------------------------------------------------------------------------------- text


def _iteration_lines(summary: Summary) -> Iterator[str]:
    times = summary.iterations
    if not times.count:
        yield say("no iterations were logged in {seconds:.1f} s", seconds=summary.seconds)
        return
    parts = [
        say("mean {mean_ms:.2f} ms", mean_ms=times.mean_ms),
        say("median {median_ms:.2f} ms", median_ms=times.median_ms),
    ]
    parts += [say("95 % below {p95_ms:.2f} ms", p95_ms=times.p95_ms)] if times.p95_ms is not None else []
    yield say(
        "{count} iterations in {seconds:.1f} s: {parts}, longest {longest_ms:.2f} ms",
        count=times.count,
        seconds=summary.seconds,
        parts=joined(", ", parts),
        longest_ms=times.longest_ms,
    )
    if times.outliers:
        first = ", ".join(str(number) for number in times.outliers[:10])
        if len(times.outliers) > 10:
            yield say("outliers: iteration {first} and others", first=first)
        else:
            yield say("outliers: iteration {first}", first=first)


def _gpu_lines(summary: Summary) -> Iterator[str]:
    if summary.gpus is None:
        yield say("GPU: not available (no NVML, or no sample yet)")
        return
    for gpu in summary.gpus:
        memory = None if gpu.memory_used_peak is None else gpu.memory_used_peak / 2**30
        yield (
            say(
                "GPU {index}: utilization {utilization}, memory peak {memory}, power {power}",
                index=gpu.index,
                utilization=_text(gpu.utilization_mean, ".0f", " %"),
                memory=_text(memory, ".1f", " GiB"),
                power=_text(gpu.power_mean_w, ".0f", " W"),
            )
        )


def _host_lines(summary: Summary) -> Iterator[str]:
    memory = None if summary.process_memory_peak is None else summary.process_memory_peak / 2**30
    cpu = _text(summary.process_cpu_percent_mean, ".0f", " % of a core")
    yield say("process: CPU {cpu}, memory peak {memory}", cpu=cpu, memory=_text(memory, ".1f", " GiB"))
    if summary.file is not None:
        yield say("samples: {dumps}", dumps=json.dumps(summary.file, ensure_ascii=False))


def _text(value: float | None, form: str, unit: str) -> str:
    return say("not available") if value is None else f"{value:{form}}{unit}"
