"""Collects garbage after each batch, which takes longer than the batch."""

import gc

import torch
from torch import nn


def main():
    torch.manual_seed(0)
    batches = [torch.full((8,), float(number)) / 24 for number in range(24)]
    model = nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

    for inputs in batches:
        optimizer.zero_grad()
        loss = model(inputs).pow(2).mean()
        loss.backward()
        optimizer.step()
        gc.collect()  # fires
    print(f"last loss {loss.item():.6f}")

    freed = 0
    for inputs in batches:
        optimizer.zero_grad()
        loss = model(inputs).pow(2).mean()
        loss.backward()
        optimizer.step()
        freed += gc.collect()  # fires (must stay: its result is used)
    print(f"last loss {loss.item():.6f}")


main()
