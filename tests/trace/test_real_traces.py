"""Real traces: every one loads and has a consistent Timeline, and what is known about some of them is found.
(That HTA measures the same is in test_oracle.py.)"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from tests.support.places import ROOT, TRACES
from tracelens.findings import stalls
from tracelens.model import Timeline
from tracelens.replay import trace_builder
from tracelens.replay.replay_trace import editable_host_ops
from tracelens.trace import chrome, intervals, timeline
from tracelens.verify.compare import window_statistics

FILES = sorted(str(path.relative_to(TRACES)) for path in TRACES.glob("*/*.json.gz"))
pytestmark = pytest.mark.skipif(not FILES, reason="the shared traces are not at hand")
MS = 1_000_000
H200_LOOPS = ("h200/mlp_base_ns", "h200/tf_base_ns", "h200/conv_base_ns", "h200/libtorch_small_base")
MARKED_LOOPS = (
    "h200/conv_base_ns",
    "h200/mlp_base_ns",
    "h200/mlp_v23_ns",
    "h200/tf_base_ns",
    "h200/tf_v23_ns",
    "hta/a100_world16_rank_d2h_stalls",
    "hta/a100_world2_nccl",
    "hta/mi250_rocm",
    "hta/v100_healthy_5steps.pt.trace",
    "hta/v100_world2_multistream_5steps",
    "hta/world128_sampled_rank0",
    "amd/mi300_resnet_training_stacks",
)
"""Training loops with ProfilerStep marks and a backward pass."""


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
    assert len(steps) and (steps["kept"].any() or not found.coverage.judged)
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


SAMPLES = sorted(ROOT.glob("sample_traces/*/run/rank0/*.pt.trace.json.gz"))
BARE = ("kernel", "gpu_memcpy", "gpu_memset", "cuda_runtime", "cuda_driver", "overhead")


@pytest.mark.parametrize(
    "path",
    [TRACES / f"{name}.json.gz" for name in MARKED_LOOPS] + SAMPLES,
    ids=lambda path: path.parts[-4] if path in SAMPLES else path.name,
)
def test_threads_and_steps_are_found_without_marks(path: Path) -> None:
    """Without annotations, operators and frames the same loop is seen: its threads, and its steps but for the last."""
    if not path.exists():
        pytest.skip(f"{path.name} is not at hand")
    trace = chrome.load(path)
    only_gpu = np.isin(trace.columns["category"], [at for at, word in enumerate(trace.categories) if word in BARE])
    columns = {key: column[only_gpu] for key, column in trace.columns.items()}
    marked, stripped = (timeline.build(rows) for rows in (trace, replace(trace, columns=columns)))
    assert (stripped.main_thread, stripped.autograd_threads) == (marked.main_thread, marked.autograd_threads)
    assert len(marked.autograd_threads) == 1
    steps = len(marked.steps())
    assert (stripped.step_source, len(stripped.steps())) == (("cycle", steps - 1) if steps >= 4 else ("none", 1))


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


@pytest.mark.parametrize(
    "name", ["h200/mlp_base_ns", "h200/tf_base_ns", "h200/conv_base_ns", "h200/libtorch_small_base"]
)
def test_findings_replay_and_verify_count_the_same_calls(name: str) -> None:
    """One column says which synchronize completes which copy, and all three read it."""
    found = picture(name)
    waits, kept = found.syncs(), found.steps().index[found.steps()["kept"]]
    mine = waits[waits["step"].isin(kept) & ~waits["window_edge"]]
    pairs = {(row.call, row.copy) for row in mine.itertuples() if row.copy >= 0}
    assert pairs
    ops = [op for step in trace_builder.build(found).steps for op in editable_host_ops(step)]
    numbered = {op.pair for op in ops if op.pair >= 0}
    assert numbered == {copy for _, copy in pairs}
    assert {op.call for op in ops if op.pair >= 0} == {call for pair in pairs for call in pair}
    grouped = sum(stall.calls_per_step for stall in stalls.group(found) if stall.verdict != "window_edge")
    facts = window_statistics._facts(found)
    counted = facts["syncs_per_step"] + facts["blocking_copies_per_step"]
    assert grouped == pytest.approx(counted, rel=0.01) and counted > 0


def test_a_graph_replay_is_busy_though_its_launch_is_long_ago() -> None:
    """The profiler left out what the GPU did for 8 ms after the first launch; HTA's 0.24 % idle time is the truth."""
    assert sum(idle_share(picture("amd/mi300_graph_decode")).values()) < 0.01


DRAINS_US = {
    "amd/h100_bert_small_launch_bound": 6,
    "amd/h100_owlv2_stacks": 14,
    "amd/mi210_gpu_only": 1332,
    "amd/mi300_resnet_training_stacks": 37854,
    "amd/mi300_vit_stacks": 37,
    "amd/torch_compile_triton": 1,  # the one of 12 ms before it is the script's own
    "h200/tf_v23_ns": 12465,
    "hta/a100_alexnet_cuda_sync": 14,
    "hta/a100_world16_rank_d2h_stalls": 158183,
    "hta/a100_world2_nccl": 31,
    "hta/mi250_rocm": 68,
    "hta/v100_healthy_5steps.pt.trace": 89172,
    "hta/event_sync_small": None,  # its last synchronize is inside the step, so it is the script's
    "hta/triton": None,
    "h200/libtorch_small_base": None,
}
"""Length of the profiler's own drain, where the trace shows one."""


@pytest.mark.parametrize("name", DRAINS_US)
def test_the_profilers_drain_is_recognized_and_counted_nowhere(name: str) -> None:
    found = picture(name)
    waits = found.syncs()
    edge = waits[waits["window_edge"]]
    length = None if edge.empty else round(int((edge["end_ns"] - edge["start_ns"]).iloc[0]) / 1000)
    assert (length, len(edge)) == (DRAINS_US[name], 0 if DRAINS_US[name] is None else 1)
    assert set(edge["kind"]) <= {"device"} and set(edge["gpu_idle_ns"]) <= {0}
    for stall in stalls.group(found):
        drains = set(stall.waits) & set(edge.index)
        assert (stall.verdict == "window_edge") == bool(drains) and (not drains or set(stall.waits) == drains)
