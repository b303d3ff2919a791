"""Statements of known kind, each between two stamps, run under the line clock; needs no torch.

    python planted_lines.py OUT.json [foreign-tool | takes-over]

Writes the clock's document, the times of the stamps and what the interpreter's tracing looked like before and after.
With `foreign-tool` somebody else's tool is there first; with `takes-over` the script sets a trace function of its own
while the clock runs.
"""

from __future__ import annotations

import contextlib
import copy
import ctypes
import functools
import gc
import json
import logging
import os
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))
from tracelens.capture.inside.line_clock import LineClock

now = time.perf_counter_ns
times: list[int] = []
holding, letting_go = ctypes.PyDLL(None).usleep, ctypes.CDLL(None).usleep
log = logging.getLogger("planted")
log.addHandler(logging.NullHandler())
rows = [list(range(40)) for _ in range(800)]
devnull = open(os.devnull, "w")  # noqa: SIM115 -- open for the whole process


def square(value: int) -> int:
    return value * value + 1


def hot(count: int) -> int:
    total = 0
    for number in range(count):
        total += number * number
        total ^= number
    return total


def nested(outer: int, inner: int) -> int:
    total = 0
    for _ in range(outer):
        for number in range(inner):
            total += square(number)
    return total


def deep(left: int) -> int:
    return 0 if not left else 1 + deep(left - 1)


def batches(count: int):
    for number in range(count):
        time.sleep(0.0004)
        yield number


def endless():
    while True:
        time.sleep(0.0015)
        yield


under_way = endless()
"""Begins before the clock does."""


def rough(function):
    @functools.wraps(function)
    def around(*arguments):
        time.sleep(0.0003)
        return function(*arguments)

    return around


@rough
def decorated() -> None:
    time.sleep(0.0006)


@contextlib.contextmanager
def managed():
    time.sleep(0.0004)
    yield
    time.sleep(0.0002)


def fails() -> None:
    time.sleep(0.0003)
    raise ValueError


def beside(stop: threading.Event) -> None:
    while not stop.is_set():
        time.sleep(0.001)


def step() -> None:
    times.append(now())
    time.sleep(0.003)  # tag: sleep
    times.append(now())
    holding(3000)  # tag: holds the lock
    times.append(now())
    letting_go(3000)  # tag: lets the lock go
    times.append(now())
    hot(25_000)  # tag: hot loop
    times.append(now())
    [square(number) for number in range(8_000)]  # tag: comprehension
    times.append(now())
    nested(80, 60)  # tag: nested loops
    times.append(now())
    gc.collect()  # tag: gc.collect
    times.append(now())
    json.dumps(rows)  # tag: json.dumps
    times.append(now())
    copy.deepcopy(rows[:40])  # tag: deepcopy
    times.append(now())
    list(batches(4))  # tag: generator
    times.append(now())
    next(under_way)  # tag: generator under way
    times.append(now())
    sorted(rows * 3, key=lambda row: row[0])  # tag: key function
    times.append(now())
    decorated()  # tag: decorated
    times.append(now())
    with managed():  # tag: context manager
        time.sleep(0.0006)
    times.append(now())
    with contextlib.suppress(ValueError):  # tag: exception
        fails()
    times.append(now())
    print("loss", 0.5, file=devnull, flush=True)  # tag: print
    times.append(now())
    log.info("loss %f", 0.5)  # tag: logging
    times.append(now())
    deep(200)  # tag: recursion
    times.append(now())
    time.sleep(max(0.001,  # tag: several lines
        time.sleep(0.002) or 0))  # fmt: skip
    times.append(now())


def tracing() -> list[object]:
    """What other tools can see of us."""
    tools = [sys.monitoring.get_tool(tool) for tool in range(6)] if sys.version_info >= (3, 12) else []
    return [sys.gettrace() is None, sys.getprofile() is None, tools, len(gc.callbacks)]


def someone_else() -> None:
    if sys.version_info >= (3, 12):
        for tool in (3, 4):
            sys.monitoring.use_tool_id(tool, "somebody else")
    else:
        sys.settrace(lambda *_: None)


def main(out: str, *words: str) -> None:
    if "foreign-tool" in words:
        someone_else()
    stop, clock, before = threading.Event(), LineClock(), tracing()
    worker = threading.Thread(target=beside, args=(stop,))
    worker.start()
    for number in range(4):
        if number in (1, 2):
            clock.begin_step(number)
        elif number == 3:
            clock.stop()
        if number == 2 and "takes-over" in words:
            sys.settrace(lambda *_: None)
        step()
    stop.set()
    worker.join()
    log = clock.document(str)
    document = {"log": log, "reason": clock.reason, "times": times, "before": before, "after": tracing()}
    Path(out).write_text(json.dumps(document))


if __name__ == "__main__":
    main(*sys.argv[1:])
