"""Two clocks after one another, the second over many steps of which the last two are kept: `clocked_twice.py OUT.json`.

Needs no torch. Every third step calls `rare`, which no other step does.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))
from tracelens.capture.inside.line_clock import LineClock


def spin(milliseconds: int) -> int:
    until, rounds = time.perf_counter_ns() + 1_000_000 * milliseconds, 0
    while time.perf_counter_ns() < until:
        rounds += 1
    return rounds


def rare() -> None:
    spin(30)  # rare: inside


def step(number: int) -> None:
    spin(3)
    if number % 3 == 0:
        rare()  # rare: call


def main() -> None:
    first, second = LineClock(), LineClock()
    first.begin_step(1)
    step(1)
    first.stop()
    second.prepare()
    for number in range(2, 7):
        second.forget_all_but_last()
        second.begin_step(number)
        step(number)
    second.stop()
    documents = [clock.document(str) for clock in (first, second)]
    Path(sys.argv[1]).write_text(json.dumps({"logs": documents, "reasons": [first.reason, second.reason]}))


main()
