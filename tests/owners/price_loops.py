"""Training loops whose every step is code of the project, for `price.py`, which compiles this file under two names."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


class Block(nn.Module):
    """A transformer's block as people write it themselves."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mixed, self.joined = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def attended(self, hidden: torch.Tensor) -> torch.Tensor:
        batch, length, width = hidden.shape
        parts = self.mixed(hidden).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        found = functional.scaled_dot_product_attention(query, key, value)
        return self.joined(found.transpose(1, 2).reshape(batch, length, width))

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        hidden = hidden + self.attended(self.before(hidden))
        return hidden + self.narrow(functional.gelu(self.wide(self.between(hidden))))


class Loop:
    def __init__(self, model: nn.Module, batch: torch.Tensor) -> None:
        self.model, self.batch = model.to(DEVICE), batch.to(DEVICE)
        self.optimizer = torch.optim.Adam(self.model.parameters())

    def step(self) -> None:
        loss = self.model(self.batch).pow(2).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        loss.item()


def python_work(count: int) -> int:
    total = 0
    for number in range(count):
        total += number * number
    return total


class Python(Loop):
    """Half of the step is a hot loop in plain Python."""

    def step(self) -> None:
        python_work(20_000)
        super().step()


def small() -> Loop:
    return Loop(nn.Sequential(*[nn.Linear(64, 64) for _ in range(6)]), torch.rand(16, 64))


def python() -> Loop:
    return Python(nn.Sequential(*[nn.Linear(64, 64) for _ in range(6)]), torch.rand(16, 64))


def transformer() -> Loop:
    return Loop(nn.Sequential(*[Block(128, 4) for _ in range(4)]), torch.rand(4, 32, 128))
