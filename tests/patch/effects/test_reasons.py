"""What a reason is about and how certain it is: an obstacle declines a place, a suspicion makes it `checked`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.support.moves import SURROUNDINGS, Case, asked, one_file, two_files
from tracelens.patch.effects.reasons import CODE, About, Distance, Reason, certainty

WRITER = "from torch.utils.tensorboard import SummaryWriter\n"
CASES = {
    "a list of this file": (
        Case(
            "STEP\nhist.append(loss.item())  # later\nother(hist)",
            code="def other(h):\n    h.append(1)\n",
            before="hist = []",
        ),
        [("known", "object")],
    ),
    "a writer in a function elsewhere": (
        Case(
            "STEP\nwriter.add_scalar('a', loss.item())  # later\nother(writer)",
            code=f"{WRITER}def other(w):\n    w.add_scalar('b', 1)\n",
            before="writer = SummaryWriter()",
        ),
        [("suspected", "of a library")],
    ),
    "a writer in the loop itself": (
        Case(
            "STEP\nwriter.add_scalar('a', loss.item())  # later\nwriter.add_scalar('b', 1)",
            code=WRITER,
            before="writer = SummaryWriter()",
        ),
        [("known", "of a library")],
    ),
    "files that somebody looks at": (
        Case(
            "STEP\nlog.write(str(loss.item()))  # later\nother()",
            code="def other():\n    open('a').read()\n",
            before="log = open('a', 'w')",
        ),
        [("suspected", "files")],
    ),
    "a block that is over": (
        Case("STEP\nwith torch.utils.data.x():\n    print(loss.item())  # later"),
        [("suspected", "code")],
    ),
    "a clock that a line of its own shows": (
        Case(
            "STEP\nshow(loss.item())  # later",
            code="def show(v):\n    if time.time() - BEGAN > 3:\n        print(v)\nBEGAN = time.time()\n",
        ),
        [("suspected", "clock")],
    ),
    "a clock whose time is used": (
        Case(
            "STEP\nlast.append(show(last, loss.item()))  # later",
            code="def show(kept, v):\n    return time.time() - kept[0]\n",
            before="last = [time.time()]",
        ),
        [("known", "clock")],
    ),
    "an object of the project": (
        Case(
            "STEP\nmeter.add(loss.item())  # later\nprint(meter.total)",
            code="class Meter:\n    total = 0.0\n    def add(self, v):\n        self.total += v\n",
            before="meter = Meter()",
        ),
        [("known", "object")],
    ),
    "lines": (Case("STEP\nprint(loss.item())  # later\nprint(i)"), [("known", "line")]),
}


@pytest.mark.parametrize("name", CASES)
def test_each_reason_says_what_it_is_about_and_how_certain_it_is(name: str) -> None:
    case, wanted = CASES[name]
    found = asked(one_file(case, SURROUNDINGS["function"]))
    told = {(one.certainty, one.about.kind) for one in found.reasons}
    assert told >= set(wanted), found
    assert (found.tier == "refused") == ("known" in {certain for certain, _ in told})


def test_the_words_decide_nothing() -> None:
    """What is about the same kind of thing at the same distance is as certain under any name."""
    near, far = Distance(), Distance(outside=True)
    for name in ("the writer", "the same list or dict", "a `Loader`", "it reads a clock"):
        assert certainty(About("object", name), far) == "known"
        assert certainty(About("of a library", name), near) == "known"
        assert certainty(About("of a library", name), far) == "suspected"
        assert certainty(About("one of many", name), far) == "suspected"
        assert certainty(About("one of many", name), near) == "known"
        assert certainty(About("gone through", name), replace(near, below_bar=True)) == "suspected"
        assert certainty(About("gone through", name), near) == "known"
    assert certainty(CODE, near, known=False) == "suspected"


def test_obstacles_come_first_and_by_their_lines() -> None:
    reasons = [
        Reason("suspected", "moment", CODE, "c", "a.py", 1),
        Reason("known", "moment", CODE, "b", "a.py", 9),
        Reason("known", "moment", CODE, "a", "a.py", 3),
    ]
    assert [one.text for one in sorted(reasons, key=lambda one: one.order)] == ["a", "b", "c"]


IDENTITY = {
    "a list of the loop's function": ("hist = []", "hist", "known"),
    "a list of the one object of a class": ("meter = Meter()", "meter.kept", "known"),
    "a list of an object of an object": ("owner = Owner()", "owner.meter.kept", "known"),
    "a list that a function makes": ("hist = made()", "hist", "known"),
    "a list of the module": ("hist = LAST", "hist", "known"),
    "a list of a class": ("", "Meter.last", "known"),
    "a list of each epoch": ("for epoch in range(3):\n    pass\nhist = []", "hist", "known"),
    "a list of one of many objects": ("meters = [Meter() for _ in range(3)]", "meters[0].kept", "suspected"),
    "one of many lists": ("lists = [[] for _ in range(3)]", "lists[0]", "suspected"),
    "lists that a function makes twice": ("hist, other = made(), made()", "hist", "suspected"),
    "a list that a factory makes": ("table = defaultdict(Meter)", "table['a'].kept", "suspected"),
    "a list that a loop makes": ("for _ in range(3):\n    hist = []", "hist", "suspected"),
}
DEFINED = """
from collections import defaultdict
LAST = []


class Meter:
    last = []

    def __init__(self):
        self.kept = []


class Owner:
    def __init__(self):
        self.meter = Meter()


def made():
    return []


def grow(h):
    h.append(1)
"""


@pytest.mark.parametrize("files", [one_file, two_files])
@pytest.mark.parametrize("around", ["function", "method", "module"])
@pytest.mark.parametrize("name", IDENTITY)
def test_an_object_is_known_where_its_place_makes_no_other(
    name: str, around: str, files: Callable[..., dict[str, str]]
) -> None:
    before, kept, wanted = IDENTITY[name]
    case = Case(f"STEP\n{kept}.append(loss.item())  # later\ngrow({kept})", DEFINED, before)
    found = asked(files(case, SURROUNDINGS[around]))
    told = {one.certainty for one in found.reasons if one.text.startswith("`grow(")}
    assert told == {wanted}, found
