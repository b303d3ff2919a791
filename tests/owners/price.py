"""What the line clock costs: inside its steps, and after them. Needs torch; uses the GPU where there is one.

    python tests/owners/price.py [-o OUT.json] [--pairs 60] [--at-once 1] [--seconds 200]

Each process trains one loop: steps before, two steps that are clocked or not, steps behind. What a clock leaves behind
in an interpreter stays there, so that a process is clocked once at most. The price is "behind" to "before" of the
processes with a clock, divided by that of those without, with a 95 % interval by resampling processes; of each part it
is the mean of the fastest quarter of its steps, because others of the machine only make steps slower; without a GPU a
step is the processor's time of it. Processes are forked from one that has imported torch and never used the GPU;
`--at-once` of them run side by side: on one GPU they disturb each other by 10 %.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import torch
from torch import nn

from tracelens.capture.inside.line_clock import LineClock

WARM, PART, BETWEEN = 100, 400, 20
RESAMPLED = 4000
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
        now = time.perf_counter_ns if self.device == "cuda" else time.process_time_ns
        start = now()
        self.step()
        return now() - start


def one_process(name: str, clocked: bool) -> dict[str, float]:
    """µs per step of one process: before, in the two steps, behind."""
    torch.set_num_threads(1)
    loop = Loop(name)
    for _ in range(WARM):
        loop.step()
    before = [loop.timed() for _ in range(PART)]
    first, second = _two_steps(loop, clocked)
    for _ in range(BETWEEN):
        loop.step()
    behind = [loop.timed() for _ in range(PART)]
    return {"before": _quick(before), "first": first / 1e3, "second": second / 1e3, "behind": _quick(behind)}


def _quick(steps: Sequence[int]) -> float:
    return statistics.fmean(sorted(steps)[: len(steps) // 4]) / 1e3


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


def measure(name: str, pairs: int, at_once: int, until: float) -> dict[str, Any]:
    """Medians in µs, and what the clock costs inside and after."""
    rng, found = random.Random(0), {True: [], False: []}  # type: ignore[var-annotated]
    for _ in range(-(-pairs // at_once)):
        if time.monotonic() > until:
            break
        kinds = [True, False] * at_once
        rng.shuffle(kinds)
        for kind in (kinds[:at_once], kinds[at_once:]):
            for clocked, row in zip(kind, _forked([_job(name, one) for one in kind]), strict=True):
                found[clocked].append(row)
    with_clock, without = found[True], found[False]
    inside = {
        f"{part}_ratio": statistics.median(row[part] / row["before"] for row in with_clock)
        / statistics.median(row[part] / row["before"] for row in without)
        for part in ("first", "second")
    }
    after = [[row["behind"] / row["before"] for row in rows] for rows in (with_clock, without)]
    before = statistics.median(row["before"] for row in (*with_clock, *without))
    return {
        "before_us": before,
        **inside,
        "processes": len(with_clock),
        "after_ratio": against(after[0], after[1], rng),
        "after": after,
    }


def _job(name: str, clocked: bool) -> Callable[[], dict[str, float]]:
    return lambda: one_process(name, clocked)


def _forked(jobs: Sequence[Callable[[], dict[str, float]]]) -> list[dict[str, float]]:
    """What these give in processes of their own, side by side."""
    readers = []
    for job in jobs:
        readable, writable = os.pipe()
        if os.fork() == 0:
            os.close(readable)
            os.write(writable, json.dumps(job()).encode())
            os._exit(0)
        os.close(writable)
        readers.append(readable)
    rows = []
    for readable in readers:
        with open(readable, encoding="utf-8") as said:
            rows.append(json.loads(said.read()))
        os.wait()
    return rows


def against(with_clock: list[float], without: list[float], rng: random.Random) -> dict[str, float]:
    """Ratio of the medians, with the 95 % interval of resampled processes."""

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
    parser.add_argument("--pairs", type=int, default=60, help="processes with a clock, and as many without, per loop")
    parser.add_argument("--at-once", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=600.0, help="per loop at most")
    options = parser.parse_args()
    found = {name: measure(name, options.pairs, options.at_once, time.monotonic() + options.seconds) for name in LOOPS}
    document = {"python": sys.version.split()[0], "torch": torch.__version__, "loops": found}
    print(json.dumps({**document, "loops": {name: {**row, "after": "…"} for name, row in found.items()}}, indent=1))
    if options.out:
        options.out.write_text(json.dumps(document) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
