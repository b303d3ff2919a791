"""Side streams in another file that runs with the loop's: a wait of the loop may be what orders them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.every_place import every_place_of
from tracelens.edit_kinds import EditKind
from tracelens.model import Patch

LOOP = """
import torch
from torch import nn
from torch.utils.data import DataLoader
{imports}

def train(model, optimizer, data, device, average=None):
    total = 0.0
    loader = DataLoader(data, 8)
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        {wait}
        if average is not None:
            average.update(model)
    return total
"""
READ, SYNCHRONIZE = "total += loss.item()", "torch.cuda.synchronize()"
WAITS = [READ, SYNCHRONIZE, "value = loss.item(); total += value", "log(loss)"]
LOG = """

def log(loss):
    print(loss.item())
"""
AVERAGE = """
{imports}

class Average:
    def __init__(self, model):
        self.shadow = [p.detach().clone() for p in model.parameters()]
        self.side = {stream}

    def update(self, model):
        with {context}:
            for kept, now in zip(self.shadow, model.parameters()):
                kept.lerp_(now.detach(), 0.1)
"""
NAMES = {
    "in full": ("import torch", "torch.cuda.Stream()", "torch.cuda.stream(self.side)"),
    "by the module": ("from torch import cuda", "cuda.Stream()", "cuda.stream(self.side)"),
    "by themselves": ("from torch.cuda import Stream as S, stream as on", "S()", "on(self.side)"),
    "of any accelerator": ("import torch", "torch.Stream('cuda')", "self.side"),
    "by the kind of device": ("import torch", "getattr(torch, 'cuda').Stream()", "self.side"),
    "handed on": ("import functools, torch", "functools.partial(torch.cuda.Stream)()", "self.side"),
    "another's": ("import torch", "torch.cuda.ExternalStream(1)", "torch.cuda.StreamContext(self.side)"),
    "of CuPy": ("import cupy", "cupy.cuda.Stream()", "self.side"),
}
IN_FULL = AVERAGE.format(imports=NAMES["in full"][0], stream=NAMES["in full"][1], context=NAMES["in full"][2])
MAIN = "import {average}\nfrom {engine} import train\ntrain(model, optimizer, data, device, {average}.Average(model))\n"
ALL: dict[EditKind, int] = {"defer-read": 10, "interval-sync": 10, "event-sync": 10, "async-copy": 1, "prefetch": 1}


def patched(folder: Path, files: dict[str, str], script: str = "train.py") -> Patch:
    return every_place_of(folder, files, ALL, script)


def is_left(patch: Patch, place: str) -> bool:
    """Whether nothing changes, since the place that is named uses streams."""
    return not patch.hunks and any(place in one.obstacle and "side streams" in one.obstacle for one in patch.declined)


@pytest.mark.parametrize("wait", WAITS)
@pytest.mark.parametrize("how", NAMES)
def test_a_file_that_the_loop_imports(how: str, wait: str, tmp_path: Path) -> None:
    imports, stream, context = NAMES[how]
    average = AVERAGE.format(imports=imports, stream=stream, context=context)
    files = {"train.py": LOOP.format(imports="from average import Average", wait=wait) + LOG, "average.py": average}
    assert is_left(patched(tmp_path, files), "average.py:")


@pytest.mark.parametrize("wait", [READ, SYNCHRONIZE])
def test_a_file_that_what_starts_the_loop_imports(wait: str, tmp_path: Path) -> None:
    average = IN_FULL
    loop = LOOP.format(imports="", wait=wait)
    files = {"engine.py": loop, "average.py": average, "main.py": MAIN.format(engine="engine", average="average")}
    assert is_left(patched(tmp_path, files, "engine.py"), "average.py:")


def test_a_package(tmp_path: Path) -> None:
    average = IN_FULL
    loop = LOOP.format(imports="from .tools.average import Average", wait=READ)
    files = {"p/__init__.py": "", "p/tools/__init__.py": "", "p/train.py": loop, "p/tools/average.py": average}
    assert is_left(patched(tmp_path, files, "p/train.py"), "p/tools/average.py:")


OTHERS = {
    "a stream of bytes": "import logging, sys\nlogging.StreamHandler(sys.stdout)\ndef stream(client):\n"
    "    return client.stream('GET', 'url')\n",
    "a class of its own": "import torch\nclass Stream:\n    pass\nStream()\n",
    "the stream of the loop itself": "import torch\ndef on():\n    return torch.cuda.current_stream()\n",
    "a word in a comment": "import torch\n# not torch.cuda.Stream()\n",
}


@pytest.mark.parametrize("how", OTHERS)
def test_no_stream_of_the_gpu(how: str, tmp_path: Path) -> None:
    files = {"train.py": LOOP.format(imports="import other", wait=READ), "other.py": OTHERS[how]}
    assert {one.edit for one in patched(tmp_path, files).hunks} >= {"defer-read", "async-copy"}


def test_a_file_that_does_not_run_with_it(tmp_path: Path) -> None:
    """Another script of the folder, and a test."""
    average = IN_FULL
    test = "import pytest\nimport train\n" + average
    files = {"train.py": LOOP.format(imports="", wait=READ), "average.py": average, "tests/test_train.py": test}
    assert {one.edit for one in patched(tmp_path, files).hunks} >= {"defer-read", "async-copy"}


def test_a_copy_that_the_streams_of_its_own_file_may_rely_on(tmp_path: Path) -> None:
    """A copy that blocks is there for every stream, and what came before it, too."""
    loop = LOOP.format(imports="", wait=READ).replace(
        "        x, y = x.to(device), y.to(device)\n",
        "        with torch.cuda.stream(side):\n            x, y = x.to(device), y.to(device)\n",
    )
    loop = loop.replace("    total = 0.0\n", "    total, side = 0.0, torch.cuda.Stream()\n")
    assert "async-copy" not in {one.edit for one in patched(tmp_path, {"train.py": loop}).hunks}
