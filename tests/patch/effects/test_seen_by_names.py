"""Who sees what waits, where a project is given up and names alone tell it: constants, fresh lists, identity tests.

Each pair differs in one line: in one nobody looks at what the statement changes, in the other somebody does.
"""

from __future__ import annotations

import pytest

from tests.support.moves import SURROUNDINGS, Case, asked, one_file, two_files
from tracelens.patch.effects import memory

pytestmark = pytest.mark.slow
FILES = {"one file": one_file, "two files": two_files}
WRITER = """
class Writer:
    def put(self, value):
        self.last = value


def get_writer():
    return Writer() if torch.cuda.is_available() else None


writer = get_writer()
"""
LOG = """
class Log:
    def put(self, values):
        self.values = values
        return len(values)


class Best:
    def keep(self, value):
        self.value = value


log, best = Log(), Best()
"""
CHANGED_ELSEWHERE = """
import types

state, steps, kept = types.SimpleNamespace(n=0), 0, []


def bump():
    state.n += 1


def step():
    global steps
    steps += 1
"""
TABLE = """
def double(x):
    return 2 * x


TABLE = {"double": double}


class Meter:
    def __init__(self, name="double"):
        self.function, self.seen = TABLE[name], []

    def update(self, value):
        self.seen.append(self.function(value))


class Scaled:
    def __init__(self):
        self.function = TABLE["double"]

    def __call__(self, x):
        return self.function(x)


losses, scaled = Meter(), Scaled()
"""


def epochs(body: str, after: str, code: str = LOG, made: str = "rows = []") -> dict[str, str]:
    """A loop in another, with a list that is made for each of its rounds."""
    case = Case("STEP", code)
    text = one_file(case, SURROUNDINGS["function"])["main.py"]
    head, _, rest = text.partition("    for i, (x, y)")
    lines = [line.strip() for line in rest.splitlines()[1:] if line.strip() and line.strip() != "train()"]
    inner = [*lines, *body.splitlines()]
    looped = [
        f"    for epoch in range(3):\n        {made}",
        "        for i, (x, y) in enumerate(DataLoader(Data())):  # loop",
    ]
    looped += [f"            {line}" for line in inner] + [f"        {line}" for line in after.splitlines()]
    return {"main.py": head + "\n".join(looped) + "\n\ntrain()\n"}


NOT_SEEN = {
    "an identity test": Case("STEP\nif writer is not None:\n    writer.put(loss.item())  # later", WRITER),
    "a default that is a number": Case(
        "STEP\nlosses.update(loss.item())  # later\nsizes.update(i)",
        "class Meter:\n    def __init__(self):\n        self.total = 0\n\n    def update(self, value, count=None):\n"
        "        count = count or 1\n        self.total += value * count\n",
        "losses, sizes = Meter(), Meter()",
    ),
    "a table of functions": Case("STEP\nlosses.update(loss.item())  # later\nx = scaled(x)", TABLE),
    "a transform beside the loop": Case(
        "STEP\nmeter.update(loss.item())  # later",
        "import random\n\n\nclass Jitter:\n    def __call__(self, x):\n        return x * random.random()\n\n\n"
        "class Meter:\n    def __init__(self):\n        self.seen = []\n\n"
        "    def update(self, value):\n        self.seen.append(value)\n\n\nmeter, jitter = Meter(), Jitter()\n",
    ),
    "the number of the batch": Case(
        "STEP\nrows['loss'] += [loss.item()][0]  # later",
        before="loader = DataLoader(Data())\nrows = {'loss': 0}",
        over="loader",
        after="rows['batch'] = i\nprint(rows)",
    ),
}
SEEN = {
    "what the test compares with": Case(
        "STEP\nwriter.put(loss.item())  # later\nif writer.last is not None:\n    x = x + 1", WRITER
    ),
    "a list as a default": Case(
        "STEP\nnote(loss.item())  # later\nlr = other(note)",
        "kept = []\n\n\ndef note(value, rows=kept):\n    rows.append(value)\n\n\ndef other(note, rows=kept):\n"
        "    return len(rows)\n",
    ),
    "an object under a list's method": Case(
        "STEP\nmeter.update(loss.item())  # later\nx = x * len(seen)",
        "seen = []\n\n\nclass Note:\n    def __call__(self, value):\n        seen.append(value)\n\n\n"
        "class Meter:\n    append = Note()\n\n    def update(self, value):\n        self.append(value)\n\n\n"
        "meter = Meter()\n",
    ),
    "an enumerate of the project's": Case(
        "STEP\nlog.append(loss.item())  # later\ni.count()",
        "log = []\n\n\nclass Count:\n    def __init__(self, log):\n        self.log = log\n\n"
        "    def count(self):\n        return len(self.log)\n\n\n"
        "def enumerate(loader, counts=(Count(log),)):\n    for batch in loader:\n        yield counts[0], batch\n",
    ),
    "a table that is changed": Case(
        "STEP\nlosses.update(loss.item())  # later\nx = x * seen()",
        "TABLE = {'double': 2}\n\n\nclass Meter:\n    def update(self, value):\n        TABLE['double'] = value\n\n\n"
        "def seen():\n    return TABLE['double']\n\n\nlosses = Meter()\n",
    ),
    "a table that is handed on": Case(
        "STEP\nlosses.update(loss.item())  # later\nx = x * TABLE['double']",
        "TABLE = {'double': 2}\n\n\nclass Meter:\n    def __init__(self, table):\n        self.table = table\n\n"
        "    def update(self, value):\n        self.table['double'] = value\n\n\nlosses = Meter(TABLE)\n",
    ),
}
ROUNDS = {
    "nobody has it yet": ("rows.append(loss.item())  # later", "best.keep(log.put(rows))"),
    "what it holds is used": ("rows.append((loss.item(), best))  # later\nbest.keep(i)", "best.keep(log.put(rows))"),
    "what it holds is counted elsewhere": ("rows.append((loss.item(), state.n))  # later\nbump()", "print(rows)"),
    "what it holds is replaced elsewhere": ("rows.append((loss.item(), steps))  # later\nstep()", "print(rows)"),
}
ROUNDS_SEEN = {
    "handed away in the loop": ("rows.append(loss.item())  # later\nlog.put(rows)", "print(log.values)"),
    "handed away before": (
        "rows.append(loss.item())  # later\nlen(log.values)",
        "print(rows)",
        "rows = []; log.put(rows)",
    ),
    "a second name": ("rows.append(loss.item())  # later\nlen(other)", "print(rows)", "rows = []; other = rows"),
    "a function around it": (
        "rows.append(loss.item())  # later\ncount()",
        "print(rows)",
        "rows = []; count = lambda: len(rows)",
    ),
    "of all rounds": ("rows.append(loss.item())  # later\nlen(log.values or [])", "log.put(rows)", "rows = kept"),
    "bound anew by another function": (
        "swap()\nrows.append(loss.item())  # later\nlen(kept)",
        "print(rows)",
        "rows = []\n        def swap():\n            nonlocal rows\n            rows = kept",
    ),
    "an element is changed": ("rows[0].keep(loss.item())  # later\nbest.value", "print(rows)", "rows = [best]"),
}


@pytest.fixture(autouse=True)
def given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "MAX_EFFECTS", 1)


@pytest.mark.parametrize("files", FILES)
@pytest.mark.parametrize("name", NOT_SEEN)
def test_nobody_looks_at_it(name: str, files: str) -> None:
    answer = asked(FILES[files](NOT_SEEN[name], SURROUNDINGS["function"]))
    assert [one.text for one in answer.reasons if one.known] == []


@pytest.mark.parametrize("files", FILES)
@pytest.mark.parametrize("name", SEEN)
def test_somebody_looks_at_it(name: str, files: str) -> None:
    assert asked(FILES[files](SEEN[name], SURROUNDINGS["function"])).tier == "refused"


@pytest.mark.parametrize("name", ROUNDS)
def test_a_list_that_goes_nowhere_while_the_loop_runs(name: str) -> None:
    assert [one.text for one in asked(epochs(*ROUNDS[name], LOG + CHANGED_ELSEWHERE)).reasons if one.known] == []


@pytest.mark.parametrize("name", ROUNDS_SEEN)
def test_a_list_that_somebody_else_has(name: str) -> None:
    body, after, *made = ROUNDS_SEEN[name]
    code = LOG + CHANGED_ELSEWHERE
    assert asked(epochs(body, after, code, *made)).tier == "refused"
