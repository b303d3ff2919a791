"""What it costs to read kept losses one by one instead of by one `torch.stack(…).tolist()`: python read_forms.py

In: a GPU. Out: JSON, by model: the step in ms with the stack, and the other form's step divided by it, the median and
the quartiles of 24 pairs of blocks of 100 steps, by turns in one process.
"""

from __future__ import annotations

import json
import statistics
import time

import torch
from torch import nn

MODELS = {"host-bound": (256, 4), "4 ms": (4096, 6), "19 ms": (8192, 8)}
"""Width and depth."""
PAIRS = 24
STEPS = 100
EVERY = 10


def main() -> None:
    out = {}
    for name, (width, depth) in MODELS.items():
        layers = [layer for _ in range(depth) for layer in (nn.Linear(width, width), nn.ReLU())]
        model = nn.Sequential(*layers).cuda()
        optimizer = torch.optim.SGD(model.parameters(), 1e-4, foreach=True)
        inputs = torch.randn(256, width, device="cuda")
        block_ms(model, optimizer, inputs, True)
        stacked, single = [], []
        for pair in range(PAIRS):
            for stacks in (pair % 2 == 0, pair % 2 == 1):
                (stacked if stacks else single).append(block_ms(model, optimizer, inputs, stacks))
        ratios = [one / other for one, other in zip(single, stacked, strict=True)]
        out[name] = {
            "step_ms": statistics.median(stacked),
            "ratio": statistics.median(ratios),
            "quartiles": statistics.quantiles(ratios, n=4),
        }
    print(json.dumps(out, indent=1))


def block_ms(model: nn.Module, optimizer: torch.optim.Optimizer, inputs: torch.Tensor, stacks: bool) -> float:
    """One step of a block, in ms."""
    pending: list[torch.Tensor] = []
    total = 0.0
    torch.cuda.synchronize()
    begun = time.perf_counter()
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = model(inputs).pow(2).mean()
        loss.backward()
        optimizer.step()
        pending.append(loss.detach().clone())
        if len(pending) == EVERY:
            values = torch.stack(pending).tolist() if stacks else (value.item() for value in pending)
            for value in values:
                total += value
            pending.clear()
    torch.cuda.synchronize()
    return (time.perf_counter() - begun) / STEPS * 1e3


if __name__ == "__main__":
    main()
