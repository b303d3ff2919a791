"""What a method keeps of what it is handed, where a project is given up: told by the text of the method."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.moves import SURROUNDINGS, Case, asked, one_file, two_files
from tracelens.patch.effects import memory

METERS = """
class Meters:
    def __init__(self):
        self.values, self.sizes = [], {}

    def update(self, value):
        self.values.append(value)

    def take(self, batches, often=1, *, note=""):
        TAKEN
"""
CASE = Case(
    "STEP\nmeters.update(loss.item())  # later",
    METERS,
    before="loader = DataLoader(Data())\nmeters = Meters()\nmeters.take(loader)",
    over="loader",
    after="print(meters.values)",
)
FILES = {"one file": one_file, "two files": two_files}
KEEPS_NOTHING = {
    "its length": 'self.sizes["all"] = len(batches)',
    "its text": "self.values.append(str(batches))",
    "a line of it": 'print("{} batches".format(len(batches)), note)',
    "a condition": "if batches is not None and often:\n            self.values.append(0)",
    "how many it goes through": "for batch in batches:\n            often += 1",
}
KEEPS = {
    "itself": "self.batches = batches",
    "in a list": "self.values.append(batches)",
    "as a key": "self.sizes[batches] = 1",
    "in a dict": 'self.sizes["all"] = batches',
    "under another name": "mine = batches\n        self.values = [mine]",
    "a part of it": "self.data = batches.dataset",
    "an element": "for batch in batches:\n            self.batch = batch",
    "what it is made of": "self.batches = [one for one in batches]",
    "by a call": "setattr(self, 'batches', batches)",
    "by a builder": "self.batches = iter(batches)",
    "in what is handed over": "batches.owner = self",
    "as somebody who asks back": "batches.register(self)",
    "in a function": "self.show = lambda: batches",
    "by an operator": "self.values += [batches]",
    "as a sum": "self + batches",
    "in a variable of the file": "global kept\n        kept = (self, batches)",
    "unpacked": "self.first, self.second = batches, often",
    "in a loop's target": "for self.batch in batches:\n            pass",
    "with all its names": "vars(self).update(locals())",
    "by a text": "exec('self.batches = batches')",
    "as what it matches": "match batches:\n            case kept:\n                self.batches = kept",
    "in a block's target": "with batches as self.batches:\n            pass",
}


def given_up(case: Case, around: str, files: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(memory, "MAX_EFFECTS", 1)
    return asked(FILES[files](case, SURROUNDINGS[around])).tier


def taking(body: str) -> Case:
    return replace(CASE, code=METERS.replace("TAKEN", body))


@pytest.mark.parametrize("files", FILES)
@pytest.mark.parametrize("around", SURROUNDINGS)
@pytest.mark.parametrize("name", KEEPS_NOTHING)
def test_who_looks_at_a_loader_does_not_hold_it(
    name: str, around: str, files: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert given_up(taking(KEEPS_NOTHING[name]), around, files, monkeypatch) == "checked"


@pytest.mark.parametrize("around", SURROUNDINGS)
@pytest.mark.parametrize("name", KEEPS)
def test_who_may_keep_a_loader_holds_it(name: str, around: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert given_up(taking(KEEPS[name]), around, "one file", monkeypatch) == "refused"


NOT_CERTAIN = {
    "another object": {"before": CASE.before.replace("meters =", "meters = None or")},
    "a second object": {"before": CASE.before.replace("meters.take", "if loader:\n    meters = Other()\nmeters.take")},
    "an object of a loop": {
        "before": CASE.before.replace("meters.take", "for meters in [meters]:\n    pass\nmeters.take")
    },
    "a decorated method": {"code": METERS.replace("    def take", "    @keeping\n    def take")},
    "a decorated class": {"code": METERS.replace("class Meters", "@keeping\nclass Meters")},
    "a class that makes others": {
        "code": METERS.replace("    def update", "    def __new__(cls):\n        return Other()\n\n    def update")
    },
    "a replaced method": {"after": "Meters.take = Other.take"},
    "a method of the object": {"before": CASE.before.replace("meters.take", "meters.take = Other().take\nmeters.take")},
    "a method that is there twice": {
        "code": METERS + "\n    def take(self, batches):\n        self.batches = batches\n"
    },
    "a base class": {"code": METERS.replace("    def take", "class Meters(Meters):\n    def other")},
    "hidden arguments": {"before": CASE.before.replace("take(loader)", "take(*[loader])")},
    "a word that is not told": {"before": CASE.before.replace("take(loader)", "take(**{'batches': loader})")},
    "a library's class": {"code": METERS, "before": "from library import Meters\n" + CASE.before},
    "a length of its own": {"code": "def len(one):\n    kept.append(one)\n    return 1\nkept = []\n" + METERS},
}


@pytest.mark.parametrize("name", NOT_CERTAIN)
def test_a_method_that_is_not_certain_may_keep_all(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    changed = {"code": METERS, **NOT_CERTAIN[name]}
    code = changed["code"].replace("TAKEN", "return len(batches)")
    assert given_up(replace(CASE, **{**changed, "code": code}), "function", "one file", monkeypatch) == "refused"


WALK = """
class Meters:
    def __init__(self):
        self.parts = [[]]

    def update(self, value):
        self.parts[0].append(value)

    def walk(self, given):
        WALKED
"""
THROUGH = Case(
    "STEP\nmeters.update(loss.item())  # later\nif len(first) > 3:\n    opt.zero_grad()",
    before="given = [[], []]\nmeters = Meters()\nfor first in meters.walk(given):\n    pass",
    after="print(meters.parts)",
)
ITS_PARTS = {
    "its own parts": "for part in self.parts:\n            yield part",
    "parts by another name": "parts = self.parts\n        for part in parts:\n            yield part",
    "parts in place of the rest": "for part in given:\n            part = self.parts[0]\n            yield part",
    "parts beside the rest": "for part in given:\n            yield part, self.parts",
    "a parameter that is another": "given = self.parts\n        for part in given:\n            yield part",
    "all by one word": "yield from self.parts",
    "a part of a pair": "for part, own in zip(given, self.parts):\n            yield own",
}


def walking(body: str, around: str, monkeypatch: pytest.MonkeyPatch) -> str:
    return given_up(replace(THROUGH, code=WALK.replace("WALKED", body)), around, "one file", monkeypatch)


@pytest.mark.parametrize("around", SURROUNDINGS)
@pytest.mark.parametrize("name", ITS_PARTS)
def test_what_a_generator_gives_of_its_object_is_a_part_of_it(
    name: str, around: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert walking(ITS_PARTS[name], around, monkeypatch) == "refused"


@pytest.mark.parametrize("around", SURROUNDINGS)
@pytest.mark.parametrize("over", ["part in given", "number, part in enumerate(given)"])
def test_what_a_generator_hands_on_is_no_part_of_its_object(
    over: str, around: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert walking(f"for {over}:\n            yield part", around, monkeypatch) == "checked"
