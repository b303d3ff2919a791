"""Train a small classifier and keep predictions and labels as numpy arrays, for a report at the end."""

import argparse
from itertools import pairwise

import numpy as np
import torch
from images import RandomImages
from torch import nn
from torch.utils.data import DataLoader


class Net(nn.Module):
    """Four convolutions and a linear layer."""

    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        widths = (3, width, width, 2 * width, 2 * width)
        self.convolutions = nn.ModuleList(
            nn.Conv2d(a, b, 3, stride=2 if i % 2 else 1, padding=1) for i, (a, b) in enumerate(pairwise(widths))
        )
        self.head = nn.Linear(2 * width, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for convolution in self.convolutions:
            x = torch.relu(convolution(x))
        return self.head(x.mean(dim=(2, 3)))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--batches", type=int, default=5000)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--image", type=int, default=32)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--workers", type=int, default=4)
    args = parser.parse_args()

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    loader = DataLoader(
        RandomImages(args.batches * args.batch_size, args.image, classes=10),
        batch_size=args.batch_size,
        shuffle=True,
        num_workers=args.workers,
    )
    model = Net(args.width, 10).to(device)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    predictions, truth, losses = [], [], []
    for images, labels in loader:
        images, labels = images.to(device), labels.to(device)
        optimizer.zero_grad()
        output = model(images)
        loss = criterion(output, labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach().cpu().numpy())
        predictions.append(output.argmax(dim=1).cpu().numpy())
        truth.append(labels.cpu().numpy())
    hits = np.concatenate(predictions) == np.concatenate(truth)
    print(f"loss {np.mean(losses):.4f} accuracy {hits.mean():.4f}")


if __name__ == "__main__":
    main()
