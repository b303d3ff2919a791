"""Train a small vision transformer: synchronize, read the loss and copy pageable batches at every step."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class GeneratedImages(Dataset):
    """Images made from noise, with a random flip, crop and jitter per item, as a real dataset would apply them."""

    def __init__(self, length: int, size: int) -> None:
        generator = torch.Generator().manual_seed(0)
        self.length = length
        self.size = size
        self.images = torch.randint(0, 256, (128, 3, size + 8, size + 8), dtype=torch.uint8, generator=generator)

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        top, left = torch.randint(0, 8, (2,)).tolist()
        image = self.images[index % len(self.images), :, top : top + self.size, left : left + self.size]
        image = image.float().div_(255.0)
        if index % 2:
            image = image.flip(-1)
        return image.mul_(1.0 + 0.1 * torch.randn(3, 1, 1)).sub_(0.5), index % 10


class PatchTransformer(nn.Module):
    """Cut the image into patches, run a transformer over them, classify the mean."""

    def __init__(self, size: int, width: int, depth: int) -> None:
        super().__init__()
        self.patch = 16
        self.embed = nn.Linear(3 * self.patch * self.patch, width)
        self.position = nn.Parameter(torch.zeros(1, (size // self.patch) ** 2, width))
        layer = nn.TransformerEncoderLayer(width, max(2, width // 64), 4 * width, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, depth)
        self.head = nn.Linear(width, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        batch, channels, height, width = images.shape
        rows, columns = height // self.patch, width // self.patch
        patches = images.view(batch, channels, rows, self.patch, columns, self.patch)
        patches = patches.permute(0, 2, 4, 1, 3, 5).reshape(batch, rows * columns, -1)
        return self.head(self.encoder(self.embed(patches) + self.position).mean(dim=1))


def parse() -> argparse.Namespace:
    gpu = torch.cuda.is_available()
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--batches", type=int, default=400 if gpu else 80, help="batches per epoch")
    parser.add_argument("--batch-size", type=int, default=64 if gpu else 8)
    parser.add_argument("--size", type=int, default=128 if gpu else 32, help="height and width of an image")
    parser.add_argument("--width", type=int, default=768 if gpu else 64)
    parser.add_argument("--depth", type=int, default=3 if gpu else 2)
    return parser.parse_args()


def main() -> None:
    args = parse()
    torch.manual_seed(1)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    dataset = GeneratedImages(args.batches * args.batch_size, args.size)
    loader = DataLoader(dataset, batch_size=args.batch_size, shuffle=True)
    model = PatchTransformer(args.size, args.width, args.depth).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    criterion = nn.CrossEntropyLoss()

    for epoch in range(args.epochs):
        running = 0.0
        for step, (images, labels) in enumerate(loader):
            images = images.to(device)
            labels = labels.to(device)
            optimizer.zero_grad()
            loss = criterion(model(images), labels)
            loss.backward()
            optimizer.step()
            if device.type == "cuda":
                torch.cuda.synchronize()  # wait for the step to finish
            running += loss.item()
            if (step + 1) % 20 == 0:
                print(f"epoch {epoch} step {step + 1}: loss {running / (step + 1):.4f}")
        print(f"epoch {epoch}: mean loss {running / len(loader):.6f}")


if __name__ == "__main__":
    main()
