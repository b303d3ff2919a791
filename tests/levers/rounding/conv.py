"""A convolutional network as anybody writes it: float32, one file, a loop over a DataLoader."""

import sys
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 60


class ConvNet(nn.Module):
    def __init__(self, width):
        super().__init__()
        layers = []
        for before, after in ((3, width), (width, 2 * width), (2 * width, 4 * width)):
            layers += [nn.Conv2d(before, after, 3, padding=1), nn.BatchNorm2d(after), nn.ReLU(), nn.MaxPool2d(2)]
        self.body = nn.Sequential(*layers)
        self.head = nn.Linear(4 * width, 10)

    def forward(self, images):
        return self.head(self.body(images).mean((2, 3)))


def main():
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    small = device.type == "cpu"
    batch, side = (4, 16) if small else (128, 64)
    data = TensorDataset(torch.randn(batch * 4, 3, side, side), torch.randint(0, 10, (batch * 4,)))
    model = ConvNet(8 if small else 96).to(device)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    steps, began = 0, time.perf_counter()
    while steps < STEPS:
        for images, labels in DataLoader(data, batch, shuffle=True):
            images, labels = images.to(device), labels.to(device)
            optimizer.zero_grad()
            outputs = model(images)
            loss = criterion(outputs, labels)
            loss.backward()
            optimizer.step()
            steps += 1
            if steps == STEPS // 2:
                print(f"loss {loss.item():.3f}")
                began = time.perf_counter()
    print(f"loss {loss.item():.3f}")
    print(f"step_ms {1000 * (time.perf_counter() - began) / (steps - STEPS // 2):.3f}")


if __name__ == "__main__":
    main()
