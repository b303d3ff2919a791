"""HTA over our columns gives what HTA gives over the file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import tracelens
from tests.support.builders import Events
from tests.support.oracle import IMPORT_NOISE, TRACES, Oracle
from tracelens.errors import UsageError
from tracelens.trace import chrome

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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.parametrize("name", ["h200/mlp_base_ns", "hta/a100_world2_nccl"])
def test_memory_bandwidth(name: str) -> None:
    """Computed from bytes and duration; Kineto wrote the same, as exact as the durations in the file are."""
    path = TRACES / f"{name}.json.gz"
    if not path.is_file():
        pytest.skip("the shared traces are not part of the project")
    sides = tracelens.hta(chrome.load(path)), from_file(path)
    ours, theirs = (side.get_memory_bw_summary(ranks=[0]).droplevel("rank") for side in sides)
    same(ours.reset_index(), theirs.reset_index(), rtol=1e-3)


@pytest.mark.skipif(int(pd.__version__.split(".")[0]) < 3, reason="with pandas 2 the analysis works")
def test_the_critical_path_is_refused_with_what_to_do_about_it() -> None:
    events = Events()
    for number in range(3):
        events.step(number, 100 * number, 100)
        events.add("cpu_op", "aten::mm", 100 * number + 10, 50)
    analysis = tracelens.hta(events.trace())
    with pytest.raises(UsageError, match="pandas 3") as refused:
        analysis.critical_path_analysis(0, "ProfilerStep", 0)
    assert "pandas<3" in refused.value.hint


def test_two_traces_of_one_rank_are_refused() -> None:
    path = TRACES / FILES[0]
    if not path.is_file():
        pytest.skip("the shared traces are not part of the project")
    trace = chrome.load(path)
    with pytest.raises(UsageError, match="two traces have rank 0"):
        tracelens.hta(trace, trace)
