"""A vision transformer as anybody writes it: float32, a trainer that keeps its model."""

import sys
import time

import torch
from torch import nn

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 60


class ViT(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.patches = nn.Conv2d(3, width, 16, stride=16)
        layer = nn.TransformerEncoderLayer(
            width, max(1, width // 64), 4 * width, 0.0, "gelu", batch_first=True, norm_first=True
        )
        self.blocks = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.head = nn.Linear(width, 10)

    def forward(self, images):
        return self.head(self.blocks(self.patches(images).flatten(2).transpose(1, 2)).mean(1))


class Trainer:
    def __init__(self, model, device):
        self.device = torch.device(device)
        self.model = model.to(self.device)
        self.criterion = nn.CrossEntropyLoss()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)

    def fit(self, batches):
        for images, labels in batches:
            images = images.to(self.device)
            labels = labels.to(self.device)
            loss = self.criterion(self.model(images), labels)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        return loss.item()


def main():
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    batch, side, width, depth = (2, 32, 64, 2) if device == "cpu" else (64, 224, 384, 6)
    images = torch.randn(batch * 4, 3, side, side)
    batches = [(images[n * batch : (n + 1) * batch], torch.randint(0, 10, (batch,))) for n in range(4)]
    trainer, half = Trainer(ViT(width, depth), device), STEPS // 2
    for _ in range(2):
        began = time.perf_counter()
        print(f"loss {trainer.fit(batches[n % 4] for n in range(half)):.3f}")
    print(f"step_ms {1000 * (time.perf_counter() - began) / half:.3f}")


if __name__ == "__main__":
    main()
