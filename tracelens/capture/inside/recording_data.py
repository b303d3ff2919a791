"""What one process has recorded so far: plain values, made anew in a forked child.

In: the agent fills it step by step. Out: `saving` writes it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import torch

from tracelens.capture.inside import process_facts
from tracelens.capture.window_plan import WindowPlan


@dataclass
class RecordingData:
    """One process's recording so far. `profiled`: duration in ns of each recorded step, by its number."""

    plan: WindowPlan
    notes: list[str] = field(default_factory=list)
    loaders: process_facts.LoaderFacts = field(default_factory=process_facts.LoaderFacts)
    steps_seen: int = 0
    source: str | None = None
    """What marks the ends of steps: "optimizer", "dataloader" or "backward"; None before the first step."""
    unprofiled: list[int] = field(default_factory=list)
    """Durations in ns of the steps of W0."""
    unprofiled_ns: int = 0
    """Their running sum: to add them up in every step would cost more than all else that we do in it."""
    last_ns: int = 0
    """End of the last step, by `time.perf_counter_ns`."""
    profiled: dict[int, int] = field(default_factory=dict)
    ends: list[torch.cuda.Event] = field(default_factory=list)
    """CUDA events at the two ends of W0."""
    attributed: list[int] = field(default_factory=list)
    """Numbers of the steps whose times enter no statistic: those of W2, and one that was cut off."""
    first_unprofiled: int = 0
    """The number of W0's first step."""
    slow_step: dict[str, int] | None = None
    """Number and length in ns of a slow step whose lines were clocked behind the windows."""
    thread: int = 0
    """Native id of the training thread."""
    window: dict[str, Any] = field(default_factory=dict)
    stranded: bool = False
    """The training thread hangs in a C call and another thread saves: it must make no CUDA call."""

    @property
    def unprofiled_seconds(self) -> float:
        return self.unprofiled_ns / 1e9

    def is_replaced_by(self, source: str) -> bool:
        """Whether steps of another source make this recording start again.

        Always, until a step is recorded; afterwards, if an optimizer makes them and this recording is of batches that
        were only read.
        """
        return not self.profiled or (self.source == "dataloader" and source == "optimizer")

    def ended(self, ends: Iterable[int]) -> None:
        """Add unprofiled steps by their end times (`time.perf_counter_ns`)."""
        for end in ends:
            duration = end - self.last_ns
            self.unprofiled.append(duration)
            self.unprofiled_ns += duration
            self.last_ns = end

    def clock(self) -> dict[str, Any]:
        """Step times for rank.json; the CUDA events are read only if both have completed, so nothing waits."""
        total, clock = self.unprofiled_ns, "host"
        if len(self.ends) == 2 and not self.stranded and all(event.query() for event in self.ends):
            total, clock = round(self.ends[0].elapsed_time(self.ends[1]) * 1e6), "cuda_event"
        return {
            "unprofiled_ns": self.unprofiled,
            "unprofiled_mean_ns": total // len(self.unprofiled) if self.unprofiled else None,
            "unprofiled_clock": clock,
            "profiled_ns": [ns for number, ns in self.profiled.items() if number not in self.attributed],
        }
