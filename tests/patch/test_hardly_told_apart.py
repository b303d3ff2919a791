"""Loops of projects that are too large to be followed, or whose objects are hardly told apart: their reasons are true.

The limits of the engine are lowered. Where one thing stands for many, what an analysis says of a call is what it says
of all; the text of the files is asked then, and here each patch that it lets through is run.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.limits import LIMITS
from tests.support.meter_loops import LOOP, SEEN_TOO_OFTEN, compare, logged, meters
from tests.support.patching import assert_same, patch_of, script

HANDED = (
    LOOP.replace("print_freq, limit", "print_freq, loader, limit")
    .replace("train(0, FREQ", "train(0, FREQ, loader")
    .replace("train(1, FREQ", "train(1, FREQ, loader")
)


@pytest.fixture(params=LIMITS)
def told(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    LIMITS[request.param](monkeypatch)


@pytest.mark.usefixtures("told")
@pytest.mark.parametrize("loop", [LOOP, HANDED], ids=["the file's loader", "a loader that is handed over"])
def test_a_generator_of_the_file_shows_what_waits(loop: str, tmp_path: Path) -> None:
    text = logged(meters(), loop, every="5")
    patch = patch_of(tmp_path, text)
    assert [one.obstacle for one in patch.declined] == []
    assert [hunk.tier for hunk in patch.hunks] == ["checked"]
    assert assert_same(tmp_path, text, patch).ending == ""


@pytest.mark.usefixtures("told")
@pytest.mark.parametrize("loop", [LOOP, HANDED], ids=["the file's loader", "a loader that is handed over"])
def test_a_generator_of_another_file_shows_what_waits(loop: str, tmp_path: Path) -> None:
    helper = "import torch\n" + meters()
    (tmp_path / "meters.py").write_text(helper)
    text = logged("import meters\nfrom meters import Value\n", loop.replace("Meters(", "meters.Meters("), "5")
    patch = patch_of(tmp_path, text)
    assert [one.obstacle for one in patch.declined] == []
    assert compare(tmp_path, text, patch, helper).ending == ""


@pytest.mark.usefixtures("told")
@pytest.mark.parametrize("name", SEEN_TOO_OFTEN)
def test_a_generator_that_shows_more_is_left_alone(name: str, tmp_path: Path) -> None:
    assert patch_of(tmp_path, logged(SEEN_TOO_OFTEN[name][0])).empty


MOMENTS = {
    "reads a clock": "import time\nCLASSself.seen.append(time.time() - self.start)",
    "reads a clock behind a call": "import time\ndef since(start):\n    return time.time() - start\n"
    "CLASSself.seen.append(since(self.start))",
    "reads a clock in a property": "import time\nCLASSself.seen.append(self.age)\n"
    "    @property\n    def age(self):\n        return time.time() - self.start",
    "meets other ranks": "import torch.distributed as dist\nCLASSself.seen.append(dist.all_reduce(torch.zeros(1)))",
    "draws in a property": "CLASSself.seen.append(self.noise)\n"
    "    @property\n    def noise(self):\n        return torch.rand(1).item()",
    "draws": "CLASSself.seen.append(torch.rand(1).item())",
    "draws by numpy": "import numpy as np\nCLASSself.seen.append(np.random.rand())",
    "draws by a generator": "import numpy as np\nrng = np.random.default_rng(0)\nCLASSself.seen.append(rng.normal())",
    "draws in a tensor": "CLASSself.seen.append(torch.empty(1).uniform_().item())",
    "shuffles": "import random\nCLASSself.seen.append(0.0)\n        random.shuffle(self.seen)",
}
METER = """
class Meter:
    def __init__(self):
        self.start, self.seen, self.values = 0.0, [], {}
    def update(self, **values):
        for name, value in values.items():
            self.values[name] = value
        """
METERED = """
def train():
    meter = Meter()
    for x, y in loader:
        STEP
        meter.update(loss=loss.item())  # fires
    print(meter.values)
train()
"""


@pytest.mark.usefixtures("told")
@pytest.mark.parametrize("name", MOMENTS)
def test_a_meter_that_is_bound_to_its_moment_keeps_it(name: str, tmp_path: Path) -> None:
    assert patch_of(tmp_path, script(MOMENTS[name].replace("CLASS", METER.lstrip("\n")) + METERED)).empty


@pytest.mark.usefixtures("told")
def test_a_meter_that_does_no_such_thing_waits(tmp_path: Path) -> None:
    text = script(METER + "self.seen.append(1)\n" + METERED)
    patch = patch_of(tmp_path, text)
    assert [hunk.tier for hunk in patch.hunks] == ["checked"]
    assert_same(tmp_path, text, patch)


NEVER_CALLED = """
class Mixer:
    def update(self, loss):
        print("mixed", torch.rand(1))
    def __call__(self, meter):
        print("mixed", meter.values)
"""


@pytest.mark.parametrize("name", LIMITS)
def test_what_has_the_name_of_another_method_is_no_obstacle_where_calls_were_followed(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    LIMITS[name](monkeypatch)
    text = script(NEVER_CALLED + METER.lstrip("\n") + "self.seen.append(1)\n" + METERED)
    patch = patch_of(tmp_path, text)
    assert [hunk.tier for hunk in patch.hunks] == (["checked"] if name == "few" else [])
    if name == "few":
        assert_same(tmp_path, text, patch)


CALLED = {
    "where the read stands": METERED.replace("meter = Meter()", "meter = Mixer()"),
    "by what waits": METERED.replace("meter = Meter()", "meter = Meter(Mixer())"),
    "between two batches": METERED.replace("loader:", "map(Mixer(), loader):"),
    "beside the loop": "import signal\nsignal.signal(signal.SIGUSR1, Mixer().update)\n" + METERED,
}


@pytest.mark.usefixtures("told")
@pytest.mark.parametrize("name", CALLED)
def test_what_is_called_there_is_an_obstacle_where_calls_were_followed(name: str, tmp_path: Path) -> None:
    mixer = """
class Mixer:
    def __init__(self, *_):
        self.values = {}
    def update(self, loss):
        self.values["loss"] = loss
        print("mixed", torch.rand(1))
    def __call__(self, batch):
        print("mixed")
        return batch
class Meter(Mixer):
    def __init__(self, *others):
        self.others, self.values = others, {}
    def update(self, loss):
        self.values["loss"] = loss
        print("loss", loss)
        for one in self.others:
            one.update(loss)
"""
    assert patch_of(tmp_path, script(mixer + CALLED[name])).empty
