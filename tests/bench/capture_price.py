"""What recording costs: outside the window, inside it, and at the start of a process; after it: `capture_after`.

In: nothing but torch, with or without a GPU. Out: one JSON document, and a table on stderr. Run it again with

    python tests/bench/capture_price.py -o docs/data/capture/price_cpu.json       (or price_h200.json)

How: all comparisons are interleaved, A B B A …, so that a busy host hits both sides alike: step by step outside the
window, blocks of a few steps of one session inside it. Ratios are of neighbors;
each is given as their median with the interval that holds it in 95 of 100 cases, by ranks alone. The hook's own
microseconds come from a loop in which everything that the hooks wrap does nothing.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))

BLOCK_SECONDS = 0.03
GROUP = 16
"""Neighboring pairs whose median is one value: what disturbs the host lasts longer than a step."""
ENDLESS = {"settle": 1, "unprofiled_steps": 10**9, "unprofiled_most_steps": 10**9, "unprofiled_most_seconds": 1e9,
           "shrunk": True, "time_window_seconds": 0}  # fmt: skip
"""A plan that stays in W0: what a script pays before and instead of a window."""
BATCHES = 127
"""Of an epoch: odd, so that its first step, which starts a loader, falls to both sides alike."""
IN_PLACE_STEPS = 64
"""The hooks look closely once in so many steps: the mean over them holds all that they do."""
INSIDE_STEPS = 4
SESSION_PAIRS = 16


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=60.0, help="for everything together, roughly")
    parser.add_argument("--skip", default="", help="parts, separated by commas; an older file's are kept")
    parser.add_argument("--part", choices=tuple(PARTS), help=argparse.SUPPRESS)
    words = parser.parse_args()
    if words.part:
        print(json.dumps(PARTS[words.part](words.seconds)))
        return
    words.out.parent.mkdir(parents=True, exist_ok=True)
    older = json.loads(words.out.read_text(encoding="utf-8")) if words.skip and words.out.exists() else {}
    command = "python tests/bench/capture_price.py -o OUT"
    document: dict[str, Any] = {**older, "command": command, "seconds": words.seconds}
    for name, part in (
        ("start", lambda: _start(words.seconds * 0.07)),
        ("micro", lambda: _child("micro", words.seconds * 0.04)),
        ("in_place", lambda: _child("in_place", words.seconds * 0.09)),
        ("loop", lambda: _child("loop", words.seconds * 0.6)),
    ):
        if name in words.skip.split(","):
            continue
        document[name] = part()
        words.out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
        print(f"{name}: {json.dumps(document[name])}", file=sys.stderr)


def _child(part: str, seconds: float) -> Any:
    command = [sys.executable, __file__, "-o", os.devnull, "--part", part, "--seconds", str(seconds)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        return {"failed": done.returncode}
    return json.loads(done.stdout.splitlines()[-1])


# ------------------------------------------------------------------------------------------------- start of a process


def _start(seconds: float) -> dict[str, Any]:
    """`python -c pass` with and without the bootstrap folder on PYTHONPATH."""
    from tracelens.launch import supervisor

    launch = supervisor.Launch((sys.executable,), "none", {})
    with tempfile.TemporaryDirectory() as folder, supervisor.bootstrap(launch, Path(folder) / "boot") as boot:
        plain = {**os.environ, "PYTHONPATH": ""}
        sides = {"plain": plain, "ours": {**plain, "PYTHONPATH": str(boot)}}

        def once(side: str) -> float:
            begin = time.perf_counter()
            subprocess.run([sys.executable, "-c", "pass"], env=sides[side], check=True)
            return time.perf_counter() - begin

        pairs = _interleaved(lambda: once("ours"), lambda: once("plain"), seconds)
    return {"what": "ms per `python -c pass`", **_difference(pairs, 1e3)}


# -------------------------------------------------------------------------------------------------------- micro cost


def _micro(seconds: float) -> dict[str, Any]:
    """Microseconds per iteration of one optimizer step, one backward and one batch whose own work is nothing."""
    import torch
    from torch.utils.data import dataloader

    from tracelens.launch.inside import wrappers

    device = _device(torch)
    torch.zeros(1, device=device)
    base = dataloader._BaseDataLoaderIter
    torch.autograd.backward = lambda *_, **__: None
    base.__next__ = lambda _self: None
    empty_backward, empty_next, batch = torch.autograd.backward, base.__next__, _batch_iterator(torch)
    engine = _engine()
    step = wrappers.observed_step(lambda _optimizer: None, 0)
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)
    nothing = lambda _optimizer: None  # noqa: E731 -- the same call without us
    turns = 2000

    def hooked() -> float:
        begin = time.perf_counter()
        for _ in range(turns):
            base.__next__(batch)
            torch.autograd.backward(None)
            step(optimizer)
        return (time.perf_counter() - begin) / turns

    def empty() -> float:
        begin = time.perf_counter()
        for _ in range(turns):
            empty_next(batch)
            empty_backward(None)
            nothing(optimizer)
        return (time.perf_counter() - begin) / turns

    hooked()
    outside = _difference(_interleaved(hooked, empty, seconds / 2), 1e6)
    assert engine._windows.phase.name == "UNPROFILED", engine._windows.phase
    engine.end("measured")
    after = _difference(_interleaved(hooked, empty, seconds / 2), 1e6)
    return {"what": "µs per iteration", "outside_window": outside, "after_window": after}


# ------------------------------------------------------------------------------------------ in the place where they run


def _in_place(seconds: float) -> dict[str, Any]:
    """Microseconds per step in our hooks while a loop runs: time around them less time within, with and without them.

    Between two steps their code and data leave the caches, which a loop of nothing but hooks does not show.
    """
    import torch
    from torch.utils.data import dataloader

    spent, clock, base = [0], time.perf_counter_ns, dataloader._BaseDataLoaderIter

    def stamped(function: Callable[..., Any], sign: int) -> Callable[..., Any]:
        def stamp(*args: Any, **kwargs: Any) -> Any:
            spent[0] += sign * clock()
            try:
                return function(*args, **kwargs)
            finally:
                spent[0] -= sign * clock()

        return stamp

    wrap = torch.optim.Optimizer.profile_hook_step
    torch.optim.Optimizer.profile_hook_step = staticmethod(lambda function: stamped(wrap(function), 1))
    torch.autograd.backward, base.__next__ = stamped(torch.autograd.backward, 1), stamped(base.__next__, 1)
    engine = _engine()
    loop = _Loop(torch)
    loop.run(30)
    hooked = (torch.autograd.backward, base.__next__, type(loop.optimizer).step)
    sides = [tuple(stamped(one, -1) for one in hooked), tuple(stamped(one.__wrapped__, -1) for one in hooked)]

    def block(side: int) -> float:
        torch.autograd.backward, base.__next__, type(loop.optimizer).step = sides[side]
        for _ in range(4):
            loop.step()
        spent[0] = 0
        for _ in range(IN_PLACE_STEPS):
            loop.step()
        loop.finish()
        return spent[0] / IN_PLACE_STEPS / 1e9

    found = _difference(_interleaved(lambda: block(0), lambda: block(1), seconds), 1e6)
    assert engine._windows.phase.name == "UNPROFILED", engine._windows.phase
    return {"what": "µs per step", **found}


# ---------------------------------------------------------------------------------------------- on a launch-bound loop


def _loop_parts(seconds: float) -> dict[str, Any]:
    import torch

    engine = _engine()  # before the optimizer is made, as it is in a launch: afterwards torch's own hooks are used
    loop = _Loop(torch)
    loop.run(30)
    found: dict[str, Any] = {"torch": torch.__version__, "cuda": torch.version.cuda, **_host(torch)}
    toggle = _Toggle(torch, loop)
    gc.collect()
    gc.freeze()  # what has been imported is not walked through within a step of either side
    pairs = _interleaved(
        lambda: toggle.hooked(loop.timed), lambda: toggle.bare(loop.timed), seconds * 0.5, discard=GROUP
    )
    found["step_us"] = round(1e6 * statistics.median(bare for _, bare in pairs), 1)
    found["outside_window"] = _ratio(pairs)
    assert engine._windows.phase.name == "UNPROFILED", engine._windows.phase
    engine.end("measured")
    toggle.bare(lambda: found.update(inside=_inside(torch, loop, seconds * 0.4)))
    return found


class _Loop:
    """Many small layers, a DataLoader in the process, AdamW: the host is the limit, on a GPU too."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self.device = _device(torch)
        torch.set_num_threads(1)  # layers this small gain nothing from more, and idle OpenMP threads spin
        torch.manual_seed(0)
        layers = [layer for _ in range(16) for layer in (torch.nn.Linear(256, 256), torch.nn.ReLU())]
        self.model = torch.nn.Sequential(*layers, torch.nn.Linear(256, 1)).to(self.device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4)
        self._batches = self._endless()

    def _endless(self) -> Iterator[Any]:
        data = self._torch.utils.data
        rows = data.TensorDataset(self._torch.randn(32 * BATCHES, 256))
        while True:
            yield from data.DataLoader(rows, batch_size=32)

    def step(self) -> None:
        (batch,) = next(self._batches)
        loss = self.model(batch.to(self.device)).pow(2).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()

    def timed(self) -> float:
        """Host seconds of one step. The GPU is done with it long before the next one has been launched."""
        begin = time.perf_counter()
        self.step()
        return time.perf_counter() - begin

    def run(self, steps: int, before: Callable[[], Any] = lambda: None) -> float:
        """Seconds per step, with whatever the GPU still has to do."""
        self.finish()
        begin = time.perf_counter()
        for _ in range(steps):
            before()
            self.step()
        self.finish()
        return (time.perf_counter() - begin) / steps

    def finish(self) -> None:
        if self.device != "cpu":
            self._torch.cuda.synchronize()


class _Toggle:
    """Takes the hooks away for a while and puts them back, without the loop noticing."""

    def __init__(self, torch: Any, loop: _Loop) -> None:
        from torch.utils.data import dataloader

        places = (
            (torch.autograd, "backward"),
            (dataloader._BaseDataLoaderIter, "__next__"),
            (type(loop.optimizer), "step"),
        )
        self._hooked = [(owner, name, getattr(owner, name)) for owner, name in places]
        for _, name, function in self._hooked:  # what torch has wrapped itself stays as it is
            assert function.__code__.co_filename.endswith("wrappers.py"), name
        self._bare = [(owner, name, function.__wrapped__) for owner, name, function in self._hooked]

    def hooked(self, work: Callable[[], Any]) -> Any:
        return work()

    def bare(self, work: Callable[[], Any]) -> Any:
        for owner, name, function in self._bare:
            setattr(owner, name, function)
        try:
            return work()
        finally:
            for owner, name, function in self._hooked:
                setattr(owner, name, function)


def _inside(torch: Any, loop: _Loop, seconds: float) -> dict[str, Any]:
    """Recorded steps with sampler, event log and step marks against the same profiler's steps without them: blocks in
    turn within each session, because two sessions differ more from one another than by what we add."""
    import threading

    from tracelens.capture.inside.cuda_event_log import CudaEventLog
    from tracelens.capture.inside.profiler_session import ProfilerSession
    from tracelens.capture.inside.stack_sampler import StackSampler

    pairs: Pairs = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or not pairs:
        recorder = ProfilerSession()
        recorder.prepare()
        loop.run(2)
        recorder.start()
        loop.run(2)

        def ours(recorder: ProfilerSession = recorder) -> float:
            log, sampler, number = CudaEventLog(), StackSampler(threading.get_ident()), itertools.count()
            log.install()
            sampler.start()
            try:
                return loop.run(INSIDE_STEPS, lambda: recorder.mark_step(next(number)))
            finally:
                recorder.end_step()
                sampler.stop()
                log.remove()

        ours()
        for turn in range(SESSION_PAIRS):
            order = (0, 1) if turn % 2 else (1, 0)
            taken = {side: (ours() if side == 0 else loop.run(INSIDE_STEPS)) for side in order}
            pairs.append((taken[0], taken[1]))
        recorder.stop()
    unprofiled = loop.run(50)
    return {
        "ours_against_bare_profiler": _ratio(pairs, group=1),
        "bare_profiler_us": round(1e6 * statistics.median(bare for _, bare in pairs), 1),
        "unprofiled_us": round(1e6 * unprofiled, 1),
    }


# --------------------------------------------------------------------------------------------------------- statistics

Pairs = list[tuple[float, float]]


def _interleaved(first: Callable[[], float], second: Callable[[], float], seconds: float, discard: int = 1) -> Pairs:
    """Pairs of neighbouring measurements, in the order A B B A."""
    end, pairs, turn = time.perf_counter() + seconds, [], 0
    while time.perf_counter() < end or len(pairs) < discard + 5:
        if turn % 2:
            b = second()
            a = first()
        else:
            a = first()
            b = second()
        pairs.append((a, b))
        turn += 1
    return pairs[discard:]


def _ratio(pairs: Pairs, group: int = GROUP) -> dict[str, Any]:
    """How much more the first takes, in percent."""
    ratios = [100 * (a / b - 1) for a, b in pairs]
    group = max(1, min(group, len(ratios) // 20))
    groups = [statistics.median(ratios[at : at + group]) for at in range(0, len(ratios) - group + 1, group)]
    return _percent(groups, len(pairs))


def _percent(values: list[float], pairs: int) -> dict[str, Any]:
    low, high = _interval(values)
    return {"percent": round(statistics.median(values), 3), "low": round(low, 3), "high": round(high, 3),
            "pairs": pairs}  # fmt: skip


def _difference(pairs: Pairs, scale: float) -> dict[str, Any]:
    values = [scale * (a - b) for a, b in pairs]
    low, high = _interval(values)
    return {"median": round(statistics.median(values), 3), "low": round(low, 3), "high": round(high, 3),
            "pairs": len(pairs)}  # fmt: skip


def _interval(values: list[float]) -> tuple[float, float]:
    """Two of the values, between which the median lies in 95 of 100 cases: sign test, normal approximation."""
    ordered, reach = sorted(values), 0.98 * math.sqrt(len(values))
    first = max(0, math.floor(len(ordered) / 2 - reach))
    return ordered[first], ordered[len(ordered) - 1 - first]


# ------------------------------------------------------------------------------------------------------------- helpers


def _engine() -> Any:
    """An armed agent that stays in W0 (or in front of it)."""
    from tracelens.capture.inside.agent import RecordingAgent
    from tracelens.launch.inside import hooks

    hooks.install()
    engine = RecordingAgent({"run": tempfile.mkdtemp(), "cwd": os.getcwd(), "plan": ENDLESS})
    engine.observe()
    return engine


def _batch_iterator(torch: Any) -> Any:
    return iter(torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.zeros(4))))


def _device(torch: Any) -> str:
    return "cuda" if torch.cuda.is_available() else "cpu"


def _host(torch: Any) -> dict[str, Any]:
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else f"CPU, {os.cpu_count()} cores"
    return {"device": device, "python": platform.python_version()}


PARTS: dict[str, Callable[[float], Any]] = {
    "micro": _micro, "in_place": _in_place, "loop": _loop_parts
}  # fmt: skip

if __name__ == "__main__":
    main()
