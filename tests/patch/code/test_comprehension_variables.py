"""The variables of a piece of code are those of its function: a comprehension has its own."""

from __future__ import annotations

from pathlib import Path

import libcst as cst
import pytest

from tests.support.patching import assert_same, patch_of, script
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
    assert sorted({key(one) for one in variables(cst.parse_expression(text))}) == OWN[text]


def test_a_variable_of_a_comprehension_is_not_the_bar(tmp_path: Path) -> None:
    text = script(NAMED_LIKE_THE_BAR.replace("SIZE", "len(x)"))
    patch = patch_of(tmp_path, text)
    assert [hunk.tier for hunk in patch.hunks] == ["checked"]
    assert_same(tmp_path, text, patch)
