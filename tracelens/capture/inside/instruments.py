"""The instruments that record: profiler, stack sampler, marks and logs.

In: calls at step boundaries. Out: what each instrument holds, which `saving` writes. Started and stopped together here,
so that torch and the interpreter are always restored in reverse order.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field

from tracelens.capture.inside.attribution import Attribution
from tracelens.capture.inside.cuda_event_log import CudaEventLog
from tracelens.capture.inside.gc_log import GcLog
from tracelens.capture.inside.line_clock import LineClock
from tracelens.capture.inside.profiler_session import NotRecorded, ProfilerSession
from tracelens.capture.inside.slow_step_watch import SlowStepWatch
from tracelens.capture.inside.stack_sampler import StackSampler


@dataclass
class Instruments:
    """The instruments of one recording; those that are None are not in use."""

    profiler: ProfilerSession | None = None
    sampler: StackSampler | None = None
    attribution: Attribution = field(default_factory=Attribution)
    event_log: CudaEventLog = field(default_factory=CudaEventLog)
    collections: GcLog = field(default_factory=GcLog)
    lines: LineClock = field(default_factory=LineClock)
    watch: SlowStepWatch | None = None

    def begin(self) -> None:
        """Prepare and start at once, where there is no step to warm up in."""
        assert self.profiler is not None and self.sampler is not None
        self.profiler.prepare()
        self.install_logs()
        self.profiler.start()
        self.sampler.start()

    def install_logs(self) -> None:
        """Install the logs that already run in the clean window."""
        self.event_log.install()
        self.collections.install()

    def prepare_clock(self) -> None:
        """Look for the project's code before anything is recorded. If that fails, there is no clock."""
        try:
            self.lines.prepare()
        except Exception as error:  # noqa: BLE001 -- as below
            self.lines.give_up(f"the clock failed: {error!r}")

    def clock_lines(self, number: int) -> None:
        """Clock the lines of step `number`, which begins now. If that fails, the recording goes on without it."""
        try:
            self.lines.begin_step(number)
        except Exception as error:  # noqa: BLE001 -- an error here must not lose the rest of the recording
            self.lines.give_up(f"the clock failed: {error!r}")

    def stop_recording(self) -> None:
        """Behind the windows, where a slow step is waited for: only the collector's log goes on. May raise
        `NotRecorded`."""
        assert self.profiler is not None
        self.lines.stop()
        if self.sampler is not None:
            self.sampler.stop()
        self.attribution.remove()
        self.event_log.remove()
        self.profiler.stop()

    def give_up(self) -> None:
        """Close the profiler session and drop what it recorded."""
        self.put_back()
        profiler, self.profiler = self.profiler, None
        if profiler is not None:
            with suppress(NotRecorded, RuntimeError):
                profiler.stop()

    def put_back(self) -> None:
        """Restore everything that was patched in torch and in the interpreter, in reverse order of installing."""
        if self.watch is not None:
            self.watch.clock.stop()
        self.lines.stop()
        if self.sampler is not None:
            self.sampler.stop()
        self.attribution.remove()
        self.collections.remove()
        self.event_log.remove()
