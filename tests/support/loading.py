"""Traces written as text or bytes, and loaded."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings

from tests.support.builders import loop
from tracelens.model import Trace
from tracelens.trace import chrome

QUIET = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def written(folder: Path, data: bytes | str | dict[str, Any] | list[Any], name: str = "trace.json") -> Path:
    path = folder / name
    text = data if isinstance(data, (bytes, str)) else json.dumps(data)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def loaded(folder: Path, data: bytes | str | dict[str, Any] | list[Any]) -> Trace:
    return chrome.load(written(folder, data))


def row(**fields: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 10, "dur": 5, **fields}


def names(trace: Trace) -> list[str]:
    return [trace.names[code] for code in trace.columns["name"]]


# ---------------------------------------------------------------------------------------------------------- damage


def complete(text: bytes) -> int:
    """How many of the builder's events end inside the text, counted by their layout."""
    return len(re.findall(rb"^  \},?$", text, re.MULTILINE))


TEXT = json.dumps(loop().document(), indent=1).encode()
FIRST = TEXT.index(b'"traceEvents"')
