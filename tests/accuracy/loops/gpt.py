"""Train a small GPT on random tokens; the training script moves each batch and prints the running loss now and then."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Tokens(Dataset):
    """Windows of a long sequence of token ids."""

    def __init__(self, length: int, block: int, vocabulary: int) -> None:
        self.data = torch.randint(0, vocabulary, (1 << 20,))
        self.length, self.block = length, block

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        start = (index * 977) % ((1 << 20) - self.block - 1)
        window = self.data[start : start + self.block + 1]
        return window[:-1], window[1:]


class Block(nn.Module):
    """Attention and MLP with residual connections."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.heads = heads

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, time, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).split(width, dim=2)
        q, k, v = (t.view(batch, time, self.heads, width // self.heads).transpose(1, 2) for t in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.project(y.transpose(1, 2).reshape(batch, time, width))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    """Token and position embeddings, blocks, a linear head."""

    def __init__(self, vocabulary: int, block: int, width: int, layers: int) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(block, width)
        self.blocks = nn.ModuleList(Block(width, width // 64) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        h = self.tokens(x) + self.positions(torch.arange(x.shape[1], device=x.device))
        for block in self.blocks:
            h = block(h)
        return F.cross_entropy(self.head(self.norm(h)).flatten(0, 1), y.flatten())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--batches", type=int, default=4000)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--block", type=int, default=256)
    parser.add_argument("--width", type=int, default=384)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--workers", type=int, default=2)
    args = parser.parse_args()

    device = "cuda" if torch.cuda.is_available() else "cpu"
    dataset = Tokens(args.batches * args.batch_size, args.block, 8192)
    loader = DataLoader(dataset, args.batch_size, shuffle=True, num_workers=args.workers)
    model = GPT(8192, args.block, args.width, args.layers).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)

    losses = []
    for step, (x, y) in enumerate(loader):
        x = x.to(device)
        y = y.to(device)
        with torch.autocast(device, dtype=torch.bfloat16):
            loss = model(x, y)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
        if step % 500 == 499:
            print(f"step {step + 1}: loss {sum(losses[-500:]) / 500:.4f}")


if __name__ == "__main__":
    main()
