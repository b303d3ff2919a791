"""Times of source lines: one baseline, a loader without a line in the head of its loop, groups that pay together."""

from __future__ import annotations

from dataclasses import replace

from tests.support import report_cases as cases
from tracelens.model import Location, Owner
from tracelens.report import line_times

MS = cases.MS


def test_a_loader_without_a_line_is_shown_where_the_loop_asks_for_the_next_batch() -> None:
    times = line_times.line_times(cases.held(cases.recommended(), Owner("gpu", 6 * MS), Owner("dataloader", 4 * MS)))
    assert times["train.py", 6].gpu_idle_ns == 3_500_000  # what 6 ms of work leave of 9.5
    assert "for inputs, targets in loader" in times["train.py", 6].text


def test_a_loop_over_numbers_asks_nobody_for_a_batch() -> None:
    source = cases.SOURCE.replace("in loader:", "in range(9):")
    assert line_times.loop_head(cases.recommended(sources={"train.py": source})) is None
    assert line_times.loop_head(cases.recommended(sources={"train.py": "def broken("})) is None
    assert line_times.loop_head(cases.recommended(sources={})) is None


def test_lines_that_give_back_more_together_are_a_group() -> None:
    base = cases.recommended()
    quiet = tuple(replace(stall, exposed_ns=30_000) for stall in base.stalls)
    assert line_times.group(replace(base, stalls=quiet)) == (("train.py", 11), ("train.py", 12))


def test_lines_that_tell_for_themselves_are_none() -> None:
    assert line_times.group(cases.recommended()) == ()  # 1.5 ms alone, 1.4 together
    assert line_times.group(cases.planned()) == ()


def test_the_idle_time_of_a_group_of_waits_stands_where_each_of_them_has_it() -> None:
    """Two waits in one owner: its 3 ms are not told of its first line, nor twice."""
    base = cases.recommended()
    places = tuple(stall.location for stall in base.stalls[:2] if stall.location is not None)
    waits = tuple(replace(stall, gpu_idle_ns=ns) for stall, ns in zip(base.stalls, (2 * MS, MS), strict=False))
    base = cases.held(replace(base, stalls=waits), Owner("gpu", 7 * MS), Owner("wait", 3 * MS, places, group="s1+s2"))
    times = line_times.line_times(base)
    told = {place.line: times[place.path, place.line].gpu_idle_ns for place in places if place.line is not None}
    assert list(told.values()) == [1_666_667, 833_333]  # of the 2.5 ms that 7 ms of work leave of 9.5


def test_launches_of_several_lines_are_told_line_by_line() -> None:
    places = (Location("train.py", 9), Location("train.py", 10))
    launches = Owner("launch", 4 * MS, places, line_shares=((places[0], 0.5), (places[1], 0.25)))
    times = line_times.line_times(cases.held(cases.planned(), Owner("gpu", 6 * MS), launches))
    idle = [times["train.py", line].gpu_idle_ns for line in (9, 10)]
    assert idle == [1_750_000, 875_000]  # of the 3.5 ms that 6 ms of work leave of 9.5
