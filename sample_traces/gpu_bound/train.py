"""Train a language model that keeps the GPU busy; it synchronizes and reads the loss every batch, harmlessly."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class GeneratedText(Dataset):
    """Token sequences with a pattern that can be learned: every token follows from the one before."""

    def __init__(self, length: int, context: int, vocabulary: int) -> None:
        self.length, self.context, self.vocabulary = length, context, vocabulary

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> torch.Tensor:
        return (torch.arange(self.context + 1) * 31 + index * 17) % self.vocabulary


class Block(nn.Module):
    """Causal attention and a feed-forward layer, written out."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before_attention, self.before_layers = nn.LayerNorm(width), nn.LayerNorm(width)
        self.project, self.merge = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.layers = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, hidden: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        batch, length, width = hidden.shape
        parts = self.project(self.before_attention(hidden)).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        weights = torch.softmax(query @ key.transpose(-1, -2) / (width // self.heads) ** 0.5 + mask, dim=-1)
        hidden = hidden + self.merge((weights @ value).transpose(1, 2).reshape(batch, length, width))
        return hidden + self.layers(self.before_layers(hidden))


class LanguageModel(nn.Module):
    """Predict the next token; the embedding is a matrix product, so that two runs agree to the bit."""

    def __init__(self, vocabulary: int, context: int, width: int, depth: int) -> None:
        super().__init__()
        self.vocabulary = vocabulary
        self.embed = nn.Linear(vocabulary, width, bias=False)
        self.position = nn.Parameter(torch.zeros(1, context, width))
        self.blocks = nn.ModuleList(Block(width, max(2, width // 64)) for _ in range(depth))
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.register_buffer("mask", torch.full((context, context), float("-inf")).triu(1), persistent=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        hidden = self.embed(nn.functional.one_hot(tokens, self.vocabulary).float()) + self.position
        for block in self.blocks:
            hidden = block(hidden, self.mask)
        return self.head(hidden)


def main() -> None:
    gpu = torch.cuda.is_available()
    parser = argparse.ArgumentParser()
    parser.add_argument("--batches", type=int, default=300 if gpu else 80)
    parser.add_argument("--batch-size", type=int, default=32 if gpu else 4)
    parser.add_argument("--context", type=int, default=256 if gpu else 32)
    parser.add_argument("--width", type=int, default=1408 if gpu else 64)
    parser.add_argument("--depth", type=int, default=4 if gpu else 2)
    args = parser.parse_args()

    torch.manual_seed(1)
    torch.set_float32_matmul_precision("high")
    device = torch.device("cuda" if gpu else "cpu")
    vocabulary = 4096 if gpu else 256
    loader = DataLoader(
        GeneratedText(args.batches * args.batch_size, args.context, vocabulary),
        batch_size=args.batch_size,
        shuffle=True,
        num_workers=2,
        pin_memory=gpu,
    )
    model = LanguageModel(vocabulary, args.context, args.width, args.depth).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    criterion = nn.CrossEntropyLoss()

    total = 0.0
    for step, tokens in enumerate(loader):
        tokens = tokens.to(device, non_blocking=True)
        logits = model(tokens[:, :-1])
        loss = criterion(logits.reshape(-1, vocabulary), tokens[:, 1:].reshape(-1))
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
