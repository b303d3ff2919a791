"""What a recipe writes computes what `try` measures: losses equal bit for bit, of the patched script and of the
original with the lever's toggle in the process, on differently written scripts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.rounding import write, written
from tests.support.verifying import one_process
from tracelens.edit_kinds import EditKind
from tracelens.model import Toggle
from tracelens.verify.compare.seed_tolerance import losses_of

pytestmark = [pytest.mark.programs, pytest.mark.slow]

PLAIN = """
import torch
from torch import nn
torch.set_num_threads(1)
torch.manual_seed(0)
device = torch.device("cpu")
model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 6 * 6, 5)).to(device)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
loader = torch.utils.data.DataLoader([(torch.randn(3, 8, 8), n % 5) for n in range(400)], 8)
for epoch in range(4):
    for images, labels in loader:
        images, labels = images.to(device), labels.to(device)
        optimizer.zero_grad()
        outputs = model(images)
        loss = criterion(outputs, labels)
        loss.backward()
        optimizer.step()
        print(f"{loss.item():.4f}")
"""
FUNCTION = """
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.optim import SGD

torch.set_num_threads(1)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)
        self.head = nn.Linear(8, 5)

    def forward(self, x):
        return self.head(F.relu(self.conv(x)).mean((2, 3)))


def train(net, loader, optimizer, device):
    net.train()
    for step, (data, target) in enumerate(loader):
        data, target = data.to(device), target.to(device)
        output = net(data)
        optimizer.zero_grad()
        loss = F.cross_entropy(output, target)
        loss = loss / 2
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()


def main():
    torch.manual_seed(1)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    net = Net().to(device)
    optimizer = SGD(net.parameters(), 0.1, momentum=0.9)
    loader = torch.utils.data.DataLoader([(torch.randn(3, 8, 8), n % 5) for n in range(400)], 8)
    for epoch in range(4):
        train(net, loader, optimizer, device)


if __name__ == "__main__":
    main()
"""
TRAINER = """
import torch
class Trainer:
    def __init__(self, model, device):
        self.device = torch.device(device)
        self.model = model.to(self.device)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.01, foreach=False)
    def compute_loss(self, batch):
        images, labels = batch
        logits = self.model(images)
        return torch.nn.functional.cross_entropy(logits, labels)
    def fit(self, loader, epochs):
        for _ in range(epochs):
            for images, labels in loader:
                images = images.to(self.device)
                labels = labels.to(self.device)
                loss = self.compute_loss((images, labels))
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
"""
STARTED = """
import torch
from torch import nn
from trainer import Trainer
torch.set_num_threads(1)
torch.manual_seed(2)
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.GELU(), nn.Flatten())
        self.out = nn.Linear(144, 5)
    def forward(self, x):
        return self.out(self.layers(x))
data = [(torch.randn(3, 8, 8), n % 5) for n in range(400)]
Trainer(Block(), "cpu").fit(torch.utils.data.DataLoader(data, 8), 4)
"""
SCRIPTS = {
    "plain": {"train.py": PLAIN},
    "function": {"train.py": FUNCTION},
    "trainer": {"train.py": STARTED, "trainer.py": TRAINER},
}
LEVERS: list[tuple[EditKind, str, Toggle]] = [
    ("fused-optimizer", "", Toggle("optimizer-argument", "fused", True)),
    ("matmul-precision", "medium", Toggle("flag", "matmul-precision", "medium")),
    ("channels-last", "", Toggle("channels-last")),
    ("bf16-autocast", "", Toggle("autocast", "", "bfloat16")),
]
STEPS = 24


def losses(folder: Path, *toggles: Toggle) -> list[float]:
    record, _ = one_process(folder / "train.py", mode="numbers", steps=STEPS, toggles=toggles, timeout_s=600.0)
    assert [became["state"] for became in record.ranks[0]["toggles"]] == ["applied"] * len(toggles)
    found = losses_of(record.ranks[0])
    assert found is not None and len(found) >= STEPS - 1
    return list(found)


@pytest.mark.usefixtures("lean_programs")
@pytest.mark.parametrize("name", SCRIPTS)
@pytest.mark.parametrize(("kind", "choice", "toggle"), LEVERS, ids=[kind for kind, _, _ in LEVERS])
def test_the_patched_script_computes_what_the_toggle_computes(
    kind: EditKind, choice: str, toggle: Toggle, name: str, tmp_path: Path
) -> None:
    project = tmp_path / "project"
    patch = written(project, kind, SCRIPTS[name], choice)
    assert patch.hunks and not patch.declined
    toggled = losses(project, toggle)
    plain = losses(project) if kind == "bf16-autocast" else []
    write(patch)
    patched = losses(project)
    assert patched == toggled != plain


def test_a_module_of_torchs_own_is_compiled_as_the_toggle_compiles_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One script only: a process that compiles takes as long as ten that do not.

    As far as rounding goes: on one machine both were equal bit for bit, on a CPU with AVX2 alone the compiler orders
    the sums of a compiled call, of a compiled module and of a compiled `forward` each in a way of its own.
    """
    # Else each process compiles a program first that asks whether its vector instructions work: 4 s of CPU.
    monkeypatch.setenv("TORCHINDUCTOR_VEC_ISA_OK", "1")
    # And compiles torch's headers beforehand, for more programs than there will be: 5 s.
    monkeypatch.setenv("TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS", "0")
    project = tmp_path / "project"
    patch = written(project, "compile-modules", SCRIPTS["plain"])
    assert "+model.forward = torch.compile(model.forward)" in patch.diff
    toggled = losses(project, Toggle("compile", "", ""))
    write(patch)
    patched = losses(project)
    assert patched == pytest.approx(toggled, rel=1e-5)
