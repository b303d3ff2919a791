"""Who holds a step: what launches is one sum, as in the headline, with its parts of the loop below it."""

from __future__ import annotations

from tests.support import report_cases as cases
from tracelens.model import Location, Owner
from tracelens.report import sections

MS = cases.MS
LOOP = (
    Owner("launch", 3 * MS),
    Owner("gpu", 2 * MS),
    Owner("backward", 2 * MS, (Location("train.py", 9),), "backward"),
    Owner("optimizer", 2 * MS, (Location("train.py", 10),), "Adam.step"),
    Owner("host_line", MS),
)


def rows(*owners: Owner, has_gpu: bool = True) -> list[tuple[str, ...]]:
    """Recorded steps of 10 ms, told of 9.5: 2 ms of work stay, and what idles is 7.5 of its 8."""
    found = cases.held(cases.diagnosis(), *owners)
    section = sections.owners(found if has_gpu else cases.diagnosis(owners=found.owners, breakdown=None))
    assert section is not None and section.table is not None
    return [(row[0], *row[-2:]) for row in section.table.rows]


def test_what_launches_is_one_sum_with_its_parts_of_the_loop() -> None:
    assert rows(*LOOP) == [
        ("Launching kernels", "6.6", "69.1 %"),
        ("of it: forward pass and the rest", "2.8", "29.6 %"),
        ("of it: backward pass", "1.9", "19.7 %"),
        ("of it: optimizer: Adam.step", "1.9", "19.7 %"),
        ("Kernels on the GPU", "2.0", "21.1 %"),
        ("Python", "0.9", "9.9 %"),
    ]


def test_one_part_that_launches_needs_no_sum_and_on_a_cpu_it_is_work() -> None:
    alone = (Owner("launch", 8 * MS), Owner("gpu", 2 * MS))
    assert [row[0] for row in rows(*alone)] == ["Launching kernels", "Kernels on the GPU"]
    names = [row[0] for row in rows(*LOOP, has_gpu=False)]
    assert "The optimizer: Adam.step" in names and not any(name.startswith("of it") for name in names)
