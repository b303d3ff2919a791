"""The runtime on a GPU: memory stays flat, the sanitizer is content, freed memory may be overwritten."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch.utils.data import DataLoader

from tests.support.places import ROOT
from tracelens.runtime import DeferredReads, prefetch
from tracelens.verify.inside import freed_memory_fill

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
STEPS = 1000

LOOP = """
import torch
from torch.utils.data import DataLoader
from tracelens import runtime
from tracelens.runtime import DeferredReads, prefetch

{planted}
data = [torch.full((64, 64), float(n)).pin_memory() for n in range(40)]
weight = torch.randn(64, 64, device="cuda", requires_grad=True)
for every in (10, None):
    ahead, total = DeferredReads(every), 0.0
    def add(value):
        global total
        total += value
    for x in ahead.iterate(prefetch(DataLoader(data, batch_size=None), "cuda", depth=2, move_random_draws=True)):
        loss = (x @ weight).pow(2).mean()
        loss.backward()
        weight.grad = None
        ahead.defer(add, ahead.item(loss))
        ahead.record()
    ahead.drain()
    print("total", total)
"""
NO_WAIT = """
def take(self):
    return self._batch
runtime._Fetched.take = take
"""


@pytest.mark.parametrize("every", [10, None])
def test_memory_is_flat_over_a_thousand_steps(every: int | None) -> None:
    data = [torch.full((256, 256), float(n)) for n in range(STEPS)]
    weight = torch.randn(256, 256, device="cuda", requires_grad=True)
    optimizer = torch.optim.Adam([weight])
    ahead, seen, allocated, reserved = DeferredReads(every), [], [], []
    loader = prefetch(DataLoader(data, batch_size=None), "cuda", depth=2, move_random_draws=True)
    for x in ahead.iterate(loader):
        loss = (x @ weight).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        ahead.defer(seen.append, ahead.item(loss))
        ahead.record()
        allocated.append(torch.cuda.memory_allocated())
        reserved.append(torch.cuda.memory_reserved())
    ahead.drain()
    assert len(seen) == STEPS
    early, late = max(allocated[100:200]), max(allocated[-100:])
    # With `every=None` how far the host runs ahead is the GPU's speed: up to MAX_WAITING_BATCHES small values
    assert late - early <= (0 if every else 64 * 1024)
    assert max(reserved[-100:]) == max(reserved[100:200])


@pytest.mark.parametrize("planted", ["", NO_WAIT], ids=["as it is", "without its wait"])
def test_the_cuda_sanitizer_finds_nothing_but_a_planted_race(tmp_path: Path, planted: str) -> None:
    path = tmp_path / "loop.py"
    path.write_text(LOOP.format(planted=planted))
    environment = dict(os.environ, TORCH_CUDA_SANITIZER="1")
    paths = [str(ROOT), environment.get("PYTHONPATH", "")]
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    done = subprocess.run([sys.executable, str(path)], env=environment, capture_output=True, text=True, check=False)
    if planted:
        assert "data race" in done.stderr.lower(), done.stderr[-2000:]
    else:
        assert done.returncode == 0, done.stderr[-2000:]
        assert "data race" not in done.stderr.lower()
        assert done.stdout.count("total") == 2


def test_a_sweep_overwrites_what_is_free_and_nothing_that_is_in_use() -> None:
    kept = torch.ones(1 << 20, device="cuda")
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        side = torch.ones(1 << 22, device="cuda")
        place = side.data_ptr()
        del side
    torch.cuda.synchronize()
    assert freed_memory_fill.side_streams()
    assert freed_memory_fill.sweep() >= 1
    torch.cuda.synchronize()
    assert kept.sum().item() == 1 << 20
    with torch.cuda.stream(stream):
        again = torch.empty(1 << 22, device="cuda")
    assert again.data_ptr() == place
    assert again.isnan().all().item()
