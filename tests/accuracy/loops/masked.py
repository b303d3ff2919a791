"""Denoise sequences with a transformer: the loss looks only at masked positions, which boolean indexing picks."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("--samples", type=int, default=8192)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--workers", type=int, default=2)
    args = parser.parse_args()

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    dataset = TensorDataset(torch.randint(1, 4096, (args.samples, args.length)))
    loader = DataLoader(
        dataset, args.batch_size, shuffle=True, num_workers=args.workers, persistent_workers=args.workers > 0
    )
    embed = nn.Embedding(4096, args.width).to(device)
    layer = nn.TransformerEncoderLayer(args.width, args.width // 64, 4 * args.width, dropout=0.0, batch_first=True)
    model = nn.TransformerEncoder(layer, args.layers).to(device)
    head = nn.Linear(args.width, 4096).to(device)
    parameters = [*embed.parameters(), *model.parameters(), *head.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=3e-4)

    for epoch in range(args.epochs):
        total, count = 0.0, 0
        for (tokens,) in loader:
            tokens = tokens.to(device)
            mask = torch.rand(tokens.shape, device=device) < 0.15
            hidden = model(embed(tokens.masked_fill(mask, 0)))
            logits = head(hidden[mask])
            loss = nn.functional.cross_entropy(logits, tokens[mask])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
            count += 1
        print(f"epoch {epoch} loss {total / count:.4f}")


if __name__ == "__main__":
    main()
