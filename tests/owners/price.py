"""What the line clock costs: inside its steps, and after them. Needs torch; uses the GPU where there is one.

    python tests/owners/price.py [-o OUT.json] [--rounds 400]

Each round has plain steps, two more steps, and plain steps again, of one loop in one process. In half of the rounds,
drawn at random, the line clock runs in the two steps in the middle; the others show what a round changes by itself.
The price after the clock is the ratio of "after" to "before" (the fastest step of each: others of the machine only
make steps slower) with the clock, divided by that without, with a 95 % interval by resampling rounds.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import torch
from torch import nn

from tracelens.capture.inside.line_clock import LineClock

STEPS_PER_PART = 10
RESAMPLED = 2000
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


def measure(name: str, rounds: int) -> dict[str, Any]:
    """Medians in µs, and what the clock costs inside and after."""
    loop, rng = Loop(name), random.Random(0)
    for _ in range(50):
        loop.step()
    kinds = [True, False] * (rounds // 2)
    rng.shuffle(kinds)
    parts: dict[str, list[int]] = {"before": [], "first": [], "second": []}
    after: dict[bool, list[float]] = {True: [], False: []}
    for clocked in kinds:
        before = [loop.timed() for _ in range(STEPS_PER_PART)]
        middle = _two_steps(loop, clocked)
        loop.step()  # the step right behind is not compared: it warms what the clock left cold
        behind = [loop.timed() for _ in range(STEPS_PER_PART)]
        after[clocked].append(min(behind) / min(before))
        if clocked:
            parts["before"] += before
            for part, took in zip(("first", "second"), middle, strict=True):
                parts[part].append(took)
    median = {f"{part}_us": statistics.median(values) / 1000 for part, values in parts.items()}
    inside = {f"{part}_ratio": median[f"{part}_us"] / median["before_us"] for part in ("first", "second")}
    return {**median, **inside, "rounds": rounds, "after_ratio": _against(after[True], after[False], rng)}


def _two_steps(loop: Loop, clocked: bool) -> list[int]:
    if not clocked:
        return [loop.timed() for _ in range(2)]
    clock, took = LineClock(), []
    for number in range(2):
        clock.begin_step(number)
        took.append(loop.timed())
    clock.stop()
    if clock.reason is not None:
        raise SystemExit(f"no clock: {clock.reason}")
    return took


def _against(with_clock: list[float], without: list[float], rng: random.Random) -> dict[str, float]:
    """Ratio of the medians, with the 95 % interval of resampled rounds."""

    def ratio(left: list[float], right: list[float]) -> float:
        return statistics.median(left) / statistics.median(right)

    drawn = sorted(
        ratio(rng.choices(with_clock, k=len(with_clock)), rng.choices(without, k=len(without)))
        for _ in range(RESAMPLED)
    )
    low, high = drawn[int(0.025 * RESAMPLED)], drawn[int(0.975 * RESAMPLED)]
    return {"middle": ratio(with_clock, without), "low": low, "high": high}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--out", type=Path)
    parser.add_argument("--rounds", type=int, default=400)
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
