"""What a worker brings a loop that tokenizes its batches itself, without a profiler: `tokenize` of `gpu_untuned`.

    python tests/owners/loader_parts.py -o OUT.json [--steps 200] [--rounds 3]

Three loops by turns in one process: `itself` tokenizes in the training thread, `worker` has one worker, `ready` has its
tokens before it begins. Out: the medians of a step and of the training thread's time in the loader, µs. The replay
tells of `worker`, the twin in `gpu_untuned` is `ready`. Without a GPU the loop is small: it can be tried there.
"""

from __future__ import annotations

import itertools
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.owners import by_turns

KINDS = ("itself", "worker", "ready")
WARM_UP, BATCH = 20, 64
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
WIDTH, LENGTH = (128, None) if DEVICE.type == "cuda" else (32, 2)
SENTENCES = ["the cat sat on the mat while a dog barked at nobody in the empty street at night " * 4] * 512
VOCABULARY = {word: number for number, word in enumerate(sorted(set(SENTENCES[0].split())))}


def tokenized(sentences: list[str]) -> torch.Tensor:
    """One row of numbers per sentence."""
    return torch.tensor([[VOCABULARY.get(word.lower().strip(".,"), 0) for word in one.split()] for one in sentences])


def batches(kind: str) -> Iterator[torch.Tensor]:
    if kind == "ready":
        return itertools.repeat(tokenized(SENTENCES[:BATCH]))
    workers = 1 if kind == "worker" else 0
    return iter(DataLoader(SENTENCES * 2000, BATCH, collate_fn=tokenized, num_workers=workers))


def measure(kind: str, steps: int) -> dict[str, float]:
    """Medians of the steps and of the time in the loader, µs. The GPU is waited for at the end alone."""
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, 0.0, "gelu", batch_first=True, norm_first=True)
    embed = nn.Embedding(64, WIDTH).to(DEVICE)
    body = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).to(DEVICE)
    optimizer = torch.optim.AdamW([*embed.parameters(), *body.parameters()], lr=1e-3)
    source = batches(kind)
    loading, took = [], []
    for _ in range(WARM_UP + steps):
        began = time.perf_counter_ns()
        tokens = next(source)
        loading.append(time.perf_counter_ns() - began)
        loss = body(embed(tokens[:, :LENGTH].to(DEVICE))).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        took.append(time.perf_counter_ns() - began)
    if DEVICE.type == "cuda":
        torch.cuda.synchronize()
    return {name: statistics.median(each[WARM_UP:]) / 1e3 for name, each in (("loader", loading), ("step", took))}


if __name__ == "__main__":
    raise SystemExit(by_turns.main(__doc__, KINDS, measure))
