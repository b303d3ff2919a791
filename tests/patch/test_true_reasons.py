"""What is said of a place that stays: the thing that stands in the way, and not what only looks like it."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from tests.support.every_place import every_place
from tests.support.patching import assert_same, patch_of, script

BAR = """
import sys
import time
last = time.time()
def progress_bar(current, text):
    global last
    now = time.time()
    print(current, text, 'Step: %.0f' % (now - last))
    last = now
"""

KEPT = """
log, record = [], Record()
numbers = iter(range(1000))
for i, (x, y) in enumerate(loader):
    STEP
    record.n = next(numbers)
    report(TEXT, loss.item())  # fires
for text, value in log:
    print(text, value)
"""
KEEPS = """
kept = []
class Record:
    n = 0
def keep(record):
    kept.append(record)
    return record
def report(text, value):
    log.append((text, value))
"""

NORM = """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--log-norm", action="store_true")
args = parser.parse_args([])
numbers = iter(range(1000))
logs, seen = [], []
for i, (x, y) in enumerate(loader):
    STEP
    seen.append(next(numbers))
    if TEST:
        logs.append((seen, model.weight.grad.norm().item()))
    if len(seen) > 900:
        break
"""

CASES = {
    "a text that a printer is handed keeps nothing of its numbers": (
        {"bar.py": BAR},
        """
        from bar import progress_bar
        train_loss, correct, total = 0, 0, 0
        for i, (x, y) in enumerate(loader):
            STEP
            out = model(x)
            train_loss += loss.item()
            _, predicted = out.max(1)
            total += y.size(0)
            correct += predicted.eq(y).sum().item()
            progress_bar(i, 'Loss: %.3f | Acc: %.3f%% (%d/%d)'
                         % (train_loss / (i + 1), 100. * correct / total, correct, total))
        """,
        ["right beside it", "the clock is read in line 23"],
    ),
    "a condition that holds in each batch or in none": (
        {},
        NORM.replace("TEST", "args.log_norm"),
        ["it keeps `seen` itself"],
    ),
    "a condition that holds in few batches": (
        {},
        NORM.replace("TEST", "args.log_norm and i == 7"),
        ["it is read only in few batches"],
    ),
    "a condition of which nobody says that it holds in each batch or in none": (
        {},
        NORM.replace("TEST", "log_norm").replace("STEP", "log_norm = next(numbers) % 7 == 3\n    STEP"),
        ["it is read only in few batches"],
    ),
    "a block whose rounds fill one object each": (
        {},
        """
        class Reporter:
            total = 0.0
            def update(self, value):
                self.total += value
        reporters = [Reporter(), Reporter()]
        for i, (x, y) in enumerate(loader):
            STEP
            for reporter, part in zip(reporters, (loss, 2 * loss)):
                reporter.update(part.item())
        print([one.total for one in reporters])
        """,
        ["each round of the block fills another `reporter`"],
    ),
    "a block that looks at the values": (
        {},
        """
        sums = {"a": 0.0}
        for i, (x, y) in enumerate(loader):
            STEP
            logs = {"a": loss.item()}
            for k, v in logs.items():
                sums[k] += v
        print(sums)
        """,
        ["the value is used by the head of a block"],
    ),
    "a text in which a function keeps the object": (
        {},
        KEEPS + KEPT.replace("TEXT", '"%s" % (keep(record).n,)'),
        ["it keeps `record` itself, which the loop changes"],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_reason_is_what_stands_in_the_way(name: str, tmp_path: Path) -> None:
    files, body, words = CASES[name]
    for path, text in files.items():
        (tmp_path / path).write_text(textwrap.dedent(text).lstrip())
    patch = every_place(tmp_path, body)
    told = [one.obstacle for one in patch.declined if one.edit == "defer-read"]
    assert not any(hunk.edit == "defer-read" for hunk in patch.hunks)
    assert len(told) == len(words)
    assert all(word in one for word, one in zip(words, told, strict=True)), told


@pytest.mark.parametrize("text", ['"%s" % (record,)', 'f"{record}"', '"{}".format(record)'])
def test_who_keeps_a_text_has_that_of_its_batch(text: str, tmp_path: Path) -> None:
    body = "log = []\ndef report(text, value):\n    log.append((text, value))\n"
    loop = KEPT.replace("log, record = [], Record()", "record = []").replace(
        ".n = next(numbers)", ".append(next(numbers))"
    )
    written = script(body + loop.replace("TEXT", text))
    patch = patch_of(tmp_path, written, checked=True)
    assert not patch.empty
    assert_same(tmp_path, written, patch)


def test_what_a_for_goes_through_decides_nothing(tmp_path: Path) -> None:
    """A matrix that is filled item by item needs the values, but the batch goes on as it would."""
    counted = "    for one in y.tolist():  # fires\n        table[one % 4] += 1\n"
    text = script(f"table = [0] * 4\nfor x, y in loader:\n    STEP\n{counted}")
    (declined,) = patch_of(tmp_path, text).declined
    assert declined.obstacle == "the value is used by the head of a block"
