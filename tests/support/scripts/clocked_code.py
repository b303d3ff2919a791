"""What the line clock leaves of the code that ran in its steps: `python clocked_code.py`, without torch.

One line of JSON: the adaptive instructions that differ from before, in a library's code in the clock's second step and
in all code some steps later (of the project's, those that are more than a joined instruction taken apart); and whether
`sys.settrace` then sees the lines that it sees without a clock before.
"""

from __future__ import annotations

import dis
import json
import json.encoder
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import CodeType, FunctionType
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


LIBRARY = (json.dumps, json.JSONEncoder.encode, json.JSONEncoder.iterencode, json.encoder._make_iterencode)
"""What `step` calls."""


def of_project(names: dict[str, Any]) -> tuple[FunctionType, ...]:
    return names["doubled"], names["work"]


def codes(functions: Iterable[Any]) -> Iterator[CodeType]:
    for function in functions:
        yield function.__code__
        yield from (part for part in function.__code__.co_consts if isinstance(part, CodeType))


def instructions(functions: Iterable[Any]) -> list[tuple[str, int, str]]:
    return [(c.co_name, i.offset, i.opname) for c in codes(functions) for i in dis.get_instructions(c, adaptive=True)]


def changed(before: list[tuple[str, int, str]], functions: Iterable[Any]) -> list[tuple[str, str, str]]:
    now = instructions(functions)
    return [(old[0], old[2], new[2]) for old, new in zip(before, now, strict=True) if old != new]


def traced(names: dict[str, Any]) -> list[int]:
    lines: list[int] = []

    def trace(frame: Any, event: str, _: object) -> Any:
        if event == "line" and frame.f_code in codes_of_project:
            lines.append(frame.f_lineno)
        return trace

    codes_of_project = set(codes(of_project(names)))
    sys.settrace(trace)
    step(names)
    sys.settrace(None)
    return lines


def main() -> None:
    clocked, other = made(), made()
    for _ in range(200):
        step(clocked)
        step(other)
    library, project = instructions(LIBRARY), instructions(of_project(clocked))
    clock = LineClock()
    for number in range(2):
        clock.begin_step(number)
        step(clocked)
    meanwhile = changed(library, LIBRARY)
    clock.stop()
    for _ in range(5):
        step(clocked)
    apart = [row for row in changed(project, of_project(clocked)) if not row[1].startswith(f"{row[2]}__")]
    left = {"library_meanwhile": meanwhile, "library": changed(library, LIBRARY), "project": apart}
    same = traced(clocked) == traced(other) != []  # the last: it changes the libraries' code itself
    print(json.dumps({"reason": clock.reason, **left, "traced": same}))


if __name__ == "__main__":
    main()
