"""Batches in pageable memory."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main(pinned=False):
    torch.manual_seed(0)
    data = TensorDataset(torch.arange(16.0).reshape(4, 4) / 16)
    loader = DataLoader(data, batch_size=2, pin_memory=torch.cuda.is_available())
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

    for (inputs,) in loader:  # fires
        optimizer.zero_grad()
        loss = model(inputs).pow(2).mean()
        loss.backward()
        optimizer.step()
    print(f"first loss {loss.item():.6f}")

    chosen = DataLoader(data, batch_size=2, pin_memory=pinned)
    for (inputs,) in chosen:  # fires  (must stay: somebody decides it elsewhere)
        optimizer.zero_grad()
        loss = model(inputs).pow(2).mean()
        loss.backward()
        optimizer.step()
    print(f"last loss {loss.item():.6f}")


main()
