"""Copies each batch right before it is needed, so that the GPU waits for the copy."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    data = TensorDataset(torch.randn(100, 8), torch.randn(100, 1))
    loader = DataLoader(data, batch_size=8, shuffle=True, num_workers=2 if device.type == "cuda" else 0)
    model = nn.Linear(8, 1).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

    for inputs, targets in loader:
        inputs = inputs.to(device)  # fires
        targets = targets.to(device)  # fires
        optimizer.zero_grad()
        loss = (model(inputs) - targets).pow(2).mean()
        loss.backward()
        optimizer.step()
    print(f"last loss {loss.item():.6f}")

    largest = 0.0
    for inputs, targets in loader:
        largest = max(largest, max(targets.flatten().tolist()))  # the batch is used on the CPU, too
        inputs = inputs.to(device)  # fires  (must stay: the targets would come back from the GPU)
        loss = model(inputs).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"last loss {loss.item():.6f}, largest target {largest:.6f}")


if __name__ == "__main__":
    main()
