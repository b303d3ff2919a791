"""The calls of a Timeline as columns, with what each launched first; one call as a value where it is looked at alone.

In: a Timeline, its CallTimings. Out: `CallColumns`. Names are codes into `words`, so that a column of 100,000 launches
needs no text.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tracelens.model import Timeline
from tracelens.replay.call_timings import CallTimings
from tracelens.replay.replay_trace import Bools, Integers
from tracelens.trace.recorded_rows import loop_threads
from tracelens.trace.tables import among

COPIES = ("h2d", "d2h")
"""Directions of the copies that Edits may change."""
_NO_WORD = 0


class HostCall(NamedTuple):
    """One row of the calls, with what it launched first."""

    position: int
    name: str
    kind: str
    start_ns: int
    end_ns: int
    direction: str
    memory: str
    size: int
    wait: int
    op: str


@dataclass(frozen=True, slots=True, eq=False)
class CallColumns:
    """One entry per call of the Timeline."""

    timeline: Timeline
    start_ns: Integers
    end_ns: Integers
    launched: Bools
    """It starts work on the GPU."""
    copies: Bools
    """Its work is a copy between host and GPU."""
    own: Bools
    """The training loop's own thread made it, or one of autograd's."""
    wait: Integers
    """Position in the Timeline's waits, -1 none."""
    name: Integers
    op: Integers
    """Name of the first GPU op that it starts."""
    words: tuple[str, ...]
    """What the codes in `name` and `op` mean."""

    def call(self, position: int) -> HostCall:
        calls, ops = self.timeline.tables.calls, self.timeline.tables.ops
        op = int(calls["op"][position])
        direction, memory = (ops[name][op] if op >= 0 else "" for name in ("direction", "memory"))
        return HostCall(
            position,
            self.words[self.name[position]],
            calls["kind"][position],
            int(self.start_ns[position]),
            int(self.end_ns[position]),
            direction,
            memory,
            int(ops["bytes"][op]) if op >= 0 else 0,
            int(self.wait[position]),
            self.words[self.op[position]],
        )

    def of_kind(self, *kinds: str) -> Bools:
        return among(self.timeline.tables.calls["kind"], *kinds)


def call_columns(timeline: Timeline, timings: CallTimings) -> CallColumns:
    """The columns of all calls, inside of steps or not."""
    calls, ops, waits = timeline.tables.calls, timeline.tables.ops, timeline.tables.waits
    launched = timings.op_end >= 0
    first = calls["op"]
    wait = np.full(len(calls), -1, dtype=np.int64)
    wait[waits["call"]] = np.arange(len(waits))
    call_words, op_words = calls["name"].words, ops["name"].words
    op = np.full(len(calls), _NO_WORD, dtype=np.int64)
    copies = np.zeros(len(calls), dtype=np.bool_)
    started = first >= 0
    op[started] = ops["name"].codes[first[started]].astype(np.int64) + 1 + len(call_words)
    copies[started] = among(ops["direction"], *COPIES)[first[started]]
    return CallColumns(
        timeline=timeline,
        start_ns=calls["start_ns"],
        end_ns=calls["end_ns"],
        launched=launched,
        copies=launched & copies,
        own=np.isin(calls["thread"], loop_threads(timeline)),
        wait=wait,
        name=calls["name"].codes.astype(np.int64) + 1,
        op=op,
        words=("", *call_words, *op_words),
    )
