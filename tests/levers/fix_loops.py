"""Training scripts with one common loss of time each, for `tracelens fix` on a GPU: `python fix_loops.py NAME`.

Nothing in here knows of TraceLens. LOOP_LOCK names a file: a script has the GPU for itself among all that share it.
"""

from __future__ import annotations

import fcntl
import gc
import os
import sys

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
EPOCHS = 1000


class Letters(nn.Module):
    """A language model over letters."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(96, 256)
        block = nn.TransformerEncoderLayer(256, 4, 1024, 0.0, batch_first=True)
        self.body = nn.TransformerEncoder(block, 4, enable_nested_tensor=False)
        self.head = nn.Linear(256, 96)

    def forward(self, letters: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(self.embed(letters)))


def collect() -> None:
    """Memory is given back after every batch."""
    model = Letters().to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    text = torch.randint(96, (64, 32, 64), device=DEVICE)
    for epoch in range(EPOCHS):
        for letters in text:
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(letters).flatten(0, 1), letters.roll(-1, 1).flatten())
            loss.backward()
            optimizer.step()
            gc.collect()
            torch.cuda.empty_cache()
        print(f"epoch {epoch}: {loss.item():.4f}")


class Photos(Dataset):
    """Images that are decoded and turned on the host."""

    def __len__(self) -> int:
        return 64 * 400

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        image = torch.linspace(0, 1 + index % 7, 3 * 96 * 96).view(3, 96, 96)
        for _ in range(4):
            image = functional.avg_pool2d(image, 3, 1, 1) + 0.1 * image.sin()
        return image, index % 10


def loader() -> None:
    """The training process makes the batches by itself."""
    model = nn.Sequential(
        *(nn.Conv2d(3, 64, 3, 2, 1), nn.ReLU(), nn.Conv2d(64, 128, 3, 2, 1), nn.ReLU()),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10)),
    ).to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    batches = DataLoader(Photos(), batch_size=64, shuffle=True)
    for epoch in range(EPOCHS):
        for images, labels in batches:
            images, labels = images.to(DEVICE), labels.to(DEVICE)
            loss = functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: {loss.item():.4f}")


def reads() -> None:
    """Loss and accuracy are read in each batch, and the GPU runs dry meanwhile."""
    model = nn.Sequential(
        *(part for _ in range(24) for part in (nn.Linear(1024, 1024), nn.ReLU())), nn.Linear(1024, 10)
    )
    model = model.to(DEVICE)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    data = [(torch.randn(1024, 1024), torch.randint(10, (1024,))) for _ in range(40)]
    for epoch in range(EPOCHS):
        total, right, seen = 0.0, 0, 0
        for inputs, labels in data:
            inputs, labels = inputs.to(DEVICE), labels.to(DEVICE)
            logits = model(inputs)
            loss = functional.cross_entropy(logits, labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
            right += (logits.argmax(1) == labels).sum().item()
            seen += len(labels)
        print(f"epoch {epoch}: loss {total / len(data):.4f}, accuracy {right / seen:.3f}")


def average() -> None:
    """A moving average of the weights, tensor by tensor."""
    model = nn.Sequential(*(part for _ in range(60) for part in (nn.Linear(256, 256), nn.Tanh()))).to(DEVICE)
    kept = [weight.detach().clone() for weight in model.parameters()]
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    batch = torch.randn(512, 256, device=DEVICE)
    for step in range(EPOCHS * 40):
        loss = functional.mse_loss(model(batch), batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for old, new in zip(kept, model.parameters(), strict=True):
                old.mul_(0.999).add_(new, alpha=0.001)
        if step % 100 == 99:
            print(f"step {step + 1}: {loss.item():.4f}")


if __name__ == "__main__":
    turn = os.open(os.environ["LOOP_LOCK"], os.O_RDONLY) if "LOOP_LOCK" in os.environ else None
    if turn is not None:
        fcntl.flock(turn, fcntl.LOCK_EX)
    torch.manual_seed(0)
    try:
        {one.__name__: one for one in (collect, loader, reads, average)}[sys.argv[1]]()
    finally:
        if turn is not None:
            fcntl.flock(turn, fcntl.LOCK_UN)  # also for workers, which have it too
