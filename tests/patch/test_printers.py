"""Lines written by a name of the script's own: helpers that print on one rank, `print` by another name."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.patching import assert_same, patch_of, script

LOOP = """
for i, (x, y) in enumerate(loader):
    STEP
    {call}  # fires
"""
PRINTERS = {
    "on the first rank": (
        "rank = 0\ndef print0(*a, **k):\n    if rank == 0:\n        print(*a, **k)",
        "print0(i, loss.item(), flush=True)",
    ),
    "on the rank that the environment names": (
        "import os\ndef print0(s=''):\n    if int(os.environ.get('RANK', 0)) == 0:\n        print(s)",
        "print0(f'{i} {loss.item():.3f}')",
    ),
    "on the rank that torch knows": (
        "import torch.distributed as dist\ndef main_process():\n    return not dist.is_initialized()"
        " or dist.get_rank() == 0\ndef print0(*a):\n    if main_process():\n        print(*a)",
        "print0(i, loss.item())",
    ),
    "partial": ("import functools\nsay = functools.partial(print, flush=True)", "say(i, loss.item())"),
    "partial, imported": (
        "from functools import partial\nsay = partial(print, 'step', sep=';')",
        "say(i, loss.item())",
    ),
    "a lambda": ("say = lambda *a, **k: print('>', *a, **k)", "say(i, loss.item(), end=';')"),
    "another name": ("say = print", "say(i, loss.item())"),
}
OTHERS = {
    "a printer that counts": (
        "n = 0\ndef say(*a):\n    global n\n    n += 1\n    print(n, *a)",
        "say(loss.item()); n -= 2",
    ),
    "a lambda that looks at the loop": ("say = lambda v: print(i, v)", "say(loss.item())"),
    "partial of what changes": (
        "import functools\nseen = []\nsay = functools.partial(print, seen)",
        "say(loss.item()); seen.append(i)",
    ),
    "bound twice": ("say = print\nif device:\n    say = lambda v: optimizer.zero_grad()", "say(loss.item())"),
    "partial of something else": (
        "import functools\ndef use(v):\n    optimizer.param_groups[0]['lr'] = 0.01 * v\nsay = functools.partial(use)",
        "say(loss.item())",
    ),
}


@pytest.mark.parametrize("name", PRINTERS)
def test_what_a_printer_shows_is_read_later(name: str, tmp_path: Path) -> None:
    before, call = PRINTERS[name]
    text = script(before + LOOP.format(call=call), batches=12)
    patch = patch_of(tmp_path, text)
    assert [hunk.edit for hunk in patch.hunks] == ["defer-read"]
    assert_same(tmp_path, text, patch)


@pytest.mark.parametrize("name", OTHERS)
def test_what_does_more_than_print_is_left_or_leaves_the_same(name: str, tmp_path: Path) -> None:
    before, call = OTHERS[name]
    text = script(before + LOOP.format(call=call), batches=12)
    patch = patch_of(tmp_path, text)
    if patch.empty:
        assert patch.declined
    else:
        assert_same(tmp_path, text, patch)


OWNERS = {
    "Fabric": ("import lightning as L\nfabric = L.Fabric()", True),
    "tools of Fabric": ("from lightning.fabric.utilities import ThroughputMonitor", True),
    "DeepSpeed": ("import deepspeed", True),
    "a Trainer": ("import lightning as L\ntrainer = L.Trainer()", False),
    "a module": ("from lightning import LightningModule", False),
}


@pytest.mark.parametrize("name", OWNERS)
def test_a_loop_that_the_script_wrote_is_its_own(name: str, tmp_path: Path) -> None:
    before, own = OWNERS[name]
    patch = patch_of(tmp_path, script(before + LOOP.format(call="print(i, loss.item())")))
    assert bool(patch.hunks) == own
    assert own or ["owns a part of the loop" in one.obstacle for one in patch.declined] == [True]
