"""Programs in which something else than the text of the loop sees a result: each changed its lines or its numbers."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.support.patching import assert_same, patch_of, script

LOOP = """
{before}
for i, (x, y) in enumerate({over}):
    {first}
    STEP
    {line}  # fires
    {then}
"""
SLOWER = 'optimizer.param_groups[0]["lr"] = 0.1 / (1 + {})'


def program(before: str, line: str, then: str = "pass", first: str = "pass", over: str = "loader") -> str:
    return script(LOOP.format(before=before, line=line, then=then, first=first, over=over), batches=7)


STAYS = {
    "a bar of the file that shows its text": program(
        "class Bar:\n    def __init__(self, it): self.it, self.text = it, ''\n    def __iter__(self):\n"
        "        for v in self.it:\n            yield v\n            print(self.text)\n"
        "    def set_postfix(self, **k): self.text = str(k)\nbar = Bar(list(enumerate(loader)))",
        "bar.set_postfix(loss=loss.item())",
        over="bar",
    ).replace("enumerate(bar)", "bar"),
    "a list that counts": program(
        "COUNT = 0\nclass Log(list):\n    def append(self, v):\n        global COUNT\n        COUNT += 1\nlog = Log()",
        "log.append(loss.item())",
        SLOWER.format("COUNT"),
    ),
    "a list by the name of its class": program("a = []", "list.append(a, loss.item())", "print(len(a))"),
    "a hook that prints": program(
        "model.register_forward_hook(lambda m, a, o: print('out', o.sum().detach()))", "print(loss.item())"
    ),
    "a file that is looked for": program(
        "import os",
        "open('log.txt', 'a').write(str(loss.item()))",
        "print(os.path.exists('log.txt'))",
    ),
    "a logger that is given the model later": program(
        "class Log:\n    def watch(self, m): self.m = m\n    def add(self, v): print(v, self.m.weight.sum())\n"
        "log = Log()\nlog.watch(model)",
        "log.add(loss.item())",
    ),
    "an object that is always the same one": program(
        "class Log:\n    one = None\n    def __new__(cls):\n        if cls.one is None:\n"
        "            cls.one = super().__new__(cls); cls.one.rows = []\n        return cls.one\n"
        "    def add(self, v): self.rows.append(v)\na, b = Log(), Log()",
        "a.add(loss.item())",
        SLOWER.format("len(b.rows)"),
    ),
    "a list that grows in place": program("a = []\nb = a", "a += [loss.item()]", SLOWER.format("len(b)")),
    "a part of the batch that grows": program(
        "rows, ids = [], {'a': []}", "rows.append((ids['a'], loss.item()))", "ids['a'].append(i)"
    ),
    "a buffer that is kept and filled": program(
        "import numpy as np\nbuf, rows = np.zeros(2), []", "rows.append((buf, loss.item()))", "np.copyto(buf, i)"
    ),
}


def test_what_shows_an_object_that_a_function_hands_out_waits_with_what_changes_it(tmp_path: Path) -> None:
    text = program(
        "class M:\n    n = 0\n    def update(self, v): self.n += 1\n    def __repr__(self): return str(self.n)\n"
        "meters = {'loss': M()}\ndef get(k): return meters[k]",
        "get('loss').update(loss.item())",
        "print(meters['loss'].n)",
    )
    patch = patch_of(tmp_path, text)
    assert [hunk.tier for hunk in patch.hunks] == ["checked"]
    assert_same(tmp_path, text, patch)


@pytest.mark.parametrize("name", STAYS)
def test_what_something_else_sees_stays(name: str, tmp_path: Path) -> None:
    patch = patch_of(tmp_path, STAYS[name])
    assert patch.empty
    assert patch.declined


MOVES = {
    "a list that prints": program(
        "class Log:\n    def append(self, v): print('log', v)\nlog = Log()",
        "log.append(loss.item())",
        first="print('begin', i)",
    ),
    "a buffer that is filled": program(
        "import numpy as np\nbuf = np.zeros(2)", "print(buf, loss.item())", first="np.copyto(buf, i)"
    ),
    "an object in a dict": program(
        "class S:\n    n = 0\n    def __repr__(self): return str(self.n)\ns = S()\nd = {'s': s}",
        "print(d, loss.item())",
        first="s.n += 1",
    ),
}


@pytest.mark.parametrize("name", MOVES)
def test_what_can_be_followed_moves_in_order(name: str, tmp_path: Path) -> None:
    patch = patch_of(tmp_path, MOVES[name])
    assert patch.hunks
    assert_same(tmp_path, MOVES[name], patch)


ENGINE = """
import torch
STATS = {'loss': 0.0}
def adjust(o): o.param_groups[0]['lr'] = 0.1 / (1 + STATS['loss'])
class Log:
    def __init__(self, o): self.o = o
    def append(self, v): print('log', v)
    def __iadd__(self, v): self.o.param_groups[0]['lr'] = 0.1 / (1 + v); return self
    def __setitem__(self, k, v): print('set', k)
class Rate:
    def __init__(self, o): self.o = o
    def step(self): print('rate')
"""
FAR = {
    "a dict that its own file looks at": ("", "STATS['loss'] = loss.item()", "adjust(optimizer)", False),
    "a sum that changes the rate": ("log = Log(optimizer)", "log += loss.item()", "print(i)", False),
    "a scheduler that prints": ("rate = Rate(optimizer)", "print(loss.item())", "rate.step()", False),
    "a list that prints": ("log = Log(None)", "log.append(loss.item())", "print(i)", True),
    "a dict that prints": ("log = Log(None)", "log['loss'] = loss.item()", "print(i)", True),
}


@pytest.mark.parametrize("name", FAR)
def test_what_another_file_does_with_a_result_is_seen(name: str, tmp_path: Path) -> None:
    before, line, then, moves = FAR[name]
    text = program(f"from engine import STATS, Log, Rate, adjust\n{before}", line, then)
    for folder in (tmp_path, tmp_path / "before", tmp_path / "after"):
        folder.mkdir(exist_ok=True)
        (folder / "engine.py").write_text(ENGINE)
    patch = patch_of(tmp_path, text)
    assert bool(patch.hunks) is moves
    if moves:
        assert_same(tmp_path, text, patch)
    sys.modules.pop("engine", None)
