"""A loop with work that comes every eighth step only: `rare_work.py KIND STEPS`. Costs are sleeps, known exactly."""

import sys
import time

import torch
from torch import nn


class Slow(nn.Linear):
    def forward(self, rows):
        for _ in range(16):
            time.sleep(0.0005)
        return super().forward(rows)


def evaluate(model, rows):
    with torch.no_grad():
        return sum(float(model(rows).sum()) for _ in range(12))


def train(kind, steps):
    torch.manual_seed(0)
    model, rows = Slow(16, 1), torch.randn(8, 16)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(steps):
        optimizer.zero_grad()
        loss = model(rows).pow(2).mean()
        loss.backward()
        if step % 8 == 0 and kind == "save":
            time.sleep(0.12)  # rare: save
        if step % 8 == 0 and kind == "evaluate":
            evaluate(model, rows)  # rare: evaluate
        optimizer.step()


train(sys.argv[1], int(sys.argv[2]))
