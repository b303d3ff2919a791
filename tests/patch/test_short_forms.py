"""The fewest lines that do it: one list for a loop, read value by value where results are shown and after the loop."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.patching import assert_same, patch_of, patched_text, script
from tracelens.model import Patch

METER = """
class Meter:
    def __init__(self):
        self.sum, self.count = 0.0, 0
    def update(self, value, n=1):
        self.sum += value * n
        self.count += n
"""
SEVERAL_PLACES = """
    def train():
        total, right, seen = 0.0, 0, 0
        for i, (x, y) in enumerate(loader):
            output = model(x)
            right += (output.argmax(1) == y).sum().item()  # fires
            STEP
            total += loss.item() * 2  # fires
            seen += y.size(0)
            if i % 5 == 4:
                print(i, total, right / seen)
        return total, right, seen
    result = train()
"""
ADVERSARIES = """
    first, second = Meter(), Meter()
    for i, (x, y) in enumerate(loader):
        STEP
        first.update(loss.item(), x.size(0))  # fires
        OTHER
        second.update(other.item(), x.size(0))  # fires
    print(first.sum, first.count, second.sum, second.count)
"""
OTHER = "other = model(x).pow(2).mean()"


def added(patch: Patch) -> list[str]:
    lines = patch.diff.splitlines()
    return [line[1:].strip() for line in lines if line.startswith("+") and not line.startswith("+++")]


def test_results_of_several_places_wait_in_one_list(tmp_path: Path) -> None:
    text = script(SEVERAL_PLACES)
    patch = patch_of(tmp_path, text)
    assert added(patch)[:6] == [
        "pending_losses = []",
        "kept_sum = (output.argmax(1) == y).sum().detach()",
        "pending_losses.append((kept_sum, loss.detach().clone()))",
        "for sum_value, loss_value in pending_losses:",
        "right += sum_value.item()  # fires",
        "total += loss_value.item() * 2  # fires",
    ]
    assert len(added(patch)) == 10
    assert_same(tmp_path, text, patch)


def test_results_that_a_continue_keeps_apart_wait_in_two_lists(tmp_path: Path) -> None:
    text = script(
        SEVERAL_PLACES.replace("seen += y", "seen += y").replace(
            "            STEP", "            if i == 3:\n                continue\n            STEP"
        )
    )
    patch = patch_of(tmp_path, text)
    assert {"pending_sum = []", "pending_losses = []"} <= set(added(patch))
    assert_same(tmp_path, text, patch)


def test_the_size_of_a_batch_is_kept_once(tmp_path: Path) -> None:
    text = script(METER) + script(ADVERSARIES.replace("OTHER", OTHER))
    patch = patch_of(tmp_path, text)
    assert "pending_losses.append((kept_loss, x.size(0), other.detach().clone()))" in added(patch)
    assert_same(tmp_path, text, patch)


@pytest.mark.parametrize(
    "other", ["x = x[:2]", "x.unsqueeze_(0)", "x.data = x[:2]", "grow(x)", "x.set_(torch.randn(2, 4))"]
)
def test_a_size_that_changes_in_between_is_kept_twice(other: str, tmp_path: Path) -> None:
    grow = "def grow(x):\n    x.resize_(2, 4)\n"
    text = script(METER + grow) + script(ADVERSARIES.replace("OTHER", f"{other}; {OTHER}"))
    patch = patch_of(tmp_path, text)
    assert not patch.empty
    assert_same(tmp_path, text, patch)


@pytest.mark.parametrize(
    ("made", "head", "often"),
    [
        ("", "range(len(loader))", False),
        ("count = len(loader) // 1\n", "range(count)", False),
        ("", "range(20)", False),
        ("", "iter(range(len(loader)))", False),
        ("count = int('20')\n", "range(count)", True),
        ("def steps(count):\n    return count\n", "range(steps(20))", True),
        ("", "range(0, 20_000, 1000)", True),
    ],
)
def test_a_loop_over_data_is_read_after_it(made: str, head: str, often: bool, tmp_path: Path) -> None:
    text = script(
        f"{made}total = 0.0\nfor i in {head}:\n    x, y = loader[i % 23]\n    STEP\n"
        "    total += loss.item()  # fires\nprint(total)\n"
    )
    patch = patch_of(tmp_path, text)
    assert any("read 10 at a time" in line for line in added(patch)) == often
    assert_same(tmp_path, text, patch)


def test_a_line_of_each_batch_needs_no_function(tmp_path: Path) -> None:
    """The loop over what waits has names of its own: `i` is another one's."""
    text = script("for i, (x, y) in enumerate(loader):\n    STEP\n    print(i, loss.item())  # fires\nprint(i)\n")
    patch = patch_of(tmp_path, text)
    assert "def" not in " ".join(added(patch))
    assert "for i_value, loss_value in pending_losses:" in added(patch)
    assert_same(tmp_path, text, patch)


@pytest.mark.parametrize(
    "line",
    ["print(f'{i=} {loss.item()}')", "print([i for i in range(i)], loss.item())", "print(i, dict(i=loss.item()))"],
)
def test_a_name_that_is_said_stays(line: str, tmp_path: Path) -> None:
    text = script(f"for i, (x, y) in enumerate(loader):\n    STEP\n    {line}  # fires\nprint(i)\n")
    assert_same(tmp_path, text, patch_of(tmp_path, text))


def test_two_values_of_one_name_are_told_apart(tmp_path: Path) -> None:
    """The second line was printed with the number of the first."""
    text = script(
        "for i, (x, y) in enumerate(loader):\n    STEP\n    print('a', i, loss.item())  # fires\n    i += 100\n"
        "    print('b', i, loss.item())  # fires\n"
    )
    patch = patch_of(tmp_path, text)
    assert not patch.empty
    assert_same(tmp_path, text, patch)


def test_three_short_statements_are_written_twice(tmp_path: Path) -> None:
    body = "".join(f"    {name} += loss.item() * {number}  # fires\n" for number, name in enumerate("abc", 1))
    text = script(
        f"a = b = c = 0.0\nfor i, (x, y) in enumerate(loader):\n    STEP\n{body}"
        "    if i % 5 == 0:\n        print(a, b, c)\nprint(a, b, c)\n"
    )
    patch = patch_of(tmp_path, text)
    assert "def" not in patched_text(patch)
    assert_same(tmp_path, text, patch)


def test_a_bar_counts_the_batches_by_the_number_of_the_loop(tmp_path: Path) -> None:
    text = script(
        "from tqdm import tqdm\ntotal = 0.0\nbar = tqdm(enumerate(loader), total=len(loader))\n"
        "for i, (x, y) in bar:\n    STEP\n    total += loss.item()  # fires\n"
        "    bar.set_description(f'{total / (i + 1):.4f}')\nprint(total)\n"
    )
    patch = patch_of(tmp_path, text)
    assert [one.path.name for one in patch.files] == ["train.py"]
    assert "if len(pending_losses) == 10 or i + 1 == bar.total:" in added(patch)
    assert_same(tmp_path, text, patch)


@pytest.mark.parametrize("line", ["print(value.item())  # fires", "total += value.item()  # fires"])
def test_a_list_of_values_is_not_deferred_again(line: str, tmp_path: Path) -> None:
    text = script(
        "kept, total = [], 0.0\nfor x, y in loader:\n    STEP\n    kept.append(loss.detach().clone())\n"
        f"for value in kept:\n    {line}\nprint(total)\n"
    )
    patch = patch_of(tmp_path, text)
    assert patch.empty
    assert [one.obstacle for one in patch.declined] == ["only the first read of a list of values waits"]


def test_a_check_that_raises_waits_for_some_batches_and_not_till_the_loop_ends(tmp_path: Path) -> None:
    """It looked once the epoch was over."""
    text = script(
        "class Trainer:\n    def __init__(self):\n        self.history = []\n    def train(self):\n"
        "        for x, y in loader:\n            STEP\n            self.history.append(loss.item())  # fires\n"
        "            self.check()\n    def check(self):\n        if self.history[-1] > 100:\n"
        "            raise ValueError('diverged')\ntrainer = Trainer()\ntrainer.train()\nprint(trainer.history)\n"
    )
    patch = patch_of(tmp_path, text)
    assert [hunk.tier for hunk in patch.hunks] == ["checked"]
    assert "if len(pending_losses) == 10:" in added(patch)
    assert_same(tmp_path, text, patch)


def test_what_was_read_for_one_line_is_not_looked_for_again_in_the_next(tmp_path: Path) -> None:
    text = script("""
    import time
    total, start = 0.0, time.time()
    for step, (x, y) in enumerate(loader):
        STEP
        total += loss.item()  # fires
        if step % 10 == 0 and step > 0:
            mean = total / 10
            elapsed = time.time() - start
            print(step, mean, elapsed >= 0)
            total, start = 0.0, time.time()
    start = elapsed = None
    """)
    patch = patch_of(tmp_path, text)
    assert patched_text(patch).count(".clear()") == 1, patch.diff
    assert_same(tmp_path, text, patch)


BEFORE_AND_AFTER = """
    losses = []
    for i, (x, y) in enumerate(loader):
        optimizer.zero_grad()
        loss = MADE
        losses.append(loss.item())  # fires
        loss.backward()
        BETWEEN
        optimizer.step()
        print(i, loss.item(), losses[-1])  # fires
    print(sum(losses))
"""
HALVED = "def halve():\n    loss.data /= 2\n"
LOSS = "criterion(model(x), y)"


def before_and_after(made: str, between: str, before: str = "") -> str:
    return before + script(BEFORE_AND_AFTER.replace("MADE", made).replace("BETWEEN", between))


MEASURED = """
import json
def measured(x, y):
    return json.loads("1") * criterion(model(x), y)

"""


def copies(patch: Patch) -> int:
    """How many copies of the loss each batch makes."""
    return patched_text(patch).count("loss.detach().clone()")


def test_a_loss_that_is_read_before_and_after_the_step_is_kept_once(tmp_path: Path) -> None:
    text = before_and_after(LOSS, "pass")
    patch = patch_of(tmp_path, text)
    assert copies(patch) == 1
    assert [line for line in added(patch) if line.endswith(".append((loss.detach().clone(), i))")]
    assert "does not write into" not in str(patch.hunks[0].unproved)
    assert_same(tmp_path, text, patch)


def test_a_loss_that_nobody_can_tell_is_kept_once_and_the_hunk_says_so(tmp_path: Path) -> None:
    text = before_and_after("measured(x, y)", "optimizer.zero_grad()").replace(
        "losses = []", f"{MEASURED}losses = []", 1
    )
    patch = patch_of(tmp_path, text)
    assert copies(patch) == 1
    assert "`loss` is taken for one that the training step does not write into" in str(patch.hunks[0].unproved)
    assert_same(tmp_path, text, patch)


@pytest.mark.parametrize(
    ("made", "between", "before"),
    [
        ("model.bias.sum() * 0 + model.weight[0, 0]", "loss.data /= 2", ""),
        ("model.weight.view(-1)[0]", "pass", ""),
        (LOSS, "loss.data /= 2", ""),
        (LOSS, "loss = loss / 2", ""),
        (LOSS, "half = loss.detach(); half /= 2", ""),
        (LOSS, "other = loss; other.data /= 2", ""),
        (LOSS, "halve()", HALVED),
    ],
)
def test_a_loss_that_may_be_another_by_then_is_kept_twice(made: str, between: str, before: str, tmp_path: Path) -> None:
    text = before_and_after(made, between, before)
    patch = patch_of(tmp_path, text)
    assert not patch.empty
    assert copies(patch) != 1
    assert_same(tmp_path, text, patch)


@pytest.mark.parametrize("apart", ["", "\n"])
def test_comments_that_end_the_loop_stay_in_it(apart: str, tmp_path: Path) -> None:
    """Commented-out lines below a blank one came to stand behind the reads after the loop."""
    text = script(
        "total = 0.0\nfor i, (x, y) in enumerate(loader):\n    STEP\n    total += loss.item()  # fires\n"
        f"{apart}    # if i == 3:\n{apart}    #     print(i, total)\n\n# What it was.\nprint(total)\n"
    )
    patch = patch_of(tmp_path, text)
    lines = [line for line in patched_text(patch).splitlines() if line]
    comment = lines.index("    #     print(i, total)")
    assert lines[comment + 1].startswith("for loss_value in ") or lines[comment + 1].startswith("if pending_losses")
    assert lines.index("# What it was.") > comment + 1
    assert_same(tmp_path, text, patch)
