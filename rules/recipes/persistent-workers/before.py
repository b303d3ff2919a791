"""Starts the loader's workers anew in each epoch."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    torch.manual_seed(0)
    data = TensorDataset(torch.arange(16.0).reshape(4, 4) / 16)
    loader = DataLoader(data, batch_size=2, num_workers=1)
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

    for epoch in range(2):
        for (inputs,) in loader:  # fires
            optimizer.zero_grad()
            loss = model(inputs).pow(2).mean()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: loss {loss.item():.6f}")

    once = DataLoader(data, batch_size=2, num_workers=1)
    for (inputs,) in once:  # fires  (must stay: there is no second epoch)
        optimizer.zero_grad()
        loss = model(inputs).pow(2).mean()
        loss.backward()
        optimizer.step()
    print(f"last loss {loss.item():.6f}")


if __name__ == "__main__":
    main()
