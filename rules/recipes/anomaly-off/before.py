"""Looks for gradients that are not a number in each step, as for debugging."""

import torch
from torch import nn

torch.autograd.set_detect_anomaly(True)  # fires


def main(check=False):
    torch.manual_seed(0)
    batches = [torch.full((8,), float(number)) / 24 for number in range(24)]
    model = nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

    for inputs in batches:
        optimizer.zero_grad()
        with torch.autograd.set_detect_anomaly(True):  # fires
            loss = model(inputs).pow(2).mean()
            loss.backward()
        optimizer.step()
    print(f"last loss {loss.item():.6f}")

    torch.autograd.set_detect_anomaly(check)  # fires  (must stay: somebody decides it elsewhere)
    for inputs in batches:
        optimizer.zero_grad()
        loss = model(inputs).pow(2).mean()
        loss.backward()
        optimizer.step()
    print(f"last loss {loss.item():.6f}")


main()
