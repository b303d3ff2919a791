"""The user's functions in a trace that was recorded with Python stacks.

In: rows of a Trace, instants on threads. Out: a Location for each instant. A frame's name holds the line at which its
function is defined, not the one that ran.
"""

from __future__ import annotations

import re
import sys
from typing import Any

import numpy as np
import numpy.typing as npt

from tracelens.model import Location
from tracelens.trace.nesting import enclosing
from tracelens.trace.tables import TraceRows

Column = npt.NDArray[Any]

_FRAME = re.compile(r"^(?P<path>[^<].*?)\((?P<line>\d{1,9})\): (?P<function>.+)$", re.DOTALL)
_LIBRARY = re.compile(r"(?:^|[/\\])(?:torch|site-packages|dist-packages|lib[/\\]python3[^/\\]*)[/\\]")


def innermost(rows: TraceRows, threads: Column, instants: Column) -> list[Location | None]:
    """The innermost function of the user's around each instant of a thread; None where there is none."""
    frames = rows.named(rows.in_categories(("python_function",)), lambda name: user_frame(name) is not None)
    if not len(frames):
        return [None] * len(instants)
    around = enclosing(rows, frames, np.asarray(threads), np.asarray(instants))
    names = rows.column("name")[around]
    known = {code: user_frame(rows.trace.names[code]) for code in np.unique(names[around >= 0]).tolist()}
    return [known[name] if row >= 0 else None for row, name in zip(around.tolist(), names.tolist(), strict=True)]


def user_frame(name: str) -> Location | None:
    """The place that a frame's name states, None for frames of torch, of installed packages and of Python itself."""
    match = _FRAME.match(name)
    if match is None or _LIBRARY.search(match["path"]):
        return None
    top = re.split(r"[/\\]", match["path"])[0]  # Kineto cuts the import path off: `threading.py`, `torch/nn/…`
    if top.removesuffix(".py") in sys.stdlib_module_names:
        return None
    return Location(match["path"], int(match["line"]), match["function"])
