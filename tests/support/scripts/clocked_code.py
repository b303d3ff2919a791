"""What the line clock leaves of the code that ran in its steps: `python clocked_code.py`, without torch.

One line of JSON: the adaptive instructions that differ from before, right behind the clock and some steps later, in the
project's code and in that of a library; and the lines that `sys.settrace` then sees, with and without a clock before.
"""

from __future__ import annotations

import dis
import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import CodeType
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from tracelens.capture.inside.line_clock import LineClock

TEXT = """
def doubled(count):
    for number in range(count):
        yield number * 2


def work(count, items):
    total = 0
    for number in range(count):
        squared = number * number
        total += squared
    for item in items:
        total += item
    try:
        raise ValueError(total)
    except ValueError:
        pass
    return [total + each for each in items]
"""


def made() -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(compile(TEXT, __file__, "exec"), names)
    return names


def step(names: dict[str, Any]) -> str:
    return json.dumps(names["work"](30, list(names["doubled"](20))), indent=1)


def codes(names: dict[str, Any]) -> Iterator[CodeType]:
    for function in (names["doubled"], names["work"], json.dumps, json.JSONEncoder.encode, json.JSONEncoder.iterencode):
        yield function.__code__
        yield from (part for part in function.__code__.co_consts if isinstance(part, CodeType))


def instructions(names: dict[str, Any]) -> list[tuple[str, int, str]]:
    return [(c.co_name, i.offset, i.opname) for c in codes(names) for i in dis.get_instructions(c, adaptive=True)]


def traced(names: dict[str, Any]) -> list[int]:
    lines: list[int] = []

    def trace(frame: Any, event: str, _: object) -> Any:
        if event == "line" and frame.f_code in codes_of_project:
            lines.append(frame.f_lineno)
        return trace

    codes_of_project = set(codes(names))
    sys.settrace(trace)
    step(names)
    sys.settrace(None)
    return lines


def main() -> None:
    clocked, other = made(), made()
    for _ in range(200):
        step(clocked)
        step(other)
    before = instructions(clocked)
    clock = LineClock()
    for number in range(2):
        clock.begin_step(number)
        step(clocked)
    clock.stop()
    for _ in range(5):
        step(clocked)
    differ = Counter(
        f"{old[0]}: {old[2]}" for old, new in zip(before, instructions(clocked), strict=True) if old != new
    )
    print(json.dumps({"reason": clock.reason, "differ": differ, "traced": traced(clocked) == traced(other) != []}))


if __name__ == "__main__":
    main()
