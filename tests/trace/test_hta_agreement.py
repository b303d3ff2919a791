"""HTA 0.5.0, run live over every shared trace, measures what we measure, or a named defect of HTA is the difference.

Four answers of HTA per file and window (all of the trace, and without the last ProfilerStep as HTA does by default):
busy and idle time, temporal breakdown, idle time per stream and cause, communication under computation. `DEFECTS`
names what must be undone in HTA for a file; a defect that could be left in without a difference fails the test.
"""

from __future__ import annotations

import dataclasses
from functools import cache

import pandas as pd
import pytest

from tests.support import oracle
from tests.support.oracle import FILES, TRACES, Answer, Oracle
from tests.support.trace_tables import table
from tracelens.findings import breakdown
from tracelens.model import Timeline
from tracelens.trace import chrome, hta_measures, timeline

pytestmark = [
    *oracle.IMPORT_NOISE,
    pytest.mark.skipif(not FILES, reason="the shared traces are not at hand"),
]
TOLERANCE = 1e-3
HTAS_DIGITS = 0.0101
"""HTA rounds to 0.01 us (idle time per cause) and 0.01 % (overlap)."""

SYNC_TRACE = frozenset({"gpu-annotations", "sync-rows"})
DEFECTS: dict[str, frozenset[str]] = {
    "amd/mi300_resnet_training_stacks": frozenset({"correlation-width", "gpu-annotations"}),
    "amd/torch_compile_triton": frozenset({"correlation-width", "cpu-streams"}),
    "h200/conv_base_ns": SYNC_TRACE,
    "h200/libtorch_small_base": frozenset({"double-timestamps"}),
    "h200/mlp_base_ns": SYNC_TRACE,
    "h200/mlp_v23_ns": SYNC_TRACE,
    "h200/tf_base_ns": SYNC_TRACE,
    "h200/tf_v23_ns": SYNC_TRACE,
    "hta/a100_alexnet_cuda_sync": frozenset({"sync-rows"}),
    "hta/cpu_only": frozenset({"no-gpu"}),
    "hta/cupti_counters": frozenset({"no-gpu"}),
    "hta/event_sync_multi_stream_small": frozenset({"sync-rows"}),
    "hta/event_sync_small": frozenset({"sync-rows"}),
    "hta/rank_unavailable": frozenset({"no-gpu"}),
    "hta/triton": frozenset({"cpu-streams"}),
    "hta/v100_healthy_5steps.pt.trace": frozenset({"double-timestamps"}),
}
"""Files that are not named agree with HTA as it is."""


@cache
def picture(name: str) -> Timeline:
    return timeline.build(chrome.load(TRACES / f"{name}.json.gz"))


@cache
def asked(name: str) -> Oracle:
    return Oracle(TRACES / f"{name}.json.gz", widen=oracle.AT_PARSING in DEFECTS.get(name, ()))


def in_htas_window(found: Timeline, *, last: bool) -> pd.DataFrame:
    """With two ProfilerSteps or more, HTA keeps work whose launch it sees, and drops the launches of the last step."""
    ops, calls = found.ops(), found.calls()
    if len({name for name in found.trace.names if "ProfilerStep" in name}) < 2:
        return ops
    launched = calls["start_ns"].to_numpy()[ops["call"]]
    return ops[(ops["call"] >= 0).to_numpy() & (last | (launched < found.steps()["start_ns"].iloc[-1]))]


def ours(found: Timeline, ops: pd.DataFrame) -> Answer:
    if ops.empty:
        return Answer(None, None, None)
    whole, overlap = hta_measures.temporal(ops), hta_measures.communication_overlap(ops)
    parts = (whole.span_ns, whole.idle_ns, whole.compute_ns, whole.non_compute_ns)
    span, idle, compute, rest = (ns / 1000 for ns in parts)
    rows = hta_measures.idle_by_stream(ops, found.calls())
    by_cause = {(row.stream, str(row.cause)): row.idle_ns / 1000 for row in rows.itertuples() if row.idle_ns}
    return Answer((span, idle, compute, rest), by_cause, None if overlap is None else 100 * overlap)


def assert_same(mine: Answer, theirs: Answer) -> None:
    def close(value: float | None) -> object:
        return None if value is None else pytest.approx(value, rel=TOLERANCE, abs=HTAS_DIGITS)

    assert (mine.temporal is None) == (theirs.temporal is None)
    if mine.temporal and theirs.temporal:
        assert mine.temporal == tuple(close(us) for us in theirs.temporal)
    assert mine.overlap == close(theirs.overlap)
    assert (mine.idle is None) == (theirs.idle is None)
    for key in (mine.idle or {}).keys() | (theirs.idle or {}).keys():
        assert (mine.idle or {}).get(key, 0.0) == close((theirs.idle or {}).get(key, 0.0)), key


def agrees(mine: Answer, theirs: Answer) -> bool:
    try:
        assert_same(mine, theirs)
    except AssertionError:
        return False
    return True


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_every_number_is_htas(name: str) -> None:
    """In one test per file, so that HTA parses it once."""
    found, hta, named = picture(name), asked(name), DEFECTS.get(name, frozenset())
    mine = {last: ours(found, in_htas_window(found, last=last)) for last in (True, False)}
    theirs = {last: hta.ask(named, last=last) for last in (True, False)}
    for last in (True, False):
        assert_same(mine[last], theirs[last])
    for defect in named & oracle.UNDO.keys():
        left_in = (agrees(mine[last], hta.ask(named - {defect}, last=last)) for last in (True, False))
        assert not all(left_in), f"{defect} explains nothing"
    if (temporal := theirs[True].temporal) is not None:
        assert_breakdown(found, idle_us=temporal[1], busy_us=temporal[0] - temporal[1])


def assert_breakdown(found: Timeline, *, idle_us: float, busy_us: float) -> None:
    """The whole span as one step, through the code that makes the report's breakdown."""
    ops = in_htas_window(found, last=True).assign(step=0)
    start, end = int(ops["start_ns"].min()), int(ops["end_ns"].max())
    step = {"number": [0], "start_ns": [start], "end_ns": [end], "kept": [True], "attributed": [False]}
    steps = table(pd.DataFrame(step))
    tables = dataclasses.replace(found.tables, ops=table(ops), gaps=found.tables.gaps[:0], steps=steps)
    _, parts, busy, idle = breakdown.measure(dataclasses.replace(found, tables=tables))
    assert parts is not None and busy is not None and idle is not None
    assert sum(parts.parts.values()) == pytest.approx(end - start, abs=len(parts.parts))
    assert idle * (end - start) / 1000 == pytest.approx(idle_us, rel=TOLERANCE, abs=HTAS_DIGITS)
    assert busy * (end - start) / 1000 == pytest.approx(busy_us, rel=TOLERANCE, abs=HTAS_DIGITS)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in FILES if "correlation-width" in DEFECTS.get(name, ())])
def test_hta_cannot_link_correlations_that_are_narrower_than_positions(name: str) -> None:
    """`correlation-width`: HTA narrows the ids to the smallest integer type, then writes row numbers into it."""
    with pytest.raises(TypeError, match=r"Invalid value .* for dtype 'int"):
        Oracle(TRACES / f"{name}.json.gz", widen=False)


@pytest.mark.parametrize("name", [name for name in FILES if "no-gpu" in DEFECTS.get(name, ())])
def test_hta_raises_where_no_gpu_worked(name: str) -> None:
    """`no-gpu`: IndexError and ValueError instead of an answer; ours is that there is nothing to measure."""
    analysis = asked(name).analysis(frozenset(), last=True)
    with pytest.raises(IndexError):
        analysis.get_temporal_breakdown(visualize=False)
    with pytest.raises(ValueError, match="No objects to concatenate"):
        analysis.get_idle_time_breakdown(ranks=[0], visualize=False)
    assert picture(name).ops().empty


@pytest.mark.parametrize("name", ["h200/mlp_base_ns", "amd/mi300_vit_stacks", "hta/mi250_rocm"])
def test_what_htas_default_rounding_loses(name: str) -> None:
    """`inward-rounding`: without HTA_DISABLE_NS_ROUNDING=1 every start goes up and every end down to a us; what is
    shorter than 1 us may get a duration of -1. The busy time of these files of one stream is too short by far more
    than 0.1 %; ours, rounded the same way, is HTA's again."""
    found = picture(name)
    ops = in_htas_window(found, last=True)
    assert ops["stream"].nunique() == 1
    hta = Oracle(TRACES / f"{name}.json.gz", widen=False, rounding=True)
    theirs = hta.ask(DEFECTS.get(name, frozenset()), last=True).temporal
    assert theirs is not None
    origin = found.trace.origin_ns
    start, end = -(-(ops["start_ns"] + origin) // 1000), (ops["end_ns"] + origin) // 1000
    assert int((end - start).sum()) == pytest.approx(theirs[0] - theirs[1], rel=TOLERANCE)
    assert hta_measures.temporal(ops).busy_ns / 1000 > (1 + 10 * TOLERANCE) * (theirs[0] - theirs[1])
