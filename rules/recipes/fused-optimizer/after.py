"""Updates parameters one after the other, in several kernels each."""

import torch
from torch import nn


def main():
    torch.manual_seed(0)
    batches = [torch.full((8,), float(number)) / 24 for number in range(24)]
    model = nn.Linear(8, 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05, fused=True)  # fires

    for inputs in batches:
        optimizer.zero_grad()
        loss = model(inputs).pow(2).mean()
        loss.backward()
        optimizer.step()
    print(f"last loss {loss.item():.3f}")

    options = {"lr": 0.05}
    other = torch.optim.SGD(model.parameters(), **options)  # fires  (must stay: its arguments are not in the call)
    for inputs in batches:
        other.zero_grad()
        loss = model(inputs).pow(2).mean()
        loss.backward()
        other.step()
    print(f"last loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
