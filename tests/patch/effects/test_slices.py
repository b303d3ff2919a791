"""A part of a list is a list: what is looked at through it is an element of it, not a part of an element."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.moves import SURROUNDINGS, Case, asked, one_file, two_files

_HEADS = "class State:\n    def __init__(self):\n        self.heads = [{'loss': 0.0}, {'loss': 0.0}]\n"
_ADDS = "STEP\nstate.heads[0]['loss'] += loss.item()  # later\n"
_SHOWS = _ADDS + "rows.append(shown[0]['loss'])"
_BEFORE = "state, rows = State(), []\n"
_OWN = (
    _HEADS
    + "class Heads:\n    def __init__(self, heads):\n        self.heads = heads\n"
    + "    def __getitem__(self, index):\n        return self.heads[index]\n"
)

_PARTS = {
    "a slice": "shown = state.heads[:1]",
    "a slice of a tuple": "shown = tuple(state.heads)[0:1]",
    "a slice of what is sorted": "shown = sorted(state.heads, key=len)[:1]",
    "a slice of a copy": "shown = list(state.heads)[0:1]",
    "a slice of a slice": "shown = state.heads[:][:1]",
    "a slice by an object": "shown = state.heads[slice(0, 1)]",
    "a slice by a name": "first = slice(1)\nshown = state.heads[first]",
    "a slice by NumPy": "import numpy as np\nfirst = np.s_[:1]\nshown = state.heads[first]",
    "a slice by a getter": "import operator\nshown = operator.itemgetter(slice(0, 1))(state.heads)",
    "a slice by a method": "shown = state.heads.__getitem__(slice(0, 1))",
    "a slice of a queue": "from collections import deque\nkept = deque(state.heads)\nkept.rotate(2)\n"
    "shown = list(kept)[:1]",
    "what is left of a slice": "shown, *others = [state.heads[:1], 1]",
    "a starred slice": "*shown, other = state.heads[:2]",
    "a slice within a list": "shown = [*state.heads[:1], *state.heads[1:]]",
    "a slice as a target": "shown = [None, None]\nshown[:1] = state.heads[:1]",
    "a longer slice": "shown = []\nshown[:0] += state.heads[:1]",
    "what a slice leaves": "shown = list(state.heads)\ndel shown[1:]",
}
_OTHERS = {
    "an element of all of a list": Case(
        "STEP\nhists[0].append(loss.item())  # later\nprint(len(first))",
        before="hists = [[], []]\nfirst = hists[:][0]",
    ),
    "what is unpacked of a slice": Case(
        "STEP\nhists[0].append(loss.item())  # later\nprint(len(first))",
        before="hists = [[], [], []]\nfirst, *_ = hists[:2]",
    ),
    "an object's own slice": Case(_SHOWS, code=_OWN, before=_BEFORE + "shown = Heads(state.heads)[:1]"),
    "a part that is shown and changed": Case(
        "STEP\nfor head in shown:\n    head['loss'] += loss.item()  # later\nrows.append(state.heads[0]['loss'])",
        code=_HEADS,
        before=_BEFORE + "shown = state.heads[:1]",
    ),
    "a slice that loses elements": Case(
        "STEP\nlosses.append(loss.item())  # later\ndel losses[:-3]", before="losses = []"
    ),
}
SEEN = {name: Case(_SHOWS, code=_HEADS, before=_BEFORE + part) for name, part in _PARTS.items()} | _OTHERS


@pytest.mark.parametrize("files", [one_file, two_files])
@pytest.mark.parametrize("around", ["function", "method", "module"])
@pytest.mark.parametrize("name", SEEN)
def test_what_sees_it_through_a_slice_forbids_the_move(
    name: str, around: str, files: Callable[..., dict[str, str]]
) -> None:
    assert asked(files(SEEN[name], SURROUNDINGS[around])).tier != "safe"


APART = {
    "a part of a list of its own": Case(
        "STEP\nlosses.append(loss.item())  # later\nrows.append(shown[0]['loss'])",
        code=_HEADS,
        before=_BEFORE + "losses, shown = [], state.heads[:1]",
    ),
    "a list that a slice copies": Case(
        "STEP\nlosses.append(loss.item())  # later\nprint(len(copied))", before="losses = [1.0]\ncopied = losses[:]"
    ),
    "the last losses": Case(
        "STEP\nlosses.append(loss.item())  # later\nprint(i, sum(losses[-10:]))  # later", before="losses = []"
    ),
    "a slice of the batch": Case("x = x[:2]\ny = y[:2]\nSTEP\nprint(loss.item())  # later"),
}


@pytest.mark.parametrize("around", ["function", "method", "module"])
@pytest.mark.parametrize("name", APART)
def test_a_slice_of_what_nobody_changes_is_no_obstacle(name: str, around: str) -> None:
    found = asked(one_file(APART[name], SURROUNDINGS[around]))
    assert found.tier == "safe", found
