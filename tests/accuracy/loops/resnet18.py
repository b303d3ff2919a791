"""Train torchvision's ResNet-18 and time every batch, which takes a synchronize on either side."""

import argparse
import time

import torch
from images import RandomImages
from torch import nn
from torch.utils.data import DataLoader
from torchvision.models import resnet18


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--batches", type=int, default=4000)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--image", type=int, default=128)
    parser.add_argument("--workers", type=int, default=8)
    args = parser.parse_args()

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    dataset = RandomImages(args.batches * args.batch_size, args.image)
    loader = DataLoader(dataset, args.batch_size, shuffle=True, num_workers=args.workers)
    model = resnet18().to(device)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

    total_loss = 0.0
    batch_time = 0.0
    end = time.time()
    for i, (images, target) in enumerate(loader):
        images = images.to(device)
        target = target.to(device)
        output = model(images)
        loss = criterion(output, target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total_loss += loss.item()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        batch_time += time.time() - end
        end = time.time()
        if i % 500 == 499:
            print(f"batch {i + 1} loss {total_loss / (i + 1):.4f} seconds per batch {batch_time / (i + 1):.4f}")


if __name__ == "__main__":
    main()
