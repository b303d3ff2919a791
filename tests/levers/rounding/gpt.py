"""A GPT as anybody writes it: float32, a function per epoch that is given its model."""

import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 60


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        parts = self.qkv(self.norm(x)).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(parts[0], parts[1], parts[2], is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class GPT(nn.Module):
    def __init__(self, tokens, width, depth, length):
        super().__init__()
        self.tokens, self.places = nn.Embedding(tokens, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(Block(width, max(1, width // 64)) for _ in range(depth)))
        self.head = nn.Linear(width, tokens)

    def forward(self, ids):
        x = self.tokens(ids) + self.places(torch.arange(ids.shape[1], device=ids.device))
        return self.head(self.blocks(x))


def train(model, batches, optimizer, device):
    model.train()
    for ids in batches:
        ids = ids.to(device)
        logits = model(ids[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return loss.item()


def main():
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    batch, length, width, depth = (2, 17, 64, 2) if device == "cpu" else (16, 513, 768, 6)
    tokens = 100 if device == "cpu" else 8192
    model = GPT(tokens, width, depth, length).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.1)
    half = STEPS // 2
    for _ in range(2):
        batches = [torch.randint(0, tokens, (batch, length)) for _ in range(half)]
        began = time.perf_counter()
        print(f"loss {train(model, batches, optimizer, device):.3f}")
    print(f"step_ms {1000 * (time.perf_counter() - began) / half:.3f}")


if __name__ == "__main__":
    main()
