"""A meter of the project may have a method named `step`; an optimizer or a scheduler of the project is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.patching import assert_same, patch_of, script
from tracelens.patch.effects import memory

METER = """
class Meter:
    def __init__(self, sum=0.0):
        self.sum, self.num = sum, 0
    def step(self, val, num=1):
        self.val = val
        self.sum += num * val
        self.num += num
"""
LOOP = """
from meters import Meter
losses = Meter()
for i, (x, y) in enumerate(loader):
    STEP
    losses.step(loss.item(), len(y))  # fires
    if i % 8 == 7:
        print("%.6f" % (losses.sum / losses.num))
"""
BESIDE = "        self.num += num\n"
DECIDES = {
    "it steps what it was given": (METER + "        self.sum.step()\n", LOOP.replace("Meter()", "Meter(optimizer)")),
    "its class is an optimizer": (
        METER.replace("class Meter:", "import torch\nclass Meter(torch.optim.SGD):").replace(
            "        self.sum,", "        super().__init__([torch.zeros(1)], lr=0.1)\n        self.sum,"
        ),
        LOOP,
    ),
    "it adds to a weight": (METER, LOOP.replace("Meter()", "Meter(model.bias.data)").replace('"%.6f" % (', "((")),
    "another method has its place": (
        METER,
        LOOP.replace("for i", "losses.step = lambda loss, n: torch.optim.SGD.step(optimizer)\nfor i").replace(
            'print("%.6f" % (losses.sum / losses.num))', "pass"
        ),
    ),
    "the class has another method": (
        METER,
        LOOP.replace("for i", "import helper\nfor i"),
    ),
    "a store trains": (
        METER.replace(
            "    def step", "    def __setattr__(self, name, value):\n        train(self, name, value)\n    def step"
        )
        + "def train(self, name, value):\n    object.__setattr__(self, name, value)\n    print(name, value)\n",
        LOOP,
    ),
    "a property trains": (
        METER.replace(
            "    def step",
            "    @property\n    def val(self):\n        return self.last\n    @val.setter\n    def val(self, value):\n"
            "        self.last = value\n        print('val', value)\n    def step",
        ),
        LOOP,
    ),
    "the loop sets its rate by it": (
        METER,
        LOOP.replace(
            "    if i", "    optimizer.param_groups[0]['lr'] = 0.1 / (1.0 + losses.sum / losses.num)\n    if i"
        ),
    ),
    "a scheduler": (
        "class Meter:\n    def __init__(self, groups=()):\n        self.groups, self.sum, self.num = groups, 0.0, 0\n"
        "    def step(self, val, num=1):\n        self.sum += val\n        self.num += num\n"
        "        self.groups[0]['lr'] = 0.1 / (1.0 + val)\n",
        LOOP.replace("Meter()", "Meter(optimizer.param_groups)"),
    ),
}


def write(folder: Path, meters: str) -> None:
    for one in (folder, folder / "before", folder / "after"):
        one.mkdir(exist_ok=True)
        (one / "meters.py").write_text(meters)
        (one / "helper.py").write_text(
            "import meters\ndef step(self, val, num=1):\n    print(val)\n    self.sum, self.num = val, 1\n"
            "meters.Meter.step = step\n"
        )


def test_a_meter_named_so_waits(tmp_path: Path) -> None:
    write(tmp_path, METER)
    text = script(LOOP)
    patch = patch_of(tmp_path, text)
    assert [hunk.tier for hunk in patch.hunks] == ["safe"]
    assert_same(tmp_path, text, patch)


@pytest.mark.parametrize("followed", [True, False])
@pytest.mark.parametrize("name", DECIDES)
def test_what_does_more_is_no_meter(name: str, followed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not followed:
        monkeypatch.setattr(memory, "MAX_EFFECTS", 1)
    meters, loop = DECIDES[name]
    write(tmp_path, meters)
    text = script(loop)
    for checked in (False, True):
        patch = patch_of(tmp_path, text, checked=checked, lossy=checked)
        if not patch.empty:
            assert_same(tmp_path, text, patch)
