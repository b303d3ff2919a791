"""Measures the gradients of a model, one parameter after the other."""

import torch
from torch import nn


def main():
    torch.manual_seed(0)
    batches = [torch.full((8,), float(number)) / 24 for number in range(24)]
    model = nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    largest, history = 0.0, []

    for inputs in batches:
        optimizer.zero_grad()
        loss = model(inputs).pow(2).mean()
        loss.backward()
        total = 0.0
        norms = [parameter.grad.detach().norm(2) for parameter in model.parameters() if parameter.grad is not None]
        for norm in (torch.stack(norms).tolist() if norms else []):
            total += norm ** 2  # fires
        values = [each.abs().max() for each in model.parameters()]
        history.append(sum(torch.stack(values).tolist()))  # fires
        for parameter in model.parameters():
            largest = max(largest, parameter.grad[0].sum().item())  # fires  (must stay: one element, of unknown shape)
        optimizer.step()
        print(f"gradient {total**0.5:.6f}")
    print(f"weights {history[-1]:.6f}, largest {largest:.6f}")


main()
