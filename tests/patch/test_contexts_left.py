"""Statements that leave a block which says how tensors are computed: only reads and numbers may."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.patching import assert_same, defer, patch_of, script

CONTEXTS = (
    "torch.no_grad()",
    "torch.inference_mode()",
    "torch.set_grad_enabled(False)",
    "torch.enable_grad()",
    "torch.autocast('cpu', dtype=torch.bfloat16)",
)
SETUP = """
class Meter:
    def __init__(self):
        self.sum, self.count = 0.0, 0
    def update(self, value, n=1):
        self.sum += value * n
        self.count += n
class Moments:
    def __init__(self):
        self.sums = torch.zeros(2, 2)
    def update(self, value):
        row = torch.tensor([[value, 1.0]])
        self.sums = self.sums + row.t() @ row
weight = torch.tensor(0.7, requires_grad=True)
meter, moments, total, score, seen = Meter(), Moments(), 0.0, 0.0, []
"""
LOOP = "for x, y in loader:\n    STEP\n    with CONTEXT:\n        LINE  # fires\n"
END = "print(total, score, meter.sum, moments.sums, seen)\n"
NUMBERS = {
    "a sum": "total += loss.item()",
    "a mean": "total = 0.9 * total + 0.1 * loss.item()",
    "a meter": "meter.update(loss.item(), x.size(0))",
    "a list": "seen.append(loss.item())",
    "what is computed in the block": "total += (model(x).argmax(1) == y).float().mean().item()",
    "a line": "print(f'{loss.item():.4f}', x.shape)",
}
TENSORS = {
    "a product": "score = 0.9 * score + weight * loss.item()",
    "a sum in place": "score += weight * loss.item()",
    "a class that computes": "moments.update(loss.item())",
    "a function": "score = torch.add(weight, loss.item())",
    "a method": "score = weight.mul(loss.item())",
}


def tiers(folder: Path, line: str, context: str) -> list[str]:
    folder.mkdir(exist_ok=True)
    text = script(SETUP + LOOP.replace("LINE", line).replace("CONTEXT", context) + END)
    patch = patch_of(folder, text, defer(text, 10), lossy=False)
    found: list[str] = [one.tier for one in patch.hunks]
    if "safe" in found:
        assert_same(folder, text, patch)
    return found


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_are_the_same_outside_of_the_block(name: str, tmp_path: Path) -> None:
    assert tiers(tmp_path, NUMBERS[name], CONTEXTS[0]) == ["safe"]


@pytest.mark.parametrize("name", TENSORS)
def test_what_computes_with_tensors_does_not_leave_the_block_unseen(name: str, tmp_path: Path) -> None:
    assert tiers(tmp_path, TENSORS[name], CONTEXTS[0]) in ([], ["checked"])


@pytest.mark.parametrize("context", CONTEXTS)
def test_each_block_that_says_how_to_compute_counts(context: str, tmp_path: Path) -> None:
    assert tiers(tmp_path, TENSORS["a class that computes"], context) in ([], ["checked"])
    assert tiers(tmp_path / "sum", NUMBERS["a sum"], context) == ["safe"]


def test_a_label_of_a_profiler_changes_no_number(tmp_path: Path) -> None:
    assert tiers(tmp_path, NUMBERS["a meter"], "torch.profiler.record_function('log')") == ["safe"]
