"""Projects that are given up: what has the name of another function, and cannot be meant, is no obstacle.

What can be meant is one: each case stands beside one in which the same name leads there.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.limits import give_up
from tests.support.patching import assert_same, patch_of, script

MADE_IN_EACH_BATCH = """
class Part:
    def __init__(self, scale):
        super().__init__()
        self.scale = scale
    def apply_to(self, loss):
        return loss * self.scale
class Images:
    def __init__(self, folder):
        print("reading", folder)
BASES
def train():
    for x, y in loader:
        optimizer.zero_grad()
        loss = MADE(1.0).apply_to(criterion(model(x), y))
        loss.backward()
        optimizer.step()
        print(loss.item())  # fires
train()
"""
NO_BASES, NO_IMAGES = ("", "Part"), ("class Own(Part):\n    pass", "Own")
BEHIND = {
    "a base of its own": ("class Own(Part, Images):\n    INIT", "Own"),
    "a class beside it": ("class Other(Images):\n    pass\nclass Own(Part, Other):\n    INIT", "Own"),
    "a base by another name": ("Source = Images\nclass Own(Part, Source):\n    INIT", "Own"),
    "a base that is computed": ("def kind():\n    return Images\nclass Own(Part, kind()):\n    INIT", "Own"),
}
NAMED = """
class Images:
    def __init__(self, pairs):
        self.pairs = pairs
    def download(self):
        print("downloading")
    DEFAULT
OUTSIDE
def train():
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        if ASKED:
            loss = loss * 1.0
        loss.backward()
        optimizer.step()
        print(loss.item())  # fires
train()
"""
CALLS = {
    "a name of a module": ("", "download = Images(loader).download", "not download()"),
    "a method as an attribute": ("", "images = Images(loader)", "not images.download()"),
    "a property of the class": ("shown = property(download)", "images = Images(loader)", "not images.shown"),
}


@pytest.fixture(autouse=True)
def gives_up(monkeypatch: pytest.MonkeyPatch) -> None:
    give_up(monkeypatch)


def _waits(text: str, folder: Path) -> None:
    patch = patch_of(folder, text)
    assert [hunk.tier for hunk in patch.hunks] == ["checked"]
    assert_same(folder, text, patch)


@pytest.mark.parametrize(("bases", "made"), [NO_BASES, NO_IMAGES])
def test_a_base_of_another_class_is_not_meant_by_super(bases: str, made: str, tmp_path: Path) -> None:
    _waits(script(MADE_IN_EACH_BATCH.replace("BASES", bases).replace("MADE", made)), tmp_path)


@pytest.mark.parametrize("name", BEHIND)
def test_what_may_come_behind_a_class_is_meant_by_super(name: str, tmp_path: Path) -> None:
    bases, made = BEHIND[name]
    bases = bases.replace("INIT", "def __init__(self, scale):\n        super().__init__(scale)")
    assert patch_of(tmp_path, script(MADE_IN_EACH_BATCH.replace("BASES", bases).replace("MADE", made))).empty


@pytest.mark.parametrize("base", ["Loud", "Renamed", "kind()"])
def test_a_constructor_that_is_inherited_runs(base: str, tmp_path: Path) -> None:
    loud = "class Loud(Part):\n    def __init__(self, scale):\n        self.scale = scale\n        print('made')\n"
    others = "Renamed = Loud\ndef kind():\n    return Loud\n"
    bases = f"{loud}{others}class Own({base}):\n    pass"
    assert patch_of(tmp_path, script(MADE_IN_EACH_BATCH.replace("BASES", bases).replace("MADE", "Own"))).empty


def _named(default: str, outside: str, asked: str) -> str:
    return script(NAMED.replace("DEFAULT", default).replace("OUTSIDE", outside).replace("ASKED", asked))


def test_a_parameter_with_the_name_of_a_method_is_not_the_method(tmp_path: Path) -> None:
    outside = "def wanted(download):\n    return download"
    _waits(_named("", outside, "wanted(download=True)"), tmp_path)


@pytest.mark.parametrize("name", CALLS)
def test_a_method_is_met_under_each_name_that_it_is_given(name: str, tmp_path: Path) -> None:
    assert patch_of(tmp_path, _named(*CALLS[name])).empty


STEPPED = """
from torch import optim
class Board:
    def step(self):
        print("stepped")
class Own(optim.SGD):
    def step(self, closure=None):
        print("stepped")
        return super().step(closure)
def train():
    opt = MAKES
    for x, y in loader:
        opt.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        opt.step()
        print(loss.item())  # fires
train()
"""
MADE = {
    "optim.SGD(model.parameters(), lr=0.1)": True,
    "torch.optim.SGD(model.parameters(), lr=0.1)": True,
    "Own(model.parameters(), lr=0.1)": False,
    "optim.SGD(model.parameters(), lr=0.1); opt = Own(model.parameters(), lr=0.1)": False,
    "optim.SGD(model.parameters(), lr=0.1); opt.step = Board().step": False,
}


@pytest.mark.parametrize("makes", MADE)
def test_the_step_of_an_optimizer_of_torch_is_no_step_of_the_project(makes: str, tmp_path: Path) -> None:
    text = script(STEPPED.replace("MAKES", makes))
    if MADE[makes]:
        _waits(text, tmp_path)
    else:
        assert patch_of(tmp_path, text).empty
