"""A recommender with sparse-style embeddings and a dense tower, each with its own optimizer; timed per batch."""

import argparse
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Tower(nn.Module):
    """Dense part on top of the looked-up embeddings."""

    def __init__(self, fields: int, dimension: int, width: int, depth: int) -> None:
        super().__init__()
        layers: list[nn.Module] = [nn.Linear(fields * dimension, width), nn.ReLU()]
        for _ in range(depth):
            layers += [nn.Linear(width, width), nn.ReLU()]
        self.layers = nn.Sequential(*layers, nn.Linear(width, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x).squeeze(1)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=500)
    parser.add_argument("--samples", type=int, default=1 << 18)
    parser.add_argument("--batch-size", type=int, default=2048)
    parser.add_argument("--fields", type=int, default=26)
    parser.add_argument("--dimension", type=int, default=32)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--depth", type=int, default=3)
    args = parser.parse_args()

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    dataset = TensorDataset(torch.randint(0, 10000, (args.samples, args.fields)), torch.rand(args.samples))
    sampler = torch.utils.data.BatchSampler(torch.utils.data.RandomSampler(dataset), args.batch_size, drop_last=True)
    loader = DataLoader(dataset, sampler=sampler, batch_size=None)
    embedding = nn.Embedding(10000, args.dimension).to(device)
    tower = Tower(args.fields, args.dimension, args.width, args.depth).to(device)
    embedding_optimizer = torch.optim.Adagrad(embedding.parameters(), lr=0.05)
    tower_optimizer = torch.optim.Adam(tower.parameters(), lr=1e-3)
    criterion = nn.BCEWithLogitsLoss()

    for epoch in range(args.epochs):
        started = time.perf_counter()
        epoch_loss = 0.0
        for ids, clicks in loader:
            ids = ids.to(device)
            clicks = clicks.to(device)
            embedding_optimizer.zero_grad()
            tower_optimizer.zero_grad()
            loss = criterion(tower(embedding(ids).flatten(1)), clicks)
            loss.backward()
            embedding_optimizer.step()
            tower_optimizer.step()
            torch.cuda.synchronize() if torch.cuda.is_available() else None
            epoch_loss += loss.item()
        print(f"epoch {epoch} loss {epoch_loss / len(loader):.4f} in {time.perf_counter() - started:.2f} s")


if __name__ == "__main__":
    main()
