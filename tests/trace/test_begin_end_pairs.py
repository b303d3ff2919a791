"""Begin and end events: joined as a stack does, per thread; what has no partner is counted."""

from __future__ import annotations

import numpy as np

from tracelens.trace.begin_end_pairs import BEGINS, join_pairs


def joined(*halves: tuple[str, int, int, int]) -> tuple[list[tuple[int, int, int]], int]:
    """(name, start, end) of the complete events of ("B" or "E", time, thread, name)."""
    columns = {
        BEGINS: np.array([half[0] == "B" for half in halves]),
        "start_ns": np.array([half[1] for half in halves], dtype=np.int64),
        "pid": np.ones(len(halves), dtype=np.int64),
        "tid": np.array([half[2] for half in halves], dtype=np.int64),
        "name": np.array([half[3] for half in halves], dtype=np.int64),
    }
    out, lost = join_pairs(columns)
    assert BEGINS not in out
    return list(zip(out["name"].tolist(), out["start_ns"].tolist(), out["end_ns"].tolist(), strict=True)), lost


def test_an_end_closes_the_last_begin_of_its_thread() -> None:
    events, lost = joined(("B", 10, 1, 7), ("B", 20, 1, 8), ("E", 30, 1, 0), ("E", 40, 1, 0))
    assert (events, lost) == ([(7, 10, 40), (8, 20, 30)], 0)


def test_events_one_after_the_other_are_two() -> None:
    events, lost = joined(("B", 10, 1, 7), ("E", 20, 1, 0), ("B", 30, 1, 8), ("E", 40, 1, 0))
    assert (events, lost) == ([(7, 10, 20), (8, 30, 40)], 0)


def test_threads_do_not_close_each_others_events() -> None:
    events, lost = joined(("B", 10, 1, 7), ("B", 20, 2, 8), ("E", 30, 1, 0), ("E", 40, 2, 0))
    assert (events, lost) == ([(7, 10, 30), (8, 20, 40)], 0)


def test_the_order_of_the_file_does_not_matter() -> None:
    events, lost = joined(("E", 40, 1, 0), ("B", 20, 1, 8), ("E", 30, 1, 0), ("B", 10, 1, 7))
    assert (sorted(events), lost) == ([(7, 10, 40), (8, 20, 30)], 0)


def test_a_begin_that_never_ends_and_an_end_without_begin_are_counted() -> None:
    assert joined(("B", 10, 1, 7)) == ([], 1)
    assert joined(("E", 10, 1, 0), ("B", 20, 1, 7), ("E", 30, 1, 0)) == ([(7, 20, 30)], 1)
