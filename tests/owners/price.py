"""What the line clock costs: inside its steps, and after them. Needs torch; uses the GPU where there is one.

    python tests/owners/price.py [-o OUT.json] [--rounds 30]

Each round has plain steps, clocked steps and plain steps again, of one loop in one process, so that only the clock
differs. Prints the ratio of medians; the machine should be quiet.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import torch
from torch import nn

from tracelens.capture.inside.line_clock import LineClock

STEPS_PER_PART = 2
LOOPS = ("small", "python")


def python_work(count: int) -> int:
    total = 0
    for number in range(count):
        total += number * number
    return total


class Loop:
    """A small MLP; `python` adds a hot loop to each step."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.model = nn.Sequential(*[nn.Linear(64, 64) for _ in range(6)]).to(self.device)
        self.optimizer = torch.optim.Adam(self.model.parameters())
        self.batch = torch.rand(16, 64, device=self.device)

    def step(self) -> None:
        loss = self.model(self.batch).pow(2).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        if self.name == "python":
            python_work(20_000)
        loss.item()

    def timed(self) -> int:
        start = time.perf_counter_ns()
        self.step()
        return time.perf_counter_ns() - start


def measure(name: str, rounds: int) -> dict[str, float]:
    """Median step before, inside and after, and their ratios."""
    loop = Loop(name)
    for _ in range(20):
        loop.step()
    before: list[int] = []
    inside: list[int] = []
    first: list[int] = []
    after: list[int] = []
    for _ in range(rounds):
        before += [loop.timed() for _ in range(STEPS_PER_PART)]
        clock = LineClock()
        for number in range(STEPS_PER_PART):
            clock.begin_step(number)
            (inside if number else first).append(loop.timed())
        clock.stop()
        if clock.reason is not None:
            raise SystemExit(f"no clock: {clock.reason}")
        loop.step()  # the step right behind is not compared: it warms what the clock left cold
        after += [loop.timed() for _ in range(STEPS_PER_PART)]
    middle = {
        key: statistics.median(values) / 1000
        for key, values in (("before_us", before), ("first_us", first), ("inside_us", inside), ("after_us", after))
    }
    ratios = {f"{key}_ratio": middle[f"{key}_us"] / middle["before_us"] for key in ("first", "inside", "after")}
    return {**middle, **ratios}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--out", type=Path)
    parser.add_argument("--rounds", type=int, default=30)
    options = parser.parse_args()
    torch.set_num_threads(1)
    found = {name: measure(name, options.rounds) for name in LOOPS}
    document = {"python": sys.version.split()[0], "torch": torch.__version__, "loops": found}
    print(json.dumps(document, indent=1))
    if options.out:
        options.out.write_text(json.dumps(document, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
