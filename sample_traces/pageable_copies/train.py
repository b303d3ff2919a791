"""Train on large batches that workers prepare; they are copied from pageable memory, and that copy is the cost."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class GeneratedClips(Dataset):
    """Short clips of frames: 400 kB per item, cheap to make, slow to copy."""

    def __init__(self, length: int, frames: int, size: int) -> None:
        generator = torch.Generator().manual_seed(0)
        self.length = length
        self.clips = torch.randn(64, frames, 3, size, size, generator=generator)

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return self.clips[index % len(self.clips)], index // len(self.clips) % 16


class ClipClassifier(nn.Module):
    """Average-pool the pixels to a grid, then a few wide layers per clip."""

    def __init__(self, frames: int, grid: int, width: int) -> None:
        super().__init__()
        self.pool = nn.AdaptiveAvgPool2d(grid)
        self.body = nn.Sequential(
            nn.Linear(frames * 3 * grid * grid, width),
            nn.GELU(),
            nn.Linear(width, width),
            nn.GELU(),
            nn.Linear(width, width),
            nn.GELU(),
            nn.Linear(width, 16),
        )

    def forward(self, clips: torch.Tensor) -> torch.Tensor:
        pooled = self.pool(clips.flatten(0, 1)).view(clips.shape[0], -1)
        return self.body(pooled)


def main() -> None:
    gpu = torch.cuda.is_available()
    parser = argparse.ArgumentParser()
    parser.add_argument("--batches", type=int, default=400 if gpu else 80)
    parser.add_argument("--batch-size", type=int, default=64 if gpu else 8)
    parser.add_argument("--frames", type=int, default=8 if gpu else 2)
    parser.add_argument("--size", type=int, default=64 if gpu else 16)
    parser.add_argument("--width", type=int, default=8192 if gpu else 64)
    parser.add_argument("--workers", type=int, default=12 if gpu else 0)
    args = parser.parse_args()

    torch.manual_seed(1)
    device = torch.device("cuda" if gpu else "cpu")
    loader = DataLoader(
        GeneratedClips(args.batches * args.batch_size, args.frames, args.size),
        batch_size=args.batch_size,
        shuffle=True,
        num_workers=args.workers,
    )
    model = ClipClassifier(args.frames, 16 if gpu else 8, args.width).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    criterion = nn.CrossEntropyLoss()

    for step, (clips, labels) in enumerate(loader):
        clips = clips.to(device)
        labels = labels.to(device)
        loss = criterion(model(clips), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if (step + 1) % 20 == 0:
            print(f"step {step + 1}: loss {loss.item():.4f}")
    print(f"done: last loss {loss.item():.6f}")


if __name__ == "__main__":
    main()
