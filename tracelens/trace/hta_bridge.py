"""Hand a loaded Trace to HolisticTraceAnalysis: our columns in, an `hta.trace_analysis.TraceAnalysis` out.

HTA parses a trace with a Python dict per event, which is most of the time it takes; its analyses (communication
overlap, kernel breakdown, queue length, …) work on a DataFrame that can be filled from our columns. Only this module
knows HTA's column names and its rounding.
"""

from __future__ import annotations

import contextlib
import io
import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from tracelens.errors import UsageError
from tracelens.messages import say
from tracelens.model import Trace

if TYPE_CHECKING:
    from hta.trace_analysis import TraceAnalysis

_NOT_EVENTS = ("trace", "gpu_user_annotation", "")
"""Categories that HTA leaves out when it reads a file."""


def analysis(*traces: Trace, include_last_step: bool = False) -> TraceAnalysis:
    """HTA's facade over these traces, one per rank, as if HTA had read the files.

    HTA drops the last `ProfilerStep` unless `include_last_step`. Raises `UsageError` if two traces have one rank.
    A trace without a rank is rank 0, which is what HTA itself assumes.
    """
    with _quiet():
        from hta.common.trace import Trace as HtaTrace
        from hta.trace_analysis import TraceAnalysis

        holder = HtaTrace(trace_files={}, trace_dir="")
        for trace in traces:
            rank = trace.rank or 0
            if rank in holder.traces:
                raise UsageError(say("two traces have rank {rank}", rank=rank), hint=say("give HTA one trace per rank"))
            holder.symbol_table.add_symbols([*trace.categories, *trace.names])
            holder.traces[rank] = _frame(trace, holder.symbol_table)
            holder.meta_data[rank] = dict(trace.metadata)
            holder.trace_files[rank] = trace.path
        holder.align_and_filter_trace(include_last_step)
        for rank, frame in holder.traces.items():
            holder.traces[rank] = frame.set_index("index", drop=False).rename_axis(None)
        holder.is_parsed = True
        facade = _facade(TraceAnalysis)
        result: TraceAnalysis = facade.__new__(facade)  # its __init__ would read files again
        result.t = holder
    return result


def _facade(base: Any) -> Any:
    """HTA's facade, which refuses the critical path analysis under pandas 3 with a reason that can be acted on."""

    class TraceAnalysis(base):  # type: ignore[misc]  # named like HTA's, because it is that
        def critical_path_analysis(self, *args: Any, **options: Any) -> Any:
            if int(pd.__version__.partition(".")[0]) >= 3:
                raise UsageError(
                    say("HTA 0.5's critical path analysis does not work with pandas {version}", version=pd.__version__),
                    hint=say("use an environment with pandas 2: pip install 'pandas<3'"),
                )
            return super().critical_path_analysis(*args, **options)

    return TraceAnalysis


def _frame(trace: Trace, symbols: Any) -> pd.DataFrame:
    from hta.common.trace import transform_correlation_to_index

    frame: pd.DataFrame = transform_correlation_to_index(_columns(trace, symbols), symbols)
    frame["iteration"] = _iterations(frame, trace)
    frame["end"] = frame["ts"] + frame["dur"]
    return frame


def _columns(trace: Trace, symbols: Any) -> pd.DataFrame:
    columns = trace.columns
    index_of = symbols.get_sym_id_map()
    categories = np.array([index_of[word] for word in trace.categories], dtype=np.int64)
    names = np.array([index_of[word] for word in trace.names], dtype=np.int64)
    left_out = [code for code, word in enumerate(trace.categories) if word.lower() in _NOT_EVENTS]
    rows = np.flatnonzero(~np.isin(columns["category"], left_out))
    start, end = _microseconds(trace)
    return (
        pd.DataFrame(
            {
                "index": rows,
                "cat": categories[columns["category"][rows]],
                "name": names[columns["name"][rows]],
                "pid": columns["pid"][rows].astype(np.int64),
                "tid": columns["tid"][rows].astype(np.int64),
                "ts": start[rows],
                "dur": (end - start)[rows],
                "stream": columns["stream"][rows].astype(np.int64),
                "correlation": columns["correlation"][rows].astype(np.int64),
                "bytes": columns["bytes"][rows],
                "external_id": columns["external_id"][rows].astype(np.int64),
                "wait_on_stream": columns["wait_stream"][rows].astype(np.int64),
                "wait_on_cuda_event_record_corr_id": columns["wait_record"][rows].astype(np.int64),
                "memory_bw_gbps": _bandwidth(trace)[rows],
            }
        )
        .set_index("index", drop=False)
        .rename_axis(None)
    )


def _microseconds(trace: Trace) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Start and end in the file's own microseconds, rounded as HTA does: inwards, so that neighbors do not overlap."""
    start = -((-(trace.columns["start_ns"] + trace.origin_ns)) // 1000)
    end = (trace.columns["end_ns"] + trace.origin_ns) // 1000
    return start, end


def _bandwidth(trace: Trace) -> np.ndarray[Any, Any]:
    """GB/s of copies, from bytes and duration; 0 where there are none, as in HTA."""
    duration = trace.columns["end_ns"] - trace.columns["start_ns"]
    copies = (trace.columns["bytes"] > 0) & (duration > 0) & (trace.columns["stream"] >= 0)
    return np.where(copies, trace.columns["bytes"] / np.maximum(duration, 1), 0.0)


def _iterations(frame: pd.DataFrame, trace: Trace) -> np.ndarray[Any, Any]:
    """The number of the `ProfilerStep` an event belongs to: by time on the CPU, by its launch on the GPU; -1 none."""
    steps = _profiler_steps(trace)
    position = np.searchsorted(steps[:, 0], frame["ts"].to_numpy(), side="right") - 1
    inside = (position >= 0) & (frame["ts"].to_numpy() < steps[position.clip(0), 1]) if len(steps) else position >= 0
    by_time = np.where(inside, steps[position.clip(0), 2] if len(steps) else -1, -1)
    linked = frame["index_correlation"].to_numpy() if "index_correlation" in frame else np.full(len(frame), -1)
    of_row = pd.Series(by_time, index=frame.index)
    by_launch = of_row.reindex(linked).fillna(-1).to_numpy()
    stream = frame["stream"].to_numpy()
    return np.where(stream < 0, by_time, np.where((stream > 0) & (linked > 0), by_launch, -1)).astype(np.int64)


def _profiler_steps(trace: Trace) -> np.ndarray[Any, Any]:
    """Rows (start, end, number) in HTA's microseconds, ordered by start."""
    numbers = np.array([_step_number(word) for word in trace.names], dtype=np.int64)
    annotations = [code for code, word in enumerate(trace.categories) if word == "user_annotation"]
    rows = np.flatnonzero(np.isin(trace.columns["category"], annotations) & (numbers[trace.columns["name"]] >= 0))
    start, end = _microseconds(trace)
    table = np.stack([start[rows], end[rows], numbers[trace.columns["name"][rows]]], axis=1)
    return table[np.argsort(table[:, 0], kind="stable")]


def _step_number(name: str) -> int:
    head, _, tail = name.partition("#")
    return int(tail) if head.strip() == "ProfilerStep" and tail.strip().isdigit() else -1


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """HTA logs at WARNING for everything it does, and configures logging when imported."""
    before = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        logging.disable(before)
