"""Known answers for events whose record the trace leaves out (CUDA 12.9 and later) and the recording names.

Loops as in test_known_answers; all times in µs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from tests.support.builders import BASE_NS, ISSUE_US, STREAM, Machine
from tests.support.replaying import SYNC, stalls_by_kind, time_us
from tracelens.model import Abstention, Edit, EventUse, RankRecording, Timeline
from tracelens.replay import estimate, trace_builder
from tracelens.replay.replay_trace import ReplayTrace, all_host_ops
from tracelens.trace import timeline

COPIES = 20
NEVER_WAIT = Edit("interval-sync", (SYNC,), interval=1000)


@dataclass
class Scripted:
    """A machine whose script uses events, and what the recording notes of that: Python takes 2 around each call."""

    machine: Machine = field(default_factory=Machine)
    uses: list[EventUse] = field(default_factory=list)
    done: dict[int, float] = field(default_factory=dict)

    def record(self, event: int, stream: int) -> None:
        self._call("cudaEventRecordWithFlags", "record", event, stream)
        self.done[event] = self.machine.stream_end.get(stream, 0.0)

    def wait(self, event: int, stream: int) -> None:
        correlation = self._call("cudaStreamWaitEvent", "wait", event, stream)
        unnamed = {"wait_on_stream": -1, "wait_on_cuda_event_record_corr_id": -1, "wait_on_cuda_event_id": -1}
        at = self.machine.now - ISSUE_US
        self.machine.events.sync_row(correlation, "Stream Wait Event", at, ISSUE_US, stream=stream, **unnamed)
        self.machine.stream_end[stream] = max(self.machine.stream_end.get(stream, 0.0), self.done.get(event, 0.0))

    def synchronize(self, event: int) -> None:
        began = self.machine.now
        self.machine.event_synchronize(self.done[event])
        self._note("synchronize", event, None, began)

    def picture(self, *, noted: bool = True) -> Timeline:
        uses = tuple(self.uses) if noted else ()
        return timeline.build(self.machine.trace(), RankRecording(0, None, events=uses))

    def _call(self, api: str, call: str, event: int, stream: int | None) -> int:
        began = self.machine.now
        correlation = self.machine.events.call(api, began, ISSUE_US)
        self.machine.now += ISSUE_US
        self._note(call, event, stream, began)
        return correlation

    def _note(self, call: str, event: int, stream: int | None, began: float) -> None:
        start, end = (BASE_NS + round(1000 * at) for at in (began - 1, self.machine.now + 1))
        self.uses.append(EventUse(start, end, 100, call, event, stream))


def played(body: Callable[[Scripted, int], None], steps: int = 8) -> Scripted:
    script = Scripted()
    for number in range(steps):
        with script.machine.step(number):
            body(script, number)
    return script


def built(picture: Timeline) -> ReplayTrace:
    made = trace_builder.build(picture, stalls_by_kind(picture))
    assert isinstance(made, ReplayTrace), made
    return made


def in_turn(script: Scripted, before: int, read: int, copied: int) -> None:
    """A kernel of 200 behind the copy of the step before, the next copy of 300 behind that kernel: nothing overlaps."""
    machine = script.machine
    script.wait(before, STREAM)
    machine.launch("gemm", 200)
    script.record(read, STREAM)
    script.wait(read, COPIES)
    machine.copy("h2d", "pinned", 300, nbytes=15_000_000, stream=COPIES)
    script.record(copied, COPIES)
    machine.synchronize()


@pytest.mark.slow
@pytest.mark.parametrize("fresh", [False, True])
def test_what_the_script_noted_keeps_the_order_of_two_streams(fresh: bool) -> None:
    """Without the wait at the end the two streams still take turns: 200 + 300 and a gap of 1 each. A script that makes
    new events in every step says the same."""

    def body(script: Scripted, number: int) -> None:
        new = 2 * number if fresh else 2
        in_turn(script, new - 1 if fresh else 1, new + 2 if fresh else 2, new + 1 if fresh else 1)

    made = built(played(body).picture())
    assert made.unresolved_waits == 0
    assert abs(made.errors.recorded) < 1e-3
    assert time_us(made, NEVER_WAIT) == pytest.approx(502, abs=0.5)
    drawn = estimate.predict(made, (NEVER_WAIT,))  # steps in any order
    assert not isinstance(drawn, Abstention)
    assert drawn.low_ns > 0.9 * 502_000


def three_streams(script: Scripted, _: int) -> None:
    """The consumer on 21 waits for `quick` on 22, not for `slow` on 20, which also ends before it: its own stream is
    busy until then. The trace does not tell which."""
    machine = script.machine
    machine.launch("quick", 100, stream=22)
    script.record(1, 22)
    machine.launch("slow", 400, stream=20)
    script.record(2, 20)
    machine.launch("own", 450, stream=21)
    script.wait(1, 21)
    machine.launch("consumer", 300, stream=21)
    machine.synchronize()


def waits_of(made: ReplayTrace) -> set[tuple[str, int]]:
    return {(op.event, op.stream) for step in made.steps for op in all_host_ops(step) if op.kind == "stream_wait"}


def test_the_noted_record_wins_over_the_one_that_fits_the_timing() -> None:
    script = played(three_streams)
    told, guessed = built(script.picture()), built(script.picture(noted=False))
    streams = {name: index for index, name in enumerate(told.streams)}
    records = {op.event: op.stream for step in told.steps for op in all_host_ops(step) if op.kind == "record"}
    ((event, waiter),) = waits_of(told)
    assert (records[event], waiter) == (streams["stream 22"], streams["stream 21"])
    assert waits_of(guessed) != waits_of(told)
    assert time_us(told, NEVER_WAIT) == pytest.approx(450 + 300 + 2, abs=0.5)


def test_a_recording_without_events_is_read_as_before() -> None:
    """No key, an empty list, and uses that are not among the calls are all the same."""
    script = played(three_streams)
    plain = timeline.build(script.machine.trace())
    early = [replace(use, start_unix_ns=0, end_unix_ns=1) for use in script.uses]
    for uses in ((), tuple(early)):
        other = timeline.build(script.machine.trace(), RankRecording(0, None, events=uses))
        assert other.calls().equals(plain.calls())
        assert other.syncs().equals(plain.syncs())
        assert list(map(list, map(all_host_ops, built(other).steps))) == list(
            map(list, map(all_host_ops, built(plain).steps))
        )


def test_an_event_that_is_synchronized_waits_for_the_work_before_its_record() -> None:
    """`old` of 100 is recorded, `new` of 400 is not part of the wait; and then the host works 30."""

    def body(script: Scripted, _: int) -> None:
        machine = script.machine
        machine.launch("old", 100)
        script.record(5, STREAM)
        machine.launch("new", 400, stream=COPIES)
        script.synchronize(5)
        machine.host(30)
        machine.synchronize()

    picture = played(body).picture()
    waits = picture.syncs()
    events = waits[waits["kind"] == "event"]
    # Launched at 0, started at 7, done at 107; the call began at 15.
    assert (events["wait_ns"] == 92_000).all()
    made = built(picture)
    (sync,) = {(op.event, op.lag) for step in made.steps for op in all_host_ops(step) if op.kind == "event_sync"}
    assert sync == ("record 1", 0)
    assert time_us(made) == pytest.approx(10 + 7 + 400 + 3, abs=0.5)


def test_waits_of_the_first_steps_are_those_of_later_ones() -> None:
    """A ring of three events, each waited for three steps after it was recorded: what the first three steps wait for
    is not in the trace, and every step of the replay waits for the kernel of three steps ago."""

    def body(script: Scripted, number: int) -> None:
        script.done.setdefault(number % 3, 0.0)
        script.synchronize(number % 3)
        script.machine.launch("gemm", 400)
        script.record(number % 3, STREAM)
        script.machine.host(10)

    script = played(body, steps=9)
    made = built(script.picture())
    syncs = [(op.event, op.lag) for step in made.steps for op in all_host_ops(step) if op.kind == "event_sync"]
    assert syncs == [("record 1", 2)] * 9
    assert time_us(made) == pytest.approx(401, abs=0.5)


def test_an_event_from_before_the_trace_is_waited_for_by_nobody() -> None:
    def body(script: Scripted, _: int) -> None:
        script.machine.launch("one", 100, stream=20)
        script.machine.launch("two", 200, stream=21)
        script.wait(9, 21)
        script.machine.launch("three", 50, stream=21)
        script.machine.synchronize()

    made = built(played(body).picture())
    assert made.unresolved_waits == 0
    assert not waits_of(made)


def test_an_event_on_a_stream_that_runs_nothing_holds_nobody_up() -> None:
    def body(script: Scripted, _: int) -> None:
        script.record(3, 40)
        script.machine.launch("one", 100, stream=20)
        script.wait(3, 21)
        script.machine.launch("two", 200, stream=21)
        script.machine.synchronize()

    made = built(played(body).picture())
    assert made.unresolved_waits == 0
    assert not waits_of(made)


def test_a_wait_that_nobody_noted_stays_unresolved_and_is_said() -> None:
    """Events of C++ code are not noted. Here nothing was recorded before the wait, so timing tells nothing either."""

    def body(script: Scripted, _: int) -> None:
        script.machine.launch("one", 100, stream=20)
        script.wait(9, 21)
        script.machine.launch("two", 200, stream=21)
        script.machine.synchronize()

    script = played(body)
    made = built(script.picture(noted=False))
    assert made.unresolved_waits == 1
    refused = estimate.predict(made, (NEVER_WAIT,))
    assert isinstance(refused, Abstention)
    assert "does not say what it waits for" in refused.missing
    assert built(script.picture()).unresolved_waits == 0


def test_a_record_that_the_trace_lost_is_not_replaced_by_an_older_one() -> None:
    """The script records the event anew in every step; the call of the last step's record is missing."""
    script = played(lambda made, _: in_turn(made, 1, 2, 1))
    calls = [row for row in script.machine.events.rows if row["name"] == "cudaEventRecordWithFlags"]
    script.machine.events.rows.remove(calls[-4])  # the record of a kernel, for which the copy behind it waits
    found = script.picture().calls()
    waits = found[found["kind"] == "stream_wait"]
    assert (waits["record"] == -1).sum() == 1
    told = waits["record"][waits["record"] >= 0]
    assert (told < told.index).all()
    assert (found["kind"].iloc[told] == "event_record").all()


@pytest.mark.parametrize("change", [{"thread": 7}, {"stream": 1 << 70}, {"stream": -3}, {"call": "other"}])
def test_uses_that_fit_no_call_change_no_stream(change: dict[str, Any]) -> None:
    script = played(three_streams)
    plain = timeline.build(script.machine.trace()).calls()
    script.uses = [replace(use, **change) for use in script.uses]
    found = script.picture().calls()
    assert found["stream"].tolist() == plain["stream"].tolist()


def test_without_a_clock_in_common_nothing_is_joined() -> None:
    script = played(three_streams)
    trace = replace(script.machine.trace(), base_unix_ns=None)
    found = timeline.build(trace, RankRecording(0, None, events=tuple(script.uses))).calls()
    assert (found["record"] == -1).all()
