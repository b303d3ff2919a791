"""The small parts of the trace engine against their plain definitions: intervals, nesting, API names, cycles."""

from __future__ import annotations

import random
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tracelens.trace import cuda_api, intervals, launch_cycle
from tracelens.trace.attribution import user_frame
from tracelens.trace.nesting import NestedSpans

LIMIT = 30
SPANS = st.lists(st.tuples(st.integers(0, LIMIT), st.integers(0, LIMIT)), max_size=8)


def points(spans: list[tuple[int, int]]) -> set[int]:
    """The integers that half-open spans cover."""
    return {point for start, end in spans for point in range(start, end)}


def made(spans: list[tuple[int, int]]) -> intervals.IntervalSet:
    return intervals.union([start for start, _ in spans], [end for _, end in spans])


def shown(found: intervals.IntervalSet) -> list[tuple[int, int]]:
    return [(int(start), int(end)) for start, end in zip(*found, strict=True)]


@given(SPANS, SPANS, st.integers(0, LIMIT), st.integers(0, LIMIT))
@settings(deadline=None)
def test_sets_are_what_their_points_are(left: list[tuple[int, int]], right: list[tuple[int, int]], low: int, high: int):
    a, b, low, high = made(left), made(right), min(low, high), max(low, high)
    window = set(range(low, high))
    for found, expected in (
        (a, points(left)),
        (intervals.intersect(a, b), points(left) & points(right)),
        (intervals.subtract(a, b), points(left) - points(right)),
        (intervals.clip(a, low, high), points(left) & window),
        (intervals.complement(a, low, high), window - points(left)),
    ):
        spans = shown(found)
        assert points(spans) == expected
        assert intervals.total(found) == len(expected)
        assert all(end < start for (_, end), (start, _) in pairwise(spans)) or found is not a
    assert intervals.covered(a, [low], [high])[0] == len(points(left) & window)
    assert set(np.flatnonzero(intervals.inside(a, np.arange(LIMIT)))) == points(left) & set(range(LIMIT))


def tree(seed: int) -> list[tuple[int, int]]:
    """Spans that nest properly."""
    draw = random.Random(seed)
    spans: list[tuple[int, int]] = []

    def fill(low: int, high: int, depth: int) -> None:
        while low < high and depth < 4:
            start = draw.randint(low, high)
            end = draw.randint(start, high)
            spans.append((start, end))
            fill(start, end, depth + 1)
            low = end + draw.randint(0, 5)

    fill(0, LIMIT, 0)
    return spans


@pytest.mark.parametrize("seed", range(30))
def test_the_innermost_span(seed: int) -> None:
    spans = tree(seed)
    starts, ends = np.array(spans, dtype=np.int64).reshape(-1, 2).T
    found = NestedSpans(starts, ends).innermost(np.arange(-1, LIMIT + 2))
    for instant, position in zip(range(-1, LIMIT + 2), found, strict=True):
        around = [(end - start) for start, end in spans if start <= instant < end]
        assert (position == -1) == (not around)
        if around:
            assert ends[position] - starts[position] == min(around)
            assert starts[position] <= instant < ends[position]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("cudaLaunchKernel", "launch"),
        ("cudaLaunchKernelExC", "launch"),
        ("cuLaunchKernelEx", "launch"),
        ("cudaLaunchCooperativeKernel", "launch"),
        ("hipExtModuleLaunchKernel", "launch"),
        ("hipLaunchKernel", "launch"),
        ("cudaGraphLaunch", "graph_launch"),
        ("hipGraphLaunch", "graph_launch"),
        ("cudaMemcpyAsync", "copy"),
        ("hipMemcpyWithStream", "copy"),
        ("cudaMemsetAsync", "memset"),
        ("cudaDeviceSynchronize", "device_sync"),
        ("cuCtxSynchronize", "device_sync"),
        ("hipStreamSynchronize", "stream_sync"),
        ("cudaEventSynchronize", "event_sync"),
        ("cudaEventRecordWithFlags", "event_record"),
        ("cudaStreamWaitEvent", "stream_wait"),
        ("cudaEventQuery", "event_query"),
        ("cudaMalloc", "alloc"),
        ("cudaHostAlloc", "alloc"),
        ("cudaFree", "free"),
        ("hipFree", "free"),
        ("cudaMallocAsync", "other"),
        ("hipExtLaunchMultiKernelMultiDevice", "launch"),
        ("urEnqueueKernelLaunch", "launch"),
        ("zeCommandListAppendLaunchKernel", "launch"),
        ("urEnqueueUSMMemcpy", "copy"),
        ("zeCommandListAppendMemoryCopy", "copy"),
        ("urEnqueueUSMFill", "memset"),
        ("urQueueFinish", "stream_sync"),
        ("zeCommandListHostSynchronize", "stream_sync"),
        ("urEventWait", "event_sync"),
        ("zeEventHostSynchronize", "event_sync"),
        ("urUSMDeviceAlloc", "alloc"),
        ("zeMemFree", "free"),
        ("cudaFreeAsync", "other"),
        ("cudaMemGetInfo", "other"),
        ("cudaStreamIsCapturing", "other"),
        ("cudaFuncGetAttributes", "other"),
        ("INVALID", "other"),
    ],
)
def test_kinds_of_calls(name: str, kind: str) -> None:
    assert cuda_api.kind(name) == kind


@pytest.mark.parametrize(
    ("name", "direction", "memory"),
    [
        ("Memcpy HtoD (Pageable -> Device)", "h2d", "pageable"),
        ("Memcpy HtoD (Pinned -> Device)", "h2d", "pinned"),
        ("Memcpy DtoH (Device -> Pageable)", "d2h", "pageable"),
        ("Memcpy DtoD (Device -> Device)", "d2d", ""),
        ("Memcpy HtoD (Host -> Device)", "h2d", "unknown"),
        ("CopyDeviceToHost", "d2h", "unknown"),
        ("CopyHostToDevice", "h2d", "unknown"),
        ("Memcpy PtoP (Device -> Device)", "p2p", ""),
        ("Memset (Device)", "", ""),
        ("zeCommandListAppendMemoryCopy(M2D)[1572864]", "h2d", "unknown"),
        ("zeCommandListAppendMemoryCopy(D2H)", "d2h", "pinned"),
        ("zeCommandListAppendMemoryCopy(D2D)", "d2d", ""),
    ],
)
def test_directions_of_copies(name: str, direction: str, memory: str) -> None:
    assert (cuda_api.direction(name), cuda_api.memory(name)) == (direction, memory)


def test_copies_that_block_by_name() -> None:
    blocking = ("cudaMemcpy", "hipMemcpyWithStream", "cudaMemcpy2D", "cuMemcpyHtoD_v2", "hipMemcpyDtoH")
    assert all(cuda_api.copies_synchronously(name) for name in (*blocking, "hipMemcpyToSymbol"))
    others = ("cudaMemcpyAsync", "cudaMemcpy2DAsync", "hipMemcpyDtoHAsync", "urEnqueueUSMMemcpy")
    assert not any(cuda_api.copies_synchronously(name) for name in others)


@pytest.mark.parametrize(
    ("name", "collective"),
    [
        ("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", True),
        ("ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)", True),
        ("void mscclKernel_Sum_half_LL(ncclDevComm*)", True),
        ("multimem_all_reduce_kernel", True),
        ("void at::native::reduce_kernel<512, 1>(float)", False),
        ("sm90_xmma_gemm_f32", False),
    ],
)
def test_what_is_communication(name: str, collective: bool) -> None:
    assert cuda_api.is_collective(name) == collective


# ---------------------------------------------------------------------------------------------------------- cycles


def launched(names: list[str], interval: int = 10) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Calls and GPU work of a launch sequence, one launch per `interval` ns."""
    starts = np.arange(len(names)) * interval
    ops = pd.DataFrame({"name": pd.Categorical(names), "call": np.arange(len(names))})
    ops["direction"] = pd.Categorical(["h2d" if name == "copy" else "" for name in names])
    return pd.DataFrame({"start_ns": starts}), ops


LAYER = ["norm", "gemm", "gelu", "gemm"]
STEP = ["copy", *LAYER * 6, "loss", *["grad", "gemm", "gemm"] * 6, "adam", "adam"]


def test_steps_begin_with_their_copy() -> None:
    calls, ops = launched(STEP * 5)
    assert list(launch_cycle.boundaries(calls, ops)) == [len(STEP) * 10 * number for number in range(5)]


def test_a_read_every_few_steps_is_no_step() -> None:
    names = [name for number in range(20) for name in (*STEP, *(["read"] if number % 10 == 9 else []))]
    assert len(launch_cycle.boundaries(*launched(names))) == 20


def test_layers_are_no_steps() -> None:
    assert not len(launch_cycle.boundaries(*launched(STEP)))
    assert not len(launch_cycle.boundaries(*launched(STEP * 3)))  # two stretches between three marks: too few to agree


def test_parts_of_a_step_that_are_equally_long_are_no_steps() -> None:
    """A step of two networks: the same kernel updates both, after equally many launches of other kernels."""
    first = ["copy", *["conv", "norm", "relu"] * 8, "loss", "adam"]
    second = ["noise", *["deconv", "norm", "tanh"] * 8, "loss", "adam"]
    calls, ops = launched((first + second) * 6)
    assert list(launch_cycle.boundaries(calls, ops)) == [10 * len(first + second) * number for number in range(6)]


def test_a_sequence_without_a_period_has_no_steps() -> None:
    rng = np.random.default_rng(0)
    assert not len(launch_cycle.boundaries(*launched([f"k{code}" for code in rng.integers(0, 30, 400)])))
    assert not len(launch_cycle.boundaries(*launched([])))
    assert not len(launch_cycle.boundaries(*launched(["k"] * 100)))


# ---------------------------------------------------------------------------------------------------------- frames


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("train.py(33): main", ("train.py", 33, "main")),
        ("/home/u/work (copy)/train.py(7): <module>", ("/home/u/work (copy)/train.py", 7, "<module>")),
        ("src/models/net.py(120): forward", ("src/models/net.py", 120, "forward")),
        ("torch/nn/modules/module.py(1553): _call_impl", None),
        ("/opt/venv/lib/python3.12/site-packages/tqdm/std.py(1181): __iter__", None),
        ("/usr/lib/python3.11/threading.py(995): run", None),
        ("threading.py(995): run", None),
        ("contextlib.py(81): inner", None),
        ("<built-in method item of Tensor object at 0x7f>", None),
        ("<frozen runpy>(198): _run_module_as_main", None),
        ("nn.Module: Linear_0", None),
    ],
)
def test_frames_of_the_user(name: str, place: tuple[str, int, str] | None) -> None:
    found = user_frame(name)
    assert (found and (found.path, found.line, found.function)) == place
