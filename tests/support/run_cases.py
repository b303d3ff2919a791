"""A Run folder made by hand: a training script, a trace of it on a GPU that never was, and a run.json that ties them.

The loop synchronizes and reads its loss in each batch; the GPU then idles while the host issues the next one, so that
spacing the waits out pays: 40 kernels of 50 us, each issued in 30 us.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.support.builders import Machine
from tracelens import run as runs

SCRIPT = '''"""A training loop as people write it."""
import torch
from torch.utils.data import DataLoader, TensorDataset


def train(epochs: int = 1) -> list[float]:
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = torch.nn.Linear(16, 4).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = TensorDataset(torch.randn(640, 16), torch.randint(0, 4, (640,)))
    loader = DataLoader(data, batch_size=8, num_workers=2, pin_memory=True)
    losses = []
    for epoch in range(epochs):
        for inputs, targets in loader:
            inputs = inputs.to(device, non_blocking=True)
            targets = targets.to(device, non_blocking=True)
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(inputs), targets)
            loss.backward()
            optimizer.step()
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            losses.append(loss.item())
    return losses


if __name__ == "__main__":
    print(sum(train()))
'''
SYNC_LINE = SCRIPT.splitlines().index("                torch.cuda.synchronize()") + 1
ITEM_LINE = SCRIPT.splitlines().index("            losses.append(loss.item())") + 1


def trace(path: Path, steps: int = 12, kernels: int = 40) -> Path:
    """Write the trace of the loop."""
    machine = Machine()

    @contextlib.contextmanager
    def at(line: int) -> Iterator[None]:
        began = machine.now
        yield
        machine.events.frame(f"train.py({line}): train", began, machine.now - began)

    for number in range(steps):
        with machine.step(number):
            machine.load_batch(20)
            machine.copy("h2d", "pinned", 10, nbytes=512)
            for _ in range(kernels):
                machine.host(25)
                machine.launch("gemm", kernel_us=50)
            with at(SYNC_LINE):
                machine.synchronize()
            with at(ITEM_LINE):
                machine.item()
            machine.host(400)
    path.parent.mkdir(parents=True, exist_ok=True)
    return machine.events.write(path)


def recorded(project: Path, **changes: Any) -> Path:
    """Write the project and its Run below it; returns the Run folder."""
    return placed(project, SCRIPT, trace, **changes)


def placed(project: Path, text: str, write: Callable[[Path], object], **changes: Any) -> Path:
    """The project with one script, and its Run with the trace that `write` writes; returns the Run folder."""
    script = project / "train.py"
    script.write_text(text, encoding="utf-8")
    folder = project / runs.RUNS_FOLDER / "20260101-000000-train-made"
    (folder / "rank0").mkdir(parents=True, exist_ok=True)
    write(folder / "rank0" / "made.pt.trace.json.gz")
    meta = {
        "schema_version": 1,
        "command": ["python", "train.py"],
        "cwd": "../..",
        "script": {"path": "train.py", "sha256": runs.sha256(script.read_bytes())},
        "environment": {"python": "3.11", "torch": "2.13.0"},
        "world_size": 1,
        "ranks": [{"rank": 0, "trace": "rank0/made.pt.trace.json.gz", "clock": {}}],
        "capture": {"kind": "script"},
        "exit_code": 0,
        "complete": True,
        "reason": None,
    }
    runs.write_json(folder / runs.RUN_FILE, meta | changes)
    return folder
