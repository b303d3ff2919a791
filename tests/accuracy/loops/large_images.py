"""A light convolutional network on large pictures: copying a batch to the GPU takes about as long as training on it."""

import argparse

import torch
from images import RandomImages
from torch import nn
from torch.utils.data import DataLoader


def network(width: int) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, width, 7, stride=4, padding=3),
        nn.BatchNorm2d(width),
        nn.ReLU(inplace=True),
        nn.Conv2d(width, 2 * width, 3, stride=2, padding=1),
        nn.BatchNorm2d(2 * width),
        nn.ReLU(inplace=True),
        nn.Conv2d(2 * width, 4 * width, 3, stride=2, padding=1),
        nn.BatchNorm2d(4 * width),
        nn.ReLU(inplace=True),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(4 * width, 100),
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--batches", type=int, default=2000)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--image", type=int, default=448)
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--workers", type=int, default=8)
    args = parser.parse_args()

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    dataset = RandomImages(args.batches * args.batch_size, args.image, classes=100)
    loader = DataLoader(dataset, batch_size=args.batch_size, num_workers=args.workers, drop_last=True)
    model = network(args.width).to(device)
    loss_fn = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

    history = []
    for images, labels in loader:
        images = images.to(device)
        labels = labels.to(device)
        loss = loss_fn(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        history.append(loss.item())
    print(f"mean loss {sum(history) / len(history):.4f}")


if __name__ == "__main__":
    main()
