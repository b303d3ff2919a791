"""What a recorded window says: on real H200 traces of one loop before and after, and on a made-up record."""

import pytest

from tests.support import run_cases as cases
from tests.support.places import SHARED
from tracelens.verify.compare import window_statistics

TRACES = SHARED / "traces" / "h200"
needs_traces = pytest.mark.skipif(not TRACES.is_dir(), reason="../shared/traces is not here")


def window_of(name, **record):
    base = {
        "trace": str(TRACES / name),
        "reason": None,
        "memory": [],
        "memory_of": "device",
        "peak_bytes": 7,
        "cpu": None,
    }
    return window_statistics.read({"window": {**base, **record}})


@needs_traces
def test_interval_synchronization_lowers_the_synchronizations_of_a_real_loop():
    before, after = window_of("tf_base_ns.json.gz"), window_of("tf_v23_ns.json.gz")
    assert before.steps >= 6
    assert after.syncs_per_step < before.syncs_per_step
    assert before.sync_wait_ns > 10e6, "its device synchronize lasts 13.4 ms of a 28.8 ms step"
    assert 0.8 < before.gpu_busy_share <= 1
    assert before.streams_used == 1
    assert before.h2d_hidden_ns == 0, "one stream hides no copy"
    assert before.host_wait_ns >= before.sync_wait_ns


@needs_traces
def test_large_pageable_copies_are_seen():
    window = window_of("conv_base_ns.json.gz")
    assert window.h2d_ns > 1e6
    assert window.document()["h2d_us_per_step"] == pytest.approx(window.h2d_ns / 1000, abs=0.01)


def test_how_long_the_gpu_works_in_a_step_is_the_time_of_its_kernels_and_copies(tmp_path):
    """40 kernels of 50 µs and a copy of 10 before them; a read of a value copies some more."""
    made = window_of("", trace=str(cases.trace(tmp_path / "made.pt.trace.json.gz", steps=8)))
    assert made.steps >= 5
    assert 2_010_000 <= made.gpu_busy_ns <= 2_030_000
    assert made.document()["gpu_busy_us_per_step"] == round(made.gpu_busy_ns / 1000, 3)


def test_memory_that_grows_has_its_slope_and_memory_that_oscillates_has_none():
    growing = window_of("", trace=None, memory=[(step, 1000 + 512 * step) for step in range(1, 41)])
    waving = window_of("", trace=None, memory=[(step, 1000 + 512 * (step % 10)) for step in range(1, 41)])
    assert growing.memory_slope_bytes == pytest.approx(512)
    assert waving.memory_slope_bytes == 0
    assert window_of("", trace=None, memory=[(1, 2)]).memory_slope_bytes is None


def test_without_a_trace_the_reason_is_kept_and_nothing_is_zero():
    window = window_of("", trace=None, reason="the script records a profile of its own")
    assert window.reason == "the script records a profile of its own"
    assert (window.syncs_per_step, window.gpu_busy_share, window.h2d_ns) == (None, None, None)


def test_cpu_shares():
    window = window_of("", trace=None, cpu={"steps": 4, "wall_ns": 100, "thread_ns": 40, "process_ns": 250})
    assert (window.cpu_busy_share, window.process_cpu_share) == (0.4, 2.5)


def test_a_broken_trace_is_a_reason(tmp_path):
    path = tmp_path / "x.json"
    path.write_text("no json")
    window = window_of("", trace=str(path))
    assert window.steps == 0
    assert str(path) in window.reason
