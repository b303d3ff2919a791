"""Slow steps among step times written by hand: which, how often, and what they add to the mean step."""

from __future__ import annotations

import random

import pytest

from tracelens.trace import step_periods

MS = 1_000_000


def lengths(steps: int, slow: dict[int, int], ordinary: int = 10) -> list[int]:
    return [MS * slow.get(step, ordinary) for step in range(steps)]


def every(distance: int, phase: int, steps: int, ms: int) -> dict[int, int]:
    return dict.fromkeys(range(phase, steps, distance), ms)


def test_a_checkpoint_every_tenth_step_is_a_fifth_of_the_time() -> None:
    found = step_periods.find(lengths(100, every(10, 7, 100, 35)))
    assert found is not None
    assert (found.every, found.seen, found.ordinary_ns, found.slow_ns) == (10, 10, 10 * MS, 25 * MS)
    assert found.per_step_ns == pytest.approx(2.5 * MS)
    assert found.share == pytest.approx(0.2)
    assert [found.next_after(at) for at in (99, 107, 108)] == [107, 117, 117]


def test_the_period_holds_beside_noise_and_hiccups_of_the_machine() -> None:
    rng = random.Random(1)
    steps = [round(ns * rng.uniform(0.9, 1.15)) for ns in lengths(180, every(12, 3, 180, 40) | {50: 30, 101: 60})]
    found = step_periods.find(steps)
    assert found is not None and found.every == 12
    low, high = found.limits_ns
    assert low <= found.per_step_ns <= high
    assert found.per_step_ns == pytest.approx(30 * MS / 12, rel=0.1)


def test_many_shorter_hiccups_between_them_do_not_hide_a_period() -> None:
    """As recorded on a machine with a load of eight: one step in four is disturbed, to twice its length."""
    hiccups = dict.fromkeys((1, 9, 15, 16, 19, 25, 30, 33, 42, 48, 55, 62, 63), 20)
    more = dict.fromkeys(range(0, 64, 3), 20)  # together with these, more steps are disturbed than a third
    for disturbed in (hiccups, hiccups | more):
        found = step_periods.find(lengths(64, disturbed | every(8, 5, 64, 140)))
        assert found is not None and (found.every, found.positions) == (8, tuple(range(5, 64, 8)))


@pytest.mark.parametrize(
    "steps",
    [
        lengths(100, {}),
        lengths(100, every(10, 0, 100, 13)),  # 1.3 times: as steps of one loop differ
        lengths(100, every(2, 0, 100, 40)),  # two kinds of steps
        lengths(11, {3: 100, 6: 100, 9: 100}),  # too few to know an ordinary one
    ],
)
def test_nothing_is_slow(steps: list[int]) -> None:
    assert step_periods.find(steps) is None


def test_slow_steps_at_no_period_have_none() -> None:
    found = step_periods.find(lengths(100, {3: 50, 20: 50, 31: 50, 77: 50}))
    assert found is not None and (found.every, found.likely_every, found.next_after(99)) == (None, None, None)
    assert found.distance == 25


def test_two_alike_may_be_a_period_and_two_that_differ_are_none() -> None:
    alike = step_periods.find(lengths(190, {70: 50, 150: 55}))
    assert alike is not None and (alike.every, alike.likely_every, alike.next_after(200)) == (None, 80, 230)
    other = step_periods.find(lengths(190, {70: 50, 150: 90}))
    assert other is not None and other.likely_every is None
    soon = step_periods.find(lengths(190, {70: 50, 100: 50}))  # at a distance of 30 more would have been seen
    assert soon is not None and soon.likely_every is None


def test_logs_every_tenth_step_and_a_checkpoint_every_fiftieth_are_one_pattern() -> None:
    found = step_periods.find(lengths(200, every(10, 0, 200, 20) | every(50, 0, 200, 100)))
    assert found is not None and (found.every, found.seen) == (10, 20)
    assert found.per_step_ns == pytest.approx((16 * 10 + 4 * 90) * MS / 200)
