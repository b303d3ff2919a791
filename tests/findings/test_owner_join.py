"""Lines carried over from attributed steps to clean ones, with steps small enough to work out in the head."""

from __future__ import annotations

import numpy as np
import pytest

from tracelens.findings.owners.join import (
    EXCESS,
    UNMATCHED,
    HostSpans,
    LineSamples,
    StepLines,
    StepOperations,
    carry,
    laid_over,
    matching_pieces,
)


def operations(start: int, end: int, *rows: tuple[str, int, int]) -> StepOperations:
    """Rows of (name, start, end)."""
    starts, ends = (np.array([row[at] for row in rows], dtype=np.int64) for at in (1, 2))
    return StepOperations(start, end, tuple(row[0] for row in rows), starts, ends)


def lines(start: int, *rows: tuple[int, int], cost: int = 0) -> StepLines:
    """Rows of (number, length), one after the other; each interval is `cost` longer than it would be unobserved."""
    ends = start + np.cumsum([length for _, length in rows])
    starts = np.concatenate(([start], ends[:-1]))
    weights = np.array([max(0, length - cost) for _, length in rows])
    return StepLines(starts, ends, weights, np.array([number for number, _ in rows]))


def per_line(spans: HostSpans) -> dict[int, int]:
    return {int(path): int((spans.ends - spans.starts)[spans.paths == path].sum()) for path in np.unique(spans.paths)}


def test_a_piece_gets_the_lines_of_the_same_piece_in_the_same_proportions() -> None:
    """Between two operations lines 1 and 2 took 300 and 100; in the clean step there are 40 for both."""
    seen = operations(0, 520, ("mm", 0, 10), ("relu", 410, 420))
    ran = lines(0, (1, 310), (2, 100), (3, 110))
    clean = operations(1000, 1160, ("mm", 1000, 1010), ("relu", 1050, 1060))
    assert per_line(carry(clean, [(seen, ran)])) == {1: 10 + 30, 2: 10, 3: 10 + 100}


def test_the_carried_lines_fill_the_clean_step_in_the_order_in_which_they_ran() -> None:
    seen = operations(0, 520, ("mm", 0, 10), ("relu", 410, 420))
    clean = operations(1000, 1160, ("mm", 1000, 1010), ("relu", 1050, 1060))
    spans = carry(clean, [(seen, lines(0, (1, 310), (2, 100), (3, 110)))])
    assert spans.starts[0] == 1000
    assert spans.ends[-1] == 1160
    assert (spans.starts[1:] == spans.ends[:-1]).all()
    assert list(dict.fromkeys(spans.paths.tolist())) == [1, 2, 3]


def test_what_the_clock_itself_took_has_no_part_in_the_proportions() -> None:
    """Line 1 was 110 of which the clock made 10; four hot intervals of line 2 were 35 each, of which it made 10."""
    seen = operations(0, 250)
    ran = lines(0, (1, 110), *[(2, 35)] * 4, cost=10)
    assert per_line(carry(operations(0, 1000), [(seen, ran)])) == {1: 500, 2: 500}


def test_the_borders_of_a_step_are_anchors_too() -> None:
    seen = operations(0, 1000, ("mm", 500, 510))
    ran = lines(0, (1, 500), (2, 10), (3, 490))
    clean = operations(0, 400, ("mm", 100, 110))
    assert per_line(carry(clean, [(seen, ran)])) == {1: 100, 2: 10, 3: 290}


def test_the_attributed_piece_of_the_nearest_length_is_taken() -> None:
    """One of two attributed steps ran a branch (line 9) before its operation."""
    plain = operations(0, 110, ("mm", 100, 110)), lines(0, (1, 110))
    branch = operations(0, 510, ("mm", 500, 510)), lines(0, (1, 100), (9, 400), (1, 10))
    assert per_line(carry(operations(0, 130, ("mm", 120, 130)), [plain, branch])) == {1: 130}
    assert per_line(carry(operations(0, 460, ("mm", 450, 460)), [plain, branch])) == {1: 100, 9: 360}


def test_each_piece_chooses_for_itself() -> None:
    first = operations(0, 1020, ("a", 100, 110), ("b", 910, 920)), lines(0, (1, 110), (2, 800), (3, 110))
    second = operations(0, 1020, ("a", 900, 910), ("b", 1000, 1010)), lines(0, (4, 910), (5, 90), (6, 20))
    clean = operations(0, 1850, ("a", 900, 910), ("b", 1700, 1710))
    assert per_line(carry(clean, [first, second])) == {4: 900, 1: 10, 2: 790, 3: 10 + 140}


def test_pieces_beside_other_operations_stay_unmatched() -> None:
    """b and c have changed places: what lies between them has no like, what lies before a and after d has."""
    seen = operations(0, 500, *((name, 100 * at, 100 * at + 10) for at, name in enumerate("abcd", 1)))
    clean = operations(0, 500, *((name, 100 * at, 100 * at + 10) for at, name in enumerate("acbd", 1)))
    spans = carry(clean, [(seen, lines(0, (1, 500)))])
    assert per_line(spans)[UNMATCHED] == 3 * 90 + 10
    assert per_line(spans)[1] == 100 + 10 + 10 + 10 + 90


def test_one_operation_more_costs_only_its_own_surroundings() -> None:
    seen = operations(0, 400, ("a", 100, 110), ("b", 300, 310))
    clean = operations(0, 400, ("a", 100, 110), ("print", 200, 210), ("b", 300, 310))
    assert per_line(carry(clean, [(seen, lines(0, (1, 400)))])) == {UNMATCHED: 90 + 10 + 90, 1: 210}


def test_time_that_no_attributed_step_had_something_for_is_excess() -> None:
    seen = operations(0, 1_000_000, ("mm", 400_000, 500_000))
    ran = lines(0, (1, 500_000), (2, 500_000))
    clean = operations(0, 9_000_000, ("mm", 400_000, 500_000))
    assert per_line(carry(clean, [(seen, ran)])) == {1: 500_000, 2: 500_000, EXCESS: 8_000_000}


def sampled(*rows: tuple[int, int]) -> LineSamples:
    """Rows of (time, line); paths and lines have the same numbers, 0 to 9."""
    times, seen = (np.array([row[at] for row in rows], dtype=np.int64) for at in (0, 1))
    return LineSamples(times, seen, np.arange(10), np.arange(10))


def test_samples_name_the_line_that_no_attributed_step_ran() -> None:
    """Line 7 takes 8 ms in the clean step; it is sampled each millisecond from 1 ms on, line 2 at the end."""
    seen = operations(0, 1_000_000)
    ran = lines(0, (1, 500_000), (2, 500_000))
    samples = sampled(*((1_000_000 * at, 7) for at in range(1, 9)), (9_000_000, 2))
    spans = carry(operations(0, 9_000_000), [(seen, ran)], samples)
    assert per_line(spans) == {1: 500_000, 2: 500_000, 7: 8_000_000}


def test_samples_at_the_known_lines_say_that_these_ran_longer() -> None:
    seen = operations(0, 1_000_000)
    ran = lines(0, (1, 250_000), (2, 750_000))
    samples = sampled(*((1_000_000 * at, 2) for at in range(1, 8)))
    assert per_line(carry(operations(0, 8_000_000), [(seen, ran)], samples)) == {1: 2_000_000, 2: 6_000_000}


def test_a_slow_operation_is_no_excess() -> None:
    seen = operations(0, 1_000_000, ("item", 400_000, 500_000))
    clean = operations(0, 5_000_000, ("item", 400_000, 4_500_000))
    assert per_line(carry(clean, [(seen, lines(0, (1, 1_000_000)))])) == {1: 5_000_000}


def test_a_piece_that_took_no_time_at_all_has_the_line_of_its_instant() -> None:
    seen = operations(0, 220, ("a", 100, 110), ("b", 110, 120))
    clean = operations(0, 230, ("a", 100, 110), ("b", 120, 130))
    assert per_line(carry(clean, [(seen, lines(0, (1, 110), (2, 110)))])) == {1: 110, 2: 120}


def test_without_an_attributed_step_everything_is_unmatched() -> None:
    assert per_line(carry(operations(0, 100, ("a", 10, 20)), [])) == {UNMATCHED: 100}


@pytest.mark.parametrize("seed", range(20))
def test_every_nanosecond_is_carried_or_unmatched_whatever_the_steps_are(seed: int) -> None:
    chance = np.random.default_rng(seed)

    def step(start: int) -> StepOperations:
        count = int(chance.integers(0, 12))
        edges = np.sort(chance.integers(start, start + 1000, 2 * count))
        names = tuple(chance.choice(list("abc"), count))
        return StepOperations(start, start + 1000, names, edges[::2], edges[1::2])

    attributed = [
        (step(5000 * number), lines(5000 * number, *((int(n), 100) for n in chance.integers(0, 5, 10)), cost=3))
        for number in range(2)
    ]
    clean = step(77)
    spans = carry(clean, attributed)
    assert spans.starts[0] == 77
    assert spans.ends[-1] == 1077
    assert (spans.starts[1:] == spans.ends[:-1]).all()


def test_pieces_of_equal_steps_match_one_by_one() -> None:
    assert matching_pieces("abc", "abc").tolist() == [0, 1, 2, 3, 4, 5, 6]
    assert matching_pieces("", "").tolist() == [0]
    assert matching_pieces("ab", "b").tolist() == [-1, -1, -1, 1, 2]


def spans(*rows: tuple[int, int, int]) -> HostSpans:
    """Rows of (start, end, path)."""
    return HostSpans(*np.array(rows, dtype=np.int64).reshape(-1, 3).T)


def test_what_is_known_of_a_stretch_goes_before_what_was_carried_over() -> None:
    """Two steps, 0 to 100 and 150 to 200; line 7 is known from 30 to 70, and from 90 to 160, which holds no step."""
    over = laid_over(spans((0, 50, 1), (50, 100, 2), (150, 200, 3)), spans((30, 70, 7), (90, 160, 7)))
    assert list(zip(over.starts.tolist(), over.ends.tolist(), over.paths.tolist(), strict=True)) == [
        (0, 30, 1), (30, 50, 7), (50, 70, 7), (70, 90, 2), (90, 100, 7), (150, 160, 7), (160, 200, 3),
    ]  # fmt: skip
    assert laid_over(over, spans()) is over
