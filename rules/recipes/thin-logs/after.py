"""Prints the loss of every batch: most of the lines nobody reads, and each of them waits for the GPU."""

import torch
from torch import nn


def main():
    torch.manual_seed(0)
    model = nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    batches = [torch.randn(4, 8) for _ in range(25)]
    seen = []

    for batch_number, inputs in enumerate(batches):
        optimizer.zero_grad()
        loss = model(inputs).pow(2).mean()
        loss.backward()
        optimizer.step()
        seen.append(float(loss.detach()))
        if batch_number % 10 == 0:  # thinned by tracelens
            print(f"loss {loss.item():.6f}")  # fires

    for inputs in batches:
        optimizer.zero_grad()
        loss = model(inputs).pow(2).mean()
        loss.backward()
        optimizer.step()
        print(f"loss {loss.item():.6f}, before {seen.pop():.6f}")  # fires  (must stay: it takes a value off the list)
    print(f"{len(seen)} left")


if __name__ == "__main__":
    main()
