"""What the line clock costs: inside its steps, and after them. Needs torch; uses the GPU where there is one.

    python tests/owners/price.py [-o OUT.json] [--loops small,transformer,python] [--processes 6] [--seconds 170]

A clock leaves what it leaves in the interpreter, so that each process is clocked once, and processes differ by more
than a clock could cost. So a process holds each loop twice, compiled from one text: as a file of the project, which the
clock watches, and as one of a library, which it does not. Both take turns, in blocks of steps, before the clock's two
steps and after them. The price is (project ÷ library after) ÷ (project ÷ library before), medians over the blocks; of
all processes the mean, with Student's 95 % interval. Every other process has no clock: what it says is the error of the
method. What a clock would leave behind in libraries, too, stays unseen here: that is counted, in instructions, by
`clocked_instructions.py`. Without a GPU a step is the processor's time of it.
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
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

import torch  # noqa: E402

from tests.owners.intervals import interval  # noqa: E402
from tracelens.capture.inside.line_clock import LineClock  # noqa: E402
from tracelens.capture.inside.user_frames import is_users_file  # noqa: E402

LOOPS = ("small", "transformer", "python")
WARM, BLOCK = 150, 10
"""Steps before anything counts, of each copy; steps of one copy in a row."""
TEXT = Path(__file__).with_name("price_loops.py")
FILES = {"project": str(TEXT), "library": str(Path(torch.__file__).with_name("price_loops.py"))}


def copies(name: str) -> dict[str, Any]:
    """The loop as a file of the project and as one of a library."""
    found = {}
    for kind, file in FILES.items():
        assert is_users_file(file) is (kind == "project"), file
        space: dict[str, Any] = {"__name__": f"price_{kind}", "__file__": file}
        exec(compile(TEXT.read_text(encoding="utf-8"), file, "exec"), space)
        torch.manual_seed(0)
        found[kind] = space[name]()
    return found


def block(loop: Any, steps: int = BLOCK) -> float:
    """µs per step of so many in a row."""
    now = time.perf_counter_ns if torch.cuda.is_available() else time.process_time_ns
    start = now()
    for _ in range(steps):
        loop.step()
    return (now() - start) / steps / 1e3


def turns(loops: dict[str, Any], seconds: float, rng: random.Random) -> list[tuple[float, float]]:
    """(project, library) µs per step, block by block."""
    until, found = time.monotonic() + seconds, []
    while time.monotonic() < until:
        order = rng.sample(sorted(loops), 2)
        took = {kind: block(loops[kind]) for kind in order}
        found.append((took["project"], took["library"]))
    return found


def one_process(name: str, clocked: bool, seconds: float, seed: int) -> dict[str, Any]:
    """The ratios of the two copies, before and after; of the clock's two steps, the time beside a plain one."""
    torch.set_num_threads(1)
    loops, rng = copies(name), random.Random(seed)
    for loop in loops.values():
        block(loop, WARM)
    before = turns(loops, seconds, rng)
    inside = _two_steps(loops["project"], clocked)
    for loop in loops.values():
        block(loop, 2 * BLOCK)
    after = turns(loops, seconds, rng)
    plain = statistics.median(project for project, _ in before)
    return {
        "clocked": clocked,
        "plain_us": plain,
        "inside": [step / plain for step in inside],
        "before": _ratio(before),
        "after": _ratio(after),
        "blocks": [len(before), len(after)],
    }


def _two_steps(loop: Any, clocked: bool) -> list[float]:
    if not clocked:
        return [block(loop, 1) for _ in range(2)]
    clock, took = LineClock(), []
    clock.prepare()  # a recording searches for the project's code before anything is timed
    for number in range(2):
        clock.begin_step(number)
        took.append(block(loop, 1))
    clock.stop()
    if clock.reason is not None:
        raise SystemExit(f"no clock: {clock.reason}")
    return took


def _ratio(pairs: Sequence[tuple[float, float]]) -> float:
    return statistics.median(project / library for project, library in pairs)


def measure(name: str, processes: int, seconds: float) -> dict[str, Any]:
    """All processes of one loop, in turns with and without a clock, and what they say."""
    share = max(seconds / (2 * processes) - 6, 2) / 2  # a start on a GPU takes some 6 s
    rows = [_forked(partial(one_process, name, seed % 2 == 0, share, seed)) for seed in range(2 * processes)]
    with_clock, without = ([row for row in rows if row["clocked"] is kind] for kind in (True, False))
    return {
        "plain_us": statistics.median(row["plain_us"] for row in rows),
        "inside": [statistics.median(row["inside"][step] for row in with_clock) for step in range(2)],
        "after": interval([row["after"] / row["before"] for row in with_clock]),
        "no_clock": interval([row["after"] / row["before"] for row in without]),
        "processes": rows,
    }


def _forked(job: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What this gives in a process of its own, forked from one that has imported torch and never used the GPU."""
    readable, writable = os.pipe()
    if os.fork() == 0:
        os.close(readable)
        os.write(writable, json.dumps(job()).encode())
        os._exit(0)
    os.close(writable)
    with open(readable, encoding="utf-8") as said:
        row: dict[str, Any] = json.loads(said.read())
    os.wait()
    return row


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--out", type=Path)
    parser.add_argument("--loops", default=",".join(LOOPS))
    parser.add_argument("--processes", type=int, default=6, help="with a clock, and as many without, per loop")
    parser.add_argument("--seconds", type=float, default=170.0, help="per loop")
    options = parser.parse_args()
    found: dict[str, Any] = {}
    for name in options.loops.split(","):
        found[name] = measure(name, options.processes, options.seconds)
        print(name, json.dumps({key: value for key, value in found[name].items() if key != "processes"}), flush=True)
        if options.out:
            document = {"python": sys.version.split()[0], "torch": torch.__version__, "loops": found}
            options.out.write_text(json.dumps(document) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
