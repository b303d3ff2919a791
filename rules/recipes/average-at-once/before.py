"""Averages the weights of a model, one parameter after the other."""

import torch
from torch import nn


def main():
    torch.manual_seed(0)
    batches = [torch.full((8,), float(number)) / 24 for number in range(24)]
    model, ema = nn.Linear(8, 1), nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    distance = 0.0

    for inputs in batches:
        optimizer.zero_grad()
        loss = model(inputs).pow(2).mean()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for average, own in zip(ema.parameters(), model.parameters()):
                average.mul_(0.9).add_(own, alpha=1 - 0.9)  # fires
            for average, own in zip(ema.parameters(), model.parameters()):
                distance += (average - own).abs().sum().item()  # fires  (must stay: it is no average)
    print(f"last loss {loss.item():.6f}, distance {distance:.6f}")


main()
