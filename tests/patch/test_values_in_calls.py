"""Values that go into a call before they are shown: a tokenizer's `decode`, `math.exp(loss)`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.patching import assert_same, patch_of, script

TOKENIZER = """
class Tokenizer:
    def __init__(self):
        self.words = {0: "a", 1: "b", 2: "c"}
    def decode(self, ids):
        return " ".join(self.words[i] for i in ids)
tokenizer = Tokenizer()
"""
COUNTING = TOKENIZER.replace("        return", '        self.words[0] += "x"\n        return')
LOOP = """
for i, (x, y) in enumerate(loader):
    STEP
    {lines}
"""
SHOWN = "print(i, loss.item(), tokenizer.decode(y.tolist()))  # fires"
NUMBERS = {
    "of the tensor": "print(i, math.exp(loss))  # fires",
    "of its number": "print(i, math.exp(loss.item()))  # fires",
    "of a sum on the host": "total += loss.item(); print(i, math.sqrt(total))  # fires",
    "of the tensor, written": 'print(f"{i} {math.log(loss):.3f}")  # fires',
}


@pytest.mark.parametrize("made", [TOKENIZER, COUNTING], ids=["as it is", "one that counts"])
def test_what_a_tokenizer_makes_of_values_is_made_later(made: str, tmp_path: Path) -> None:
    text = script(made + LOOP.format(lines=SHOWN), batches=12)
    patch = patch_of(tmp_path, text)
    assert [hunk.edit for hunk in patch.hunks] == ["defer-read"]
    assert_same(tmp_path, text, patch)


@pytest.mark.parametrize(
    "change",
    ["tokenizer.words[1] += 'z'", "tokenizer = Tokenizer()", "x = tokenizer.decode(y.tolist())"],
    ids=["changed", "made again", "used in the batch"],
)
def test_a_tokenizer_that_the_loop_changes_stays_or_leaves_the_same(change: str, tmp_path: Path) -> None:
    text = script(COUNTING + LOOP.format(lines=f"{SHOWN}\n    {change}"), batches=12)
    patch = patch_of(tmp_path, text)
    if patch.empty:
        assert patch.declined
    else:
        assert_same(tmp_path, text, patch)


@pytest.mark.filterwarnings("ignore:Converting a tensor with requires_grad=True to a scalar")
@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_of_the_loss_is_computed_later(name: str, tmp_path: Path) -> None:
    text = script("import math\ntotal = 0.0\n" + LOOP.format(lines=NUMBERS[name]), batches=12)
    patch = patch_of(tmp_path, text)
    assert [hunk.edit for hunk in patch.hunks] == ["defer-read"]
    assert_same(tmp_path, text, patch)


@pytest.mark.parametrize("checked", [True, False])
@pytest.mark.parametrize("asked", ["y is x", "x is data[3][0]", "data[3][0] is not x", "id(x) == 7"])
def test_who_an_object_is_is_not_asked_of_its_copy(asked: str, checked: bool, tmp_path: Path) -> None:
    text = script(f"""
        data = [(x, y) for x, y in loader]
        for step, (x, y) in enumerate(data):
            STEP
            print(f"{{step}} {{loss.item():.4f}} {{{asked}}}")  # fires
    """)
    patch = patch_of(tmp_path, text, checked=checked)
    if patch.hunks:  # the answer is what waits
        assert_same(tmp_path, text, patch)
    else:
        assert "is the very object, and a copy of it waits" in patch.declined[0].obstacle


def test_whether_there_is_one_may_be_asked(tmp_path: Path) -> None:
    text = script("""
        for step, (x, y) in enumerate(loader):
            STEP
            print(f"{step} {loss.item():.4f} {x is None} {y is not None}")  # fires
    """)
    patch = patch_of(tmp_path, text)
    assert patch.hunks
    assert_same(tmp_path, text, patch)
