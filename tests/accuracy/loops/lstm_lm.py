"""Train a word-level LSTM language model on one long token stream held on the GPU; the loss is added up per window."""

import argparse

import torch
from torch import nn


class Model(nn.Module):
    """Embedding, LSTM, decoder."""

    def __init__(self, tokens: int, width: int, layers: int) -> None:
        super().__init__()
        self.encoder = nn.Embedding(tokens, width)
        self.lstm = nn.LSTM(width, width, layers)
        self.decoder = nn.Linear(width, tokens)

    def forward(self, x, hidden):
        output, hidden = self.lstm(self.encoder(x), hidden)
        return self.decoder(output).flatten(0, 1), hidden


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--batches", type=int, default=5000)
    parser.add_argument("--batch-size", type=int, default=20)
    parser.add_argument("--bptt", type=int, default=35)
    parser.add_argument("--width", type=int, default=650)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--tokens", type=int, default=10000)
    args = parser.parse_args()

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    source = torch.randint(0, args.tokens, (400 * args.bptt + 1, args.batch_size)).to(device)
    model = Model(args.tokens, args.width, args.layers).to(device)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    zeros = torch.zeros(args.layers, args.batch_size, args.width, device=device)
    hidden = (zeros, zeros.clone())

    total_loss = 0.0
    for batch in range(args.batches):
        i = (batch % 400) * args.bptt
        data = source[i : i + args.bptt]
        targets = source[i + 1 : i + 1 + args.bptt].reshape(-1)
        hidden = tuple(state.detach() for state in hidden)
        optimizer.zero_grad()
        output, hidden = model(data, hidden)
        loss = criterion(output, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        optimizer.step()
        total_loss += loss.item()
        if batch % 500 == 499:
            print(f"batch {batch + 1} loss {total_loss / 500:.3f}")
            total_loss = 0.0


if __name__ == "__main__":
    main()
