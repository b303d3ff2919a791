"""What recording a row costs the host, by kind of call: the same call again and again, with torch.profiler and without.

    python tests/owners/row_cost.py OUT.json        on a machine with a CUDA GPU, half a minute

Every 40 calls the GPU is waited for, so that its queue limits nothing. `row_ns` is the difference per recorded row of
the host (operations and calls of the driver). See `LOOP_ROW_NS` in tracelens/replay/line_gains.py.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile

ROUNDS, CALLS, QUEUED = 5, 400, 40
ACTIVITIES = (ProfilerActivity.CPU, ProfilerActivity.CUDA)


def calls() -> Mapping[str, Callable[[], object]]:
    device = "cuda"
    square, image = torch.rand(64, 64, device=device), torch.rand(3, 144, 144, device=device)
    weight, linear = torch.rand(64, 64, device=device, requires_grad=True), nn.Linear(64, 64).to(device)
    pinned, event = torch.rand(64, 64).pin_memory(), torch.cuda.Event()
    parameters = [torch.rand(64, 64, device=device, requires_grad=True) for _ in range(20)]
    for one in parameters:
        one.grad = torch.rand_like(one)
    one_by_one = torch.optim.AdamW(parameters, foreach=False)
    at_once = torch.optim.AdamW(parameters, foreach=True)
    return {
        "view": lambda: square.view(-1),
        "slice": lambda: image[:, 3:131, 5:133],
        "select": lambda: square[3],
        "unbind": lambda: square.unbind(0),
        "empty": lambda: torch.empty(64, 64, device=device),
        "randperm on the CPU": lambda: torch.randperm(64),
        "add_": lambda: square.add_(1.0),
        "flip": lambda: torch.flip(image, [2]),
        "linear": lambda: linear(square),
        "forward and backward": lambda: (weight * 2.0).sum().backward(),
        "copy to the GPU": lambda: square.copy_(pinned, non_blocking=True),
        "item": lambda: square.sum().item(),
        "event": event.record,
        "AdamW, tensor by tensor": one_by_one.step,
        "AdamW, at once": at_once.step,
    }


def per_call_ns(call: Callable[[], object], count: int) -> float:
    torch.cuda.synchronize()
    start = time.perf_counter_ns()
    for number in range(count):
        call()
        if number % QUEUED == QUEUED - 1:
            torch.cuda.synchronize()
    return (time.perf_counter_ns() - start) / count


def measured(call: Callable[[], object], count: int) -> dict[str, Any]:
    plain, recorded, rows = [], [], 0.0
    for _ in range(ROUNDS):
        plain.append(per_call_ns(call, count))
        with profile(activities=ACTIVITIES) as profiler:
            recorded.append(per_call_ns(call, count))
        events = profiler.profiler.kineto_results.events()
        rows = sum("CPU" in str(one.device_type()) for one in events) / count
    longer = statistics.median(recorded) - statistics.median(plain)
    return {"plain_ns": plain, "recorded_ns": recorded, "rows": rows, "row_ns": longer / rows}


def main() -> int:
    found: dict[str, Any] = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "calls": {}}
    for name, call in calls().items():
        count = CALLS // (20 if "AdamW" in name else 4 if name in ("unbind", "forward and backward") else 1)
        for _ in range(QUEUED):
            call()
        found["calls"][name] = measured(call, count)
        print(f"{name:26} {found['calls'][name]['rows']:7.1f} rows, {found['calls'][name]['row_ns']:6.0f} ns each")
    Path(sys.argv[1]).write_text(json.dumps(found, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
