"""Signals that end a process whose loop runs on a GPU: lines that wait are read first, and a kernel that hangs keeps
nothing alive."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.programs,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

LOOP = """
import sys
import torch
from tracelens.runtime import DeferredReads

weight = torch.ones(512, 512, device="cuda", requires_grad=True)
ahead = DeferredReads({every})
for step in ahead.iterate(range(10_000)):
    torch.cuda._sleep({cycles})
    loss = (weight * step).mean()
    loss.backward()
    weight.grad = None
    ahead.defer(print, step, ahead.item(loss))
    {at_end}
"""
SHORT, FOREVER = 10_000_000, 1 << 50
"""Cycles of a kernel: some ms, and a week."""
PATIENCE_S = 25
"""A cluster sends SIGKILL some 30 s after SIGTERM."""


def started(every: int | None, cycles: int, at_end: str = "pass") -> subprocess.Popen[str]:
    text = LOOP.format(every=every, cycles=cycles, at_end=at_end)
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, "-c", text], stdout=pipe, stderr=pipe, text=True)


@pytest.mark.parametrize("every", [10, None])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_every_batch_that_was_begun_has_its_line(every: int | None, number: int) -> None:
    told = "print('begun', step, file=sys.stderr, flush=True)"
    run = started(every, SHORT, told)
    assert run.stderr is not None
    begun = next(line for line in run.stderr if line == "begun 47\n")
    run.send_signal(number)
    out, errors = run.communicate(timeout=60)
    last = max(int(line.split()[1]) for line in (begun + errors).splitlines() if line.startswith("begun"))
    steps = [int(line.split()[0]) for line in out.splitlines()]
    assert run.returncode == -number
    assert steps == list(range(len(steps)))
    assert last <= steps[-1]
    assert all(float(line.split()[1]) == int(line.split()[0]) for line in out.splitlines())


@pytest.mark.parametrize("every", [10, None])
def test_a_kernel_that_hangs_keeps_no_process_alive(every: int | None) -> None:
    run = started(every, FOREVER)
    try:
        time.sleep(15)  # torch is imported, and the loop waits for its tenth batch in CUDA's own code
        assert run.poll() is None
        asked = time.monotonic()
        run.terminate()
        run.communicate(timeout=60)
        assert run.returncode == -signal.SIGTERM
        assert time.monotonic() - asked < PATIENCE_S
    finally:
        run.kill()


RANK = """
import datetime, os, sys, time
import torch
import torch.distributed as dist
from tracelens.runtime import DeferredReads

rank = int(sys.argv[1])
torch.cuda.set_device(rank)
meeting = f"file://{sys.argv[2]}"
dist.init_process_group("nccl", init_method=meeting, rank=rank, world_size=2, timeout=datetime.timedelta(minutes=10))
weight = torch.ones(512, 512, device="cuda", requires_grad=True)
ahead = DeferredReads(10)
for step in ahead.iterate(range(10_000)):
    loss = (weight * step).mean()
    loss.backward()
    if step == 23 and rank == 1:
        time.sleep(600)
    dist.all_reduce(weight.grad)
    weight.grad = None
    ahead.defer(print, step, ahead.item(loss))
"""


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two CUDA devices")
def test_a_collective_that_hangs_keeps_no_process_alive(tmp_path: Path) -> None:
    """The other rank never comes: what was read before is out, and SIGTERM ends the process."""
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", RANK, str(rank), str(tmp_path / "meeting")],
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONUNBUFFERED": "1"},
        )
        for rank in (0, 1)
    ]
    try:
        time.sleep(40)
        assert [run.poll() for run in ranks] == [None, None]
        asked = time.monotonic()
        ranks[0].terminate()
        out, _ = ranks[0].communicate(timeout=60)
        assert ranks[0].returncode == -signal.SIGTERM
        assert time.monotonic() - asked < PATIENCE_S
        assert [int(line.split()[0]) for line in out.splitlines()][:20] == list(range(20))
    finally:
        for run in ranks:
            run.kill()
            run.communicate()
