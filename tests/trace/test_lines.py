"""Time per line from logs written by hand: every expected number can be worked out in the head."""

from __future__ import annotations

import pytest

from tracelens.model import LineLog, LinePlace, Location, LoggedStep
from tracelens.trace.lines import LineInterval, LineStep, fold, time_per_line

LINE, ENTER, LEAVE, NOTE = range(4)
MAIN, HELPER = 0, 1
CODES = (Location("train.py", 1, "main"), Location("data.py", 10, "helper"))
Event = tuple[int, int, int, int]
"""(time, code, line, kind)."""


def log(*events: Event, end: int, cap: int = 50, call_cost: int = 0, starts: tuple[int, ...] = (0,)) -> LineLog:
    places = tuple(dict.fromkeys(LinePlace(code, line, kind) for _, code, line, kind in events))  # type: ignore[arg-type]
    firsts = [sum(at < start for at, *_ in events) for start in starts]
    ends = (*starts[1:], end)
    return LineLog(
        thread=1,
        clock="monitoring",
        cap=cap,
        call_cost_ns=call_cost,
        codes=CODES,
        places=places,
        steps=tuple(
            LoggedStep(number, *borders) for number, borders in enumerate(zip(starts, ends, firsts, strict=True))
        ),
        times_unix_ns=[at for at, *_ in events],
        events=[places.index(LinePlace(code, line, kind)) for _, code, line, kind in events],  # type: ignore[arg-type]
    )


def started(line: int) -> tuple[Event, Event]:
    """How every step's log begins: the main function is under way."""
    return (0, MAIN, 0, ENTER), (0, MAIN, line, LINE)


def times(step: LineStep) -> dict[str, int]:
    return {
        "outside" if line is None else f"{CODES[line[0]].function}:{line[1]}": ns
        for line, ns in time_per_line(step).items()
    }


def test_a_line_lasts_until_the_next_one_and_the_last_until_the_step_ends() -> None:
    (step,) = fold(log(*started(5), (100, MAIN, 6, LINE), (400, MAIN, 7, LINE), end=1000))
    assert times(step) == {"main:5": 100, "main:6": 300, "main:7": 600}


def test_a_callee_takes_its_own_time_and_the_caller_goes_on_afterwards() -> None:
    call = (100, HELPER, 0, ENTER), (101, HELPER, 11, LINE), (400, HELPER, 0, LEAVE)
    (step,) = fold(log(*started(5), *call, end=1000))
    assert times(step) == {"main:5": 700, "helper:11": 300}
    assert [interval.path for interval in step.intervals][1] == ((MAIN, 5), (HELPER, 11))


def test_the_time_before_a_functions_first_line_belongs_to_that_line() -> None:
    call = (100, HELPER, 0, ENTER), (300, HELPER, 11, LINE), (400, HELPER, 0, LEAVE)
    (step,) = fold(log(*started(5), *call, end=1000))
    assert times(step) == {"main:5": 700, "helper:11": 300}


def test_a_function_without_a_line_of_its_own_is_named_by_its_def() -> None:
    (step,) = fold(log(*started(5), (100, HELPER, 0, ENTER), (400, HELPER, 0, LEAVE), end=1000))
    assert times(step) == {"main:5": 700, "helper:10": 300}


def test_a_generator_goes_on_at_the_line_at_which_it_was_left() -> None:
    first = (100, HELPER, 0, ENTER), (100, HELPER, 11, LINE), (200, HELPER, 0, LEAVE)
    again = (500, HELPER, 0, ENTER), (600, HELPER, 0, LEAVE)
    (step,) = fold(log(*started(5), *first, *again, end=1000))
    assert times(step) == {"main:5": 800, "helper:11": 200}


def test_a_line_of_a_function_below_the_top_ends_what_lies_above() -> None:
    unseen_leave = (100, HELPER, 0, ENTER), (100, HELPER, 11, LINE), (400, MAIN, 6, LINE)
    (step,) = fold(log(*started(5), *unseen_leave, end=1000))
    assert times(step) == {"main:5": 100, "helper:11": 300, "main:6": 600}


def test_a_line_of_a_function_that_was_entered_unseen_counts_for_it() -> None:
    (step,) = fold(log(*started(5), (100, HELPER, 11, LINE), (400, HELPER, 0, LEAVE), end=1000))
    assert times(step) == {"main:5": 700, "helper:11": 300}


def test_time_with_no_function_of_the_users_has_no_line() -> None:
    (step,) = fold(log((200, HELPER, 0, ENTER), (200, HELPER, 11, LINE), end=1000))
    assert times(step) == {"outside": 200, "helper:11": 800}


def test_each_step_is_read_by_itself() -> None:
    events = *started(5), (1000, MAIN, 0, ENTER), (1000, MAIN, 7, LINE)
    first, second = fold(log(*events, end=1500, starts=(0, 1000)))
    assert (times(first), times(second)) == ({"main:5": 1000}, {"main:7": 500})
    assert (first.number, second.number) == (0, 1)


def test_leaving_functions_that_were_never_entered_changes_nothing() -> None:
    leaves = ((at, HELPER, 0, LEAVE) for at in range(100, 130))
    (step,) = fold(log(*started(5), *leaves, end=1000))
    assert times(step) == {"main:5": 1000}


# ------------------------------------------------------------------------------------------------ hot lines


def hot(cap: int, *lengths: int) -> list[Event]:
    """A loop over lines 6, 7, … of the main function, from 100 on, `cap` times."""
    at, events = 100, []
    for _ in range(cap):
        for position, length in enumerate(lengths):
            events.append((at, MAIN, 6 + position, LINE))
            at += length
    return events


def test_what_a_hot_loop_does_unseen_is_shared_as_it_was_while_it_was_seen() -> None:
    events = hot(4, 10, 30)  # 160 long: the loop goes on unseen from 260 on, until line 9 at 10,230
    (step,) = fold(log(*started(5), *events, (10_230, MAIN, 9, LINE), end=10_240, cap=4))
    # Line 7's last time is not known by itself: lines 6 and 7 are 4 x 10 and 3 x 30 up to there, and share 10,000.
    shared = {"main:6": 40 + 10_000 * 40 / 130, "main:7": 90 + 10_000 * 90 / 130}
    assert times(step) == pytest.approx({"main:5": 100, **shared, "main:9": 10}, abs=1)
    assert sum(times(step).values()) == 10_240


def test_an_inner_loop_that_runs_unseen_is_not_charged_to_the_line_before_it() -> None:
    """Line 6 (outer loop) takes 10; the inner loop of lines 7 and 8 is hot from its first round on."""
    first = [(100, MAIN, 6, LINE), *[(110 + 20 * n + 10 * k, MAIN, 7 + k, LINE) for n in range(4) for k in (0, 1)]]
    second = [(1000, MAIN, 6, LINE), (1900, MAIN, 9, LINE)]  # 900: 10 of line 6, the rest of lines 7 and 8
    (step,) = fold(log(*started(5), *first, *second, end=2000, cap=4))
    assert times(step)["main:6"] == 20
    assert times(step)["main:7"] + times(step)["main:8"] == 890 + 890
    assert times(step)["main:9"] == 100


def test_lines_that_are_not_part_of_the_hot_loop_get_nothing_of_it() -> None:
    events = hot(4, 10, 30)
    (step,) = fold(log(*started(5), *events, (10_230, MAIN, 9, LINE), (20_000, MAIN, 10, LINE), end=20_500, cap=4))
    assert times(step)["main:9"] == 20_000 - 10_230
    assert times(step)["main:10"] == 500


def test_a_silenced_function_shares_its_loop_among_the_loops_lines() -> None:
    events = hot(4, 10, 30)
    silence = (events[-1][0], 0, 0, NOTE)
    (step,) = fold(log(*started(5), *events, silence, (10_230, MAIN, 9, LINE), end=10_240, cap=8))
    shared = {"main:6": 40 + 10_000 * 40 / 130, "main:7": 90 + 10_000 * 90 / 130}
    assert times(step) == pytest.approx({"main:5": 100, **shared, "main:9": 10}, abs=1)


# -------------------------------------------------------------------------------------------- the clock's own cost


def test_a_silenced_function_shares_nothing_with_its_caller_and_what_that_calls_besides() -> None:
    """The helper's loop fell silent in its second call. That it has not ended says that no line of main's ran."""

    def call(at: int) -> tuple[Event, Event]:
        return (at, HELPER, 0, ENTER), (at, HELPER, 11, LINE)

    first = *call(100), (110, HELPER, 12, LINE), (120, HELPER, 11, LINE), (130, HELPER, 12, LINE)
    between = (140, HELPER, 0, LEAVE), (140, MAIN, 6, LINE), (1140, MAIN, 5, LINE)
    second = *call(1240), (1240, 0, 0, NOTE), (2240, HELPER, 0, LEAVE)
    after = (2240, MAIN, 6, LINE), (3240, MAIN, 5, LINE)
    (step,) = fold(log(*started(5), *first, *between, *second, *after, end=3300, cap=4))
    assert times(step) == {"main:5": 260, "main:6": 2000, "helper:11": 520, "helper:12": 520}


def test_a_silenced_function_shares_with_callees_that_were_called_too_often_to_be_logged() -> None:
    """Main's line 5 calls the helper in a loop: after two calls neither is logged any more."""
    calls = [
        event
        for at in (100, 300)
        for event in (
            (at, HELPER, 0, ENTER),
            (at, HELPER, 11, LINE),
            (at + 150, HELPER, 0, LEAVE),
            (at + 150, MAIN, 5, LINE),
        )
    ]
    (step,) = fold(log(*started(5), *calls, (500, 0, 0, NOTE), end=4500, cap=2))
    shared = {"main:5": 150 + 4050 * 150 / 450, "helper:11": 300 + 4050 * 300 / 450}
    assert times(step) == pytest.approx(shared, abs=10)


def test_a_function_that_falls_silent_before_its_loop_spends_the_silence_in_the_loop() -> None:
    """Line 10 runs once per call; the loop of 11 and 12 was seen often enough in the first call."""
    loop = [(10 + 20 * number, HELPER, 11 + number % 2, LINE) for number in range(8)]
    first = (0, HELPER, 10, LINE), *loop
    left = (170, HELPER, 0, LEAVE), (170, MAIN, 6, LINE), (180, HELPER, 0, ENTER), (180, HELPER, 10, LINE)
    silent = (190, 0, 0, NOTE), (1190, HELPER, 0, LEAVE), (1190, MAIN, 7, LINE)
    (step,) = fold(log(*started(5), (0, HELPER, 0, ENTER), *first, *left, *silent, end=1200, cap=4))
    found = times(step)
    assert found["helper:10"] == 10 + 10 + 10, "what it takes at a time, twice seen and once not"
    assert min(found["helper:11"], found["helper:12"]) > 400


def test_a_silenced_loop_is_not_shared_with_lines_that_come_later() -> None:
    """Lines 5 and 6 take turns; line 8 takes part in the loop only after the silence."""
    before = (100, MAIN, 6, LINE), (200, MAIN, 5, LINE), (300, MAIN, 6, LINE), (400, 0, 0, NOTE)
    after = (1400, MAIN, 8, LINE), (1500, MAIN, 6, LINE), (1600, MAIN, 8, LINE), (1700, MAIN, 6, LINE)
    (step,) = fold(log(*started(5), *before, *after, end=1800, cap=4))
    assert times(step) == {"main:5": 200 + 500, "main:6": 200 + 500 + 200, "main:8": 200}


def test_calls_that_were_not_logged_are_taken_off_the_interval_that_paid_for_them() -> None:
    note = (400, 1, 20, NOTE)  # 20 calls of 10 each
    (step,) = fold(log(*started(5), (100, MAIN, 6, LINE), note, (400, MAIN, 7, LINE), end=1000, call_cost=10))
    assert times(step) == {"main:5": 100, "main:6": 100, "main:7": 600}
    assert [(interval.start_ns, interval.end_ns) for interval in step.intervals] == [(0, 100), (100, 400), (400, 1000)]


def test_what_an_event_costs_is_what_statements_last_that_do_nothing() -> None:
    nothing = [(1000 + 5 * n, MAIN, 10 + n, LINE) for n in range(100)]
    (step,) = fold(log(*started(5), *nothing, (1500, MAIN, 200, LINE), end=2500))
    assert times(step)["main:200"] == 1000 - 5
    assert times(step)["main:10"] == 0


def test_a_step_whose_intervals_leave_a_hole_is_no_step() -> None:
    with pytest.raises(ValueError, match="do not fill it"):
        LineStep(0, 0, 10, (LineInterval(0, 4, (), 4), LineInterval(5, 10, (), 5)))


def test_a_hot_function_called_from_two_lines_belongs_to_the_one_that_is_under_way() -> None:
    """Training and evaluation call one forward pass: what it takes once it is logged no more is the caller's."""
    hot = [(10 * at, HELPER, 11 + at % 2, LINE) for at in range(1, 5)]
    again = (100, HELPER, 0, LEAVE), (200, MAIN, 6, LINE), (210, HELPER, 0, ENTER), (210, 0, 0, NOTE)
    (step,) = fold(log(*started(5), (5, HELPER, 0, ENTER), *hot, *again, (1000, HELPER, 0, LEAVE), end=1000, cap=2))
    late = [interval.path for interval in step.intervals if interval.start_ns >= 210]
    assert late and {path[0] for path in late} == {(MAIN, 6)}
