"""What one process has gathered on its way through the windows: plain values, begun afresh in a forked child.

In: the agent fills it step by step. Out: `saving` writes it. Apart from the agent so that what is kept can be read
beside what is done.
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
    """One process's recording so far. `profiled`: duration of each recorded step, by its number."""

    plan: WindowPlan
    notes: list[str] = field(default_factory=list)
    loaders: process_facts.LoaderFacts = field(default_factory=process_facts.LoaderFacts)
    steps_seen: int = 0
    source: str | None = None
    """What tells the steps: "optimizer", "dataloader", "backward"; None before the first."""
    unprofiled: list[int] = field(default_factory=list)
    unprofiled_ns: int = 0
    """Their sum, kept as it grows: adding them up in every step would cost more than the rest of us."""
    last_ns: int = 0
    """When the last step ended, by `time.perf_counter_ns`."""
    profiled: dict[int, int] = field(default_factory=dict)
    ends: list[torch.cuda.Event] = field(default_factory=list)
    """CUDA events at the two ends of W0."""
    attributed: list[int] = field(default_factory=list)
    thread: int = 0
    """The native id of the thread that trains."""
    window: dict[str, Any] = field(default_factory=dict)
    stranded: bool = False
    """The training thread hangs in a C call and another one saves: nothing may be asked of the GPU any more."""

    @property
    def unprofiled_seconds(self) -> float:
        return self.unprofiled_ns / 1e9

    def gives_way_to(self, source: str) -> bool:
        """Steps told in another way end what was begun: always, until something is recorded; afterwards, if an
        optimizer makes them and this is of batches that were only read."""
        return not self.profiled or (self.source == "dataloader" and source == "optimizer")

    def ended(self, ends: Iterable[int]) -> None:
        """Unprofiled steps ended at these times."""
        for end in ends:
            lasted = end - self.last_ns
            self.unprofiled.append(lasted)
            self.unprofiled_ns += lasted
            self.last_ns = end

    def clock(self) -> dict[str, Any]:
        """Step times as rank.json states them; the CUDA events are asked only if they have passed anyway."""
        total, clock = self.unprofiled_ns, "host"
        if len(self.ends) == 2 and not self.stranded and all(event.query() for event in self.ends):
            total, clock = round(self.ends[0].elapsed_time(self.ends[1]) * 1e6), "cuda_event"
        return {
            "unprofiled_ns": self.unprofiled,
            "unprofiled_mean_ns": total // len(self.unprofiled) if self.unprofiled else None,
            "unprofiled_clock": clock,
            "profiled_ns": [ns for number, ns in self.profiled.items() if number not in self.attributed],
        }
