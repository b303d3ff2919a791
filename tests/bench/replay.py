"""How fast the replay answers: what-ifs per second on 8 steps with 10,000 CUDA calls, and on a recorded trace.

    python tests/bench/replay.py [TRACE …]

A what-if is one set of Edits, compiled and replayed to its steady state; an estimate is a what-if with its range
(24 replays with constants and steps drawn anew).
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.support.builders import Machine
from tracelens.findings import stalls
from tracelens.model import Abstention, Edit, Timeline
from tracelens.replay import edits, estimate, trace_builder
from tracelens.replay.program import compile_program
from tracelens.replay.replay_trace import HostOp, RecordedStep, all_host_ops
from tracelens.replay.steady_state import step_time
from tracelens.trace import chrome, timeline

STEPS, CALLS_PER_STEP, READS_PER_STEP = 8, 1_250, 4
SECONDS = 3.0


def main() -> int:
    results = [measured("built: 8 steps, 10,000 calls", built())]
    for name in sys.argv[1:]:
        try:
            results.append(measured(Path(name).name, timeline.build(chrome.load(Path(name)))))
        except NotReplayable as reason:
            print(f"{Path(name).name}: {reason}", file=sys.stderr)
    print(json.dumps(results, indent=1))
    return 0 if results[0]["what_ifs_per_s"] >= 30 else 1


class NotReplayable(Exception):
    """The replay abstains on this recording: the reason."""


def built() -> Timeline:
    """Launches, four reads per step, a synchronize: about 10,000 calls in all."""
    machine = Machine()
    for number in range(STEPS):
        with machine.step(number):
            for index in range(CALLS_PER_STEP - 2 * READS_PER_STEP - 1):
                machine.launch("gemm", 5 + index % 7)
                machine.host(3)
                if index % (CALLS_PER_STEP // READS_PER_STEP) == CALLS_PER_STEP // READS_PER_STEP - 10:
                    machine.item()
            machine.synchronize()
    return timeline.build(machine.trace())


def measured(name: str, picture: Timeline) -> dict[str, object]:
    """Intervals differ from question to question, so that nothing is answered from memory."""
    grouped = stalls.group(picture)
    made = trace_builder.build(picture, grouped)
    if isinstance(made, Abstention):
        raise NotReplayable(made.missing)
    reads = tuple(stall.id for stall in grouped if stall.kind == "d2h")
    synchronizes = tuple(stall.id for stall in grouped if stall.kind in ("device", "stream"))

    def changes(interval: int) -> tuple[Edit, ...]:
        return (
            Edit("interval-sync", synchronizes, interval=interval),
            Edit("defer-read", reads, interval=interval),
        )

    what_ifs = _rate(
        lambda number: step_time(compile_program(edits.apply(made, changes(2 + number % 15)), float(number)))
    )
    estimates = _rate(lambda number: estimate.predict(made, changes(2 + number)))
    calls = sum(op.call >= 0 for step in made.steps for op in _items(step)) / len(made.steps)
    return {
        "case": name,
        "steps": len(made.steps),
        "calls_per_step": round(calls),
        "what_ifs_per_s": round(what_ifs, 1),
        "estimates_per_s": round(estimates, 2),
    }


def _items(step: RecordedStep) -> Iterator[HostOp]:

    return all_host_ops(step)


def _rate(question: Callable[[int], object]) -> float:
    began, asked = time.process_time(), 0
    while time.process_time() - began < SECONDS:
        question(asked)
        asked += 1
    return asked / (time.process_time() - began)


if __name__ == "__main__":
    sys.exit(main())
