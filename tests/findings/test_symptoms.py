"""Detectors: what they find, what they are silent about, and when they abstain."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from tests.support.analyzing import analyzed
from tests.support.builders import Events, Machine
from tests.support.places import TRACES
from tracelens import findings
from tracelens.findings import DETECTORS, breakdown, detect, idle_gpu, inventory, stalls, sync_stall
from tracelens.model import Finding, Location, Owner, Owners, Timeline
from tracelens.trace import chrome, timeline


def looped(body: Callable[[Machine, int], None], steps: int = 6) -> Timeline:
    machine = Machine()
    for number in range(steps):
        with machine.step(number):
            body(machine, number)
    return timeline.build(machine.trace())


def found_in(picture: Timeline, exposed: dict[str, int] | None = None) -> dict[str, findings.Finding]:
    return {finding.id: finding for finding in detect(analyzed(picture, exposed)).findings}


def waiting(machine: Machine, _: int) -> None:
    machine.load_batch(50)
    machine.launch("gemm", 300)
    machine.host(50)
    machine.synchronize()
    machine.host(100)


def waiting_twice(machine: Machine, number: int) -> None:
    waiting(machine, number)
    machine.item()


def healthy(machine: Machine, _: int) -> None:
    """The host is always ahead of the GPU."""
    machine.launch("gemm", 1000)
    machine.host(900)


# ---------------------------------------------------------------------------------------------------------- silence


def test_a_healthy_loop_has_no_findings():
    def body(machine: Machine, number: int) -> None:
        if number == 0:
            machine.launch("warm-up", 4000)
        healthy(machine, number)

    picture = looped(body)
    steps = picture.tables.steps.with_columns(kept=np.array([False, True, True, True, True, False]))
    assert detect(analyzed(replace(picture, tables=replace(picture.tables, steps=steps)))).findings == ()


def test_a_wait_that_costs_nothing_is_no_symptom():
    picture = looped(waiting)
    every = {stall.id: 0 for stall in stalls.group(picture)}
    assert "sync_stall" not in found_in(picture, every)


@pytest.mark.skipif(not TRACES.is_dir(), reason="the real traces are not beside this checkout")
def test_the_healthy_v100_has_no_stall():
    picture = timeline.build(chrome.load(TRACES / "hta/v100_healthy_5steps.pt.trace.json.gz"))
    symptoms = found_in(picture)
    assert not {"sync_stall", "blocking_copy", "idle_gpu", "launch_bound", "alloc_in_loop"} & set(symptoms)


# --------------------------------------------------------------------------------------------------------- symptoms


def test_a_synchronize_costs_what_the_replay_says():
    picture = looped(waiting)
    (name,) = (stall.id for stall in stalls.group(picture) if stall.verdict != "window_edge")
    finding = found_in(picture, {name: 57_000})["sync_stall"]
    assert finding.cost_ns == 57_000 and finding.stall == name
    assert finding.share == pytest.approx(57 / 460)
    assert "cudaDeviceSynchronize" in finding.evidence and "gives back 0.057 ms (predicted)" in finding.evidence


def test_without_a_replay_the_idle_time_stands_for_the_cost_and_says_so():
    finding = found_in(looped(waiting))["sync_stall"]
    assert "could not be predicted" in finding.evidence


def test_a_read_is_named_as_one():
    def body(machine: Machine, _: int) -> None:
        machine.launch("gemm", 300)
        machine.item()
        machine.host(200)

    assert found_in(looped(body))["sync_stall"].title == "Reading a value leaves the GPU idle"


def test_a_pageable_copy_is_a_blocking_copy_and_an_overlap_gap():
    def body(machine: Machine, _: int) -> None:
        machine.copy("h2d", "pageable", 100, nbytes=1 << 20)
        machine.launch("gemm", 300)
        machine.host(400)

    symptoms = found_in(looped(body))
    assert symptoms["overlap_gap"].cost_ns == 100_000
    assert symptoms["blocking_copy"].cost_ns > 50_000
    assert "0 % of it under computation" in symptoms["overlap_gap"].evidence


def test_idle_time_is_split_by_cause():
    finding = found_in(looped(waiting))["idle_gpu"]
    assert finding.cost_ns == 160_000  # of 460: all but the kernel
    assert finding.title == "The GPU is idle 35 % of the time"


def test_the_loader_costs_what_the_gpu_idles_for_it():
    def body(machine: Machine, _: int) -> None:
        machine.load_batch(700)
        machine.launch("gemm", 300)
        machine.synchronize()

    picture = looped(body)
    finding = found_in(picture)["dataloader_wait"]
    assert finding.cost_ns == breakdown.measure(picture)[1].parts["idle_dataloader"] > 500_000
    assert "inside the DataLoader for 0.70 ms per step" in finding.evidence


def test_many_short_kernels_are_launch_bound_and_few_long_ones_are_not():
    def body(machine: Machine, _: int) -> None:
        for _ in range(60):
            machine.launch("tiny", 2)
            machine.host(20)

    finding = found_in(looped(body))["launch_bound"]
    assert "60 launches per step" in finding.evidence and "2.0 µs" in finding.evidence
    assert "launch_bound" not in found_in(looped(waiting))


def test_a_line_that_fills_the_gaps_between_many_launches_is_no_launch_bound_loop():
    def body(machine: Machine, _: int) -> None:
        for _ in range(60):
            machine.launch("tiny", 2)
            machine.host(20)

    rank = analyzed(looped(body))
    line = Owner("host_line", 900_000, (Location("train.py", 61),), "json.dumps")
    owners = Owners(1_320_000, (line, Owner("launch", 300_000), Owner("gpu", 120_000)))
    detected = detect(replace(rank, owners=owners))
    assert "launch_bound" not in {finding.id for finding in detected.findings}
    (said,) = (item.reason for item in detected.not_applicable if item.detector == "launch_bound")
    assert said == "json.dumps at train.py:61 fills the time between the launches"
    small = Owners(1_320_000, (replace(line, owned_ns=100_000), Owner("launch", 1_100_000), Owner("gpu", 120_000)))
    assert "launch_bound" in {finding.id for finding in detect(replace(rank, owners=small)).findings}


def test_driver_allocations_in_each_step():
    def body(machine: Machine, _: int) -> None:
        machine.launch("gemm", 300)
        machine.events.call("cudaMalloc", machine.now, 200)
        machine.host(400)

    finding = found_in(looped(body))["alloc_in_loop"]
    assert finding.cost_ns == 200_000 and "cudaMalloc" in finding.evidence


def test_exposed_communication():
    def body(machine: Machine, _: int) -> None:
        machine.launch("gemm", 100)
        machine.launch("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 300)
        machine.synchronize()

    assert found_in(looped(body))["exposed_communication"].cost_ns == 300_000


def test_findings_come_in_the_order_of_their_cost():
    costs = [finding.cost_ns for finding in detect(analyzed(looped(waiting))).findings]
    assert len(costs) > 1 and costs == sorted(costs, reverse=True)


# ------------------------------------------------------------------------------------------------------- abstaining


def test_without_a_gpu_every_gpu_detector_abstains_and_none_finds():
    events = Events()
    for number in range(4):
        events.step(number, 100 * number, 100)
        events.add("cpu_op", "aten::mm", 100 * number + 10, 50)
    detected = detect(analyzed(timeline.build(events.trace())))
    assert detected.findings == detected.passed == detected.not_applicable == ()
    assert {item.detector for item in detected.abstentions} == {detector.id for detector in DETECTORS}
    assert all(item.missing and item.hint for item in detected.abstentions)


def test_without_host_calls_waits_are_not_judged():
    events = Events()
    for number in range(4):
        events.step(number, 1000 * number, 1000)
        events.kernel(0, "gemm", 1000 * number + 100, 300)
    picture = timeline.build(events.trace())
    unjudged = {item.detector for item in detect(analyzed(picture)).abstentions}
    assert {"sync_stall", "blocking_copy", "launch_bound", "alloc_in_loop"} <= unjudged


@pytest.mark.skipif(not TRACES.is_dir(), reason="the real traces are not beside this checkout")
@pytest.mark.parametrize("path", sorted(TRACES.glob("*/*.json.gz")), ids=lambda path: path.name)
def test_every_real_trace_is_judged_or_abstained_from(path):
    if path.stat().st_size > 3_000_000:
        pytest.skip("large files are read in the tests of the trace engine")
    picture = timeline.build(chrome.load(path))
    rank = analyzed(picture)
    findings = detect(rank).findings
    if rank.breakdown is not None:
        assert abs(sum(rank.breakdown.parts.values()) - rank.breakdown.wall_ns) <= len(rank.breakdown.parts)
        assert min(rank.breakdown.parts.values()) >= 0
    assert all(finding.cost_ns >= 0 and finding.evidence for finding in findings)
    assert all(item.evidence for item in inventory.collect(picture))


# ---------------------------------------------------------------------------------------- the one step time, groups


def test_costs_and_evidence_are_on_the_one_step_time():
    """Recorded steps of 460 µs, in 160 of which the GPU idles; without the profiler 380, and then it idles in 80."""
    rank = analyzed(looped(waiting))
    quick = replace(rank, steps=replace(rank.steps, unprofiled_median_ns=380_000))
    (slow,), (fast,) = (idle_gpu.DETECTOR.detect(one) for one in (rank, quick))
    assert (slow.cost_ns, fast.cost_ns) == (160_000, 80_000) and fast.share == pytest.approx(80 / 380)
    assert "of 0.38 ms per step" in fast.evidence and "of 0.46 ms per step" in slow.evidence


def test_waits_that_cost_something_only_together_are_one_symptom():
    picture = looped(waiting_twice)
    waits = analyzed(picture, {}).stalls
    group = [stall.id for stall in waits if stall.verdict != "window_edge"]
    assert len(group) == 2
    rank = analyzed(picture, dict.fromkeys(group, 1_000))
    step_ns = rank.steps.median_ns

    def symptoms(together_ns: int) -> list[Finding]:
        wait = Owner("wait", 10_000, group="+".join(group), recoverable_ns=together_ns, evidence="replayed")
        return list(
            sync_stall.DETECTOR.detect(replace(rank, owners=Owners(step_ns, (wait, Owner("gpu", step_ns - 10_000)))))
        )

    first, *single = symptoms(90_000)
    assert (first.cost_ns, first.title) == (90_000, "Waits cost step time together")
    assert first.evidence.endswith("gives back 1 µs at most, removing all 0.090 ms (predicted)")
    longest = max((stall for stall in rank.stalls if stall.id in group), key=lambda stall: stall.wait_ns)
    assert first.stall == longest.id and len(single) == 2
    assert len(symptoms(3_000)) == 2, "less than twice what each gives back alone is no group"
