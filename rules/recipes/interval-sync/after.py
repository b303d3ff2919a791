"""Waits for the GPU in every batch, although nothing needs it: every N batches is enough."""

import torch
from torch import nn


def main():
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = nn.Linear(8, 1).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    batches = [torch.randn(4, 8, device=device) for _ in range(25)]

    batches_issued = 0
    for inputs in batches:
        optimizer.zero_grad()
        loss = model(inputs).pow(2).mean()
        loss.backward()
        optimizer.step()
        if device.type == "cuda":
            batches_issued += 1
            if batches_issued % 10 == 0:
                torch.cuda.synchronize()  # fires
    if batches_issued % 10:
        torch.cuda.synchronize()
    print(f"last loss {loss.item():.6f}")

    for step, inputs in enumerate(batches):
        optimizer.zero_grad()
        loss = model(inputs).pow(2).mean()
        loss.backward()
        optimizer.step()
        if device.type == "cuda" and step % 10 == 0:
            torch.cuda.synchronize()  # fires  (must stay: it is made in few batches already)
    print(f"last loss {loss.item():.6f}")


if __name__ == "__main__":
    main()
