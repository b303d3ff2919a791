"""A meter that a function of the file puts into what shows it, where the project is too large to be followed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.average_meters import METERS
from tests.support.limits import LIMITS
from tests.support.patching import assert_same, patch_of, script

OWNER = """
class Owner:
    def __init__(self):
        self.kept = []
    def add(self, meter):
        self.kept.append(meter)
    def display(self, i):
        print(i, *self.kept)
"""
REGISTER = "def register(progress, meter):\n    progress.meters.append(meter)\n"
TRAIN = """
def train():
    losses, others = Average(), Average("other")
    MADE
    for i, (x, y) in enumerate(loader):
        STEP
        losses.update(loss.item(), x.size(0))  # fires
        if i % 4 == 0:
            progress.display(i)
train()
"""
PUT_IN = {
    "by a function": (REGISTER, "progress = Progress([])\n    register(progress, losses)"),
    "by its word": (REGISTER, "progress = Progress([])\n    register(meter=losses, progress=progress)"),
    "as all of a list": (
        "def register(progress, meter):\n    progress.meters = [meter]\n",
        "progress = Progress([])\n    register(progress, losses)",
    ),
    "under other names": (
        "def register(progress, meter):\n    meters, one = progress.meters, [meter]\n    meters += [one[0]]\n"
        "    meters = progress.meters\n    mine = meter\n    meters.append(mine)\n",
        "progress = Progress([])\n    register(progress, losses)",
    ),
    "by a function behind another": (
        REGISTER + "def outer(progress, meter):\n    register(progress, meter)\n",
        "progress = Progress([])\n    outer(progress, losses)",
    ),
    "in a list that it is made of": (
        "def fill(meters, meter):\n    meters.append(meter)\n",
        "meters = []\n    fill(meters, losses)\n    progress = Progress(meters)",
    ),
    "by a method": (OWNER, "progress = Owner()\n    progress.add(losses)"),
    "by its own method": (
        OWNER + "class Own(Average):\n    def tell(self, owner):\n        owner.kept.append(self)\n",
        "progress, losses = Owner(), Own()\n    losses.tell(progress)",
    ),
    "in a result": (
        OWNER + "def made(meter):\n    owner = Owner()\n    owner.add(meter)\n    return owner\n",
        "progress = made(losses)",
    ),
}


@pytest.mark.parametrize("limits", LIMITS)
@pytest.mark.parametrize("name", PUT_IN)
def test_who_shows_it_shows_what_the_script_shows(
    name: str, limits: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    LIMITS[limits](monkeypatch)
    code, made = PUT_IN[name]
    text = script(METERS + code + TRAIN.replace("MADE", made))
    patch = patch_of(tmp_path, text)
    if not patch.empty:
        assert_same(tmp_path, text, patch)


@pytest.mark.parametrize("limits", LIMITS)
def test_a_function_that_puts_in_another_meter_holds_nothing_back(
    limits: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    LIMITS[limits](monkeypatch)
    made = "progress = Progress([])\n    register(progress, others)"
    text = script(METERS + REGISTER + TRAIN.replace("MADE", made))
    patch = patch_of(tmp_path, text)
    assert [hunk.tier for hunk in patch.hunks] == ["checked"]
    assert_same(tmp_path, text, patch)
