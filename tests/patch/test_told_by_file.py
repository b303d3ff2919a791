"""Projects that are too large to be followed: what reaches a result by a way that the batch does not show.

A hook that stores what the line reads, a list that all objects of a class share, a module under another name, a method
of the project named as one of a tensor's. Each script is run with its patch, where there is one.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.average_meters import SUM_WITH_ITEM
from tests.support.patching import assert_same, patch_of, patched_text, script
from tracelens.patch.effects import memory

LOG = "def log(values):\n    print(sorted(values.items()))\n"
SEEN_ONLY_THERE = {
    "a hook stores what the line reads": LOG
    + """
def train():
    stats = {}
    def hook(module, inputs, output):
        stats["out"] = output.detach().mean().item()
    model.register_forward_hook(hook)
    for x, y in loader:
        STEP
        log({"loss": loss.item(), "out": stats["out"]})  # fires
train()
""",
    "a hook adds to what the line reads": LOG
    + """
def train():
    seen = []
    model.register_forward_hook(lambda module, inputs, output: seen.append(output.detach().mean().item()))
    for x, y in loader:
        STEP
        log({"loss": loss.item(), "out": seen[-1]})  # fires
train()
""",
    "a hook changes a variable of the module": LOG
    + """
last = 0.0
def hook(module, inputs, output):
    global last
    last = output.detach().mean().item()
def shown():
    return last
model.register_forward_hook(hook)
def train():
    for x, y in loader:
        STEP
        log({"loss": loss.item(), "out": shown()})  # fires
train()
""",
    "a function of the batch stores what the line reads": LOG
    + """
stats = {}
def measure(x):
    stats["mean"] = x.mean().item()
def train():
    for x, y in loader:
        measure(x)
        STEP
        log({"loss": loss.item(), "mean": stats["mean"]})  # fires
train()
""",
    "a list of the class": """
class Log:
    values = []
    def add(self, value):
        self.values.append(value)
def train():
    a, b = Log(), Log()
    for step, (x, y) in enumerate(loader):
        STEP
        a.add(loss.item())  # fires
        if step % 9 == 8:
            print(len(b.values))
train()
""",
    "a list of the class by the name of the class": """
class Log:
    values = []
    def add(self, value):
        self.values.append(value)
def show():
    print(len(Log.values))
def train():
    a = Log()
    for step, (x, y) in enumerate(loader):
        STEP
        a.add(loss.item())  # fires
        if step % 9 == 8:
            show()
train()
""",
    "a list of the class that the loop itself fills": """
class Log:
    values = []
def train():
    a, b = Log(), Log()
    for step, (x, y) in enumerate(loader):
        STEP
        a.values.append(loss.item())  # fires
        if step % 9 == 8:
            print(len(b.values))
train()
""",
    "a number of the class": """
class Log:
    count = 0
    def show(self):
        print(self.count)
def train():
    a, b = Log(), Log()
    for step, (x, y) in enumerate(loader):
        STEP
        Log.count += loss.item()  # fires
        if step % 9 == 8:
            b.show()
train()
""",
    "a function that counts in its module": """
total = 0.0
def add(value):
    global total
    total += value
def peek():
    print("%.6f" % total)
def train():
    for step, (x, y) in enumerate(loader):
        STEP
        add(loss.item())  # fires
        if step % 9 == 8:
            peek()
train()
""",
    "a project's own item": SUM_WITH_ITEM
    + """
def train():
    total, values = Sum(), []
    for x, y in loader:
        STEP
        total.add(loss.detach())
        values.append(total.item())  # fires
    print(sum(values), values[-1])
train()
""",
    "a method of its own item": SUM_WITH_ITEM
    + """
class Trainer:
    def __init__(self):
        self.sum, self.values = Sum(), []
    def train(self):
        for x, y in loader:
            STEP
            self.sum.add(loss.detach())
            self.values.append(self.sum.item())  # fires
        print(sum(self.values), self.values[-1])
Trainer().train()
""",
    "a copy of the file": """
import tempfile
path = tempfile.mktemp()
def snapshot(step):
    if step % 7 == 6:
        shutil.copy(path, path + "x")
        print(open(path + "x").read())
def train():
    log = open(path, "w", buffering=1)
    for step, (x, y) in enumerate(loader):
        STEP
        log.write("%.6f\\n" % loss.item())  # fires
        snapshot(step)
train()
""",
    "a block that says how numbers are shown": """
import numpy as np
import contextlib
def train():
    for x, y in loader:
        STEP
        with np.printoptions(precision=3):
            print(np.array([loss.item(), 1 / 3]))  # fires
train()
""",
}
MODULES = {
    "by its own name": "import stats\n\ndef peek():\n    print('%.6f' % stats.total)\n",
    "under another name": "import stats as s\n\ndef peek():\n    print('%.6f' % s.total)\n",
    "by a function of the module": "import stats\n\ndef peek():\n    stats.show()\n",
}
STATS = "total = 0.0\n\n\ndef show():\n    print('%.6f' % total)\n"
IN_THE_LOOP = """
import stats
import stats as s
def train():
    for step, (x, y) in enumerate(loader):
        STEP
        stats.total += loss.item()  # fires
        if step % 9 == 8:
            print("%.6f" % s.total)
stats.total = 0.0
train()
"""
TOGGLED = """
import logging
from toggle import toggle
logger = logging.getLogger("t")
def train():
    for step, (x, y) in enumerate(loader):
        STEP
        logger.info("%d %.5f", step, loss.item())  # fires
        toggle(step)
train()
"""
ENDS_AT_ONCE = """
import os
def check(step):
    if step == 99:
        os._exit(3)
def train():
    for step, (x, y) in enumerate(loader):
        STEP
        print(step, loss.item())  # fires
        check(step)
train()
"""
BY_MODULE = """
import stats
from peek import peek
def train():
    for step, (x, y) in enumerate(loader):
        STEP
        stats.total += loss.item()  # fires
        if step % 9 == 8:
            peek()
stats.total = 0.0
train()
"""
STILL_WAITS = {
    "a hook stores something else": LOG
    + """
def train():
    stats, sizes = {}, {"width": 4}
    def hook(module, inputs, output):
        stats["out"] = output.detach().mean()
    model.register_forward_hook(hook)
    for step, (x, y) in enumerate(loader):
        STEP
        log({"loss": loss.item(), "step": step, "width": sizes["width"]})  # fires
    print(stats["out"].item())
train()
""",
    "a function of the batch stores something else": """
settings, seen = {"scale": 2.0}, {}
def measure(x):
    seen["mean"] = x.mean()
def train():
    total = 0.0
    for x, y in loader:
        measure(x)
        STEP
        total += settings["scale"] * loss.item()  # fires
    print(total)
train()
""",
    "a list that each object has": """
class Log:
    values = None
    def __init__(self):
        self.values = []
    def add(self, value):
        self.values.append(value)
def train():
    a, b = Log(), Log()
    for step, (x, y) in enumerate(loader):
        STEP
        a.add(loss.item())  # fires
        if step % 9 == 8:
            print(len(b.values))
    print(a.values)
train()
""",
    "a number of the class": """
class Log:
    width = 4
    def __init__(self):
        self.kept = []
    def add(self, value):
        self.kept.append(value)
def train():
    a = Log()
    for step, (x, y) in enumerate(loader):
        STEP
        a.add(loss.item())  # fires
        if step % 9 == 8:
            print(a.width)
    print(a.kept)
train()
""",
    "an end with which the sum is gone anyway": """
import os
def check(step):
    if step == 99:
        os._exit(3)
def train():
    total = 0.0
    for step, (x, y) in enumerate(loader):
        STEP
        total += loss.item()  # fires
        check(step)
    print(total)
train()
""",
    "another class of the file has an item": """
class Sum:
    def item(self):
        return 0.0
def train():
    total, other = 0.0, Sum()
    for x, y in loader:
        STEP
        total += loss.item()  # fires
    print(total, other.item())
train()
""",
    "a module that nobody looks at": """
import types
stats = types.SimpleNamespace(total=0.0)
def train():
    for x, y in loader:
        STEP
        stats.total += loss.item()  # fires
    print(stats.total)
train()
""",
}


@pytest.fixture(autouse=True)
def gives_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "MAX_EFFECTS", 1)


@pytest.mark.parametrize("name", SEEN_ONLY_THERE)
def test_what_the_batch_does_not_show_is_looked_for(name: str, tmp_path: Path) -> None:
    text = script(SEEN_ONLY_THERE[name])
    patch = patch_of(tmp_path, text)
    if not patch.empty:
        assert_same(tmp_path, text, patch)


@pytest.mark.parametrize("name", MODULES)
def test_a_variable_of_a_module_is_the_same_under_each_name_of_it(name: str, tmp_path: Path) -> None:
    text = script(BY_MODULE)
    for folder in (tmp_path, tmp_path / "before", tmp_path / "after"):
        folder.mkdir(exist_ok=True)
        (folder / "stats.py").write_text(STATS)
        (folder / "peek.py").write_text(MODULES[name])
    patch = patch_of(tmp_path, text)
    assert patch.empty, patch.diff
    assert patch.declined


def test_lines_do_not_wait_beside_what_ends_the_process_at_once(tmp_path: Path) -> None:
    patch = patch_of(tmp_path, script(ENDS_AT_ONCE))
    assert patch.empty, patch.diff
    assert "may end the process at once" in patch.declined[0].obstacle


def test_a_logger_that_another_file_switches_off_drops_lines_that_come_later(tmp_path: Path) -> None:
    (tmp_path / "toggle.py").write_text(
        "import logging\n\ndef toggle(step):\n    logging.getLogger('t').disabled = step % 12 >= 6\n"
    )
    patch = patch_of(tmp_path, script(TOGGLED))
    assert patch.empty, patch.diff
    assert patch.declined


def test_so_it_is_within_one_function(tmp_path: Path) -> None:
    """What shows it waits with it."""
    text = script(IN_THE_LOOP)
    for folder in (tmp_path, tmp_path / "before", tmp_path / "after"):
        folder.mkdir(exist_ok=True)
        (folder / "stats.py").write_text(STATS)
    patch = patch_of(tmp_path, text)
    if not patch.empty:
        assert_same(tmp_path, text, patch)


REGISTER = """
made = Meter()
class Register:
    def get(self):
        return made
register = Register()
"""
FOREVER = """
class Batches:
    def __iter__(self):
        print("pass")
        return iter(loader)
    def __next__(self):
        print("next")
    def __len__(self):
        print("length")
        return 1
batches = Batches()
def train():
    step = 0
    while HEAD:
        x, y = loader[step]
        STEP
        print(loss.item())  # fires
        step += 1
        if step > 20:
            break
train()
"""


@pytest.mark.parametrize(("head", "waits"), [("True", True), ("1", True), ("batches", False), ("len(batches)", False)])
def test_a_loop_that_goes_through_nothing_runs_nothing_where_it_begins_a_pass(
    head: str, waits: bool, tmp_path: Path
) -> None:
    text = script(FOREVER.replace("HEAD", head))
    patch = patch_of(tmp_path, text)
    assert patch.empty is not waits
    if waits:
        assert_same(tmp_path, text, patch)


METERS = "class Meter:\n    total = 0.0\n    def update(self, value):\n        self.total += value\n"
ITS_OWN_IMPORT = """
def train():
    from meters import Meter
    IMPORT
    losses, sizes = MADE, MADE
    for step, (x, y) in enumerate(loader):
        sizes.update(len(y))
        STEP
        losses.update(loss.item())  # fires
        if step % 9 == 8:
            print(sizes.total)
    print(losses.total)
train()
"""


@pytest.mark.parametrize(
    ("imported", "made", "alone"),
    [
        ("import meters", "meters.Meter()", True),
        ("import meters as m; meters = m", "meters.Meter()", False),  # a variable: what it makes may hold it
        ("from own import meters", "meters.Meter()", True),
        ("from own import register as meters", "meters.get()", False),  # no module: both are one
    ],
)
def test_what_a_module_makes_does_not_hold_the_module(imported: str, made: str, alone: bool, tmp_path: Path) -> None:
    text = script(ITS_OWN_IMPORT.replace("IMPORT", imported).replace("MADE", made))
    for folder in (tmp_path, tmp_path / "before", tmp_path / "after"):
        folder.mkdir(exist_ok=True)
        (folder / "meters.py").write_text(METERS)
        (folder / "own.py").write_text(f"import meters\n{METERS}{REGISTER}")
    patch = patch_of(tmp_path, text)
    assert ("        sizes.update(len(y))\n        opt" in patched_text(patch)) is alone
    assert_same(tmp_path, text, patch)


@pytest.mark.parametrize("name", STILL_WAITS)
def test_what_nobody_meets_still_waits(name: str, tmp_path: Path) -> None:
    text = script(STILL_WAITS[name])
    patch = patch_of(tmp_path, text)
    assert [hunk.tier for hunk in patch.hunks] == ["checked"]
    assert_same(tmp_path, text, patch)


PRINTING_DATA = """
class Images:
    def __init__(self, pairs):
        self.pairs = pairs
    def __len__(self):
        return len(self.pairs)
    def __getitem__(self, index):
        print("sample", index)
        return self.pairs[index]
def train(source):
    for step in range(20):
        x, y = BATCH
        STEP
        print(loss.item())  # fires
train(SOURCE)
"""


@pytest.mark.parametrize(
    ("batch", "patched"), [("torch.randn(5, 4), torch.randint(0, 3, (5,))", True), ("source[step]", False)]
)
def test_a_loop_over_numbers_does_not_run_what_gives_samples(
    batch: str, patched: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A data set of the file writes lines: told where the loop takes one of its samples, and not of a range."""
    text = script(PRINTING_DATA.replace("BATCH", batch).replace("SOURCE", "Images(loader)"))
    monkeypatch.setattr(memory, "MAX_EFFECTS", 1)
    patch = patch_of(tmp_path, text)
    assert bool(patch.hunks) is patched
    if patched:
        assert_same(tmp_path, text, patch)
