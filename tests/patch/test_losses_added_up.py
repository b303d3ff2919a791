"""Losses that are added up from a number: no numbers, whatever they begin with."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.every_place import every_place
from tests.support.patching import assert_same, patch_of, script

ADDED_UP = """
seen = []
for x, y in loader:
    optimizer.zero_grad()
    loss = 0
    for part in (x, x * 2):
        loss += criterion(model(part), y)
    loss.backward()
    optimizer.step()
    seen.append(f"{loss:.6f}")  # fires
print(seen)
"""
MADE_OF_IT = ADDED_UP.replace("    seen", "    shown = loss\n    seen").replace("{loss:", "{shown:")


@pytest.mark.parametrize("body", [ADDED_UP, MADE_OF_IT], ids=["the loss", "another name of it"])
def test_a_loss_that_begins_as_a_number_is_none(body: str, tmp_path: Path) -> None:
    patch = every_place(tmp_path, body)
    assert "defer-read" in [hunk.edit for hunk in patch.hunks], patch.declined
    text = script(body)
    made = patch_of(tmp_path, text)
    assert not made.empty
    assert_same(tmp_path, text, made)


NUMBERS = {
    "a counter": "done = 0\n        done += 1",
    "a sum of lengths": "done = 0\n        done += len(x)",
    "a product": "done = 2.0\n        done *= 3",
}


@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_that_numbers_are_added_to_stays_one(name: str, tmp_path: Path) -> None:
    body = f"for x, y in loader:\n    STEP\n    for k in range(2):\n        {NUMBERS[name]}\n    print(float(done))\n"
    patch = every_place(tmp_path, body)
    assert "defer-read" not in [hunk.edit for hunk in patch.hunks], patch.diff
