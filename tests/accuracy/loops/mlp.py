"""Classify table rows with a small MLP; loss and accuracy are added up after every batch."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--batches", type=int, default=6000)
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--features", type=int, default=512)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--depth", type=int, default=6)
    parser.add_argument("--workers", type=int, default=0)
    args = parser.parse_args()

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    rows = args.batches * args.batch_size
    pool = torch.randn(8192, args.features)
    labels = torch.randint(0, 10, (8192,))
    picks = torch.arange(rows) % 8192
    dataset = Rows(pool, labels, picks)
    loader = DataLoader(dataset, args.batch_size, shuffle=True, num_workers=args.workers)
    layers = [nn.Linear(args.features, args.width), nn.ReLU()]
    for _ in range(args.depth):
        layers += [nn.Linear(args.width, args.width), nn.LayerNorm(args.width), nn.ReLU()]
    model = nn.Sequential(*layers, nn.Linear(args.width, 10)).to(device)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    running_loss = 0.0
    correct = 0
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad()
        output = model(x)
        loss = criterion(output, y)
        loss.backward()
        optimizer.step()
        running_loss += loss.item()
        correct += (output.argmax(1) == y).sum().item()
    print(f"loss {running_loss / args.batches:.4f} accuracy {correct / rows:.4f}")


class Rows(TensorDataset):
    """A pool of rows that is drawn from again and again."""

    def __init__(self, pool: torch.Tensor, labels: torch.Tensor, picks: torch.Tensor) -> None:
        super().__init__(picks)
        self.pool, self.labels = pool, labels

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        pick = index % len(self.pool)
        return self.pool[pick], self.labels[pick]


if __name__ == "__main__":
    main()
