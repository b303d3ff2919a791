"""The shared real traces, number by number and oddity by oddity: a plain, slow reader finds the same rows, and what
their README says of each file is what is found in it."""

from __future__ import annotations

import gzip
import json
from decimal import Decimal
from functools import cache
from typing import Any

import numpy as np
import pytest

from tests.support.places import TRACES
from tracelens.model import Trace
from tracelens.trace import chrome, timeline
from tracelens.trace.columns import SYNC_KINDS

LARGEST = 900_000
FILES = [
    path.relative_to(TRACES).as_posix()
    for path in sorted(TRACES.glob("*/*.json.gz"))
    if path.stat().st_size < LARGEST or "healthy" in path.name
]
pytestmark = pytest.mark.skipif(not FILES, reason="the shared traces are not at hand")


@cache
def trace(name: str) -> Trace:
    path = TRACES / (name if name.endswith(".gz") else f"{name}.json.gz")
    if not path.exists():
        pytest.skip(f"{name} is not at hand")
    return chrome.load(path)


def of(found: Trace, *categories: str) -> Any:
    codes = [code for code, text in enumerate(found.categories) if text in categories]
    return np.isin(found.columns["category"], codes)


def nanoseconds(text: object) -> int:
    return int((Decimal(str(text)) * 1000).to_integral_value())


@pytest.mark.slow
@pytest.mark.parametrize("file", FILES)
def test_a_slow_reader_finds_the_same_numbers(file: str) -> None:
    with gzip.open(TRACES / file) as handle:
        document = json.loads(handle.read().decode("utf-8", "replace"), parse_float=Decimal, strict=False)
    events = document if isinstance(document, list) else document["traceEvents"]
    expected = sorted(
        (
            nanoseconds(event["ts"]),
            nanoseconds(event["ts"]) + nanoseconds(event["dur"]),
            str(event["name"]),
            int(event.get("args", {}).get("correlation", -1)),
        )
        for event in events
        if event.get("ph") == "X"
    )
    columns = trace(file).columns
    start, end = ((columns[key] + trace(file).origin_ns).tolist() for key in ("start_ns", "end_ns"))
    names = [trace(file).names[code] for code in columns["name"]]
    assert sorted(zip(start, end, names, columns["correlation"].tolist(), strict=True)) == expected


def test_timestamps_of_54_bits_keep_their_nanoseconds() -> None:
    found = trace("hta/v100_healthy_5steps.pt.trace")
    times = found.columns["start_ns"] + found.origin_ns
    assert times.min() > 2**60 and (times % 1000 != 0).mean() > 0.9
    assert ((times // 1000) > 2**50).all() and len(set((times % 250).tolist())) > 100  # a double has steps of 250 ns


@pytest.mark.parametrize(
    ("name", "rank", "world"),
    [
        ("hta/v100_world2_multistream_5steps", 1, 2),
        ("hta/a100_world16_rank_d2h_stalls", 0, 16),
        ("hta/world128_sampled_rank0", 0, 128),
        ("hta/world128_sampled_rank1", 1, 128),
        ("hta/cpu_only", 34, 300),
        ("hta/rank_unavailable", None, None),
        ("amd/mi300_resnet_training_stacks", 0, 8),
        ("h200/mlp_base_ns", None, None),
    ],
)
def test_the_rank_is_what_the_file_says(name: str, rank: int | None, world: int | None) -> None:
    assert (trace(name).rank, trace(name).world_size) == (rank, world)


@pytest.mark.parametrize(
    ("name", "has", "lacks"),
    [
        ("hta/cpu_only", {"steps"}, {"gpu", "runtime"}),
        ("hta/rank_unavailable", {"steps", "collectives"}, {"gpu", "runtime"}),
        ("hta/cupti_counters", {"runtime"}, {"gpu", "correlation"}),
        ("hta/old_format_async_gpu", {"gpu", "runtime", "correlation"}, {"steps", "python_stacks"}),
        ("hta/triton", {"gpu", "correlation"}, {"python_stacks"}),
        ("amd/mi210_gpu_only", {"gpu", "runtime", "correlation"}, {"steps", "shapes", "python_stacks"}),
        ("amd/h100_owlv2_stacks", {"gpu", "python_stacks", "dataloader"}, {"sync_events"}),
        ("amd/mi300_resnet_training_stacks", {"gpu", "python_stacks", "optimizer"}, {"sync_events"}),
        ("h200/libtorch_small_base", {"gpu", "correlation"}, {"steps", "python_stacks", "sync_events", "dataloader"}),
        ("h200/mlp_base_ns", {"sync_events", "steps", "dataloader", "optimizer"}, {"python_stacks"}),
    ],
)
def test_signals_say_what_was_recorded(name: str, has: set[str], lacks: set[str]) -> None:
    assert has <= trace(name).signals and not lacks & trace(name).signals


def test_categories_of_2022_have_todays_names() -> None:
    assert {"kernel", "cuda_runtime"} <= set(trace("hta/old_format_async_gpu").categories)


def test_6060_stream_waits_on_the_second_of_two_ranks() -> None:
    calls = timeline.build(trace("hta/v100_world2_multistream_5steps")).calls()
    assert (calls["kind"] == "stream_wait").sum() == 6060


def test_collectives_and_event_synchronizes_of_two_ranks() -> None:
    picture = timeline.build(trace("hta/a100_world2_nccl"))
    assert (picture.calls()["kind"] == "event_sync").sum() == 24
    assert (picture.ops()["kind"] == "collective").sum() == 21


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("hta/event_sync_small", {"Event Sync": 2, "Stream Sync": 1, "Context Sync": 1}),
        ("hta/event_sync_multi_stream_small", {"Event Sync": 3, "Stream Wait Event": 1, "Context Sync": 1}),
        ("hta/a100_alexnet_cuda_sync", {"Stream Wait Event": 20, "Stream Sync": 16, "Context Sync": 5}),
        ("h200/mlp_base_ns", {"Stream Sync": 24, "Context Sync": 9}),
        ("h200/tf_v23_ns", {"Event Sync": 1, "Stream Sync": 17, "Context Sync": 1}),
    ],
)
def test_who_waits_for_whom(name: str, kinds: dict[str, int]) -> None:
    codes, counts = np.unique(trace(name).columns["sync_kind"], return_counts=True)
    assert {SYNC_KINDS[code]: count for code, count in zip(codes, counts, strict=True) if code >= 0} == kinds


def test_hip_names_are_calls_copies_and_synchronizes() -> None:
    found = trace("hta/mi250_rocm")
    names = {found.names[code] for code in found.columns["name"][of(found, "cuda_runtime")]}
    assert any(name.startswith("hip") for name in names) and not any(name.startswith("cuda") for name in names)
    calls = timeline.build(found).calls()["kind"].value_counts()
    assert (calls["launch"], calls["copy"], calls["device_sync"]) == (14, 2, 1)


def test_operations_of_one_graph_launch_share_its_correlation() -> None:
    found = trace("amd/mi300_graph_decode")
    counts = np.unique(found.columns["correlation"][of(found, "kernel")], return_counts=True)[1]
    assert counts.max() > 400


@pytest.mark.parametrize("base", ["h200/tf_base_ns", "h200/mlp_base_ns", "h200/conv_base_ns"])
def test_waits_of_current_cuda_name_no_stream(base: str) -> None:
    columns = trace(base).columns
    rows = columns["sync_kind"] >= 0
    assert rows.any() and (columns["wait_stream"][rows] == -1).all() and (columns["wait_event"][rows] == -1).all()
