"""Who else uses results that would come later: a function that the loop calls is an obstacle, one behind it a doubt."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.patching import patch_of, script

LOOP = """
def main():
    losses = []
    {above}
    for x, y in loader:
        STEP
        losses.append(loss.item())  # fires
        {inside}
    {below}
main()
"""
OBSTACLES = {
    "a function above that the loop calls": ("show = lambda: print(losses)", "show()"),
    "a function in the loop": ("pass", "show = lambda: print(losses)"),
}


@pytest.mark.parametrize("name", OBSTACLES)
def test_a_function_that_the_loop_may_call_is_an_obstacle(name: str, tmp_path: Path) -> None:
    above, inside = OBSTACLES[name]
    patch = patch_of(tmp_path, script(LOOP.format(above=above, inside=inside, below="pass")))
    assert patch.empty and len(patch.declined) == 1


def test_one_that_is_made_below_the_loop_is_a_doubt(tmp_path: Path) -> None:
    below = "print(sorted([3, 1], key=lambda n: losses[n]))"
    patch = patch_of(tmp_path, script(LOOP.format(above="pass", inside="pass", below=below)))
    assert [hunk.tier for hunk in patch.hunks] == ["checked"]
    assert "a function defined here uses the results" in patch.hunks[0].unproved
