"""What binds a function to its moment: a clock that it computes with, or other ranks that it meets."""

from __future__ import annotations

import ast

import pytest

from tracelens.patch.code import clocks

IMPORTS = {
    "time": "time",
    "torch": "torch",
    "datetime": "datetime.datetime",
    "dist": "torch.distributed",
    "perf_counter": "time.perf_counter",
}


def bound(body: str) -> str:
    return clocks.bound(ast.parse(body), IMPORTS)


@pytest.mark.parametrize(
    "body",
    [
        "rate = n / (time.time() - start)",
        "self.start = perf_counter()",
        "clock = time.monotonic",
        "passed = datetime.now() - begun",
        "now = datetime.now()\nif now > limit:\n    stop()",
        "return datetime.now()",
        "ms = start.elapsed_time(end)",
        "end.record()",
        "begin = torch.cuda.Event(enable_timing=True)",
    ],
)
def test_a_time_that_is_computed_with(body: str) -> None:
    assert bound(body) == clocks.LOOKS


@pytest.mark.parametrize(
    "body",
    [
        "print(time.strftime('%H:%M'), loss)",
        "print(time.ctime(time.time()))",
        "stamp = datetime.now().isoformat()",
        "now = datetime.now()\nprint(now)",
        "meter.record(loss)",
        "total += loss",
    ],
)
def test_a_time_that_only_stands_on_a_line(body: str) -> None:
    assert bound(body) == ""


@pytest.mark.parametrize("body", ["dist.all_reduce(x)", "dist.broadcast(x, 0)", "group.barrier()", "comm.allreduce(x)"])
def test_a_function_that_meets_other_ranks(body: str) -> None:
    assert bound(body) == clocks.MEETS


@pytest.mark.parametrize("body", ["functools.reduce(f, x)", "pipe.send(x)", "x.gather(0, y)"])
def test_these_words_mean_other_ranks_in_torch_distributed_only(body: str) -> None:
    assert bound(body) == ""


def test_meeting_ranks_comes_before_the_clock() -> None:
    assert bound("t = time.time() - start\ndist.barrier()") == clocks.MEETS


@pytest.mark.parametrize(
    ("name", "speaks"),
    [("SpeedMeter", True), ("train_timer", True), ("FPSCounter", True), ("AverageMeter", False), ("timestep", False)],
)
def test_a_name_says_that_there_is_a_clock_behind_it(name: str, speaks: bool) -> None:
    assert clocks.speaks_of_time(name) is speaks


def test_time_alone_says_so_of_a_class_only() -> None:
    assert clocks.speaks_of_time("TimeMeter", of_class=True)
    assert not clocks.speaks_of_time("time_embedding")


@pytest.mark.parametrize(("attribute", "known"), [("elapsed_td", True), ("elapsed", True), ("avg", False)])
def test_an_attribute_that_is_computed_when_it_is_asked_for(attribute: str, known: bool) -> None:
    assert clocks.lasts(attribute) is known
