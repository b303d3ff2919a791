"""Obstacles that the text only suggests: the place is patched as `checked`, says them, and leaves what it left."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.patching import assert_same, defer, patch_of, patched_text, script

SUSPECTED = {
    "a function of no known meaning": (
        """
        from json import loads as report
        for x, y in loader:
            STEP
            report(str(loss.item()))  # fires
        """,
        "`report(…)` may do more than log or accumulate (line 17)",
    ),
    "a function without a name, made below the loop": (
        """
        def evaluate(show):
            show()
        def main():
            for epoch in range(2):
                losses = []
                for x, y in loader:
                    STEP
                    losses.append(loss.item())  # fires
                evaluate(lambda: print(epoch, losses))
        main()
        """,
        "a function defined here uses the results (line 22)",
    ),
    "a block of no known kind": (
        """
        import contextlib
        ctx = contextlib.nullcontext()
        losses = []
        for x, y in loader:
            with ctx:
                STEP
                losses.append(loss.item())  # fires
        """,
        "what `with ctx` changes is not known (line 15)",
    ),
    "a bar that has a clock and shows no time": (
        """
        import time
        def bar(step, text):
            if time.time() < 1:
                return
            print(step, text)
        def main():
            total = 0.0
            for step, (x, y) in enumerate(loader):
                STEP
                total += loss.item()  # fires
                bar(step, f"{total:.4f}")
        main()
        """,
        "`bar(…)` reads a clock, and times that it shows are those of several batches at once (line 24)",
    ),
}


@pytest.mark.parametrize("name", SUSPECTED)
def test_what_is_only_suspected_makes_a_hunk_checked_and_is_told(name: str, tmp_path: Path) -> None:
    body, told = SUSPECTED[name]
    text = script(body)
    patch = patch_of(tmp_path, text)
    assert [(hunk.edit, hunk.tier) for hunk in patch.hunks] == [("defer-read", "checked")], patch.declined
    assert told in patch.hunks[0].unproved
    assert "loss.item()" not in patched_text(patch)
    assert_same(tmp_path, text, patch)


@pytest.mark.parametrize("name", SUSPECTED)
def test_without_checked_hunks_the_place_stays(name: str, tmp_path: Path) -> None:
    patch = patch_of(tmp_path, script(SUSPECTED[name][0]), checked=False)
    assert patch.empty and [hunk.tier for hunk in patch.left_out] == ["checked"]


def test_gradients_that_are_on_or_off_are_no_doubt(tmp_path: Path) -> None:
    text = script("""
        def main(training):
            losses = []
            for x, y in loader:
                optimizer.zero_grad()
                with torch.set_grad_enabled(training):
                    loss = criterion(model(x), y)
                    losses.append(loss.item())  # fires
                loss.backward()
                optimizer.step()
            return losses
        losses = main(True)
        """)
    patch = patch_of(tmp_path, text)
    assert len(patch.hunks) == 1 and "with" not in patch.hunks[0].unproved
    assert_same(tmp_path, text, patch)


def test_a_bar_that_only_keeps_the_optimizer_is_no_doubt(tmp_path: Path) -> None:
    text = script("""
        class Bar:
            def __init__(self, optimizer):
                self.lines = []
            def set_postfix(self, **given):
                self.lines.append(sorted(given.items()))
        def main():
            bar = Bar(optimizer)
            for x, y in loader:
                STEP
                bar.set_postfix(loss=loss.item())  # fires
            return bar.lines
        lines = main()
        """)
    patch = patch_of(tmp_path, text, checked=False)
    assert [hunk.tier for hunk in patch.hunks] == ["safe"], patch.declined
    assert_same(tmp_path, text, patch)


KEPT = "rows = []\nfor x, y in loader:\n    STEP\n    rows.append((loss.item(), {}))  # fires\nprint(rows)\n"


@pytest.mark.parametrize(
    "kept",
    [
        "model.bias.detach()",
        "model.weight.grad",
        "model.bias.data",
        "model.weight.view(-1)",
        "model.weight.transpose(0, 1)",
        "model.bias.expand(2, 2)",
    ],
)
def test_a_tensor_that_shares_the_weights_memory_may_change_before_it_is_kept(kept: str, tmp_path: Path) -> None:
    """The original keeps the memory itself, which shows the last weights at the end; the helper would keep a copy."""
    text = script(KEPT.format(kept))
    assert all(hunk.tier != "safe" for hunk in patch_of(tmp_path, text).hunks)
    (hunk,) = patch_of(tmp_path, text, defer(text), checked=True).hunks
    assert "may be a tensor that training changes" in (hunk.unproved or "")


def test_a_size_of_the_batch_is_kept_as_it_is(tmp_path: Path) -> None:
    (hunk,) = patch_of(tmp_path, script(KEPT.format("x.shape[0]")), lossy=False).hunks
    assert hunk.tier == "safe"
