"""Keeps images in the order in which they are read."""

import torch
from torch import nn


def main():
    torch.manual_seed(0)
    device = torch.device("cpu")  # where there is one: "cuda"
    loader = [torch.full((2, 3, 6, 6), float(number)) / 24 for number in range(24)]
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, 1)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

    model.to(memory_format=torch.channels_last)
    for images in loader:  # fires
        images = images.to(device, memory_format=torch.channels_last)  # fires
        optimizer.zero_grad()
        loss = model(images).pow(2).mean()
        loss.backward()
        optimizer.step()
    print(f"last loss {loss.item():.3f}")

    signals = nn.Sequential(nn.Conv1d(3, 4, 3), nn.Flatten(), nn.Linear(16, 1)).to(device)
    for images in loader:  # fires  (must stay: the model is not for images)
        loss = signals(images[:, :, 0].to(device)).pow(2).mean()
        loss.backward()
    print(f"last loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
