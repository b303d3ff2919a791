"""Who owns the idle time of a GPU: each nanosecond has one owner."""

from __future__ import annotations

from tests.support.builders import Events, Machine
from tests.support.timelines import US, assert_every_nanosecond_has_one_owner, built, idle_us, looped, per_batch


def test_the_idle_time_of_a_known_loop() -> None:
    picture = looped(per_batch)
    assert_every_nanosecond_has_one_owner(picture)
    # 40 in the loader; 7 until the copy starts; 10 from its end to the kernel; 1 between kernels; return and refill.
    assert idle_us(picture, 1) == {"dataloader": 40, "launch": 1, "sync": 7 + 10 + 8 + 2 + 103}
    waits = picture.syncs()
    assert list(waits.loc[waits["step"] == 1, "gpu_idle_ns"]) == [17 * US, 8 * US, 105 * US]


def test_a_loop_that_the_gpu_never_keeps_waiting_owns_no_idle_time() -> None:
    """Ten launches, each followed by 50 us of Python; the kernel of 10 us is done long before the next one."""

    def body(machine: Machine) -> None:
        for _ in range(10):
            machine.launch("small", 10)
            machine.host(50)
        machine.synchronize()

    picture = looped(body)
    assert_every_nanosecond_has_one_owner(picture)
    idle = idle_us(picture, 1)
    assert idle["sync"] == 5  # its own call
    assert idle["launch"] == 10 * 7
    assert idle["host"] == 10 * (55 - 7 - 10)
    assert list(picture.syncs()["wait_ns"]) == [0] * 4


def test_a_wait_owns_no_more_idle_time_than_the_lead_it_destroyed() -> None:
    """The GPU has 98 us to go when the host waits; the 1,000 us of Python after that are the host's own."""

    def body(machine: Machine) -> None:
        machine.launch("gemm", 96)
        machine.synchronize()
        machine.host(1000)

    picture = looped(body)
    idle = idle_us(picture, 1)
    assert idle["sync"] == 96
    assert idle["sync"] + idle["host"] + idle["launch"] == 1000 + 3 + 7
    assert picture.syncs()["gpu_idle_ns"][1] == 96 * US


def test_refill_belongs_to_the_wait_and_the_loader_to_itself() -> None:
    """After a long wait three short kernels leave gaps until a long one fills the queue again."""

    def body(machine: Machine) -> None:
        for _ in range(3):
            machine.launch("short", 10)
            machine.host(40)
        machine.launch("long", 2000)
        machine.synchronize()

    idle = idle_us(looped(body), 1)
    assert set(idle) == {"sync"}
    assert idle["sync"] == 3 + 7 + 3 * (45 - 10)


def test_gaps_are_cut_where_a_step_ends() -> None:
    events = Events()
    for number, (at, kernel) in enumerate(((0, 50), (100, 190), (200, 210))):
        events.step(number, at, 100)
        events.kernel(events.call("cudaLaunchKernel", at + 5, 5), "gemm", kernel, 20)
    picture = built(events)
    assert_every_nanosecond_has_one_owner(picture)
    gap = picture.idle_gaps()[lambda rows: rows["next_op"] == 1]
    assert set(gap["step"]) == {0, 1} and (gap["end_ns"] == 100 * US).any()


def test_work_on_a_second_stream_is_not_idle() -> None:
    events = Events()
    events.step(0, 0, 100)
    first, second = events.call("cudaLaunchKernel", 0, 5), events.call("cudaLaunchKernel", 6, 5)
    events.kernel(first, "a", 10, 40)
    events.kernel(second, "b", 40, 60, stream=9)
    picture = built(events)
    assert idle_us(picture, 0) == {"launch": 10}


def test_each_device_has_its_own_gaps() -> None:
    events = Events()
    events.step(0, 0, 100)
    for device, at in ((0, 10), (1, 50)):
        events.kernel(events.call("cudaLaunchKernel", at - 5, 5), "gemm", at, 50, device=device)
    picture = built(events)
    assert_every_nanosecond_has_one_owner(picture)
    lengths = picture.idle_gaps().groupby("device").apply(lambda rows: int((rows["end_ns"] - rows["start_ns"]).sum()))
    assert lengths.to_dict() == {0: 50 * US, 1: 50 * US}


def test_allocations_own_their_time_as_other() -> None:
    def body(machine: Machine) -> None:
        machine.events.call("cudaMalloc", machine.now, 200)
        machine.host(200)
        machine.launch("gemm", 50)
        machine.synchronize()

    picture = looped(body)
    waits = picture.syncs()
    assert idle_us(picture, 1)["other"] == 200
    assert list(waits.loc[waits["kind"] == "alloc", "wait_ns"]) == [200 * US] * 4
    assert list(waits.loc[waits["kind"] == "alloc", "gpu_idle_ns"]) == [200 * US] * 4


def test_the_drain_owns_no_idle_time() -> None:
    """Without steps it lies within the one step, and the GPU has nothing to do while it waits and returns."""
    machine = Machine()
    machine.launch("gemm", 100)
    machine.host(500)
    machine.synchronize()
    machine.events.copied(9_999, "Memcpy DtoD (Device -> Device)", machine.now + 50, 10)
    picture = built(machine.events)
    assert picture.step_source == "none" and list(picture.syncs()["window_edge"]) == [True]
    assert list(picture.syncs()["gpu_idle_ns"]) == [0]
    assert "sync" not in idle_us(picture, 0)
    assert_every_nanosecond_has_one_owner(picture)


def test_what_the_gpu_did_before_its_first_recorded_operation_is_not_idle_time() -> None:
    """A graph replay that waits for 8 ms of work launched before the window, which some profilers leave out."""
    events = Events()
    graph = events.call("hipGraphLaunch", 0, 500)
    for number in range(10):
        events.kernel(graph, "decode", 8_000 + 100 * number, 100)
    picture = built(events)
    assert picture.step_source == "none" and list(picture.ops()["step"]) == [0] * 10
    assert sum(idle_us(picture, 0).values()) == 30  # as long as a launch may take
    assert_every_nanosecond_has_one_owner(picture)
