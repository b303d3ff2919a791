"""Copies each batch from pageable memory, and the host waits for the copy."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    data = TensorDataset(torch.randn(100, 8), torch.randn(100, 1))
    loader = DataLoader(data, batch_size=8, shuffle=True)
    model = nn.Linear(8, 1).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

    for inputs, targets in loader:
        inputs = inputs.to(device)  # fires
        targets = targets.double().to(device)  # fires  (must stay: what is copied is a pageable temporary)
        optimizer.zero_grad()
        loss = (model(inputs) - targets.float()).pow(2).mean()
        loss.backward()
        optimizer.step()
    print(f"last loss {loss.item():.6f}")


if __name__ == "__main__":
    main()
