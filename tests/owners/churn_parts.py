"""Where a step goes that gives its memory back, on the host, without a profiler: the `churn` loop of `gpu_untuned`.

    python tests/owners/churn_parts.py -o OUT.json [--steps 200] [--rounds 3]

Four loops by turns in one process: `plain` empties the allocator's cache at the end of each step, `mended` does not,
`sync` only waits for the GPU, `both` waits first and empties it then. Out: the median of each part of a step, µs.
Without a GPU the loop is small and empties nothing: it can be tried there, not measured.
"""

from __future__ import annotations

import itertools
import statistics
import sys
import time
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.owners import by_turns

PARTS = ("randn", "down", "gelu", "up", "loss", "zero_grad", "backward", "optimizer", "sync", "empty_cache")
KINDS = ("plain", "mended", "sync", "both")
WARM_UP = 20
ON_GPU = torch.cuda.is_available()
DEVICE = torch.device("cuda" if ON_GPU else "cpu")


class Loop:
    """The model, and one step of it whose parts are stamped."""

    def __init__(self, kind: str) -> None:
        torch.manual_seed(0)
        self.kind = kind
        self.down, self.up = nn.Linear(2048, 256).to(DEVICE), nn.Linear(256, 2048).to(DEVICE)
        self.optimizer = torch.optim.Adam([*self.down.parameters(), *self.up.parameters()], lr=1e-4)

    def step(self, number: int) -> list[int]:
        """When each part ended, ns; the first is when the step began."""
        stamps = [time.perf_counter_ns()]

        def done() -> None:
            stamps.append(time.perf_counter_ns())

        rows = torch.randn(2048 + 64 * (number % 5) if ON_GPU else 64, 2048, device=DEVICE)
        done()
        narrow = self.down(rows)
        done()
        bent = functional.gelu(narrow)
        done()
        wide = self.up(bent)
        done()
        loss = functional.mse_loss(wide, rows)
        done()
        del narrow, bent, wide  # the graph holds what backward needs, as in the loop itself
        self.optimizer.zero_grad()
        done()
        loss.backward()
        done()
        self.optimizer.step()
        done()
        if ON_GPU and self.kind in ("sync", "both"):
            torch.cuda.synchronize()
        done()
        if ON_GPU and self.kind in ("plain", "both"):
            torch.cuda.empty_cache()
        done()
        return stamps


def measure(kind: str, steps: int) -> dict[str, float]:
    """Medians of the parts and of the whole step, µs."""
    loop = Loop(kind)
    each = [loop.step(number) for number in range(WARM_UP + steps)][WARM_UP:]
    parts = zip(*[[end - start for start, end in itertools.pairwise(stamps)] for stamps in each], strict=True)
    medians = {part: statistics.median(took) / 1000 for part, took in zip(PARTS, parts, strict=True)}
    return medians | {"step": statistics.median(stamps[-1] - stamps[0] for stamps in each) / 1000}


if __name__ == "__main__":
    raise SystemExit(by_turns.main(__doc__, KINDS, measure))
