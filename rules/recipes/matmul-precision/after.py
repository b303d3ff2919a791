"""Computes products of float32 numbers in full."""

import torch
from torch import nn

torch.set_float32_matmul_precision("high")  # fires


def main(wanted="highest"):
    torch.manual_seed(0)
    batches = [torch.full((8,), float(number)) / 24 for number in range(24)]
    model = nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    torch.set_float32_matmul_precision(wanted)  # fires  (must stay: somebody decides it elsewhere)

    for inputs in batches:
        optimizer.zero_grad()
        loss = model(inputs).pow(2).mean()
        loss.backward()
        optimizer.step()
    print(f"last loss {loss.item():.6f}")


main()
