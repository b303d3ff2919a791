"""Train an MLP-mixer-like network in half precision with GradScaler; the loss is logged for every batch."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Mixer(nn.Module):
    """Alternates between mixing tokens and mixing channels."""

    def __init__(self, tokens: int, width: int, depth: int) -> None:
        super().__init__()
        self.token = nn.ModuleList(
            nn.Sequential(nn.Linear(tokens, 2 * tokens), nn.GELU(), nn.Linear(2 * tokens, tokens)) for _ in range(depth)
        )
        self.channel = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)) for _ in range(depth)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2 * depth))
        self.head = nn.Linear(width, 100)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for i, (token, channel) in enumerate(zip(self.token, self.channel, strict=True)):
            x = x + token(self.norms[2 * i](x).transpose(1, 2)).transpose(1, 2)
            x = x + channel(self.norms[2 * i + 1](x))
        return self.head(x.mean(dim=1))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("--samples", type=int, default=4096)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--tokens", type=int, default=49)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--depth", type=int, default=4)
    args = parser.parse_args()

    device = "cuda" if torch.cuda.is_available() else "cpu"
    dataset = TensorDataset(torch.randn(args.samples, args.tokens, args.width), torch.randint(0, 100, (args.samples,)))
    loader = DataLoader(dataset, args.batch_size, shuffle=True)
    model = Mixer(args.tokens, args.width, args.depth).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scaler = torch.amp.GradScaler(device)

    for epoch in range(args.epochs):
        epoch_loss = 0.0
        for x, y in loader:
            x, y = x.to(device), y.to(device)
            with torch.autocast(device, dtype=torch.float16):
                loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            epoch_loss += loss.item()
        print(f"epoch {epoch} loss {epoch_loss / len(loader):.4f}")


if __name__ == "__main__":
    main()
