"""move-guard: a check for a bad value ends the training some updates later, and nothing is saved before it."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tests.support.patching import assert_same, defer, patch_of, patched_text, run, script
from tests.support.unsafe_patches import ran, reasons, unsafe
from tracelens.model import Edit

# ------------------------------------------------------------------------------------------------- moved guards

POISON = 13
"""The batch whose loss is not a number."""
GUARDED = """
import math, sys
import numpy as np
total = 0.0
for step, (x, y) in enumerate(loader):
    sys.updates = step
    if step == {poison}:
        x = x * float("nan")
    loss = criterion(model(x), y)
    {guard}
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    total += {value}
    print(f"{{step}}: {{{value}:.4f}}")
print("end", total)
"""

ITEM = "loss_value = loss.item()  # fires\n"
GUARDS = {
    "mae": (ITEM + "if not math.isfinite(loss_value):\n    print('Loss is {}, stopping'.format(loss_value))\n"
            "    sys.exit(1)", "loss_value"),
    "convnext": (ITEM + "if not math.isfinite(loss_value):\n    print('Loss is', loss_value)\n"
                 "    assert math.isfinite(loss_value)", "loss_value"),
    "detr": (ITEM + "if not math.isfinite(loss_value):\n    print(f'step {step}')\n    print(loss_value)\n"
             "    sys.exit(3)", "loss_value"),
    "dino": ("if not math.isfinite(loss.item()):  # fires\n    print('Loss is {}'.format(loss.item()))\n"
             "    sys.exit(1)", "1.0"),
    "fcn": (ITEM.replace("loss.item", "loss.data.item") + "if np.isnan(loss_value):\n"
            "    raise ValueError('loss is nan while training')", "loss_value"),
    "assert": ("assert torch.isfinite(loss).all(), f'bad loss at {step}'  # fires", "1.0"),
    "raise": ("if torch.isnan(loss) or torch.isinf(loss):  # fires\n    raise RuntimeError(f'NaN at {step}')", "1.0"),
    "method": ("if loss.isnan().any():  # fires\n    raise RuntimeError", "1.0"),
    "itself": ("if loss != loss:  # fires\n    raise FloatingPointError('nan')", "1.0"),
    "tensor": ("if math.isnan(loss.detach()):  # fires\n    sys.exit('not a number')", "1.0"),
    "limits": (ITEM + "assert not (np.isnan(loss_value) or loss_value > 1e5), 'Loss explosion: {}'"
               ".format(loss_value)", "loss_value"),
    "any": (ITEM + "if any([loss_value > 1e8, math.isnan(loss_value)]):\n    raise Exception('Loss exploded')",
            "loss_value"),
    "one line": (ITEM + "if math.isnan(loss_value): sys.exit(2)", "loss_value"),
    "break": (ITEM + "if math.isnan(loss_value):\n    print('stop')\n    break", "loss_value"),
}  # fmt: skip


def guarded(name: str, poison: int) -> str:
    guard, value = GUARDS[name]
    return script(GUARDED.format(poison=poison, guard=guard.replace("\n", "\n    "), value=value))


@pytest.mark.parametrize("name", GUARDS)
def test_a_moved_guard_ends_the_training_as_before_some_updates_later(name: str, tmp_path: Path) -> None:
    text = guarded(name, POISON)
    patch = unsafe(tmp_path, text, "defer-read", "move-guard")
    assert [(hunk.id, hunk.tier) for hunk in patch.hunks if hunk.edit == "move-guard"] == [("TL601", "unsafe")]
    before, early = run(tmp_path / "before", text), sys.updates  # type: ignore[attr-defined]
    after, late = ran(tmp_path / "after", patch), sys.updates  # type: ignore[attr-defined]
    assert after.ending == before.ending
    assert (before.ending != "") is (name != "break")
    assert (early, late) == (POISON, 19), "the guard looks at the end of its ten batches, not of the training"
    logged = [line for line in after.output.splitlines() if not re.match(r"\d+: 1.0000", line)]
    expected = [line for line in before.output.splitlines() if not re.match(r"\d+: 1.0000", line)]
    assert logged == expected, "what waited behind the guard was never to be written"


@pytest.mark.slow
@pytest.mark.parametrize("name", GUARDS)
def test_without_a_bad_batch_nothing_differs(name: str, tmp_path: Path) -> None:
    text = guarded(name, poison=-1)
    patch = unsafe(tmp_path, text, "defer-read", "move-guard")
    assert assert_same(tmp_path, text, patch).ending == ""
    assert not re.search(
        r"^    .*\.item\(\)", patched_text(patch).partition("ahead.iterate")[2].replace("ahead.item", ""), re.M
    )


OTHERS = {
    "continue": ("if math.isnan(loss_value):\n    continue", "(`continue`)"),
    "zero_grad": ("if math.isnan(loss_value):\n    optimizer.zero_grad()", "something else than to end the training"),
    "scale": ("if math.isnan(loss_value):\n    loss = loss * 0", "something else than to end the training"),
    "else": ("if math.isnan(loss_value):\n    sys.exit(1)\nelse:\n    good = step", "has an `else`"),
    "saves": ("if math.isnan(loss_value):\n    torch.save(x, 'bad.pt')\n    sys.exit(1)", "more than log"),
    "sometimes": ("if math.isnan(loss_value):\n    if step > 3:\n        break\n    raise ValueError", "(`break`)"),
    "kept": ("if math.isnan(loss_value):  # tracelens: keep\n    sys.exit(1)", "tracelens: keep"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_a_guard_that_does_something_else_stays(name: str, tmp_path: Path) -> None:
    guard, why = OTHERS[name]
    text = script(GUARDED.format(poison=-1, guard=(ITEM + guard).replace("\n", "\n    "), value="loss_value"))
    patch = unsafe(tmp_path, text, "defer-read", "move-guard")
    assert patch.empty
    assert why in reasons(patch, "move-guard")[0]


def test_a_guard_whose_value_is_read_in_each_batch_all_the_same_stays(tmp_path: Path) -> None:
    guard = "loss_value = loss.item()\n    if math.isnan(loss_value):  # fires\n        sys.exit(1)"
    text = script(GUARDED.format(poison=-1, guard=guard, value="loss_value"))
    patch = unsafe(tmp_path, text, "move-guard")
    assert patch.empty and "read in each batch all the same" in reasons(patch, "move-guard")[0]


def test_a_condition_that_is_no_check_for_a_number_is_no_guard(tmp_path: Path) -> None:
    guard = ITEM + "if loss_value > 5:\n        sys.exit(1)"
    text = script(GUARDED.format(poison=-1, guard=guard.replace("\nif", "\n    if"), value="loss_value"))
    patch = unsafe(tmp_path, text, "defer-read", "move-guard")
    assert patch.empty and reasons(patch, "move-guard") == []


SAVING = """
import math, sys
for step, (x, y) in enumerate(loader):
    if step == 13:
        x = x * float("nan")
    loss = criterion(model(x), y)
    if math.isnan(loss.item()):  # fires
        {end}
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step in (5, 15):
        torch.save(model.state_dict(), f"kept{{step}}.pt")
print("after", step)
"""


@pytest.mark.parametrize("end", ["sys.exit(1)", "break", "raise ValueError('nan')"])
def test_no_weights_are_saved_before_the_guard_has_looked(
    end: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = script(SAVING.format(end=end))
    monkeypatch.chdir(tmp_path)
    patch = unsafe(tmp_path, text, "move-guard")
    assert "it saves after the guard has looked" in patch.hunks[0].reason
    after = ran(tmp_path / "after", patch)
    assert sorted(path.name for path in tmp_path.glob("*.pt")) == ["kept5.pt"]
    assert after.ending == run(tmp_path / "before", text).ending


def test_a_loop_that_saves_in_each_batch_keeps_its_guard(tmp_path: Path) -> None:
    text = script(SAVING.format(end="sys.exit(1)").replace("if step in (5, 15):", "with torch.no_grad():"))
    assert "saves in each batch" in reasons(unsafe(tmp_path, text, "move-guard"), "move-guard")[0]


def test_a_return_out_of_the_loop_does_not_lose_the_guard(tmp_path: Path) -> None:
    body = """
    import math, sys
    def train():
        for step, (x, y) in enumerate(loader):
            loss = criterion(model(x * (float("nan") if step == 3 else 1)), y)
            if math.isnan(loss.item()):  # fires
                sys.exit(1)
            loss.backward()
            optimizer.step()
            if step == 6:
                return 5
    train()
    """
    text = script(body)
    patch = unsafe(tmp_path, text, "move-guard")
    assert ran(tmp_path / "after", patch).ending == run(tmp_path / "before", text).ending == "SystemExit: 1"


def test_a_guard_that_ends_a_generator_stays(tmp_path: Path) -> None:
    text = script(
        "import math\nfor x, y in loader:\n    STEP\n    if math.isnan(loss.item()):  # fires\n"
        "        raise StopIteration\n"
    )
    patch = patch_of(
        tmp_path, text, (Edit("move-guard", locations=defer(text)[0].locations, interval=10),), unsafe=True
    )
    assert patch.empty
    assert any("ends a generator" in one.obstacle for one in patch.declined)


def test_no_helper_saves_before_the_guard_has_looked(tmp_path: Path) -> None:
    text = script(
        "import math\ndef keep(): torch.save(model.state_dict(), 'm.pt')\nfor i, (x, y) in enumerate(loader):\n"
        "    STEP\n    if math.isnan(loss.item()):  # fires\n        raise ValueError\n"
        "    if i % 5 == 0:\n        keep()\n"
    )
    patch = patch_of(
        tmp_path, text, (Edit("move-guard", locations=defer(text)[0].locations, interval=10),), unsafe=True
    )
    lines = next(one.after for one in patch.files if one.path.name == "train.py").decode().splitlines()
    assert lines[lines.index("        keep()") - 1].strip() == "ahead.drain()"
