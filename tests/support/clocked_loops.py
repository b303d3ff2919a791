"""A built loop that says at which line of train.py it is, so that the line clock's log can be made up beside the trace.

def body(loop: ClockedLoop, number: int) -> None:
    loop.at(10).launch("gemm", 100)         # line 10 of train.py
    loop.at(11).host(2000)

owners = ClockedLoop().run(body)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tests.support.builders import BASE_NS, MAIN, Machine
from tracelens import step_owners
from tracelens.findings import AnalyzedRank, breakdown, overlap, stalls
from tracelens.model import (
    Abstention,
    GarbageCollection,
    LineLog,
    LinePlace,
    Location,
    LoggedStep,
    Owners,
    RankRecording,
    Timeline,
)
from tracelens.replay import exposed_cost, trace_builder
from tracelens.trace import timeline

LINE, ENTER = 0, 1
ATTRIBUTED = (6, 7)


@dataclass
class ClockedLoop:
    """A machine whose loop says at which line of train.py it is; the last two of eight steps are clocked."""

    machine: Machine = field(default_factory=Machine)
    collections: list[GarbageCollection] = field(default_factory=list)
    _rows: list[tuple[int, int, int]] = field(default_factory=list)
    _steps: list[tuple[int, int, int]] = field(default_factory=list)
    _clocked: bool = False

    def at(self, line: int) -> Machine:
        """The loop reaches a line; what the machine does next happens there."""
        if self._clocked:
            self._rows.append((self._unix(), line, LINE))
        return self.machine

    def collect(self, us: float) -> None:
        """Python's collector runs."""
        start = self._unix()
        self.machine.host(us)
        self.collections.append(GarbageCollection(start, self._unix(), MAIN, 2, Location("train.py", 11)))

    def run(self, body: Callable[[ClockedLoop, int], None], steps: int = 8) -> Owners:
        for number in range(steps):
            self._clocked = number in ATTRIBUTED
            with self.machine.step(number):
                if self._clocked:
                    self._steps.append((number, self._unix(), len(self._rows)))
                    self._rows.append((self._unix(), 0, ENTER))
                body(self, number)
            if self._clocked:
                self._steps[-1] = (*self._steps[-1][:2], self._steps[-1][2])
                self._end = self._unix()
        return self.owners()

    def owners(self, *, clocked: bool = True, replayed: bool = False) -> Owners:
        """Of the clean steps; with what is recoverable if `replayed`."""
        recording = self._recording(clocked)
        built = timeline.build(self.machine.trace(), recording)
        times, parts, _, _ = breakdown.measure(built)
        waits = stalls.group(built)
        nothing = Abstention("replay", "it was not asked for", "")
        trace = trace_builder.build(built, waits) if replayed else nothing
        if not isinstance(trace, Abstention):
            waits = stalls.with_exposed(waits, exposed_cost.per_stall(trace), times.median_ns)
        rank = AnalyzedRank(built, times, parts, waits, overlap.measure(built), None)
        return step_owners.collect(rank, recording, trace, nothing)

    def timeline(self) -> Timeline:
        """With all that the clock saw."""
        return timeline.build(self.machine.trace(), self._recording(clocked=True))

    def _recording(self, clocked: bool) -> RankRecording:
        return RankRecording(
            rank=0,
            trace_path=None,
            attributed_steps=ATTRIBUTED,
            lines=self._log() if clocked else None,
            collections=tuple(self.collections),
        )

    def _unix(self) -> int:
        return BASE_NS + round(self.machine.now * 1000)

    def _log(self) -> LineLog:
        places = tuple(dict.fromkeys(LinePlace(0, line, kind) for _, line, kind in self._rows))  # type: ignore[arg-type]
        ends = [*(start for _, start, _ in self._steps[1:]), self._end]
        return LineLog(
            thread=MAIN,
            clock="monitoring",
            cap=50,
            call_cost_ns=0,
            codes=(Location("train.py", 1, "main"),),
            places=places,
            steps=tuple(
                LoggedStep(number, start, end, first)
                for (number, start, first), end in zip(self._steps, ends, strict=True)
            ),
            times_unix_ns=[at for at, _, _ in self._rows],
            events=[places.index(LinePlace(0, line, kind)) for _, line, kind in self._rows],  # type: ignore[arg-type]
        )
