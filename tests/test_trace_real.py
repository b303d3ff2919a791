"""Real traces: every one loads and has a consistent Timeline; what is known about some of them is found; and HTA,
where it can read them, measures the same busy and idle time."""

from __future__ import annotations

import logging
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from tracelens.model import Timeline
from tracelens.trace import chrome, intervals, timeline

TRACES = Path(__file__).resolve().parents[2] / "shared" / "traces"
FILES = sorted(str(path.relative_to(TRACES)) for path in TRACES.glob("*/*.json.gz"))
pytestmark = pytest.mark.skipif(not FILES, reason="the shared traces are not at hand")
MS = 1_000_000


@cache
def picture(name: str) -> Timeline:
    path = TRACES / f"{name}.json.gz"
    if not path.exists():
        pytest.skip(f"{name} is not at hand")
    return timeline.build(chrome.load(path))


def idle_share(found: Timeline) -> dict[str, float]:
    gaps, steps = found.idle_gaps(), found.steps()
    wall = int((steps["end_ns"] - steps["start_ns"])[steps["kept"]].sum())
    lengths = (gaps["end_ns"] - gaps["start_ns"]).groupby(gaps["cause"].astype(str)).sum()
    return {cause: ns / wall for cause, ns in lengths.items()}


@pytest.mark.parametrize("file", FILES)
def test_every_trace_loads_and_adds_up(file: str) -> None:
    found = picture(file.removesuffix(".json.gz"))
    trace, steps, ops, calls = found.trace, found.steps(), found.ops(), found.calls()
    assert not trace.dropped and not trace.warnings
    assert (np.diff(trace.columns["start_ns"]) >= 0).all()
    assert (trace.columns["end_ns"] >= trace.columns["start_ns"]).all()
    assert trace.base_unix_ns is not None
    assert len(steps) and steps["kept"].any()
    assert (steps["start_ns"].to_numpy()[1:] >= steps["end_ns"].to_numpy()[:-1]).all()
    linked = ops[ops["call"] >= 0]
    assert (calls["correlation"].to_numpy()[linked["call"]] > 0).all()
    assert (linked["step"].to_numpy() == calls["step"].to_numpy()[linked["call"]]).all()
    waits = found.syncs()
    assert (waits["wait_ns"] >= 0).all() and (waits["wait_ns"] <= waits["end_ns"] - waits["start_ns"]).all()
    assert waits["window_edge"].sum() <= 1
    for device in ops["device"].unique():
        busy = intervals.union(*(ops.loc[ops["device"] == device, key] for key in ("start_ns", "end_ns")))
        kept = steps[steps["kept"]]
        covered = intervals.covered(busy, kept["start_ns"], kept["end_ns"]).sum()
        gaps = found.idle_gaps()
        idle = (gaps["end_ns"] - gaps["start_ns"])[gaps["device"] == device].sum()
        assert covered + idle == (kept["end_ns"] - kept["start_ns"]).sum()


@pytest.mark.parametrize(
    ("name", "source", "count"),
    [
        ("h200/mlp_base_ns", "profiler_step", 8),
        ("h200/libtorch_small_base", "cycle", 19),
        ("hta/v100_healthy_5steps.pt.trace", "profiler_step", 5),
        ("hta/mi250_rocm", "profiler_step", 1),
        ("hta/rank_unavailable", "profiler_step", 1),
        ("hta/old_format_async_gpu", "none", 1),
        ("amd/mi210_gpu_only", "none", 1),
    ],
)
def test_where_steps_come_from(name: str, source: str, count: int) -> None:
    found = picture(name)
    assert (found.step_source, int(found.steps()["kept"].sum())) == (source, count)


def test_the_wait_of_old_reads_is_inside_the_copy() -> None:
    waits = picture("hta/a100_world16_rank_d2h_stalls").syncs()
    inside = waits[waits["step"] >= 0].groupby(["api", "kind"], observed=True)["wait_ns"].sum()
    assert inside["cudaMemcpyAsync", "d2h"] == pytest.approx(758 * MS, rel=0.01)
    assert inside["cudaStreamSynchronize"].sum() < 4 * MS
    edge = waits[waits["window_edge"]]
    assert list(edge["wait_ns"]) == [pytest.approx(158 * MS, rel=0.01)]


def test_a_healthy_trace_has_no_waits_and_no_idle_time() -> None:
    found = picture("hta/v100_healthy_5steps.pt.trace")
    waits = found.syncs()
    assert list(waits["window_edge"]) == [True] and waits["wait_ns"][0] == pytest.approx(89 * MS, rel=0.01)
    assert sum(idle_share(found).values()) < 0.03


@pytest.mark.parametrize(
    ("name", "wait"), [("h200/tf_base_ns", 13.9), ("h200/conv_base_ns", 2.76), ("h200/mlp_base_ns", 0)]
)
def test_synchronizes_of_the_h200_loops(name: str, wait: float) -> None:
    waits = picture(name).syncs()
    counts = waits[waits["step"] >= 0].groupby(["api", "kind"], observed=True).size()
    assert counts["cudaDeviceSynchronize", "device"] == 8
    assert counts["cudaStreamSynchronize", "d2h"] == 8  # `.item()`
    assert counts["cudaMemcpyAsync", "h2d"] == counts["cudaStreamSynchronize", "h2d"] == 16  # inputs and targets
    device = waits[(waits["kind"] == "device") & (waits["step"] >= 0)]
    assert device["wait_ns"].sum() / 8 / MS == pytest.approx(wait, abs=0.05)
    assert set(waits.loc[waits["kind"] != "device", "stream"]) == {7}


def test_a_host_bound_loop_is_idle_for_its_host() -> None:
    share = idle_share(picture("h200/mlp_base_ns"))
    assert share["host"] > 0.4 and share["dataloader"] > 0.2 and share["sync"] < 0.05


def test_explicit_stream_synchronizes_of_a_cpp_loop() -> None:
    waits = picture("h200/libtorch_small_base").syncs()
    per_step = waits[waits["step"] >= 0].groupby("kind", observed=True).size() / 19
    assert per_step["stream"] == 2 and per_step["d2h"] == pytest.approx(1, abs=0.1)


def test_frames_find_the_one_line_that_costs() -> None:
    waits = picture("amd/h100_owlv2_stacks").syncs()
    by_line = waits.groupby(["path", "line"])["wait_ns"].agg(["sum", "size"])
    assert by_line["sum"].max() > 340 * MS
    assert set(waits.loc[waits["wait_ns"] > 50 * MS, "location_source"]) == {"stack"}


def test_graph_launches_link_to_all_their_kernels() -> None:
    calls = picture("amd/mi300_graph_decode").calls()
    assert calls.loc[calls["kind"] == "graph_launch", "ops"].max() > 400


# ----------------------------------------------------------------------------------------------------------- oracle


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::RuntimeWarning")
@pytest.mark.filterwarnings("ignore::pandas.errors.Pandas4Warning")
@pytest.mark.parametrize(
    "name",
    [
        "hta/v100_healthy_5steps.pt.trace",
        "hta/a100_world2_nccl",
        "hta/v100_world2_multistream_5steps",
        "h200/mlp_base_ns",
        "amd/h100_bert_small_launch_bound",
    ],
)
def test_busy_and_idle_time_are_htas(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """HTA 0.5.0 over the file, with four defects undone: it rounds every operation inwards to whole microseconds (0.75
    us shorter on average, negative below 1 us); it takes `cuda_sync` rows and annotations for GPU work because they
    carry a stream; and it adds up thousands of ends of 1.7e15 us, which overflows or drowns the result. Its doubles
    still resolve only 0.25 us of an absolute timestamp, hence the tolerance."""
    monkeypatch.setenv("HTA_DISABLE_NS_ROUNDING", "1")
    their_span, their_idle = measured_by_hta(TRACES / f"{name}.json.gz")
    ops = picture(name).ops()
    span = int(ops["end_ns"].max() - ops["start_ns"].min())
    idle = span - intervals.total(intervals.union(ops["start_ns"], ops["end_ns"]))
    assert span / 1000 == pytest.approx(their_span, rel=1e-5)
    assert idle / 1000 == pytest.approx(their_idle, rel=1e-5, abs=0.25 / 2 * len(ops) ** 0.5)


def measured_by_hta(path: Path) -> tuple[float, float]:
    """Span and idle time in us."""
    logging.disable(logging.ERROR)
    try:
        from hta.analyzers.breakdown_analysis import BreakdownAnalysis
        from hta.common.trace import Trace

        oracle = Trace(trace_files={0: str(path)}, trace_dir="")
        oracle.parse_traces(use_multiprocessing=False)
    finally:
        logging.disable(logging.NOTSET)
    codes = oracle.symbol_table.get_sym_id_map()
    frame = oracle.traces[0]
    frame = frame[~frame["cat"].isin([codes.get("cuda_sync", -1), codes.get("gpu_user_annotation", -1)])]
    oracle.traces[0] = frame.assign(ts=frame["ts"] - frame["ts"].min())
    row = BreakdownAnalysis.get_temporal_breakdown(oracle, visualize=False).iloc[0]
    return float(row["kernel_time(us)"]), float(row["idle_time(us)"])
