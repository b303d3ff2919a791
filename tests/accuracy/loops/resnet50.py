"""Train torchvision's ResNet-50 with running top-1 and top-5 accuracy, as the well-known example script does."""

import argparse

import torch
from images import RandomImages
from torch import nn
from torch.utils.data import DataLoader
from torchvision.models import resnet50


class AverageMeter:
    """Sum and average of what was seen so far."""

    def __init__(self) -> None:
        self.total = 0.0
        self.count = 0

    def update(self, value: float, n: int) -> None:
        self.total += value * n
        self.count += n

    @property
    def average(self) -> float:
        return self.total / max(1, self.count)


def accuracy(output: torch.Tensor, target: torch.Tensor, ks: tuple[int, ...]) -> list[torch.Tensor]:
    with torch.no_grad():
        _, predicted = output.topk(max(ks), 1, True, True)
        hits = predicted.t().eq(target.view(1, -1).expand_as(predicted.t()))
        return [hits[:k].reshape(-1).float().sum(0) * (100.0 / target.size(0)) for k in ks]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--batches", type=int, default=2000)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--image", type=int, default=160)
    parser.add_argument("--workers", type=int, default=8)
    args = parser.parse_args()

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    dataset = RandomImages(args.batches * args.batch_size, args.image)
    loader = DataLoader(dataset, args.batch_size, shuffle=True, num_workers=args.workers)
    model = resnet50().to(device)
    criterion = nn.CrossEntropyLoss().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)

    losses, top1, top5 = AverageMeter(), AverageMeter(), AverageMeter()
    model.train()
    for images, target in loader:
        images = images.to(device, non_blocking=True)
        target = target.to(device, non_blocking=True)
        output = model(images)
        loss = criterion(output, target)
        acc1, acc5 = accuracy(output, target, (1, 5))
        losses.update(loss.item(), images.size(0))
        top1.update(acc1.item(), images.size(0))
        top5.update(acc5.item(), images.size(0))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"loss {losses.average:.4f} top1 {top1.average:.2f} top5 {top5.average:.2f}")


if __name__ == "__main__":
    main()
