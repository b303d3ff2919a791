"""Who keeps a list or dict keeps the object itself: a copy would have tensors that training no longer changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.patching import patch_of, script

LOOP = (
    "from collections import deque, OrderedDict, defaultdict\nrows = []\nrunning = torch.zeros(2)\n{}\n"
    "for i, (x, y) in enumerate(loader):\n    STEP\n    running.lerp_(loss.detach(), 0.5)\n{}\n    {}  # fires\n"
)
AVERAGE = """
class Average:
    def __init__(self, model):
        self.weights = [p.detach().clone() for p in model.parameters()]
        self.shadow = {k: v.detach().clone() for k, v in model.named_parameters()}
    def update(self, model):
        for e, p in zip(self.weights, model.parameters()):
            e.lerp_(p.detach(), 0.5)
class Tracker:
    def log(self, loss, weights):
        self.loss, self.weights = loss, weights
average, tracker = Average(model), Tracker()
"""
APPEND = "rows.append((loss.item(), kept))"
HELD = {
    "a list of a model's weights": ("", "kept = [p.detach() for p in model.parameters()]", APPEND),
    "where it stands": ("", "", "rows.append((loss.item(), [p.data for p in model.parameters()]))"),
    "a dict of them": ("", "kept = {n: p.detach() for n, p in model.named_parameters()}", APPEND),
    "what a function gives": (
        "def weights(m):\n    return [p.detach() for p in m.parameters()]",
        "",
        "rows.append((loss.item(), weights(model)))",
    ),
    "what a function gave": (
        "def weights(m):\n    return [p.detach() for p in m.parameters()]\nkept = weights(model)",
        "",
        APPEND,
    ),
    "an attribute": (AVERAGE, "average.update(model)", "rows.append((loss.item(), average.shadow))"),
    "an attribute of a tracker's": (AVERAGE, "average.update(model)", "tracker.log(loss.item(), average.weights)"),
    "a list": ("kept = [running, 'mean']", "", APPEND),
    "a tuple": ("kept = (running, 1)", "", APPEND),
    "a dict": ("kept = {'mean': running, 'n': 0}", "", APPEND),
    "a list in a dict": ("kept = {'means': [running]}", "", APPEND),
    "a list in a dict's list": ("kept = [{'means': (running,)}]", "", APPEND),
    "a part of it": ("state = {'means': [running]}", "kept = state['means']", APPEND),
    "what was put in": ("kept = []\nkept.append(running)", "", APPEND),
    "what was put in by key": ("kept = {}\nkept['mean'] = running", "", APPEND),
    "what was put in by update": ("kept = {}\nkept.update(mean=running)", "", APPEND),
    "a list of a dict": ("kept = dict(mean=running)", "", APPEND),
    "a list of an iterator": ("kept = list(model.parameters())", "", APPEND),
    "a state": ("kept = model.state_dict()", "", APPEND),
    "a copied list": ("first = [running]\nkept = list(first)", "", APPEND),
    "a part of a list": ("first = [running, 1]\nkept = first[:1]", "", APPEND),
    "a sum of lists": ("kept = [running] + [1]", "", APPEND),
    "a repeated list": ("kept = [running] * 2", "", APPEND),
    "one of two": ("kept = [running] if device else [1]", "", APPEND),
    "one or the other": ("kept = None or [running]", "", APPEND),
    "what a file has": ("", "kept = torch.load('state.pt')", APPEND),
    "what a library gives": ("import somewhere", "kept = somewhere.state(model)", APPEND),
    "what a caller hands over": ("def rest(kept):\n    return kept\nkept = rest([running])", "", APPEND),
    "the attribute of a library's object": (
        "import torch_ema\nema = torch_ema.ExponentialMovingAverage(model.parameters(), 0.9)",
        "ema.update()",
        "rows.append((loss.item(), ema.shadow_params))",
    ),
    "a batch that is changed": ("", "kept = [x, y]\n    x.mul_(0.5)", APPEND),
    "stored": ("rows = {}", "kept = [p.data for p in model.parameters()]", "rows[i] = (loss.item(), kept)"),
    "by a method": (AVERAGE, "kept = [p.data for p in model.parameters()]", "tracker.log(loss.item(), kept)"),
    "what an array of objects has": (
        "import numpy as np\nboxed = np.empty(1, dtype=object)\nboxed[0] = running",
        "kept = [one for one in boxed.tolist()]",
        APPEND,
    ),
    "what a column of a table has": (
        "import pandas as pd\ntable = pd.DataFrame({'w': [running]})",
        "kept = [one for one in table['w'].tolist()]",
        APPEND,
    ),
    "a list of numbers that was added to": (
        "more = running.tolist()\nmore.append(running)",
        "kept = [one for one in more]",
        APPEND,
    ),
    "a list of numbers of which one was replaced": (
        "more = running.tolist()\nmore[0] = running",
        "kept = [one for one in more]",
        APPEND,
    ),
    "a list of numbers, added to elsewhere": (
        "def extended(more, one):\n    more.extend([one])\n    return more\n",
        "kept = [one for one in extended(running.tolist(), running)]",
        APPEND,
    ),
    "a list of numbers, joined with tensors": ("more = running.tolist()", "kept = more + [running]", APPEND),
    "what a class of the project calls a list": (
        "class Boxed:\n    def tolist(self):\n        return [running]\n",
        "kept = [one for one in Boxed().tolist()]",
        APPEND,
    ),
    "by a star": ("rows = {}", "more = {'w': [running]}", "rows[i] = {'loss': loss.item(), **more}"),
}
NUMBERS = {
    "a list of numbers": ("kept = [1, 2]", "", APPEND),
    "a dict of settings": ("kept = {'run': 'a', 'rate': 0.1, 'sizes': [1, 2]}", "", APPEND),
    "a list of texts": ("kept = 'a b'.split()", "", APPEND),
    "a pair": ("", "kept = (i, i * 2)", APPEND),
    "a number": ("", "kept = i + 1", APPEND),
    "a name": ("names = ['a', 'b']", "kept = names[i % 2]", APPEND),
    "a setting": (
        "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--name', default='a')\n"
        "args = parser.parse_args()",
        "",
        "rows.append((loss.item(), args.name))",
    ),
    "a size": ("", "", "rows.append((loss.item(), x.shape[0], len(y)))"),
    "positions": ("", "kept = [one for one in model(x).argmax(-1).tolist()]", APPEND),
    "elements": ("", "kept = [round(one, 3) for one in loss.detach().reshape(1).tolist()]", APPEND),
    "rows of a table": ("", "kept = [row for row in model(x).detach().tolist()]", APPEND),
    "what a function picks": (
        "def picked(scores):\n    out = []\n    for one in scores.argmax(-1).tolist():\n        if one:\n"
        "            out.append(one)\n    return out\n",
        "",
        "rows.append((loss.item(), picked(model(x))))",
    ),
    "another read": ("", "", "rows.append((loss.item(), y.float().mean().item()))"),
}


def tiers(folder: Path, before: str, inside: str, call: str) -> set[str]:
    text = script(LOOP.format(before, f"    {inside}" if inside else "", call))
    return {hunk.tier for hunk in patch_of(folder, text, lossy=False).hunks}


@pytest.mark.parametrize("name", HELD)
def test_a_list_of_tensors_is_not_copied_as_if_it_were_the_same(name: str, tmp_path: Path) -> None:
    assert "safe" not in tiers(tmp_path, *HELD[name])


@pytest.mark.parametrize("name", NUMBERS)
def test_what_holds_numbers_and_texts_waits(name: str, tmp_path: Path) -> None:
    assert tiers(tmp_path, *NUMBERS[name]) == {"safe"}
