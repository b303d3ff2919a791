"""Two batches ahead for each worker, which is torch's default."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    torch.manual_seed(0)
    data = TensorDataset(torch.arange(16.0).reshape(4, 4) / 16)
    loader = DataLoader(data, batch_size=2, num_workers=1)
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

    for (inputs,) in loader:  # fires
        optimizer.zero_grad()
        loss = model(inputs).pow(2).mean()
        loss.backward()
        optimizer.step()
    print(f"first loss {loss.item():.6f}")

    alone = DataLoader(data, batch_size=2)
    for (inputs,) in alone:  # fires  (must stay: there are no workers)
        optimizer.zero_grad()
        loss = model(inputs).pow(2).mean()
        loss.backward()
        optimizer.step()
    print(f"last loss {loss.item():.6f}")


if __name__ == "__main__":
    main()
