"""Scripts that tests start without torch's compiler compute what they would with it, or fail."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import lean

pytestmark = pytest.mark.programs

SCRIPT = """\
import torch
from torch.utils.data import DataLoader, TensorDataset

if __name__ == "__main__":
    torch.manual_seed(0)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    layers = torch.nn.Linear(8, 8), torch.nn.BatchNorm1d(8), torch.nn.Dropout(0.1), torch.nn.Linear(8, 1)
    net = torch.nn.Sequential(*layers)
    data = TensorDataset(torch.randn(64, 8), torch.randn(64, 1))
    for optimizer in (torch.optim.SGD(net.parameters(), 0.1, 0.9), torch.optim.AdamW(net.parameters(), 0.01)):
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1)
        for x, y in DataLoader(data, 16, shuffle=True, num_workers=1):
            with torch.autocast("cpu", torch.bfloat16):
                loss = torch.nn.functional.mse_loss(net(x), y)
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
            print(loss.item().hex(), [p.grad.sum().item().hex() for p in net.parameters()])
        schedule.step()
    print([value.double().sum().item().hex() for value in net.state_dict().values()])
"""


def ran(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *words], check=False, capture_output=True, text=True, timeout=120)


def test_the_numbers_are_those_of_the_whole_of_torch(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    whole, without_compiler = ran(str(path)), ran(lean.__file__, str(path))
    assert whole.returncode == without_compiler.returncode == 0, without_compiler.stderr
    assert whole.stdout == without_compiler.stdout and whole.stdout.count("\n") == 9


def test_what_is_left_out_cannot_be_called() -> None:
    done = ran("-c", lean.PRELUDE + "import torch.fx\ntorch.fx.symbolic_trace(torch.nn.Linear(1, 1))")
    assert done.returncode == 1
    assert done.stderr.endswith("RuntimeError: tests/support/lean.py leaves symbolic_trace out of torch\n")
