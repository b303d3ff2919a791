"""HTA over our columns gives what HTA gives over the file."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import tracelens
from tests.support.oracle import IMPORT_NOISE, TRACES, Oracle
from tracelens.errors import UsageError
from tracelens.trace import chrome, hta_pandas

FILES = (
    "hta/a100_alexnet_cuda_sync.json.gz",
    "h200/mlp_base_ns.json.gz",
    "hta/a100_world2_nccl.json.gz",
    "amd/mi300_vit_stacks.json.gz",
)
DEFECTS = ("double-timestamps", "gpu-annotations", "none-stream")
"""What docs/notebook/hta.md says of them: exact digits; no annotations as work; stream 4294967295 is none."""
pytestmark = IMPORT_NOISE


def from_file(path: Path) -> Any:
    """HTA's own parse of the file as it rounds by default, without the defects that change what it answers."""
    return Oracle(path, widen=False, rounding=True).analysis(frozenset(DEFECTS), last=False)


@pytest.fixture(scope="module", params=FILES)
def pair(request: pytest.FixtureRequest) -> tuple[Any, Any]:
    path = TRACES / request.param
    if not path.is_file():
        pytest.skip(f"{path.name} is not here: the shared traces are not part of the project")
    trace = chrome.load(path)
    theirs = from_file(path)
    ours = tracelens.hta(trace)
    ours.t.traces = {0: next(iter(ours.t.traces.values()))}
    return ours, theirs


def on_rocm(pair: tuple[Any, Any]) -> bool:
    return any(name.startswith("hip") for name in pair[1].t.symbol_table.get_sym_table())


def same(ours: pd.DataFrame, theirs: pd.DataFrame, rtol: float = 1e-6) -> None:
    assert len(theirs)
    pd.testing.assert_frame_equal(
        ours.reset_index(drop=True), theirs.reset_index(drop=True), check_dtype=False, check_like=True, rtol=rtol
    )


def test_temporal_breakdown(pair: tuple[Any, Any]) -> None:
    ours, theirs = (side.get_temporal_breakdown(visualize=False) for side in pair)
    same(ours, theirs)


def test_kernel_breakdown(pair: tuple[Any, Any]) -> None:
    ours, theirs = (side.get_gpu_kernel_breakdown(visualize=False) for side in pair)
    for mine, its in zip(ours, theirs, strict=True):
        same(mine, its)


def test_idle_time_breakdown(pair: tuple[Any, Any]) -> None:
    ours, theirs = (side.get_idle_time_breakdown(ranks=[0], visualize=False)[0] for side in pair)
    same(ours, theirs)


def test_communication_overlap(pair: tuple[Any, Any]) -> None:
    ours, theirs = (side.get_comm_comp_overlap(visualize=False) for side in pair)
    same(ours, theirs)


def test_queue_length_over_time(pair: tuple[Any, Any]) -> None:
    """The order of events at one instant is not defined, the length after all of them is."""
    ours, theirs = (side.get_queue_length_time_series(ranks=[0])[0] for side in pair)
    mine, its = (rows.groupby(["stream", "ts"])["queue_length"].last() for rows in (ours, theirs))
    assert len(its)
    pd.testing.assert_series_equal(mine, its, check_dtype=False, check_index_type=False)


def test_launches(pair: tuple[Any, Any]) -> None:
    options = {"ranks": [0], "visualize": False}
    ours, theirs = (side.get_cuda_kernel_launch_stats(**options)[0].sort_values("correlation") for side in pair)
    if on_rocm(pair):
        assert ours.empty and theirs.empty  # HTA knows no HIP launches
    else:
        same(ours, theirs)


def test_operators_and_their_kernels(pair: tuple[Any, Any]) -> None:
    if on_rocm(pair):
        for side in pair:
            with pytest.raises(KeyError, match="thread_id"):
                side.get_aten_op_kernels_and_delay(ranks=[0])
        return
    ours, theirs = (side.get_aten_op_kernels_and_delay(ranks=[0])[0] for side in pair)
    same(ours.sort_values("aten_op_name"), theirs.sort_values("aten_op_name"))


def test_steps(pair: tuple[Any, Any]) -> None:
    ours, theirs = (side.get_profiler_steps() for side in pair)
    assert list(ours) == list(theirs)


@pytest.mark.parametrize("name", ["h200/mlp_base_ns", "hta/a100_world2_nccl"])
def test_memory_bandwidth(name: str) -> None:
    """Computed from bytes and duration; Kineto wrote the same, as exact as the durations in the file are."""
    path = TRACES / f"{name}.json.gz"
    if not path.is_file():
        pytest.skip("the shared traces are not part of the project")
    sides = tracelens.hta(chrome.load(path)), from_file(path)
    ours, theirs = (side.get_memory_bw_summary(ranks=[0]).droplevel("rank") for side in sides)
    same(ours.reset_index(), theirs.reset_index(), rtol=1e-3)


CRITICAL = {
    "hta/event_sync_small": ("ProfilerStep", 0, 56, 57, 40, {"cpu_bound": 97.2511, "gpu_compute_bound": 1.5827}),
    "hta/event_sync_multi_stream_small": ("", 0, 80, 82, 59, {"cpu_bound": 87.0119, "gpu_compute_bound": 10.5263}),
    "h200/mlp_base_ns": ("ProfilerStep", 2, 838, 834, 399, {"cpu_bound": 100.0}),
    "h200/conv_base_ns": ("ProfilerStep", 1, 974, 970, 239, {"cpu_bound": 1.3049, "gpu_compute_bound": 94.9046}),
}
"""Annotation, instance; nodes, edges, nodes on the path and what bounds it in percent: HTA 0.5.0 over the files with
pandas 2.3.3, under which its critical path analysis works as it is."""


@pytest.mark.parametrize("name", CRITICAL)
def test_critical_path(name: str) -> None:
    path = TRACES / f"{name}.json.gz"
    if not path.is_file():
        pytest.skip("the shared traces are not part of the project")
    annotation, instance, nodes, edges, on_path, bounds = CRITICAL[name]
    analysis = tracelens.hta(chrome.load(path))
    rank = next(iter(analysis.t.traces))
    graph, found = analysis.critical_path_analysis(rank, annotation, instance)
    assert found
    assert (len(graph.node_list), graph.number_of_edges(), len(graph.critical_path_nodes)) == (nodes, edges, on_path)
    summary = graph.summary()
    assert {key: round(float(summary[key]), 4) for key in bounds} == bounds


def test_htas_own_critical_path_is_left_alone() -> None:
    """Only ours is mended: HTA's class still has what pandas 3 refuses."""
    from hta.analyzers.critical_path_analysis import CriticalPathAnalysis

    assert int(pd.__version__.split(".")[0]) >= 3
    assert hta_pandas.critical_path() is not CriticalPathAnalysis
    assert "axis=1, columns=" in Path(inspect.getfile(CriticalPathAnalysis)).read_text()


def test_two_traces_of_one_rank_are_refused() -> None:
    path = TRACES / FILES[0]
    if not path.is_file():
        pytest.skip("the shared traces are not part of the project")
    trace = chrome.load(path)
    with pytest.raises(UsageError, match="two traces have rank 0"):
        tracelens.hta(trace, trace)
