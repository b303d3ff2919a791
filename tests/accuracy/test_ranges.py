"""The rule for ranges that the accuracy page tries beside the product's: its shares and its numbers by hand."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from tests.accuracy import ranges, replay_again
from tests.accuracy.judge import judged
from tests.accuracy.made_row import document
from tests.support.builders import Machine
from tracelens.replay import trace_builder
from tracelens.replay.replay_trace import ReplayTrace
from tracelens.trace import timeline


def looped(body: Callable[[Machine], None]) -> ReplayTrace:
    machine = Machine()
    for number in range(8):
        with machine.step(number):
            body(machine)
    made = trace_builder.build(timeline.build(machine.trace()))
    assert isinstance(made, ReplayTrace), made
    return made


def host_sets_all(machine: Machine) -> None:
    for _ in range(10):
        machine.launch("gemm", 5)
        machine.host(50)


def gpu_sets_all(machine: Machine) -> None:
    machine.launch("gemm", 500)
    machine.host(20)


def half_and_half(machine: Machine) -> None:
    """The host waits for the GPU and works 104 then: the launch, its return and the synchronize cost a little more."""
    machine.launch("gemm", 100)
    machine.synchronize()
    machine.host(100)


@pytest.mark.parametrize(
    ("body", "least", "most"), [(host_sets_all, 0.98, 1.01), (gpu_sets_all, -0.001, 0.01), (half_and_half, 0.45, 0.55)]
)
def test_the_host_s_share_is_what_arrives_of_a_slower_host(
    body: Callable[[Machine], None], least: float, most: float
) -> None:
    assert least <= replay_again.host_share(looped(body), ()) <= most


def kept(name: str, *, tuning: bool, base: float, later: float, share: float) -> dict[str, Any]:
    """A row whose unchanged processes take `base` each; the patched one was predicted 900 (860-940), takes `later`."""
    made = document(row=f"{name}-size", loop=name, tuning=tuning)
    made["arms"] = [
        {"version": version, "rep": rep, "block_us": [step]}
        for rep in range(3)
        for version, step in (("base", base), ("v1", later))
    ]
    for scheme in made["prediction"]["schemes"].values():
        scheme["estimate"]["binding"] = "stream"
    return made | {"host_shares": {"model": "any", "base": share, "versions": {"v1": share}}}


def test_the_pace_s_spread_is_of_unchanged_processes_and_counts_loops_alike() -> None:
    tuned = [
        kept("a", tuning=True, base=1000 * math.exp(0.1), later=880, share=1.0),
        kept("a", tuning=True, base=1000 * math.exp(0.1), later=880, share=1.0),
        kept("b", tuning=True, base=1000.0, later=880, share=0.5),
    ]
    rows = {one["row"]: judged(one) for one in tuned}
    found = ranges.spread(ranges.pace_spreads(tuned, rows))
    assert found == pytest.approx(math.sqrt(0.01 / (1 + 0.25)))


def test_the_other_rule_joins_its_sources_like_the_sides_of_a_right_angle() -> None:
    seen = ranges.Seen(judged(document()).pairs[0], "loop", "stream", 0.5, 0.03, 0.0)
    pace, own, gain = 1.2816 * 0.1 * 0.5, 0.01, 0.1 * (100 / 900)
    assert ranges.other(seen, 0.1).low == pytest.approx(1 - math.sqrt(0.03**2 + pace**2 + own**2 + gain**2))
    assert ranges.other(seen, 0.1).high == pytest.approx(1 + math.sqrt(pace**2 + own**2 + gain**2))


def test_each_tuning_loop_is_judged_by_the_others_and_the_page_counts_what_is_held() -> None:
    rows = [
        kept("calm", tuning=True, base=1000.0, later=900.0, share=1.0),
        kept("wild", tuning=True, base=1300.0, later=1100.0, share=1.0),
        kept("held", tuning=False, base=1000.0, later=1000.0, share=1.0),
    ]
    text = ranges.section(rows)
    line = next(line for line in text.splitlines() if line.startswith("| by the later rule"))
    # All but "wild" stray by nothing, so it lies outside of its own range; "held" gets the width that "wild" needs.
    assert "| 1 of 1, 100 % |" in line
    assert line.count("1 of 2, 50 %") == 1
    product = next(line for line in text.splitlines() if line.startswith("| as the product"))
    assert "| 0 of 1, 0 % |" in product


def test_rows_without_host_shares_have_no_section() -> None:
    assert ranges.section([document()]) == ""
