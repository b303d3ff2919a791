"""Lines that wait say what an object was when they stood, though others change it under another name."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.patching import assert_same, script
from tracelens.patch.every_place import patch_script
from tracelens.patch.recipes import PatchOptions

CLOCK = (
    "class Clock:\n    def __init__(self):\n        self.t = 0\n    def {}:\n        return f't={{self.t}}'\n"
    "def train():\n    clock = Clock()\n    ticks = [clock]\n    for x, y in loader:\n        STEP\n"
    "        print({})\n        ticks[0].t += 1\ntrain()\n"
)
TEXTS = {
    "an f-string": ("__str__(self)", "f'{clock} {loss.item()}'"),
    "an f-string's width": ("__format__(self, width)", "f'{clock:>9} {loss.item()}'"),
    "a template": ("__repr__(self)", "'%s %s' % (clock, loss.item())"),
    "a call of format": ("__format__(self, width)", "'{} {}'.format(clock, loss.item())"),
    "a line": ("__str__(self)", "clock, loss.item()"),
}
SAMPLER = (
    "from torch.utils.data import DataLoader, TensorDataset, Sampler\n"
    "data = TensorDataset(torch.randn(96, 4), torch.randint(0, 3, (96,)))\n"
    "loader = DataLoader(data, batch_size=8)\n"
    "class Places(Sampler):\n    def __init__(self):\n        self.place = 0\n"
    "    def __len__(self):\n        return 96\n"
    "    def __iter__(self):\n        for self.place in range(96):\n            yield self.place\n"
    "places = Places()\nloader = DataLoader(data, batch_size=8, sampler=places)\nfor x, y in loader:\n"
    "    x, y = x.to(device), y.to(device)\n    STEP\n    print(places.place, loss.item())\n"
)


def check(folder: Path, text: str) -> None:
    (folder / "train.py").write_text(text)
    patch = patch_script(
        folder / "train.py", folder, {"defer-read": 10, "prefetch": 10, "async-copy": 10}, PatchOptions()
    )
    assert any(hunk.edit == "defer-read" for hunk in patch.hunks)
    assert_same(folder, text, patch)


@pytest.mark.parametrize("name", TEXTS)
def test_the_text_of_an_object_is_that_of_its_moment(name: str, tmp_path: Path) -> None:
    check(tmp_path, script(CLOCK.format(*TEXTS[name])))


def test_where_a_sampler_is_when_its_batch_is_used_is_kept_behind_a_prefetcher_too(tmp_path: Path) -> None:
    check(tmp_path, script(SAMPLER))
