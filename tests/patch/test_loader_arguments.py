"""Loaders whose arguments are hidden behind names and helpers: seen through, or left to their owner."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.copies import added, copies, hidden
from tests.support.patching import assert_same, defer, patch_of, script
from tracelens.model import Edit

UNKNOWN = {
    "handed over": (
        "def make(options):\n    return DataLoader(data, batch_size=8, **options)\nloader = make({})",
        None,
    ),
    "made by a function": ("options = dict(zip('', ''))\nloader = DataLoader(data, batch_size=8, **options)", None),
    "changed by a function": (
        "def more(options):\n    options['pin_memory'] = False\noptions = {}\nmore(options)\n"
        "loader = DataLoader(data, batch_size=8, **options)",
        None,
    ),
    "changed under another name": (
        "options = {}\nsame = options\nsame['pin_memory'] = False\nloader = DataLoader(data, batch_size=8, **options)",
        None,
    ),
    "keys that are not plain": (
        "options = {'pin_' + 'memory': False}\nloader = DataLoader(data, batch_size=8, **options)",
        None,
    ),
    "of another function": (
        "options = {}\ndef make():\n    return DataLoader(data, batch_size=8, **options)\n"
        "options['pin_memory'] = False\nloader = make()",
        None,
    ),
    "positions": ("loader = DataLoader(*[data, 8])", None),
    "something left out": (
        "options = {'pin_memory': False}\noptions.pop('pin_memory')\n"
        "loader = DataLoader(data, batch_size=8, **options)",
        None,
    ),
}

SEEN_THROUGH = {
    "given on a GPU, as in the examples of PyTorch": (
        "options = {'batch_size': 8}\nif torch.cuda.is_available():\n"
        "    more = {'num_workers': 1, 'pin_memory': True}\n    options.update(more)\n"
        "loader = DataLoader(data, **options)",
        None,
    ),
    "given by a choice": (
        "options = {'num_workers': 1, 'pin_memory': True} if torch.cuda.is_available() else {}\n"
        "loader = DataLoader(data, batch_size=8, **options)",
        None,
    ),
    "given by a key": (
        "options = dict(batch_size=8)\noptions['pin_memory'] = torch.cuda.is_available()\n"
        "loader = DataLoader(data, **options)",
        None,
    ),
    "given within another": (
        "base = {'pin_memory': False}\noptions = {**base, 'batch_size': 8}\nloader = DataLoader(data, **options)",
        None,
    ),
    "absent": (
        "options = dict(batch_size=8, drop_last=False)\noptions.update(shuffle=False)\n"
        "loader = DataLoader(data, **options)",
        "loader = DataLoader(data, **options, pin_memory=torch.cuda.is_available())",
    ),
    "absent, in a function": (
        "def make(size):\n    options = {'batch_size': size}\n    print(options)\n"
        "    return DataLoader(data, **options)\nloader = make(8)",
        "    return DataLoader(data, **options, pin_memory=torch.cuda.is_available())",
    ),
    "absent in a display": (
        "loader = DataLoader(data, **{'batch_size': 8})",
        "loader = DataLoader(data, **{'batch_size': 8}, pin_memory=torch.cuda.is_available())",
    ),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_a_loader_with_hidden_arguments_is_left_to_its_owner(name: str, tmp_path: Path) -> None:
    making, _ = UNKNOWN[name]
    text, patch = hidden(tmp_path, making)
    assert added(text, patch) == ["x = x.to(device, non_blocking=True)  # fires"]
    assert ["hidden" in declined.obstacle for declined in patch.declined] == [True]
    assert_same(tmp_path, text, patch)


@pytest.mark.parametrize("name", SEEN_THROUGH)
def test_hidden_arguments_are_seen_through_where_they_are_made_beside_the_call(name: str, tmp_path: Path) -> None:
    making, line = SEEN_THROUGH[name]
    text, patch = hidden(tmp_path, making)
    copy = "x = x.to(device, non_blocking=True)  # fires"
    assert sorted(added(text, patch)) == sorted([copy, *([line.strip()] if line else [])])
    assert patch.declined == ()
    assert assert_same(tmp_path, text, patch).ending == ""


def test_a_loader_whose_hidden_arguments_choose_no_sampler_can_be_prefetched(tmp_path: Path) -> None:
    body = """
        options = {"num_workers": 2} if device.type == "cuda" else {}
        loader = DataLoader(data, batch_size=8, **options)
        for x, y in loader:
            x, y = x.to(device), y.to(device)  # fires
            STEP
    """
    text, patch = copies(tmp_path, body, "prefetch")
    assert [hunk.tier for hunk in patch.hunks] == ["safe"]
    assert_same(tmp_path, text, patch)
    _, patch = copies(tmp_path, body.replace('"num_workers": 2', '"sampler": None'), "prefetch")
    assert ["needs --unsafe" in one.obstacle for one in patch.declined] == [True]


UNTOLD_ARGUMENTS = {
    "an own dict": ("def dict(**q): return {'pin_memory': False}\nkw = dict(a=1)", "DataLoader(data, **kw)"),
    "exec": ("kw = {}\nexec(\"kw['pin_memory'] = False\")", "DataLoader(data, **kw)"),
    "an own DataLoader": ("B = DataLoader\ndef DataLoader(d): return B(d)", "DataLoader(data)"),
}


@pytest.mark.parametrize("name", UNTOLD_ARGUMENTS)
def test_arguments_that_cannot_be_told_are_not_added_to(name: str, tmp_path: Path) -> None:
    before, made = UNTOLD_ARGUMENTS[name]
    text = script(
        "from torch.utils.data import DataLoader\ndata = [(torch.ones(4), 1)]\n"
        f"{before}\nloader = {made}\nfor x, y in loader:\n    x = x.to(device)  # fires\n    STEP\n"
    )
    patch = patch_of(tmp_path, text, (Edit("async-copy", locations=defer(text)[0].locations),))
    assert not any("pin_memory=torch" in one.after.decode() for one in patch.files)
