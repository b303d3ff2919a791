"""A step function that returns `loss.item()` returns the tensor, where the loop only logs or adds up the value."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.patching import assert_same, fired, patch_of, patched_text, script
from tracelens.model import Edit

ONE = """
def train_step(x, y):
    STEP
    return loss.item()  # fires
"""
TWO = """
def train_step(x, y):
    optimizer.zero_grad()
    out = model(x)
    loss = criterion(out, y)
    loss.backward()
    optimizer.step()
    return loss.item(), (out.argmax(1) == y).sum().item()  # fires
"""
NAMED = TWO.replace("return loss.item(), (out", "return {'loss': loss.item(), 'hits': (out").replace(
    ".sum().item()  #", ".sum().item()}  #"
)
METHOD = """
class Trainer:
    def __init__(self):
        self.total, self.steps = 0.0, 0
    def train_step(self, x, y):
        self.steps += 1
        STEP
        return loss.item()  # fires
    def run(self):
        for i, (x, y) in enumerate(loader):
            self.total += self.train_step(x, y)
            print(i, self.total)
        print(self.steps)
trainer = Trainer()
trainer.run()
"""
BOUND = ONE.replace("return loss.item()  # fires", "value = loss.item()  # fires\n    return value")
BOUND_TWICE = TWO.replace(
    "return loss.item(), (out.argmax(1) == y).sum().item()  # fires",
    "value = loss.item()  # fires\n    hits = (out.argmax(1) == y).sum().item()  # fires\n    return value, hits",
)
RUNNING = """
running = torch.zeros(())
def measure():
    running.add_(1.0)
    return running
def train_step(x, y):
    STEP
    first = {first}.item()  # fires
    second = {second}.item()  # fires
    return first, second
"""
UNPACKED = "before, after = train_step(x, y)\n        history.append((before, after))"
LOOP = """
def main():
    total, history = 0.0, []
    for i, (x, y) in enumerate(loader):
        {lines}
        if i % 5 == 0:
            print(i, total, history)
    return total, history
result = main()
"""
WAITS = {
    "assigned": (ONE, "value = train_step(x, y)\n        total += value"),
    "added up": (ONE, "total += train_step(x, y)"),
    "kept": (ONE, "history.append(train_step(x, y))"),
    "over lines": (ONE, "total += train_step(\n            x,\n            y,\n        )"),
    "in two places": (ONE, "total += train_step(x, y)\n        history.append(train_step(x, y))"),
    "unpacked": (TWO, "loss, hits = train_step(x, y)\n        total += loss\n        history.append(hits)"),
    "a dict": (NAMED, "found = train_step(x, y)\n        total += found['loss']\n        history.append(found)"),
    "bound to a name first": (BOUND, "total += train_step(x, y)"),
    "bound to two names first": (BOUND_TWICE, "loss, hits = train_step(x, y)\n        total += loss + hits"),
    "beside another read": (ONE, "total += train_step(x, y)\n        history.append(x.sum().item())  # fires"),
}
STAYS = {
    "decorated": (ONE.replace("def", "@torch.enable_grad()\ndef"), "total += train_step(x, y)"),
    "bound, and looked at": (
        BOUND.replace("return value", "return value if value else 1.0"),
        "total += train_step(x, y)",
    ),
    "bound before the weights change": (
        ONE.replace("STEP", "value = model.weight.sum().item()  # fires\n    STEP").replace(
            "return loss.item()  # fires", "return value"
        ),
        "total += train_step(x, y)",
    ),
    "compiled": (ONE, "total += torch.compile(train_step)(x, y)"),
    "named in a text": (ONE + "text = 'train_step'\n", "total += train_step(x, y)"),
    "returned early": (
        ONE.replace("    STEP", "    if x is None:\n        return 0.0\n    STEP"),
        "total += train_step(x, y)",
    ),
    "with something around": (
        ONE.replace("    return", "    with torch.no_grad():\n        return"),
        "total += train_step(x, y)",
    ),
    "beside a tensor": (TWO.replace("loss.item(), (", "loss.item(), loss, ("), "total += train_step(x, y)[0]"),
    "returned only below a condition": (
        ONE.replace("    return", "    if len(seen) % 3:\n        return") + "seen = []\n",
        "seen.append(x)\n        history.append(train_step(x, y))",
    ),
    "two reads of one memory": (RUNNING.format(first="running", second="running.add_(loss.detach())"), UNPACKED),
    "two reads of what a function changes": (RUNNING.format(first="measure()", second="measure()"), UNPACKED),
    "two reads in the other order": (
        RUNNING.format(first="running.add_(loss.detach())", second="running").replace(
            "return first, second", "return second, first"
        ),
        UNPACKED,
    ),
    "rounded": (ONE.replace("loss.item()", "round(loss.item(), 3)"), "total += train_step(x, y)"),
    "a tuple that is kept": (TWO, "history.append(train_step(x, y))"),
    "the value decides": (ONE, "value = train_step(x, y)\n        if value < 0.5:\n            break"),
    "it trains": (ONE, "value = train_step(x, y)\n        optimizer.param_groups[0]['lr'] = 0.1 * value"),
    "the step looks at what is added up": (
        ONE.replace("    STEP", "    if len(seen) > 3: optimizer.param_groups[0]['lr'] = 0.01\n    STEP")
        + "seen = []\n",
        "seen.append(train_step(x, y))",
    ),
    "the step prints": (ONE.replace("    STEP", "    print(len(x))\n    STEP"), "print(train_step(x, y))"),
    "two of the name": (ONE + ONE.replace("  # fires", ""), "total += train_step(x, y)"),
}


CARRIED = (
    *("bound before the weights change", "named in a text", "with something around", "two reads of one memory"),
    *("two reads of what a function changes", "two reads in the other order"),
)
"""Of these the tensor is taken where the read stood (`test_carried_reads`), which nobody has proved."""


@pytest.mark.parametrize("name", WAITS)
def test_the_value_is_read_by_the_loop_that_calls(name: str, tmp_path: Path) -> None:
    step, lines = WAITS[name]
    text = script(step + LOOP.format(lines=lines), batches=12)
    patch = patch_of(tmp_path, text)
    assert [hunk.edit for hunk in patch.hunks] == ["defer-read"]
    assert patch.declined == ()
    assert "`train_step` returns the tensor" in patch.hunks[0].reason
    assert "return loss.item()" not in patched_text(patch)
    assert_same(tmp_path, text, patch)


@pytest.mark.parametrize("name", STAYS)
def test_a_step_function_stays_where_its_value_is_needed_or_others_may_use_it(name: str, tmp_path: Path) -> None:
    step, lines = STAYS[name]
    text = script(step + LOOP.format(lines=lines), batches=4)
    patch = patch_of(tmp_path, text)
    if name in CARRIED:
        assert [hunk.tier for hunk in patch.hunks] == ["checked"]
        assert_same(tmp_path, text, patch)
    else:
        assert patch.empty
        assert patch.declined


@pytest.mark.parametrize("first", ["running", "measure()", "keeper.grown()"])
@pytest.mark.parametrize("form", ["{first}.item(), {second}.item()", "{{1: {first}.item(), 2: {second}.item()}}"])
def test_two_reads_of_one_memory_stay_in_the_function(form: str, first: str, tmp_path: Path) -> None:
    second = first if "(" in first else "running.add_(loss.detach())"
    unpacked = (
        "found = train_step(x, y)\n    one, two = found.values()" if "{{" in form else "one, two = train_step(x, y)"
    )
    text = script(
        "running = torch.zeros(())\nclass Keeper:\n    total = running\n    def grown(self):\n"
        "        self.total.add_(1)\n        return self.total\nkeeper = Keeper()\n"
        "def measure():\n    running.add_(1.0)\n    return running\ndef train_step(x, y):\n    STEP\n"
        f"    return {form.format(first=first, second=second)}  # fires\n"
        f"history = []\nfor x, y in loader:\n    {unpacked}\n"
        "    history.append((float(one), float(two)))\nprint(history)\n"
    )
    patch = patch_of(tmp_path, text)
    if patch.hunks:
        assert assert_same(tmp_path, text, patch).ending == ""


def test_a_method_that_only_its_object_calls(tmp_path: Path) -> None:
    text = script(METHOD, batches=12)
    patch = patch_of(tmp_path, text)
    assert [hunk.edit for hunk in patch.hunks] == ["defer-read"]
    assert_same(tmp_path, text, patch)


def test_a_step_function_that_another_file_knows_stays(tmp_path: Path) -> None:
    (tmp_path / "other.py").write_text("from train import train_step\nif train_step(1, 2) > 0: print()\n")
    patch = patch_of(tmp_path, script(ONE + LOOP.format(lines="total += train_step(x, y)")))
    assert patch.empty
    assert ["other.py:2 looks at the value" in one.obstacle for one in patch.declined] == [True]


def test_other_places_of_the_file_keep_their_hunks(tmp_path: Path) -> None:
    lines = ["total += train_step(x, y)", "torch.cuda.synchronize()  # waits", "history.append(y[0].item())  # fires"]
    text = script(ONE + LOOP.format(lines="\n        ".join(lines)))
    edits = (
        Edit("defer-read", locations=fired(text), interval=10),
        Edit("interval-sync", locations=fired(text, "# waits"), interval=10),
    )
    patch = patch_of(tmp_path, text, edits)
    assert sorted(hunk.edit for hunk in patch.hunks) == ["defer-read", "interval-sync"]
    assert "if batches_issued % 10 == 0:\n            torch.cuda.synchronize()" in patched_text(patch)
    without = patch_of(tmp_path, text, edits, skip=tuple(h.id for h in patch.hunks if h.edit == "defer-read"))
    assert "return loss.item()" in patched_text(without)


OTHERS = {
    "nobody": ("", True),
    "an override": ("class Other(Trainer):\n    def train_step(self, x, y):\n        return torch.zeros(1)\n", False),
    "a compiler": (
        "def faster(one):\n    one.train_step = compiled(one.train_step)\n",
        False,
    ),
    "a text": ("def set_up(trainer, faster):\n    setattr(trainer, 'train_step', faster)\n", False),
}
COPIED = (
    METHOD.replace("return loss.item()  # fires", "return loss.detach().clone()")
    .replace(
        "self.total += self.train_step(x, y)",
        "value = self.train_step(x, y)\n            self.total += value.item()  # fires",
    )
    .replace("            print(i, self.total)\n", "")
)


@pytest.mark.parametrize("name", OTHERS)
def test_what_a_step_function_has_copied_is_not_copied_again(name: str, tmp_path: Path) -> None:
    other, once = OTHERS[name]
    (tmp_path / "others.py").write_text(other)
    text = script(COPIED)
    patch = patch_of(tmp_path, text)
    assert not patch.empty
    assert ("value.detach().clone()" not in patched_text(patch)) == once
    assert_same(tmp_path, text, patch)
