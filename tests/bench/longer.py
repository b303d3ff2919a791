"""Longer traces for the benchmark: a real trace in, the same training going on for n times as many steps out.

A reader cannot tell the repetition from a longer recording: each copy follows the one before it on the clock and has
correlation, flow and operator ids and step numbers of its own; labels of processes and threads come once, at the end.
It works on the text of the events, so that every other byte stays as the profiler wrote it.

    python longer.py SOURCE.json.gz TARGET.json.gz TIMES      # prints the raw size
"""

from __future__ import annotations

import gzip
import math
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np

LEVEL = 6
"""gzip's own default, which Kineto takes too."""
REPEATED = re.compile(
    rb'("(?:correlation|External id|id|Ev Idx|Sequence number|wait_on_cuda_event_record_corr_id)":\s*(?=[1-9])'
    rb'|"ts":\s*|"ProfilerStep#)(\d+)'
)
"""Numbers that go on counting from copy to copy; an id of -1 or 0 means "none" and stays."""


class Head(msgspec.Struct):
    """What decides whether and how far an event is shifted."""

    ph: str = ""
    cat: str | None = None
    ts: float = 0.0
    dur: float = 0.0


class File(msgspec.Struct):
    """A trace whose events stay text."""

    events: list[msgspec.Raw] = msgspec.field(name="traceEvents")


def write(source: Path, target: Path, times: int) -> int:
    """Write `source` (gzip) for `times` times as long to `target`, gzip by its name; returns the raw size."""
    raw = 0
    with gzip.open(target, "wb", LEVEL) if target.suffix == ".gz" else target.open("wb") as handle:
        for piece in pieces(gzip.decompress(source.read_bytes()), times):
            raw += handle.write(piece)
    return raw


def pieces(text: bytes, times: int) -> Iterator[bytes]:
    """The text of the longer trace; for `times` = 1 the same events in the same order, labels last."""
    events = [bytes(raw) for raw in msgspec.json.decode(text, type=File).events]
    heads = [msgspec.json.decode(event, type=Head) for event in events]
    going_on = [head.ph != "M" and head.cat not in (None, "Trace") for head in heads]
    body = [event for event, chosen in zip(events, going_on, strict=True) if chosen]
    labels = [event for event, chosen in zip(events, going_on, strict=True) if not chosen]
    length = _length_us([head for head, chosen in zip(heads, going_on, strict=True) if chosen])
    yield text[: text.index(b"[", text.index(b'"traceEvents"')) + 1] + b"\n  "
    yield from _copies(b",\n  ".join(body), length, times)
    yield b"".join(b",\n  " + label for label in labels)
    yield text[text.rindex(events[-1]) + len(events[-1]) :]


def _length_us(heads: list[Head]) -> int:
    """From the first start to the last end, so that nothing of two copies overlaps on a thread or stream."""
    spans = [head for head in heads if head.ph == "X"]
    return math.ceil(max(head.ts + head.dur for head in spans) - min(head.ts for head in spans)) + 1


def _copies(body: bytes, length: int, times: int) -> Iterator[bytes]:
    literals, keys, numbers = _divided(body)
    values = np.array(numbers, dtype=np.int64)
    clock = np.array([key.startswith(b'"ts"') for key in keys])
    step = np.array([key == b'"ProfilerStep#' for key in keys])
    ids = values[~clock & ~step].max(initial=0) + 1
    steps = np.ptp(values[step]) + 1 if step.any() else 0
    shift = np.where(clock, length, np.where(step, steps, ids))
    for copy in range(times):
        parts: list[bytes] = [b""] * (2 * len(numbers) + 1)
        parts[0::2] = literals
        parts[1::2] = [b"%d" % value for value in (values + copy * shift).tolist()]
        yield (b",\n  " if copy else b"") + b"".join(parts)


def _divided(body: bytes) -> tuple[list[bytes], list[bytes], list[int]]:
    """The text between the numbers, the key before each number, the numbers."""
    found = REPEATED.split(body)
    keys = found[1::3]
    literals = [text + key for text, key in zip(found[0:-1:3], keys, strict=True)] + [found[-1]]
    return literals, keys, [int(number) for number in found[2::3]]


if __name__ == "__main__":
    print(write(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])))
