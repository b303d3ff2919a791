"""What a third attack found in the newest forms: each loop leaves the same when patched, or says why it stays."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.meter_loops import LOOP, logged, meters
from tests.support.patching import assert_same, defer, patch_of, script
from tracelens.model import Edit

READ = """
{before}
kept = []
for i, (x, y) in enumerate(loader):
    STEP
    {line}  # fires
    kept.append(loss.item())  # fires
print(kept)
"""

TEXTS = {
    "another format": ("def format(v, s): return type(v).__name__", "print(format(loss, '.3f'))"),
    "a lambda": ("format = lambda v, s: type(v).__name__", "print(format(loss, '.3f'))"),
    "a class of text": (
        "class T(str):\n    def format(self, v): return type(v).__name__\nt = T('{}')",
        "print(t.format(loss))",
    ),
    "a conversion behind a name": ("t = '{!r}'", "print(t.format(loss))"),
    "an attribute behind a name": ("t = '{0.shape}'", "print(t.format(loss))"),
    "a complex number": ("", "print('%.3f' % torch.complex(loss.detach(), loss.detach()).sum())"),
    "detached before it is summed": ("graphs = []", "graphs.append(loss.detach().cpu().mean()); print(graphs[-1])"),
    "data before it is summed": ("graphs = []", "graphs.append(loss.data.cpu().sum()); print(graphs[-1])"),
    "a box that says where it goes": (
        "class Box:\n    def to(self, d): print('moved')\nbox = Box()",
        "box.to(device); print(loss.item())",
    ),
    "a meter with two owners": (
        "class M:\n    t = 0.0\n    def update(self, v): self.t += v\nm = M(); _all = {}; _all.setdefault('a', m)",
        "_all['a'].update(loss.item()); print(m.t if i % 4 == 2 else '')",
    ),
}


@pytest.mark.parametrize("name", TEXTS)
def test_text_and_objects_of_the_file_are_what_they_were(name: str, tmp_path: Path) -> None:
    before, line = TEXTS[name]
    text = script(READ.format(before=before, line=line)).replace("print(kept)", "print(len(kept))")
    patch = patch_of(tmp_path, text)
    if patch.hunks:
        assert_same(tmp_path, text, patch)
    else:
        assert patch.declined


HELD = """
from utils import SpeedMeter
import journal
speed = SpeedMeter()
for i, (x, y) in enumerate(loader):
    speed.begin()
    STEP
    rate = speed.update(len(x))
    journal.log(step=i, data={{"loss": loss.item(), "rate": rate}})  # fires
last = {{"rate": {held}}}
journal.log(data=last)
"""


@pytest.mark.parametrize(("held", "deferred"), [("speed.avg", True), ("speed", False), ("speed.history", False)])
def test_who_is_given_the_average_of_a_meter_does_not_have_the_meter(held: str, deferred: bool, tmp_path: Path) -> None:
    """`speed` is not declared here: only a journal that has it could show what it holds when a line is written."""
    patch = patch_of(tmp_path, script(HELD.format(held=held)))
    assert bool(patch.hunks) is deferred
    assert deferred or "speed.begin" in patch.declined[0].obstacle


SEEN = {
    "super": meters(before="            super().__init__()\n            passes.update(1)\n"),
    "a base class": meters().replace("class Meters:", "class Base: pass\nclass Meters(Base):"),
    "replaced by its name": meters() + "setattr(Meters, 'log_every', Meters.log_every)\n",
}


@pytest.mark.parametrize("name", SEEN)
def test_a_generator_that_somebody_else_has_a_part_in_is_left_alone(name: str, tmp_path: Path) -> None:
    text = logged(SEEN[name], LOOP)
    patch = patch_of(tmp_path, text, defer(text))
    assert patch.empty
    assert any("log_every" in one.obstacle for one in patch.declined)


LOADERS = {
    "an own dict": ("def dict(**q): return {'pin_memory': False}\nkw = dict(a=1)", "DataLoader(data, **kw)"),
    "exec": ("kw = {}\nexec(\"kw['pin_memory'] = False\")", "DataLoader(data, **kw)"),
    "an own DataLoader": ("B = DataLoader\ndef DataLoader(d): return B(d)", "DataLoader(data)"),
}


@pytest.mark.parametrize("name", LOADERS)
def test_arguments_that_cannot_be_told_are_not_added_to(name: str, tmp_path: Path) -> None:
    before, made = LOADERS[name]
    text = script(
        "from torch.utils.data import DataLoader\ndata = [(torch.ones(4), 1)]\n"
        f"{before}\nloader = {made}\nfor x, y in loader:\n    x = x.to(device)  # fires\n    STEP\n"
    )
    patch = patch_of(tmp_path, text, (Edit("async-copy", locations=defer(text)[0].locations),))
    assert not any("pin_memory=torch" in one.after.decode() for one in patch.files)


THIN = {
    "a part of a line": ("", "print('.', end='')", "a part of a line"),
    "an object that counts": (
        "class M:\n    t = 0\n    def __str__(self): self.t += 1; return str(self.t)\nm = M()",
        "print(m, loss.item())",
        "changes its object",
    ),
    "a dict that makes what it lacks": (
        "from collections import defaultdict\nd = defaultdict(int)",
        "print(d[i], loss.item())",
        "is another thing",
    ),
    "an own enumerate": ("def enumerate(it): return ((7, b) for b in it)", "print(loss.item())", "the file's own"),
    "a file that is looked at": (
        "f = open('l', 'w')\ndef size(): return f.tell()",
        "f.write(str(loss.item()))",
        "is looked at again",
    ),
}


@pytest.mark.parametrize("name", THIN)
def test_a_line_whose_absence_would_be_noticed_is_not_thinned(name: str, tmp_path: Path) -> None:
    before, line, why = THIN[name]
    text = script(f"{before}\nfor i, (x, y) in enumerate(loader):\n    STEP\n    {line}  # fires\n")
    patch = patch_of(tmp_path, text, (Edit("thin-logs", locations=defer(text)[0].locations, interval=10),), unsafe=True)
    assert patch.empty
    assert any(why in one.obstacle for one in patch.declined)


ITEMS = {
    "counts": "self.n += 1; return torch.ones(4), 1",
    "takes from an iterator": "next(ITEMS); return torch.ones(4), 1",
    "looks at the model": "return model.weight.detach()[0], 1",
}


@pytest.mark.parametrize("name", ITEMS)
def test_items_that_leave_something_behind_are_not_made_by_workers(name: str, tmp_path: Path) -> None:
    text = script(
        "from torch.utils.data import DataLoader\nITEMS = iter(range(1000))\nclass Data:\n    n = 0\n"
        f"    def __len__(self): return 8\n    def __getitem__(self, i): {ITEMS[name]}\n"
        "loader = DataLoader(Data(), batch_size=4)\nfor x, y in loader:\n    STEP\n"
    )
    patch = patch_of(tmp_path, text, (Edit("more-workers", workers=2),), unsafe=True)
    assert patch.empty
    assert any("`__getitem__`" in one.obstacle for one in patch.declined)


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


def test_builtins_that_the_loop_uses_too_do_not_keep_workers_away(tmp_path: Path) -> None:
    text = script(
        "from torch.utils.data import DataLoader\nclass Data:\n    def __len__(self): return 8\n"
        "    def __getitem__(self, i): return torch.ones(len(range(4))), 1\n"
        "loader = DataLoader(Data(), batch_size=4)\nfor x, y in loader:\n    STEP\n    print(len(range(3)))\n"
    )
    assert patch_of(tmp_path, text, (Edit("more-workers", workers=2),), unsafe=True).hunks
