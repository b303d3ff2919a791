"""HTA 0.5.0 run over a file, with chosen defects of it undone. In: a trace file. Out: HTA's own numbers, in us.

Every defect has a name (docs/notebook/hta.md explains how each was established) and a function that undoes it in what
HTA parsed, and nothing else. HTA's parse, alignment, window and analyses stay its own.
"""

from __future__ import annotations

import contextlib
import copy
import gzip
import json
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.support.places import TRACES

FILES = sorted(str(path.relative_to(TRACES)).removesuffix(".json.gz") for path in TRACES.glob("*/*.json.gz"))
IMPORT_NOISE = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::pandas.errors.Pandas4Warning"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),  # HTA 0.5.0 divides by an empty kernel class
]
GPU = ("kernel", "Kernel", "gpu_memcpy", "gpu_memset", "Memcpy", "Memset")


@dataclass(frozen=True)
class Answer:
    """What HTA says: span, idle, compute, non-compute; idle time by (stream, cause); overlap in percent. None where
    it raises."""

    temporal: tuple[float, float, float, float] | None
    idle: dict[tuple[int, str], float] | None
    overlap: float | None


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    before = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        yield
    finally:
        logging.disable(before)


class Oracle:
    """One file as HTA parsed it. `correlation-width` can only be undone while it parses."""

    def __init__(self, path: Path, *, widen: bool, rounding: bool = False) -> None:
        self.path = path
        with quiet(), pytest.MonkeyPatch.context() as patch:
            patch.setenv("HTA_DISABLE_NS_ROUNDING", "0" if rounding else "1")
            import hta.common.trace as module

            if widen:
                link = module.transform_correlation_to_index
                patch.setattr(module, "transform_correlation_to_index", lambda df, table: link(_wide(df), table))
            self.parsed = module.Trace(trace_files={0: str(path)}, trace_dir="")
            self.parsed.parse_traces(use_multiprocessing=False)
        self.rounding = rounding
        symbols = self.parsed.symbol_table.get_sym_table()
        self.category = dict(enumerate(symbols))

    def analysis(self, undone: frozenset[str], *, last: bool) -> Any:
        """A `TraceAnalysis` with these defects undone; `last` keeps the last ProfilerStep, which HTA drops."""
        with quiet():
            from hta.trace_analysis import TraceAnalysis

            holder = copy.copy(self.parsed)
            frame = self.parsed.traces[0].copy()
            for name in sorted(undone & UNDO.keys()):
                frame = UNDO[name](self, frame)
            holder.traces = {0: frame}
            holder.align_and_filter_trace(last)
            holder.traces = {0: holder.traces[0].set_index("index", drop=False).rename_axis(None)}
        result = TraceAnalysis.__new__(TraceAnalysis)  # its __init__ would read the file again
        result.t = holder
        return result

    def ask(self, undone: frozenset[str], *, last: bool) -> Answer:
        analysis = self.analysis(undone, last=last)
        with quiet():
            return Answer(_temporal(analysis), _idle(analysis), _overlap(analysis))

    def categories(self, frame: pd.DataFrame) -> pd.Series[str]:
        return frame["cat"].map(self.category)


def _wide(frame: pd.DataFrame) -> pd.DataFrame:
    if "correlation" in frame:
        frame["correlation"] = frame["correlation"].astype("int64")
    return frame


def _temporal(analysis: Any) -> tuple[float, float, float, float] | None:
    try:
        row = analysis.get_temporal_breakdown(visualize=False).iloc[0]
    except IndexError:  # `no-gpu`
        return None
    words = ("kernel_time", "idle_time", "compute_time", "non_compute_time")
    span, idle, compute, rest = (float(row[f"{word}(us)"]) for word in words)
    return span, idle, compute, rest


def _idle(analysis: Any) -> dict[tuple[int, str], float] | None:
    try:
        rows = analysis.get_idle_time_breakdown(ranks=[0], visualize=False)[0]
    except ValueError:  # `no-gpu`
        return None
    return {(int(row.stream), row.idle_category): float(row.idle_time) for row in rows.itertuples() if row.idle_time}


def _overlap(analysis: Any) -> float | None:
    value = float(analysis.get_comm_comp_overlap(visualize=False).iloc[0]["comp_comm_overlap_pctg"])
    return None if pd.isna(value) else value


# ------------------------------------------------------------------------------------------------------ its defects


def _exact_times(oracle: Oracle, frame: pd.DataFrame) -> pd.DataFrame:
    """`double-timestamps`: the digits of the file instead of doubles that resolve 0.25 us. `end` stays HTA's."""
    with gzip.open(oracle.path) as file:
        events = json.loads(file.read(), parse_float=Decimal)["traceEvents"]
    start, length = (
        [int(Decimal(events[row].get(key) or 0) * 1000) for row in frame["index"]] for key in ("ts", "dur")
    )
    if oracle.rounding:  # inwards, as HTA does, but from the exact ends
        begin = [-(-ns // 1000) for ns in start]
        end = [(ns + dur) // 1000 for ns, dur in zip(start, length, strict=True)]
        moved = [stop - first for first, stop in zip(begin, end, strict=True)]
        return frame.assign(ts=begin, dur=moved, end=end)
    zero = min(start)
    return frame.assign(ts=[(ns - zero) / 1000 for ns in start])


def _without_annotations(oracle: Oracle, frame: pd.DataFrame) -> pd.DataFrame:
    """`gpu-annotations`: rows of `gpu_user_annotation` are no work, and the GPU's ProfilerStep is no step's start."""
    return frame[oracle.categories(frame) != "gpu_user_annotation"]


def _without_sync_rows(oracle: Oracle, frame: pd.DataFrame) -> pd.DataFrame:
    """`sync-rows`: `cuda_sync` rows say who waits for whom; nothing runs on the GPU."""
    return frame[oracle.categories(frame) != "cuda_sync"]


def _gpu_streams_only(oracle: Oracle, frame: pd.DataFrame) -> pd.DataFrame:
    """`cpu-streams`: a CPU row with an argument called `stream` is still on the CPU."""
    return frame.assign(stream=frame["stream"].where(oracle.categories(frame).isin((*GPU, "cuda_sync")), -1))


def _stream_none(_: Oracle, frame: pd.DataFrame) -> pd.DataFrame:
    """`none-stream`: 4294967295, the stream of a context synchronize in files of 2023, is no stream."""
    return frame.assign(stream=frame["stream"].where(frame["stream"] != 2**32 - 1, -1))


UNDO: dict[str, Callable[[Oracle, pd.DataFrame], pd.DataFrame]] = {
    "double-timestamps": _exact_times,
    "gpu-annotations": _without_annotations,
    "sync-rows": _without_sync_rows,
    "cpu-streams": _gpu_streams_only,
    "none-stream": _stream_none,
}
AT_PARSING = "correlation-width"
