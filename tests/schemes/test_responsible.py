"""Which owner a verdict is about, and what it says of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tracelens.model import Location, Owner, Owners
from tracelens.schemes.facts import Facts
from tracelens.schemes.responsible import keeps_idle, responsible_owner
from tracelens.schemes.verdict import nothing

MS = 1_000_000
COLLECT = Owner(
    "host_line", 139 * MS, (Location("train.py", 88),), "gc.collect", recoverable_ns=138 * MS, low_ns=130 * MS
)


def step(*owners: Owner) -> Owners:
    return Owners(sum(owner.owned_ns for owner in owners), owners)


def test_a_line_that_fills_the_gaps_is_the_answer_and_launches_are_not() -> None:
    owners = step(COLLECT, Owner("launch", 8 * MS), Owner("gpu", 4 * MS))
    assert responsible_owner(owners, 0.03) is COLLECT
    said = keeps_idle(replace(COLLECT, evidence="replayed"), 151 * MS)
    assert said == (
        "train.py:88 (gc.collect) keeps the GPU idle for 139 ms per step (139 s per 1,000 batches); "
        "without it a step takes 13.0 ms (replayed)"
    )


@pytest.mark.parametrize(
    ("owners", "busy"),
    [
        pytest.param(step(Owner("launch", 80), Owner("backward", 10), Owner("host_line", 10)), 0.1, id="launches"),
        pytest.param(step(Owner("gpu", 60), Owner("host_line", 40)), 0.95, id="a busy GPU"),
        pytest.param(step(Owner("gpu", 97), Owner("dataloader", 3)), 0.85, id="next to nothing"),
        pytest.param(step(Owner("gpu", 60), Owner("host_line", 40, low_ns=0)), 0.6, id="nothing to recover"),
        pytest.param(step(Owner("wait", 60), Owner("unknown", 40)), 0.1, id="waits alone"),
        pytest.param(None, 0.1, id="nobody asked"),
    ],
)
def test_otherwise_no_single_owner_is_the_answer(owners: Owners | None, busy: float) -> None:
    assert responsible_owner(owners, busy) is None


def test_the_loader_is_named_with_what_helps() -> None:
    loader = Owner("dataloader", 59 * MS, (Location("data.py", 11), Location("train.py", 40)))
    assert keeps_idle(loader, 176 * MS) == (
        "the DataLoader (data.py:11) keeps the GPU idle for 59.0 ms per step (59.0 s per 1,000 batches); "
        "more DataLoader workers, cheaper preprocessing, cached samples would help"
    )


def test_without_a_gpu_the_longest_line_is_named() -> None:
    owners = step(Owner("host_line", 6 * MS, (Location("train.py", 24),), "gc.collect"), Owner("optimizer", 2 * MS))
    facts = Facts(step_ns=8 * MS, plans={}, has_gpu=False, owners=owners)
    assert nothing((), facts) == (
        "No GPU work was recorded; on the CPU train.py:24 (gc.collect) takes 6.00 ms of a step's 8.00 ms."
    )
