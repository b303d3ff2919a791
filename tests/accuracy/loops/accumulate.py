"""Accumulate gradients over several small batches per optimizer step; each small batch's loss is logged."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("--samples", type=int, default=16384)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--accumulate", type=int, default=4)
    parser.add_argument("--length", type=int, default=64)
    parser.add_argument("--width", type=int, default=384)
    parser.add_argument("--layers", type=int, default=4)
    args = parser.parse_args()

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    dataset = TensorDataset(torch.randn(args.samples, args.length, args.width), torch.randint(0, 20, (args.samples,)))
    loader = DataLoader(dataset, args.batch_size, shuffle=True, num_workers=4, persistent_workers=True)
    layer = nn.TransformerEncoderLayer(args.width, args.width // 64, 4 * args.width, dropout=0.0, batch_first=True)
    encoder = nn.TransformerEncoder(layer, args.layers).to(device)
    head = nn.Linear(args.width, 20).to(device)
    optimizer = torch.optim.AdamW([*encoder.parameters(), *head.parameters()], lr=1e-4)

    for epoch in range(args.epochs):
        epoch_loss = 0.0
        for i, (x, y) in enumerate(loader):
            x = x.to(device)
            y = y.to(device)
            loss = nn.functional.cross_entropy(head(encoder(x).mean(dim=1)), y) / args.accumulate
            loss.backward()
            epoch_loss += loss.item()
            if (i + 1) % args.accumulate == 0:
                optimizer.step()
                optimizer.zero_grad()
        print(f"epoch {epoch} loss {epoch_loss * args.accumulate / len(loader):.4f}")


if __name__ == "__main__":
    main()
