"""Without a GPU: a planted `gc.collect()` is named, a lever takes it out of most batches, and the numbers stay."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytestmark = [pytest.mark.programs, pytest.mark.slow, pytest.mark.usefixtures("lean_programs")]

SCRIPT = """
import gc

import torch
from torch import nn

ROWS = [[number, [number]] for number in range(60_000)]


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = nn.Linear(32, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    for step in range(400):
        x = torch.randn(16, 32)
        optimizer.zero_grad()
        loss = (model(x) - x.sum(1, keepdim=True)).pow(2).mean()
        loss.backward()
        optimizer.step()
        gc.collect()
    print(f"loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
"""
LINE = 1 + SCRIPT.lstrip().splitlines().index("        gc.collect()")


def said(folder: Path, *words: str) -> str:
    command = [sys.executable, "-m", "tracelens", *words]
    done = subprocess.run(command, check=False, cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode in (0, 3), done.stderr  # 3: a busy machine decides nothing about speed
    return done.stdout


def test_it_is_named_mended_and_measured(tmp_path: Path) -> None:
    folder = tmp_path
    (folder / "train.py").write_text(SCRIPT.lstrip())
    said(folder, "profile", "-o", "run", "--stop-after-window", "train.py")
    answer = json.loads(said(folder, "recommend", "run", "--format", "json"))
    assert answer["headline"].startswith("gc.collect() takes ")
    assert f"train.py:{LINE} (gc.collect)" in answer["verdict"]
    assert answer["recommendation"]["lever"] == "gc-collect"
    (owner,) = (owner for owner in answer["owners"] if owner["callee"] == "gc.collect")
    assert owner["remedies"][0] == "gc-collect"

    said(folder, "apply", "run", "--lever", "gc-collect")
    text = (folder / "train.py").read_text()
    assert "        if step % 100 == 0:  # thinned by tracelens\n            gc.collect()\n" in text

    (entry,) = json.loads(
        said(folder, "verify", "run", "--lever", "gc-collect", "--steps", "20", "--budget", "2s", "--format", "json")
    )["entries"]
    assert entry["scheme"] == "gc-collect"
    assert entry["numbers_equal"] is True

    said(folder, "revert", "run")
    assert (folder / "train.py").read_text() == SCRIPT.lstrip()
