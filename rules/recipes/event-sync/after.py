"""Waits for the GPU in every batch, although nothing needs it: an event can mark the batch instead."""

import torch
from torch import nn


def main():
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = nn.Linear(8, 1).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    batches = [torch.randn(4, 8, device=device) for _ in range(25)]

    batches_marked = []
    for inputs in batches:
        optimizer.zero_grad()
        loss = model(inputs).pow(2).mean()
        loss.backward()
        optimizer.step()
        if device.type == "cuda":
            batches_marked.append(torch.cuda.Event())
            batches_marked[-1].record()  # fires
            if len(batches_marked) == 10:
                batches_marked.pop().synchronize()
                batches_marked.clear()
    if batches_marked:
        batches_marked[-1].synchronize()
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
