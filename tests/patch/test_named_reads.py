"""Reads that get a name: the name keeps the tensor, and the value is read where the name is used."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.patching import assert_same, patch_of, patched_text, script
from tracelens.model import Patch


def added(patch: Patch) -> list[str]:
    return [line[1:] for line in patch.diff.splitlines() if line.startswith("+") and not line.startswith("+++")]


def names(patch: Patch) -> list[str]:
    return [one.path.name for one in patch.files]


SELDOM = """
def main():
    for i, (x, y) in enumerate(loader):
        STEP
        value = loss.item()  # fires
        optimizer.param_groups[0]["lr"] *= 0.99
        if i % 5 == 0:
            print(i, f"{value:.6f}")
    return value if loader else None
"""


def test_what_few_batches_show_is_read_there(tmp_path: Path) -> None:
    """Or waits, where that is proved: `eval` and frames would see a tensor under the name."""
    text = script(SELDOM.replace("    return value if loader else None\n", "main()\n"))
    patch = patch_of(tmp_path, text)
    assert [hunk.tier for hunk in patch.hunks] == ["safe"], "what is proved comes first"
    assert_same(tmp_path, text, patch)


def test_the_last_value_is_read_behind_the_loop(tmp_path: Path) -> None:
    text = script(
        "def main():\n    value = 0.0\n    for x, y in loader:\n        STEP\n        value = loss.item()  # fires\n"
        "    return value\nresult = main()\n"
    )
    patch = patch_of(tmp_path, text)
    if not patch.empty:  # a number before the loop: it stays one
        assert_same(tmp_path, text, patch)


APART = """
def main():
    history = []
    for i, (x, y) in enumerate(loader):
        STEP
        value = loss.item()  # fires
        optimizer.zero_grad()
        worst = (model(x).argmax(1) != y).sum()
        worst.add_(1)
        print(i, value, worst.item())  # fires
        history.append(value)
    return history
result = main()
"""


def test_a_value_that_is_shown_further_below_waits_with_its_line(tmp_path: Path) -> None:
    text = script(APART)
    patch = patch_of(tmp_path, text)
    assert [line.strip() for line in added(patch)] == [
        "pending_worst = []  # on the device, read 10 at a time",
        "value = loss.detach().clone()  # fires",
        "pending_worst.append((i, value, worst.detach().clone()))",
        "if len(pending_worst) == 10:",
        "for i_value, value_value, worst_value in pending_worst:",
        "value_value = value_value.item()",
        "print(i_value, value_value, worst_value.item())  # fires",
        "history.append(value_value)",
        "pending_worst.clear()",
        "for i_value, value_value, worst_value in pending_worst:",
        "value_value = value_value.item()",
        "print(i_value, value_value, worst_value.item())",
        "history.append(value_value)",
    ]
    assert "nonlocal" not in patched_text(patch)
    assert_same(tmp_path, text, patch)


def test_each_branch_keeps_its_tensor(tmp_path: Path) -> None:
    text = script(
        "def main():\n    for i, (x, y) in enumerate(loader):\n        STEP\n        if i % 2:\n"
        "            value = loss.item()  # fires\n        else:\n            value = (loss * 2).item()  # fires\n"
        "        optimizer.zero_grad()\n        print(i, value)\nmain()\n"
    )
    patch = patch_of(tmp_path, text)
    assert [hunk.tier for hunk in patch.hunks] == ["safe"]
    assert_same(tmp_path, text, patch)


def test_what_is_changed_in_place_is_kept_as_it_was(tmp_path: Path) -> None:
    text = script(
        "def main():\n    for i, (x, y) in enumerate(loader):\n        STEP\n        value = loss.item()  # fires\n"
        "        with torch.no_grad():\n            loss *= 0\n"
        "        if i % 7 == 0:\n            print(value)\nmain()\n"
    )
    patch = patch_of(tmp_path, text)
    assert "loss.detach().clone()" in patched_text(patch)
    assert_same(tmp_path, text, patch)


STAYS = {
    "it decides what the batch does": "if value > 1.5:\n            optimizer.zero_grad()",
    "it is read in each round of a loop": "for k in range(3):\n            print(value + k)",
    "it is added to": "value += 1\n        if i % 5 == 0:\n            print(value)",
}


@pytest.mark.parametrize("name", STAYS)
def test_other_uses_leave_the_read_to_the_rest_of_the_recipe(name: str, tmp_path: Path) -> None:
    text = script(
        "def main():\n    for i, (x, y) in enumerate(loader):\n        STEP\n        value = loss.item()  # fires\n"
        f"        optimizer.param_groups[0]['lr'] *= 0.9\n        {STAYS[name]}\nmain()\n"
    )
    patch = patch_of(tmp_path, text)
    assert patch.empty or "value = loss.detach().clone()" not in patched_text(patch)
    if not patch.empty:
        assert_same(tmp_path, text, patch)


def test_what_is_not_known_to_be_a_tensor_is_checked(tmp_path: Path) -> None:
    text = script(
        "import somewhere\ndef main():\n    for i, (x, y) in enumerate(loader):\n        STEP\n"
        "        value = somewhere.score(x).item()  # fires\n        optimizer.zero_grad()\n"
        "        if i % 5 == 0:\n            print(value)\nmain()\n"
    )
    patch = patch_of(tmp_path, text)
    assert [hunk.tier for hunk in patch.hunks] == ["checked"]
    assert "`somewhere.score(x)` is taken for a tensor" in patch.hunks[0].unproved
