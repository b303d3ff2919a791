"""What stays in a process after a recording: each part of a step, in processes that recorded and ones that did not.

    python tests/bench/capture_after.py -o OUT [--processes 7] [--seconds 240]

In: nothing but torch, with or without a GPU. Out: one JSON document. Fresh processes of four kinds ("arms") are made
side by side, then work one at a time, block by block in turn, all on the same two cores, before and after the moment at
which some of them record. A process's change is its time after that moment over its time before, each against the
processes that never record, in the same turn. So what disturbs the machine, and what makes one process faster than
another for good (its cores, its place in memory), is in neither. The interval is one of ranks (Mann-Whitney).

Why step by step: "the loop is 13 % slower" names nobody. A step is cut into the batch, its copy, forward, backward and
update; beside them are launches alone, work of the CPU alone, what the garbage collector took and how many pages came.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import json
import math
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))

NEVER, DETACHED, ATTACHED, CPU_ONLY = ARMS = ("never", "detached", "attached", "cpu_only")
"""Never records; records as `tracelens profile` does; the same, but CUPTI stays; the same without CUDA's events."""
SHARES = {NEVER: 1.0, DETACHED: 1.2, ATTACHED: 0.6, CPU_ONLY: 0.6}
"""How many processes of each, in parts of `--processes`."""
WARM_STEPS = 12
"""Before each block: the others' work has taken the caches, and the cores' clocks have fallen."""
BLOCK_SECONDS = 0.12
LAUNCHES = 500
PARTS = ("batch", "copy", "forward", "backward", "update")
QUANTITIES = ("step", *PARTS, "launch", "cpu", "collecting", "faults")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=240.0, help="for the blocks, before and after together")
    parser.add_argument(
        "--processes", type=int, default=7, help="that never record (2 at least); the other arms in proportion"
    )
    parser.add_argument("--arms", default=",".join(ARMS))
    parser.add_argument("--worker", choices=ARMS, help=argparse.SUPPRESS)
    words = parser.parse_args()
    if words.worker:
        work(words.worker)
        return
    arms = [arm for arm in words.arms.split(",") for _ in range(round(words.processes * SHARES[arm]))]
    words.out.parent.mkdir(parents=True, exist_ok=True)
    found = measure(arms, words.seconds, lambda now: words.out.write_text(json.dumps(now, indent=1) + "\n"))
    print(json.dumps({name: one for name, one in found.items() if name != "processes"}, indent=1))


# --------------------------------------------------------------------------------------------------- the measurement


def measure(arms: list[str], seconds: float, keep: Any) -> dict[str, Any]:
    """`keep` is called with what is known so far: a machine may be taken away."""
    workers = [_Worker(arm) for arm in arms]
    try:
        about, *_ = [worker.hear() for worker in workers]
        before = _in_turn(workers, seconds * 0.4)
        told = [worker.ask("record") for worker in workers]
        after: list[list[dict[str, float]]] = []
        end = time.perf_counter() + seconds * 0.6
        while time.perf_counter() < end or len(after) < 5:
            after += _in_turn(workers, seconds * 0.1)
            found = {"command": "python tests/bench/capture_after.py -o OUT", **about,
                     "blocks": [len(before), len(after)], **_judged(arms, before, after),
                     "told": [one for one in told if one]}  # fmt: skip
            keep(found)
    finally:
        ended = [worker.end() for worker in workers]
    found["ended"] = sorted(set(ended))
    keep(found)
    return found


Rows = list[list[dict[str, float]]]


def _in_turn(workers: list[_Worker], seconds: float) -> Rows:
    """One row per turn, with a block of each process; only one of them works at a time."""
    end, rows = time.perf_counter() + seconds, []
    while time.perf_counter() < end or len(rows) < 3:
        order = range(len(workers)) if len(rows) % 2 else range(len(workers) - 1, -1, -1)
        row = {at: workers[at].ask("block") for at in order}
        rows.append([row[at] for at in range(len(workers))])
    return rows


def _judged(arms: list[str], before: Rows, after: Rows) -> dict[str, Any]:
    found: dict[str, Any] = {"absolute_before": {}, "percent_against_never": {}, "processes": {}}
    for name in QUANTITIES:
        never = [row[at][name] for row in before for at, arm in enumerate(arms) if arm == NEVER]
        found["absolute_before"][name] = round(statistics.median(never), 2)
        if name in ("collecting", "faults"):
            found["processes"][name] = {
                arm: [[round(statistics.mean(row[at][name] for row in rows), 2) for rows in (before, after)]
                      for at, other in enumerate(arms) if other == arm] for arm in dict.fromkeys(arms)}  # fmt: skip
            continue
        changes = [
            math.log(_typical(after, at, name, arms) / _typical(before, at, name, arms)) for at in range(len(arms))
        ]
        of = {arm: [change for change, other in zip(changes, arms, strict=True) if other == arm] for arm in arms}
        found["processes"][name] = {arm: sorted(round(100 * math.expm1(one), 2) for one in of[arm]) for arm in of}
        found["percent_against_never"][name] = {arm: _shift(of[arm], of[NEVER]) for arm in of if arm != NEVER}
    return found


def _typical(rows: Rows, at: int, name: str, arms: list[str]) -> float:
    """A process's time against that of those that never record, block by block."""
    never = [number for number, arm in enumerate(arms) if arm == NEVER and number != at]
    return statistics.median(row[at][name] / statistics.median(row[one][name] for one in never) for row in rows)


def _shift(ones: list[float], others: list[float]) -> dict[str, float]:
    """How much more the first change, in percent, with the interval that holds it in 95 of 100 cases, by ranks."""
    gaps = sorted(one - other for one, other in itertools.product(ones, others))
    m, n = len(ones), len(others)
    first = max(0, math.floor(m * n / 2 - 1.96 * math.sqrt(m * n * (m + n + 1) / 12)))
    return {name: round(100 * math.expm1(value), 2) for name, value in
            (("percent", statistics.median(gaps)), ("low", gaps[first]), ("high", gaps[-1 - first]))}  # fmt: skip


class _Worker:
    """A process with a loop of its own, which works only when it is asked."""

    def __init__(self, arm: str) -> None:
        command = [sys.executable, __file__, "-o", os.devnull, "--worker", arm]
        environment = {**os.environ, "KINETO_LOG_LEVEL": "6"}
        self._process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def hear(self) -> Any:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())

    def ask(self, what: str) -> Any:
        assert self._process.stdin is not None
        self._process.stdin.write(what + "\n")
        self._process.stdin.flush()
        return self.hear()

    def end(self) -> int:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            return self._process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()


# ------------------------------------------------------------------------------------------------- inside a process


def work(arm: str) -> None:
    """The other end of a `_Worker`."""
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, set(cores[len(cores) // 2 : len(cores) // 2 + 3 : 2]))
    import torch

    from tests.bench.capture_price import _Loop
    from tracelens.launch.inside import hooks

    hooks.install()  # in all of them; without observers they only call what they wrap
    loop = _Loop(torch)
    loop.run(40)
    block = _Block(torch, loop, max(3, round(BLOCK_SECONDS / loop.run(30))))
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else f"CPU, {os.cpu_count()} cores"
    about = {"torch": torch.__version__, "cuda": torch.version.cuda, "device": device,
             "python": platform.python_version(), "steps": block.steps}  # fmt: skip
    print(json.dumps(about), flush=True)
    for line in sys.stdin:
        recording = line.strip() == "record"
        print(json.dumps(_record(torch, loop, arm) if recording else block.run()), flush=True)


class _Block:
    """One block: µs per step and part, per launch, per turn of the CPU's work; µs of collecting and pages per step."""

    def __init__(self, torch: Any, loop: Any, steps: int) -> None:
        self.steps = steps
        self._torch, self._loop = torch, loop
        self._value = torch.zeros(8, device=loop.device)
        self._square = torch.randn(48, 48)
        self._collecting, self._began = 0.0, 0.0
        gc.callbacks.append(self._collects)

    def run(self) -> dict[str, float]:
        for _ in range(WARM_STEPS):
            self._loop.step()
        self._loop.finish()
        self._collecting, faults = 0.0, resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        spent = [0.0] * len(PARTS)
        begin = time.perf_counter()
        for _ in range(self.steps):
            self._step(spent)
        self._loop.finish()
        step = (time.perf_counter() - begin) / self.steps
        faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - faults
        found = {"step": step, **{name: one / self.steps for name, one in zip(PARTS, spent, strict=True)},
                 "collecting": self._collecting / self.steps, "launch": self._launches(),
                 "cpu": self._cpu()}  # fmt: skip
        return {**{name: 1e6 * one for name, one in found.items()}, "faults": faults / self.steps}

    def _step(self, spent: list[float]) -> None:
        loop, clock = self._loop, time.perf_counter
        times = [clock()]
        (batch,) = next(loop._batches)
        times.append(clock())
        batch = batch.to(loop.device)
        times.append(clock())
        loss = loop.model(batch).pow(2).mean()
        times.append(clock())
        loop.optimizer.zero_grad()
        loss.backward()
        times.append(clock())
        loop.optimizer.step()
        times.append(clock())
        for at in range(len(PARTS)):
            spent[at] += times[at + 1] - times[at]

    def _launches(self) -> float:
        begin = time.perf_counter()
        for _ in range(LAUNCHES):
            self._value.add_(1)
        self._loop.finish()
        return (time.perf_counter() - begin) / LAUNCHES

    def _cpu(self) -> float:
        """Python and torch, without the GPU."""
        begin = time.perf_counter()
        for number in range(LAUNCHES):
            self._square.relu()
            dict(number=number, text=str(number))  # noqa: C408 -- work for the interpreter
        return (time.perf_counter() - begin) / LAUNCHES

    def _collects(self, phase: str, _info: object) -> None:
        if phase == "start":
            self._began = time.perf_counter()
        else:
            self._collecting += time.perf_counter() - self._began


def _record(torch: Any, loop: Any, arm: str) -> list[str]:
    """One recording, by the agent itself; returns its notes."""
    if arm == NEVER:
        loop.run(40)
        return []
    from tracelens.capture.inside import cupti_detach, profiler_session
    from tracelens.capture.inside.agent import RecordingAgent
    from tracelens.capture.window_plan import WindowPlan

    if arm == ATTACHED:
        cupti_detach.obstacle = lambda: "asked to"
    if arm == CPU_ONLY:
        profiler_session._activities = lambda: [torch.profiler.ProfilerActivity.CPU]
        cupti_detach.process_facts.device_in_use = lambda: None
    plan = replace(WindowPlan(), unprofiled_steps=10, unprofiled_seconds=0.0, unprofiled_most_steps=10, shrunk=True)
    with tempfile.TemporaryDirectory() as folder:
        engine = RecordingAgent({"run": folder, "cwd": os.getcwd(), "plan": plan.as_dict()})
        profiler_session.watch_foreign(engine.foreign_profiler)
        engine.observe()
        loop.run(40)
        entry = json.loads(next(Path(folder).glob("rank*/rank.json")).read_text())
        assert entry["complete"], entry["reason"]
        assert len(entry["clock"]["profiled_ns"]) == plan.clean, entry["clock"]
    return [f"{arm}: {note}" for note in entry["notes"]]


if __name__ == "__main__":
    main()
