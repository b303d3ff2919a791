"""Train a small classifier on items that are slow to make; two workers cannot keep up, and the GPU waits for them."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class SlowDocuments(Dataset):
    """Each item is tokenized by hand, character by character, when it is asked for."""

    def __init__(self, length: int, words: int) -> None:
        self.length, self.words = length, words

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        counts = [0.0] * 256
        state = index + 1
        for _ in range(self.words):
            state = (state * 1103515245 + 12345) % 2147483648
            counts[(state >> 16) % 256] += 1.0
        return torch.tensor(counts), index % 4


def main() -> None:
    gpu = torch.cuda.is_available()
    parser = argparse.ArgumentParser()
    parser.add_argument("--batches", type=int, default=300 if gpu else 80)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--words", type=int, default=4000 if gpu else 400)
    parser.add_argument("--workers", type=int, default=2)
    args = parser.parse_args()

    torch.manual_seed(1)
    device = torch.device("cuda" if gpu else "cpu")
    loader = DataLoader(
        SlowDocuments(args.batches * args.batch_size, args.words),
        batch_size=args.batch_size,
        shuffle=True,
        num_workers=args.workers,
        pin_memory=gpu,
    )
    width = 1024 if gpu else 64
    model = nn.Sequential(nn.Linear(256, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 4)).to(
        device
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    criterion = nn.CrossEntropyLoss()

    total = 0.0
    for step, (documents, labels) in enumerate(loader):
        documents = documents.to(device, non_blocking=True)
        labels = labels.to(device, non_blocking=True)
        loss = criterion(model(documents), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if gpu:
            torch.cuda.synchronize()
        total += loss.item()
        if (step + 1) % 50 == 0:
            print(f"step {step + 1}: loss {total / (step + 1):.4f}")
    print(f"done: mean loss {total / len(loader):.6f}")


if __name__ == "__main__":
    main()
