"""prefetch: where the loader is wrapped, and which loops cannot have it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.copies import LOADED, added, copies
from tests.support.patching import assert_same, patched_text


def test_the_loader_is_wrapped_where_the_loop_runs_over_it(tmp_path: Path) -> None:
    text, patch = copies(tmp_path, LOADED.format(workers="2 if device.type == 'cuda' else 0"), "prefetch", depth=2)
    expected = "for i, (x, y) in enumerate(tracelens_runtime.prefetch(loader, device, depth=2)):"
    assert added(text, patch) == ["import tracelens_runtime", expected]
    assert [hunk.tier for hunk in patch.hunks] == ["safe"]
    assert_same(tmp_path, text, patch)


def test_without_workers_a_prefetch_moves_random_draws_and_needs_unsafe(tmp_path: Path) -> None:
    text, patch = copies(tmp_path, LOADED.format(workers=0), "prefetch")
    assert patch.empty
    assert "needs --unsafe" in patch.declined[0].obstacle
    text, patch = copies(tmp_path, LOADED.format(workers=0), "prefetch", unsafe=True)
    assert [hunk.tier for hunk in patch.hunks] == ["unsafe"]
    assert "move_random_draws=True" in patched_text(patch)
    assert_same(tmp_path, text, patch)  # nothing is prefetched on a CPU


NOT_WRAPPED = {
    "used on the CPU": ("print(y.tolist())", "used on the CPU"),
    "on two devices": ("y = y.to('cuda:1')", "different devices"),
}


@pytest.mark.parametrize("name", NOT_WRAPPED)
def test_a_batch_that_is_not_copied_as_a_whole_is_not_prefetched(name: str, tmp_path: Path) -> None:
    line, words = NOT_WRAPPED[name]
    body = f"""
        loader = DataLoader(data, batch_size=8, num_workers=2)
        for x, y in loader:
            x = x.to(device)  # fires
            {line}
            STEP
    """
    _, patch = copies(tmp_path, body, "prefetch")
    assert patch.empty
    assert [words in declined.obstacle for declined in patch.declined] == [True]
