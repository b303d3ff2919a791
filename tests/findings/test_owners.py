"""Who owns a step: built traces, in which every microsecond is somebody's by construction."""

from __future__ import annotations

import ast
from textwrap import dedent

import numpy as np
import pytest

from tests.support.builders import Machine
from tests.support.clocked_loops import ATTRIBUTED, ClockedLoop
from tests.support.places import TRACES
from tracelens.findings import breakdown, stalls
from tracelens.findings.owners import attribute, with_callees
from tracelens.findings.owners.attribution import added_up
from tracelens.findings.owners.callees import call_at
from tracelens.findings.owners.lead import due_to_waits
from tracelens.model import (
    Location,
    Owner,
    Owners,
)
from tracelens.trace import chrome, timeline


def us(owners: Owners, kind: str, line: int | None = None) -> float:
    """What the owners of a kind (at a line, their innermost) hold, in µs per step."""
    return sum(
        owner.owned_ns / 1000
        for owner in owners.owners
        if owner.kind == kind and (line is None or (owner.locations and owner.locations[0].line == line))
    )


def only(owners: Owners, kind: str) -> Owner:
    (owner,) = (owner for owner in owners.owners if owner.kind == kind)
    return owner


# ------------------------------------------------------------------------------------------------------ by line


def test_a_host_line_between_kernels_owns_the_gpus_idle_time() -> None:
    """2000 µs of Python at line 11 after a 100 µs kernel: the GPU idles from its end until the next launch."""

    def body(loop: ClockedLoop, number: int) -> None:
        loop.at(10).launch("gemm", 100)
        loop.at(11).host(2000)
        loop.at(12).launch("relu", 50)

    owners = ClockedLoop().run(body)
    assert us(owners, "gpu") == pytest.approx(150, abs=10)  # of the first step a part lies outside
    assert us(owners, "host_line", 11) == pytest.approx(2010 - 150, abs=30)
    assert sum(owner.owned_ns for owner in owners.owners) == pytest.approx(owners.wall_ns, abs=len(owners.owners))


def test_two_lines_in_one_stretch_share_it_as_they_did_when_they_were_seen() -> None:
    def body(loop: ClockedLoop, number: int) -> None:
        loop.at(10).launch("gemm", 10)
        loop.at(11).host(3000)
        loop.at(12).host(1000)
        loop.at(13).launch("relu", 10)

    owners = ClockedLoop().run(body)
    assert us(owners, "host_line", 11) == pytest.approx(3000, abs=30)
    assert us(owners, "host_line", 12) == pytest.approx(1000, abs=30)


def test_work_that_runs_in_no_attributed_step_is_told_apart() -> None:
    """In steps 1 and 4 line 20 takes 7000 µs; neither is clocked. Six steps are clean."""

    def body(loop: ClockedLoop, number: int) -> None:
        loop.at(10).launch("gemm", 10)
        loop.at(11).host(1000)
        if number in (1, 4):
            loop.at(20).host(7000)
        loop.at(12).launch("relu", 10)

    owners = ClockedLoop().run(body)
    assert us(owners, "host_line", 11) == pytest.approx(1000, abs=30)
    (excess,) = (owner for owner in owners.owners if owner.reason == "it ran in no attributed step")
    assert excess.owned_ns / 1000 == pytest.approx(2 * 7000 / 6, abs=60)


def test_the_collector_is_named_where_it_runs() -> None:
    def body(loop: ClockedLoop, number: int) -> None:
        loop.at(10).launch("gemm", 10)
        loop.at(11)
        loop.collect(4000)
        loop.at(12).launch("relu", 10)

    owner = next(owner for owner in ClockedLoop().run(body).owners if owner.kind == "host_line")
    assert owner.callee == "garbage collection (generation 2)"
    assert owner.locations[0] == Location("train.py", 11, "main")
    assert owner.owned_ns / 1000 == pytest.approx(4000, abs=30)


def test_a_collection_is_at_its_own_line_whatever_the_shares_of_the_attributed_steps_say() -> None:
    """Line 10 takes 500 µs behind its launch, and with the clock 9000: two thirds of the piece, and the collector runs
    in the middle of it."""

    def body(loop: ClockedLoop, number: int) -> None:
        loop.at(10).launch("gemm", 10)
        loop.machine.host(9000 if number in ATTRIBUTED else 500)
        loop.at(11)
        loop.collect(4000)
        loop.at(12).launch("relu", 10)

    owners = ClockedLoop().run(body)
    assert us(owners, "host_line", 11) == pytest.approx(4000, abs=350)  # with what the shares give it of the rest
    assert us(owners, "host_line", 10) == pytest.approx(500, abs=350)
    (collected,) = (owner for owner in owners.owners if owner.callee == "garbage collection (generation 2)")
    assert collected.locations[0] == Location("train.py", 11, "main")


def test_without_the_clock_the_kinds_stay_and_the_reason_is_given() -> None:
    loop = ClockedLoop()

    def body(each: ClockedLoop, number: int) -> None:
        each.at(10).launch("gemm", 100)
        each.at(11).host(2000)
        each.at(12).launch("relu", 50)

    with_lines = loop.run(body)
    without = loop.owners(clocked=False)
    assert us(without, "host_line") == us(with_lines, "host_line")
    assert only(without, "host_line").locations == ()
    assert only(without, "host_line").reason == "the recording holds no times per source line"


def test_a_trace_with_python_stacks_names_the_function() -> None:
    """No clock: 2000 µs in `pick`, which is defined at line 40."""
    machine = Machine()
    for number in range(4):
        with machine.step(number):
            machine.launch("gemm", 100)
            machine.events.frame("model.py(40): pick", machine.now, 2000)
            machine.host(2000)
            machine.launch("relu", 50)
    picture = timeline.build(machine.trace())
    _, parts, _, _ = breakdown.measure(picture)
    owner = only(attribute(picture, parts, (), None).owners, "host_line")
    assert owner.locations == (Location("model.py", 40, "pick"),)
    assert owner.owned_ns / 1000 == pytest.approx(2000 - 150, abs=60)


# ------------------------------------------------------------------------------------------------------ by kind


def test_many_short_launches_are_one_owner_and_no_line_is_blamed() -> None:
    def body(loop: ClockedLoop, number: int) -> None:
        for _ in range(50):
            loop.at(10).launch("gemm", 5)
            loop.machine.host(20)

    owners = ClockedLoop().run(body)
    assert us(owners, "launch") == pytest.approx(50 * 20, rel=0.05)
    assert us(owners, "host_line") == 0
    assert only(owners, "launch").locations[0].line == 10


def test_of_launches_each_line_has_its_part() -> None:
    def body(loop: ClockedLoop, number: int) -> None:
        for launch in range(40):
            loop.at(10 if launch % 4 else 12).launch("gemm", 5)
            loop.machine.host(20)

    (launches,) = (owner for owner in ClockedLoop().run(body).owners if owner.kind == "launch")
    assert [place.line for place, _ in launches.line_shares] == [10, 12]
    assert [share for _, share in launches.line_shares] == pytest.approx([0.75, 0.25], abs=0.05)


def test_the_loader_owns_what_the_gpu_waits_for_in_it() -> None:
    def body(loop: ClockedLoop, number: int) -> None:
        loop.at(10).load_batch(5000)
        loop.at(11).launch("gemm", 100)

    owners = ClockedLoop().run(body)
    assert us(owners, "dataloader", 10) == pytest.approx(5000 - 100, abs=30)


def test_calls_that_allocate_own_their_time_by_name() -> None:
    def body(loop: ClockedLoop, number: int) -> None:
        loop.at(10).launch("gemm", 10)
        machine = loop.at(11)
        machine.events.call("cudaFree", machine.now, 3000)
        machine.host(3000)
        loop.at(12).launch("relu", 10)

    owner = only(ClockedLoop().run(body), "allocator")
    assert (owner.callee, owner.locations[0].line) == ("cudaFree", 11)
    assert owner.owned_ns / 1000 == pytest.approx(3000, abs=30)


def test_the_way_into_the_backward_pass_and_out_of_it_is_a_part_of_it() -> None:
    """300 µs of Python at the line of `loss.backward()` before the first node, 200 µs after the last."""

    def body(loop: ClockedLoop, number: int) -> None:
        loop.at(10).launch("gemm", 10)
        machine = loop.at(11)
        machine.host(300)
        machine.events.add("cpu_op", "autograd::engine::evaluate_function: MmBackward0", machine.now, 400)
        machine.launch("mm", 10)
        machine.host(395)
        machine.host(200)
        loop.at(12).host(1000)
        loop.at(13).launch("relu", 10)

    owners = ClockedLoop().run(body)
    assert us(owners, "backward", 11) == pytest.approx(300 + 400 + 200 - 10 - 10, abs=30)
    assert us(owners, "host_line", 12) == pytest.approx(1000, abs=30)
    assert us(owners, "host_line", 11) == 0


def test_launches_that_come_late_because_the_host_waited_are_the_waits() -> None:
    """1000 µs of work, a synchronize, then 20 launches of 10 µs work each 30 µs apart: the GPU idles meanwhile."""

    def body(loop: ClockedLoop, number: int) -> None:
        loop.at(10).launch("gemm", 1000)
        loop.at(11).synchronize()
        for _ in range(20):
            loop.at(12).launch("relu", 10)
            loop.machine.host(25)

    owners = ClockedLoop().run(body)
    assert us(owners, "wait") == pytest.approx(20 * 20, rel=0.1)
    assert us(owners, "launch") < 60
    assert us(owners, "host_line") < 5


def test_a_long_line_after_a_wait_owns_its_time_and_names_the_wait() -> None:
    def body(loop: ClockedLoop, number: int) -> None:
        loop.at(10).launch("gemm", 5000)
        loop.at(11).synchronize()
        loop.at(12).host(3000)

    owners = ClockedLoop().run(body)
    line = only(owners, "host_line")
    assert line.owned_ns / 1000 == pytest.approx(3000, abs=30)
    assert line.locations[0].line == 12
    assert line.group == only(owners, "wait").group == "s1"


def test_a_wait_answers_for_no_more_than_it_blocked() -> None:
    """A copy blocks for some 30 µs; 500 µs of launches that come after it are not its doing."""

    def body(loop: ClockedLoop, number: int) -> None:
        loop.at(10).copy("h2d", "pageable", 20, nbytes=4096)
        for _ in range(20):
            loop.at(11).launch("relu", 5)
            loop.machine.host(30)

    owners = ClockedLoop().run(body)
    blocked = next(owner for owner in owners.owners if owner.kind == "copy" and owner.group == "s1")
    assert blocked.owned_ns / 1000 <= 40
    assert us(owners, "launch") > 400


def test_a_step_without_a_gpu_is_owned_line_by_line() -> None:
    def body(loop: ClockedLoop, number: int) -> None:
        loop.at(10).load_batch(1000)
        machine = loop.at(11)
        machine.events.add("cpu_op", "aten::linear", machine.now, 3000)
        machine.host(3000)
        loop.at(12).host(500)

    owners = ClockedLoop().run(body)
    assert (us(owners, "dataloader", 10), us(owners, "host_line", 11), us(owners, "host_line", 12)) == (1000, 3000, 500)
    assert owners.wall_ns == 4_500_000


@pytest.mark.skipif(not TRACES.is_dir(), reason="the shared traces are not here")
@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("amd/h100_owlv2_stacks", "dataloader"),
        ("amd/h100_bert_small_launch_bound", "launch"),
        ("hta/v100_healthy_5steps", "gpu"),
        ("hta/a100_alexnet_cuda_sync", "allocator"),
        ("h200/libtorch_small_base", "launch"),
    ],
)
def test_real_traces_are_owned_by_what_is_known_to_limit_them(name: str, kind: str) -> None:
    (path,) = TRACES.glob(f"{name}*")
    picture = timeline.build(chrome.load(path))
    _, parts, _, _ = breakdown.measure(picture)
    assert attribute(picture, parts, stalls.group(picture), None).owners.owners[0].kind == kind


# ------------------------------------------------------------------------------------------------- recoverable


def test_without_a_line_that_keeps_the_gpu_idle_the_step_is_shorter_by_its_idle_time() -> None:
    loop = ClockedLoop()

    def body(each: ClockedLoop, number: int) -> None:
        each.at(10).launch("gemm", 500)
        each.at(11).synchronize()
        each.at(12).host(2000)

    loop.run(body)
    owner = next(owner for owner in loop.owners(replayed=True).owners if owner.kind == "host_line")
    assert owner.locations[0].line == 12
    assert owner.recoverable_ns is not None and owner.low_ns is not None and owner.high_ns is not None
    assert owner.recoverable_ns / 1000 == pytest.approx(2000, rel=0.03)
    assert owner.low_ns <= owner.recoverable_ns <= owner.high_ns
    assert owner.evidence == "replayed"


def test_memory_that_must_be_asked_for_again_goes_with_the_line_that_gave_it_back() -> None:
    """Line 12 frees for 2000 µs; in the next step an operation at line 10 asks for it again, which takes 1000 µs."""
    loop = ClockedLoop()

    def body(each: ClockedLoop, number: int) -> None:
        machine = each.at(10)
        machine.events.call("cudaMalloc", machine.now, 1000)
        machine.host(1000)
        machine.launch("gemm", 100)
        machine = each.at(12)
        machine.events.call("cudaFree", machine.now, 2000)
        machine.host(2000)

    loop.run(body)
    freeing = next(owner for owner in loop.owners(replayed=True).owners if owner.callee == "cudaFree")
    assert freeing.recoverable_ns is not None
    assert freeing.recoverable_ns / 1000 == pytest.approx(3000, rel=0.05)


def test_a_line_under_a_full_queue_gives_nothing_back_and_is_no_owner() -> None:
    """Per step 5000 µs of GPU work and 2000 µs of Python: the host is always ahead."""
    loop = ClockedLoop()

    def body(each: ClockedLoop, number: int) -> None:
        if number == 0:
            each.machine.launch("backlog", 20_000)
        each.at(10).launch("gemm", 5000)
        each.at(11).host(2000)

    loop.run(body)
    assert not [owner for owner in loop.owners(replayed=True).owners if owner.kind == "host_line"]


def test_a_waits_recoverable_time_is_its_exposed_cost_and_launches_have_none() -> None:
    """Twenty launches 30 µs apart come after the wait; without it the GPU runs their 10 µs each one after another."""
    loop = ClockedLoop()

    def body(each: ClockedLoop, number: int) -> None:
        each.at(10).launch("gemm", 1000)
        each.at(11).synchronize()
        for _ in range(20):
            each.at(12).launch("relu", 10)
            each.machine.host(25)

    loop.run(body)
    owners = loop.owners(replayed=True).owners
    assert [owner.recoverable_ns for owner in owners if owner.kind == "launch"] == [None]
    (wait,) = (owner for owner in owners if owner.kind == "wait")
    assert wait.recoverable_ns is not None
    assert wait.recoverable_ns / 1000 == pytest.approx(20 * 20, rel=0.1)


# ------------------------------------------------------------------------------------------------------ the parts


def test_leads_are_used_up_from_the_last_wait_on_and_never_twice() -> None:
    """Wait 0 was done at 100 with a lead of 50, wait 1 at 200 with a lead of 3."""
    done, lead = np.array([100, 200]), np.array([50, 3])
    starts, lengths = np.array([150, 30_000, 60_000]), np.array([10, 20, 100])
    due = due_to_waits(done, lead, starts, lengths)
    parts = zip(due.segments, due.waits, due.lengths, strict=True)
    assert [*parts] == [(0, 1, 3), (0, 0, 7), (1, 0, 20), (2, 0, 23)]


@pytest.mark.parametrize("too_many", [-9, 9])
def test_many_small_lines_add_up_to_the_step_although_each_is_rounded(too_many: int) -> None:
    lines = [Owner("host_line", 50_000, (Location("train.py", number),)) for number in range(20)]
    wall = 100_000_000 + sum(line.owned_ns for line in lines) - too_many
    owners = Owners(wall, tuple(added_up([Owner("gpu", 100_000_000), *lines], wall)))
    assert [(owner.kind, owner.owned_ns) for owner in owners.owners] == [
        ("gpu", 100_000_000),
        ("host_line", 1_000_000 - too_many),
    ]


def test_owners_that_do_not_add_up_are_refused() -> None:
    with pytest.raises(ValueError, match="add up to 90 ns, the wall time is 100 ns"):
        Owners(100, (Owner("gpu", 60), Owner("launch", 30)))
    with pytest.raises(ValueError, match="known kind"):
        Owners(100, (Owner("gpu", 110), Owner("launch", -10)))


@pytest.mark.parametrize(
    ("text", "line", "called"),
    [
        ("import gc\ngc.collect()", 2, "gc.collect"),
        ("import numpy as np\nnp.sort(rows)", 2, "numpy.sort"),
        ("from json import dumps\nlog.write(dumps(rows))", 2, "json.dumps"),
        ("x = [\n    first(),\n    second(),\n]", 3, "second"),
        ("total += price * count", 1, None),
        ("model(x).squeeze().sum()", 1, "model"),
        ("memory = getattr(torch, kind, torch.cuda)\nmemory.empty_cache()", 2, "torch.cuda.empty_cache"),
        ("memory = torch.get_device_module()\nmemory.synchronize()", 2, "torch.cuda.synchronize"),
        ("from torch import accelerator\naccelerator.empty_cache()", 2, "torch.cuda.empty_cache"),
        ("memory = getattr(own, kind)\nmemory.empty_cache()", 2, "memory.empty_cache"),
    ],
)
def test_the_call_on_a_line_is_named_by_its_text(text: str, line: int, called: str | None) -> None:
    assert call_at(ast.parse(text), Location("train.py", line)) == called


def test_a_collection_that_the_line_asks_for_is_called_by_its_name() -> None:
    text = dedent("""\
        import gc
        gc.collect()
        rows = []
    """)
    places = (Location("train.py", 2),), (Location("train.py", 3),), (Location("other.py", 2),)
    found = Owners(30, tuple(Owner("host_line", 10, place, "garbage collection (generation 2)") for place in places))
    named = [owner.callee for owner in with_callees(found, {"train.py": text}).owners]
    assert named == ["gc.collect", "garbage collection (generation 2)", "garbage collection (generation 2)"]
