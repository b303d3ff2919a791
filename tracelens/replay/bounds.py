"""The four limits of a step: no order of the same work is faster than the largest of them.

In: a Tape, Edits. Out: `Bounds`, ns per step on the scale of the step time that predictions start from.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from tracelens.model import Binding, Edit
from tracelens.replay import edits as rewriting
from tracelens.replay.items import Step, Tape, flat
from tracelens.replay.simulate import compile_program, host_time, step_time


@dataclass(frozen=True, slots=True)
class Bounds:
    """host: all calls and the time between them, without waits. stream: the busiest stream's work and the gaps between
    queued kernels. copy: the busier copy engine. loader: the producer's period, 0 where the loader sets no pace."""

    host_ns: int
    stream_ns: int
    copy_ns: int
    loader_ns: int

    @property
    def largest_ns(self) -> int:
        return max(self.host_ns, self.stream_ns, self.copy_ns, self.loader_ns)

    @property
    def binding(self) -> Binding:
        """Which limit is the largest; of equal ones the GPU's stream, then the host."""
        named: tuple[tuple[Binding, int], ...] = (
            ("stream", self.stream_ns),
            ("host", self.host_ns),
            ("copy", self.copy_ns),
            ("loader", self.loader_ns),
        )
        return max(named, key=lambda pair: pair[1])[0]


def of(tape: Tape, edits: Sequence[Edit] = ()) -> Bounds:
    """The limits after `edits`; without Edits those of the loop as it is, its waits not counted."""
    program = rewriting.apply(tape, edits)
    base = step_time(compile_program(rewriting.apply(tape), tape.overhead.row_ns))
    scale = tape.base_ns / base
    cycle = max(1, *program.intervals) if program.intervals else 1
    host, streams, engines = 0.0, defaultdict[int, float](float), defaultdict[str, float](float)
    for recorded in range(program.recorded_steps):
        for step in range(cycle):
            items = program.variants[program.variant(recorded, step)]
            host += _host(items, tape.overhead.row_ns, waits_for_loader=program.loader_period_ns is not None)
            for item in flat(items):
                if item.kind in ("launch", "staged", "blocking"):
                    streams[item.stream] += item.duration_ns + item.spacing_ns
                    engines[item.engine] += item.duration_ns
    engines.pop("", None)
    share = scale / (program.recorded_steps * cycle)
    return Bounds(
        host_ns=round(host * share),
        stream_ns=round(max(streams.values(), default=0) * share),
        copy_ns=round(max(engines.values(), default=0) * share),
        loader_ns=round((program.loader_period_ns or 0) * scale),
    )


def _host(step: Step, row_ns: float, *, waits_for_loader: bool) -> int:
    """Work of the training loop itself; where the loader sets a pace, the time inside it is waiting and no work."""
    left_out = ("loader", "background") if waits_for_loader else ("background",)
    items = (item for item in flat(step) if not item.detached and item.kind not in left_out)
    return sum(sum(host_time(item, row_ns)) for item in items)
