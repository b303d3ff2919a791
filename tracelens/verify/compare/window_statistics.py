"""Statistics of one recorded window: waits, overlap, busy shares, memory.

In: the agent's window record and its trace. Out: `WindowStatistics`, per step, with None for what this machine cannot
tell and the reason beside it. These are the seeds' SyncStats and test lists, taken from the timeline of a separate run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracelens.errors import InputError
from tracelens.messages import say
from tracelens.verify.policy import POLICY

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from tracelens.model import Timeline, TraceTable


@dataclass(frozen=True, slots=True)
class WindowStatistics:
    """Per step over the kept steps of the window; None is unknown, `reason` says why."""

    steps: int
    syncs_per_step: float | None = None
    """Calls that wait for the GPU's results: synchronizes, and reads of a value. A read is one, however many APIs."""
    sync_wait_ns: float | None = None
    blocking_copies_per_step: float | None = None
    """Copies to the GPU that hold the host until they are staged."""
    copy_wait_ns: float | None = None
    host_wait_ns: float | None = None
    """Both, allocations, and the wait for the DataLoader."""
    gpu_busy_share: float | None = None
    """Under the profiler, which slows Python: the GPU waits for it longer than it does without."""
    gpu_busy_ns: float | None = None
    """How long the GPU works in a step. The profiler does not slow kernels, so this is what it takes without it."""
    cpu_busy_share: float | None = None
    """CPU time of the training thread ÷ wall time, over unrecorded steps."""
    process_cpu_share: float | None = None
    """CPU time of all threads of the process ÷ wall time: above 1 with several busy threads."""
    streams_used: int | None = None
    h2d_ns: float | None = None
    h2d_hidden_ns: float | None = None
    peak_memory_bytes: int | None = None
    memory_of: str | None = None
    memory_slope_bytes: float | None = None
    """Growth of allocated device memory per step, over all steps outside the recorded ones; None on the CPU."""
    reason: str | None = None
    rank: int | None = None
    """Of several ranks the one whose host waits longest; None where there is one process."""

    def document(self) -> dict[str, Any]:
        """As verify.json stores it: times in µs."""
        out = asdict(self)
        for key in [key for key in out if key.endswith("_ns")]:
            value = out.pop(key)
            out[f"{key.removesuffix('_ns')}_us_per_step"] = None if value is None else round(value / 1000, 3)
        return out


def read_all(ranks: Sequence[Mapping[str, Any]]) -> WindowStatistics:
    """The window of the rank that waits longest; an unreadable one only where none could be read."""
    if len(ranks) == 1:
        return read(ranks[0])
    windows = [replace(read(rank), rank=int(rank["rank"])) for rank in ranks]
    return max(windows, key=lambda window: (window.host_wait_ns is not None, window.host_wait_ns or 0.0, window.steps))


def read(rank: Mapping[str, Any]) -> WindowStatistics:
    """The window of one rank of a process that was run in mode `window`."""
    record = rank["window"]
    common = {
        **_cpu(record.get("cpu")),
        "peak_memory_bytes": record["peak_bytes"],
        "memory_of": record["memory_of"],
        "memory_slope_bytes": memory_slope(record["memory"]),
    }
    if not record["trace"]:
        return WindowStatistics(0, reason=record["reason"] or say("the window was not reached"), **common)
    from tracelens.trace import chrome, timeline

    try:
        built = timeline.build(chrome.load(Path(record["trace"])))
    except InputError as error:
        return WindowStatistics(0, reason=error.message, **common)
    return WindowStatistics(**{**common, **_facts(built)})


def _facts(timeline: Timeline) -> dict[str, Any]:
    steps = timeline.tables.steps
    kept = steps["kept"].nonzero()[0]
    count = len(kept)
    if not count:
        return {"steps": 0, "reason": say("no whole step in the window")}
    loader = _within(timeline.tables.loader, kept)
    loader_ns = float((loader["end_ns"] - loader["start_ns"]).sum()) / count
    if not len(timeline.tables.ops):
        return {"steps": count, "reason": say("no GPU work in the window: nothing waits for a GPU here")}
    from tracelens.trace.tables import among
    from tracelens.trace.waits import kinds_of_calls

    waits = _within(timeline.tables.waits, kept)
    waits = waits[~waits["window_edge"]]
    copying = among(kinds_of_calls(waits), "h2d")
    results = waits[~copying & ~among(waits["kind"], "alloc")]
    return {
        "steps": count,
        "syncs_per_step": _calls(results) / count,
        "sync_wait_ns": float(results["wait_ns"].sum()) / count,
        "blocking_copies_per_step": _calls(waits[copying]) / count,
        "copy_wait_ns": float(waits[copying]["wait_ns"].sum()) / count,
        "host_wait_ns": float(waits["wait_ns"].sum()) / count + loader_ns,
        **_device_facts(timeline, steps[kept], int(kept[-1] - kept[0]) + 1),
    }


def _calls(waits: TraceTable) -> int:
    """How often the user's code waited: a copy and the synchronize that completes it are one call such as `.cpu()`."""
    from tracelens.trace.waits import second_halves

    return int((~second_halves(waits)).sum())


def _device_facts(timeline: Timeline, kept: TraceTable, count: int) -> dict[str, Any]:
    """What the GPU did from the first kept step to the last: `count` steps, with those between that are not kept."""
    import numpy as np

    from tracelens.trace import intervals
    from tracelens.trace.tables import among

    start, end = int(kept["start_ns"].min()), int(kept["end_ns"].max())
    ops = timeline.tables.ops
    ops = ops[(ops["end_ns"] > start) & (ops["start_ns"] < end)]
    devices, often = np.unique(ops["device"], return_counts=True)
    ops = ops[ops["device"] == devices[often.argmax()]]
    busy = intervals.clip(intervals.union(ops["start_ns"], ops["end_ns"]), start, end)
    copying = among(ops["kind"], "copy") & among(ops["direction"], "h2d")
    h2d, work = ops[copying], ops[~copying]
    copies = intervals.union(h2d["start_ns"], h2d["end_ns"])
    compute = intervals.union(work["start_ns"], work["end_ns"])
    return {
        "gpu_busy_share": intervals.total(busy) / (end - start),
        "gpu_busy_ns": intervals.total(busy) / count,
        "streams_used": len(np.unique(ops["stream"])),
        "h2d_ns": intervals.total(copies) / count,
        "h2d_hidden_ns": intervals.total(intervals.intersect(copies, compute)) / count,
    }


def _within(table: TraceTable, kept: npt.NDArray[np.int64]) -> TraceTable:
    import numpy as np

    return table[np.isin(table["step"], kept)]


def _cpu(record: Mapping[str, int] | None) -> dict[str, float]:
    if not record or record["wall_ns"] <= 0:
        return {}
    return {
        "cpu_busy_share": record["thread_ns"] / record["wall_ns"],
        "process_cpu_share": record["process_ns"] / record["wall_ns"],
    }


def memory_slope(samples: list[tuple[int, int]]) -> float | None:
    """Least squares over the peaks of whole drain intervals (a deferred read's memory rises and falls within one).

    The first interval is left out: the allocator has not settled. None with too few intervals.
    """
    block = POLICY.block_steps
    intervals: dict[int, list[int]] = {}
    for step, size in samples:
        intervals.setdefault((step - 1) // block, []).append(size)
    whole = [(index * block, max(sizes)) for index, sizes in sorted(intervals.items()) if len(sizes) == block]
    settled = whole[1:]
    if len(settled) < 2:
        return None
    mean_x, mean_y = (sum(values) / len(settled) for values in zip(*settled, strict=True))
    spread = sum((x - mean_x) ** 2 for x, _ in settled)
    return float(sum((x - mean_x) * (y - mean_y) for x, y in settled) / spread)
