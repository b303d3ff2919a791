"""What the line clock costs: inside its steps, and after them. Needs torch; uses the GPU where there is one.

    python tests/owners/price.py [-o OUT.json] [--loops small,transformer,python] [--budget 170] [--first 0]

A clock leaves what it leaves in the interpreter, so that each process is clocked once, and processes differ by more
than a clock could cost. So a process holds each loop twice, compiled from one text: as a file of the project, which the
clock watches, and as one of a library, which it does not. Both take turns, in blocks of steps, before the clock's two
steps and after them. The price is (project ÷ library after) ÷ (project ÷ library before), medians over the blocks; of
all processes the mean, with Student's 95 % interval. Every fourth process has no clock: what it says is the error of
the method. What a clock would leave behind in libraries, too, stays unseen here: that is counted, in instructions, by
`clocked_instructions.py`. On several GPUs one of these per GPU, each with its own cores and another `--first`. Without
a GPU a step is the processor's time of it.
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

SECONDS = {"small": 4.0, "transformer": 7.0, "python": 5.0}
"""Before the clock's steps, and again after them: the slower the loop, the fewer blocks, and the more these scatter."""
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


def measure(number: int, name: str) -> dict[str, Any]:
    """One process. Every fourth has no clock."""
    return _forked(partial(one_process, name, number % 4 != 3, SECONDS[name], number))


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
    parser.add_argument("--loops", default=",".join(SECONDS))
    parser.add_argument("--budget", type=float, default=170.0, help="seconds after which no process is begun")
    parser.add_argument("--first", type=int, default=0, help="number of the first process, so that GPUs differ")
    options = parser.parse_args()
    until, number = time.monotonic() + options.budget, options.first
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in options.loops.split(",")}
    while time.monotonic() < until:
        for name, rows in found.items():
            rows.append(measure(number, name))
        number += 1
        if options.out:
            document = {"python": sys.version.split()[0], "torch": torch.__version__, "loops": found}
            options.out.write_text(json.dumps(document) + "\n")
    for name, rows in found.items():
        for clocked in (True, False):
            ratios = [row["after"] / row["before"] for row in rows if row["clocked"] is clocked]
            print(name, "clocked" if clocked else "no clock", len(ratios), len(ratios) > 1 and interval(ratios))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
