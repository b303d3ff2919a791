"""Fills the gradients with zeros in each batch."""

import torch
from torch import nn


def main(keep=True):
    torch.manual_seed(0)
    batches = [torch.full((8,), float(number)) / 24 for number in range(24)]
    model = nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

    for inputs in batches:
        optimizer.zero_grad()  # fires
        loss = model(inputs).pow(2).mean()
        loss.backward()
        optimizer.step()
    print(f"last loss {loss.item():.6f}")

    for inputs in batches:
        optimizer.zero_grad(set_to_none=not keep)  # fires  (must stay: somebody decides it elsewhere)
        loss = model(inputs).pow(2).mean()
        loss.backward()
        optimizer.step()
    print(f"last loss {loss.item():.6f}")


main()
