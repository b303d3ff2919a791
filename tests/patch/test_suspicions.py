"""What only may stand in the way makes a place `checked`: an `eval` beside the loop, a `try` around a line."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.support.patching import assert_same, patch_of, script
from tests.support.sources import MODULES, name_of, nodes_of
from tracelens.patch.loop.doubts import doubt
from tracelens.patch.loop.loops import Blocked, Suspected

CHECKED = {
    "a text that is evaluated before the loop": (
        "def main():\n    scale = eval('2.0')\n    total = 0.0\n    for x, y in loader:\n        STEP\n"
        "        total += loss.item() * scale  # fires\n    return total\nresult = main()\n",
        "`eval()` can see every name of the function",
    ),
    "a step that may fail": (
        "seen = []\nfor x, y in loader:\n    try:\n        STEP\n        seen.append(loss.item())  # fires\n"
        "    except RuntimeError:\n        continue\nprint(seen)\n",
        "the value is used where an exception may be caught",
    ),
    "a loss that marks a tensor of a batch put together by the project": (
        "from torch.utils.data import DataLoader\n"
        "def pairs(items):\n    return [{'x': x, 'y': y} for x, y in items]\n"
        "class Both(nn.Module):\n    def forward(self, out, target):\n        target.requires_grad = False\n"
        "        loss = nn.functional.cross_entropy(out, target)\n        return loss, out.pow(2).mean()\n"
        "criterion = Both()\nlines = []\n"
        "for parts in DataLoader(loader, batch_size=2, collate_fn=pairs):\n    for part in parts:\n"
        "        x, y = part['x'].float().to(device), part['y'].long().to(device)\n        optimizer.zero_grad()\n"
        "        first, second = criterion(model(x), y)\n        loss = first + second\n"
        "        value = loss.item()  # fires\n        lines.append('loss ' + str(value))\n"
        "        loss.backward()\n        optimizer.step()\nprint(lines)\n",
        "what it calls may touch what waits",
    ),
}


@pytest.mark.parametrize("name", CHECKED)
def test_what_only_may_stand_in_the_way_makes_a_place_checked(name: str, tmp_path: Path) -> None:
    body, told = CHECKED[name]
    text = script(body)
    patch = patch_of(tmp_path, text)
    assert [hunk.tier for hunk in patch.hunks] == ["checked"], patch.declined
    assert told in patch.hunks[0].unproved
    assert_same(tmp_path, text, patch)


DECLINED = {
    "a text that is evaluated in the loop": (
        "def main():\n    total = 0.0\n    for x, y in loader:\n        STEP\n        total += loss.item()  # fires\n"
        "        eval('total')\n    return total\nresult = main()\n",
        "`eval()` can see every name of the function",
    ),
    "a handler that looks": (
        "seen = []\nfor x, y in loader:\n    try:\n        STEP\n        seen.append(loss.item())  # fires\n"
        "    except RuntimeError:\n        print(len(seen))\nprint(seen)\n",
        "the value is used where an exception may be caught",
    ),
    "a call that looks at what was added": (
        "seen = []\ndef adjust():\n    optimizer.param_groups[0]['lr'] = 0.1 / (1 + len(seen))\n"
        "for x, y in loader:\n    STEP\n    seen.append(loss.item())  # fires\n    adjust()\nprint(seen)\n",
        "a function defined here uses the results",
    ),
    "a rate that is made of the loss": (
        "def set_rate(value):\n    optimizer.param_groups[0]['lr'] = 0.1 / (1 + value)\n"
        "for x, y in loader:\n    STEP\n    set_rate(loss.item())  # fires\n",
        "set_rate",
    ),
    "a seed that is made of the loss": (
        "for x, y in loader:\n    STEP\n    value = loss.item()  # fires\n    torch.manual_seed(int(1000 * value))\n"
        "    x = x + torch.randn_like(x)\n",
        "manual_seed",
    ),
}


@pytest.mark.parametrize("name", DECLINED)
def test_what_does_stand_in_the_way_declines_it(name: str, tmp_path: Path) -> None:
    body, told = DECLINED[name]
    patch = patch_of(tmp_path, script(body))
    assert patch.empty
    assert told in patch.declined[0].obstacle


def test_a_suspicion_is_raised_where_nothing_may_be_left_open_and_nowhere_else() -> None:
    assert issubclass(Suspected, Blocked)
    assert doubt.__annotations__["suspected"] == "Suspected"
    raised = [
        f"{name_of(path)}:{node.lineno}"
        for path in MODULES
        for node in nodes_of(path)
        if isinstance(node, ast.Raise) and "uspected" in ast.unparse(node)
    ]
    assert [place.partition(":")[0] for place in raised] == ["patch/loop/doubts.py"]
