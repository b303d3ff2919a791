"""Reads in a loop within the batch, beside a wait that stays in the batch."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.every_place import ON_GPU, every_place

PARTS = "parts = {'a': out.sum(), 'b': out.mean()}"
BESIDE = {
    "rounds behind a wait": (
        f"{PARTS}\n    assert out.max() <= 30",
        "for name, part in parts.items():\n        total += part.item()",
    ),
    "rounds before a wait": (
        f"{PARTS}\n    for name, part in parts.items():\n        total += part.item()",
        "assert out.max() <= 30",
    ),
    "rounds within rounds": (
        f"{PARTS}\n    assert out.max() <= 30",
        "for name, part in parts.items():\n        for k in range(2):\n            total += part.item()",
    ),
    "what has been brought in the head": (
        "counts = {}",
        "for one, got in zip(out, out.argmax(1).cpu().numpy()):\n        counts[one.sum().item()] = got",
    ),
}
WORK_BETWEEN = {
    "rounds that compute": (
        "assert out.max() <= 30",
        "for k in range(3):\n        total += model(x).sum().item()",
    ),
    "work before the rounds": (
        f"{PARTS}\n    assert out.max() <= 30\n    more = model(x).sum()",
        "for name, part in parts.items():\n        total += part.item()",
    ),
    "a wait below a condition": (
        f"{PARTS}\n    if watched:\n        assert out.max() <= 30",
        "for name, part in parts.items():\n        total += part.item()",
    ),
}


@pytest.mark.parametrize("name", BESIDE)
def test_rounds_beside_a_wait_that_stays_gain_nothing(name: str, tmp_path: Path) -> None:
    before, after = BESIDE[name]
    patch = every_place(tmp_path, ON_GPU.format(before=before, after=after))
    assert "defer-read" not in [hunk.edit for hunk in patch.hunks], patch.diff
    assert any("right beside it: nothing would be gained" in one.obstacle for one in patch.declined), patch.declined


@pytest.mark.parametrize("name", WORK_BETWEEN)
def test_work_between_a_wait_and_the_rounds_leaves_something_to_gain(name: str, tmp_path: Path) -> None:
    before, after = WORK_BETWEEN[name]
    patch = every_place(tmp_path, "watched = []\n" + ON_GPU.format(before=before, after=after))
    assert not any("nothing would be gained" in one.obstacle for one in patch.declined), patch.declined
