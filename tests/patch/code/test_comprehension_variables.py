"""What a piece of code touches are variables of its function: a comprehension has its own."""

from __future__ import annotations

from pathlib import Path

import libcst as cst
import pytest

from tests.support.patching import assert_same, patch_of, patched_text, script
from tracelens.model import Edit, Location
from tracelens.patch.code.names import key, variables

OWN = {
    "[len(t) for t in texts]": ["len", "texts"],
    "[t for t in t]": ["t"],
    "[a + b for a in x for b in a.y if b > c]": ["c", "x"],
    "{k: v for k, (v, w) in d.items()}": ["d"],
    "sum(f(t) for t in [t])": ["f", "sum", "t"],
    "[(t := u) for u in x]": ["t", "x"],
    "[a for (a, *b), c in x if b]": ["x"],
    "[[t for t in row] for row in t]": ["t"],
    "[t for x[0] in y]": ["t", "x", "y"],  # stores into the function's list
}
NAMED_LIKE_THE_BAR = """
from tqdm import tqdm
def train():
    total = 0.0
    t = tqdm(loader)
    for i, (x, y) in enumerate(t):
        sizes = torch.tensor([len(t) for t in x.tolist()])
        STEP
        total += loss.item()  # fires
        t.set_postfix(loss=total / (i + 1), size=SIZE)
train()
"""


@pytest.mark.parametrize("text", OWN)
def test_a_comprehension_has_variables_of_its_own(text: str) -> None:
    assert sorted({key(one) for one in variables(cst.parse_expression(text), outer=True)}) == OWN[text]


def test_a_variable_of_a_comprehension_is_not_the_bar(tmp_path: Path) -> None:
    text = script(NAMED_LIKE_THE_BAR.replace("SIZE", "len(x)"))
    patch = patch_of(tmp_path, text)
    assert [hunk.tier for hunk in patch.hunks] == ["checked"]
    assert_same(tmp_path, text, patch)


def test_a_list_of_the_bar_itself_is_one_of_the_bar(tmp_path: Path) -> None:
    """The first `for` goes through what the function has under the name."""
    text = script(NAMED_LIKE_THE_BAR.replace("SIZE", "len(x)").replace("for t in x.tolist()", "for t in [t]"))
    patch = patch_of(tmp_path, text)
    if not patch.empty:
        assert_same(tmp_path, text, patch)


def test_a_batch_that_a_comprehension_puts_together_anew_is_copied_without_blocking(tmp_path: Path) -> None:
    text = script("for batch in loader:\n    batch = [b.to('cuda') for b in batch]\n    x, y = batch\n    STEP\n")
    found = patch_of(tmp_path, text, (Edit("async-copy", locations=(Location("train.py", 11),)),))
    assert "non_blocking=True" in patched_text(found)
