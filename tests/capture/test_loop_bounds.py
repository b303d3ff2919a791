"""How many iterations a loop has left, read off its frames without touching anything of the script."""

from __future__ import annotations

import math
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from torch.utils.data import DataLoader

from tests.support.recording import LIVE, left, yields_of
from tracelens.capture.inside.loop_bounds import remaining_iterations

torch = pytest.importorskip("torch")


def test_loops_over_ranges_and_sequences_say_what_is_left() -> None:
    settings = SimpleNamespace(epochs=3)
    batches = ["a", "b", "c", "d"]
    seen = []
    for _epoch in range(settings.epochs):
        for _number, _ in enumerate(batches, start=1):
            seen.append(left())
    assert seen == list(range(11, -1, -1))


def test_a_loop_through_a_function_counts_the_loops_around_it() -> None:
    def one_epoch(batches: list[int]) -> list[int | None]:
        found = []
        for _number, _ in enumerate(batches):
            found.append(left())
        return found

    epochs = []
    for _epoch in range(2):
        epochs.append(one_epoch([1, 2]))
    assert epochs == [[3, 2], [1, 0]]


def test_a_while_loop_without_a_counter_and_a_generator_are_unknown() -> None:
    pending = ["a", "b"]
    while pending:
        pending.pop()
        assert left() is None
    for _ in (number for number in range(3)):
        assert left() is None


# ---------------------------------------------------------------------------------------------------- what is left


def test_a_loader_made_in_the_loops_own_line_is_not_as_long_as_its_data() -> None:

    rows = [torch.ones(1)] * 8
    for _number, _batch in enumerate(DataLoader(rows, batch_size=4)):  # type: ignore[arg-type]
        assert left() is None
    for _number, _row in enumerate(rows):
        assert left() == 7 - _number


def test_asking_a_loader_for_its_length_leaves_nothing_behind() -> None:
    """Asked for its length, a DataLoader warns when more comes than an IterableDataset has told."""
    from torch.utils.data import IterableDataset

    class TellsTooLittle(IterableDataset):  # type: ignore[type-arg]
        def __len__(self) -> int:
            return 1

        def __iter__(self) -> Iterator[int]:
            return iter(range(4))

    loader = DataLoader(TellsTooLittle())
    seen = []
    for _number, _batch in enumerate(loader):
        seen.append(left())
    assert seen[0] == 0
    assert len(list(loader)) == 4  # a warning is an error here


def test_a_length_that_raises_costs_no_recording() -> None:

    from tracelens.capture.inside.process_facts import LoaderFacts

    class Raises:
        def __len__(self) -> int:
            raise ZeroDivisionError

    class RaisesAll(DataLoader):  # type: ignore[type-arg]
        def __len__(self) -> int:
            raise ZeroDivisionError

    loader = RaisesAll([torch.ones(1)])  # type: ignore[arg-type]
    assert iterations_of(loader) is None
    iterator = iter(DataLoader([torch.ones(1)]))  # type: ignore[arg-type]
    iterator._index_sampler = Raises()
    noted = LoaderFacts()
    noted.first_batch(iterator, torch.ones(1))
    assert noted.listed()[0]["batches"] is None


def iterations_of(loader: Any) -> int | None:
    for _batch in enumerate(loader):
        return left()
    return 0


def looks(loop: Iterator[Any] | Any, *, turns: int = 2) -> int | None:
    """Steps that are left after so many turns of a loop, by two looks at it."""
    before = None
    for _ in range(turns):
        frame = next(loop)
        now = remaining_iterations(frame, iterators=frame.f_locals.get("live", ()))
        left, before = (None if before is None else now.steps(before)), now
    return left


@pytest.mark.parametrize(
    ("form", "left"),
    [
        ("loader = DataLoader(rows)\nfor x, y in loader:\n    yield frame()", 28),
        ("for x, y in DataLoader(rows):\n    yield frame()", 28),
        ("loader = DataLoader(rows, 2)\nfor epoch in range(2):\n    for x, y in loader:\n        yield frame()", 28),
        ("for number, (x, y) in tqdm(enumerate(DataLoader(rows))):\n    yield frame()", 28),
        ("for number in tqdm(range(most)):\n    yield frame()", 28),
        ("for x, y in [one for one in rows]:\n    yield frame()", None),
        ("same = [1] * 30\nfor x in same:\n    yield frame()", None),
        ("one = iter(DataLoader(rows))\nwhile True:\n    x, y = next(one)\n    yield frame()", 28),
        ("step = 0\nwhile step < most:\n    yield frame()\n    step += 1", 28),
        ("step = 0\nwhile not step >= most:\n    yield frame()\n    step += 1", None),
        ("step = most\nwhile step > 0:\n    yield frame()\n    step -= 1", 28),
        ("step = 0\nwhile True:\n    yield frame()\n    step += 1\n    if step == most:\n        break", 28),
        ("for step in count():\n    if step >= most:\n        break\n    yield frame()", 28),
        ("for step in count():\n    if step > 5 and most is None:\n        break\n    yield frame()", None),
        ("for step in range(4000):\n    if step == most - 1:\n        return\n    yield frame()", 27),
        ("patience = 0\nfor step in range(4000):\n    if patience > 3:\n        break\n    yield frame()", 3998),
        ("loss = 1.0\nwhile loss > 0.5:\n    yield frame()", None),
        ("for x, y in DataLoader(rows):\n    for part in range(1):\n        yield frame()", 28),
        ("turn = 0\nwhile turn < 2:\n    for step in range(15):\n        yield frame()\n    turn += 1", None),
        ("turn = 0\nwhile turn < 2:\n    for step in range(30):\n        yield frame()\n    turn += 1", 28),
    ],
)
def test_a_loop_that_counts_says_what_is_left(form: str, left: int | None) -> None:
    LIVE.clear()
    assert looks(yields_of(form)) == left


def test_a_short_epoch_in_a_loop_without_end_is_not_the_whole_script() -> None:
    LIVE.clear()
    form = "loader = DataLoader(rows, {})\nwhile True:\n    for x, y in loader:\n        yield frame()"
    assert looks(yields_of(form.format(1))) == 28
    assert looks(yields_of(form.format(3))) is None


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        ("math.ceil(data.size(0) / batch)", [2, 1, 0]),
        ("int(len(data) / batch)", [1, 0]),
        ("min(data.shape[0] // batch, 5)", [1, 0]),
        ("-2, array.shape[1] - 2", [2, 1, 0]),
        ("data.numpy().shape[1]", []),
        ("twice(1)", []),
        ("shadowed.size(0)", []),
    ],
)
def test_sizes_and_quotients_are_read_and_no_function_of_the_script_is_called(
    numbers: str, expected: list[int]
) -> None:
    assert seen_in(f"for _ in range({numbers}):") == expected


def test_an_enumerated_range_has_its_length() -> None:
    assert seen_in("for _number, _start in enumerate(range(0, data.size(0) - 1, batch)):") == [2, 1, 0]


class Shadowed:
    """Answers once, as the loop itself asks; a second answer would be ours."""

    def __init__(self) -> None:
        self.asked = 0

    def size(self, _dimension: int) -> int:
        self.asked += 1
        assert self.asked == 1
        return 2


def seen_in(loop: str) -> list[int]:
    """What is left of the loop at each of its iterations, where that is known."""

    data = torch.zeros(10, 3)
    given = {"math": math, "batch": 4, "data": data, "array": data.numpy(), "twice": lambda number: 2 * number}
    frames = yields_of(f"{loop}\n    yield frame()", shadowed=Shadowed(), **given)
    found = [remaining_iterations(frame).total for frame in frames]
    return [left for left in found if left is not None]
