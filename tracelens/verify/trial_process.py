"""One trial process: what it is for, and the record of what it did.

Values only. Out: `Command`, `TrialProcess`, `ProcessRecord`. The supervisor fills them, the comparisons read them.
A trial process runs one version of the script once, from its start to an agreed number of steps; with several ranks it
is a tree of processes.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from tracelens.model import Toggle
from tracelens.verify.exchange import Mode
from tracelens.verify.policy import POLICY

STANDARD_ERROR = "standard error"
"""The name of standard error among `ProcessRecord.side_outputs`."""


@dataclass(frozen=True, slots=True)
class Command:
    """What to start: a script with its arguments, a module with its arguments, or any command."""

    kind: Literal["script", "module", "command"]
    words: tuple[str, ...]
    python: str
    environment: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class TrialProcess:
    """The settings of one process. `version` is "original" or the name of a patch."""

    version: str
    mode: Mode
    steps: int
    seed: int
    block: int = POLICY.block_steps
    deterministic: bool = False
    deadline_s: float | None = None
    """Age at which the first run ends early, so that a slow script leaves budget for the others."""
    timeout_s: float | None = None
    """Age at which the supervisor ends the process as hanging."""
    seed_shift: int = 0
    """Added to every seed that the script sets itself: another run of the same experiment."""
    freed_memory_fill: bool = False
    """Overwrite freed GPU memory, so that a race between streams changes the numbers."""
    toggles: tuple[Toggle, ...] = ()
    """Levers that are switched on in the process."""

    @property
    def warmup(self) -> int:
        """Steps that are not timed."""
        return min(POLICY.warmup_steps, int(self.steps * POLICY.warmup_share))


@dataclass(frozen=True, slots=True)
class TimedSteps:
    """The timed steps of one process, ns. `blocks_ns` are step times averaged over one block each."""

    mean_ns: float
    blocks_ns: tuple[float, ...]
    steps: int
    clock: Literal["cuda_event", "host"]

    @property
    def step_ns(self) -> float:
        """The step time of this process: the median block, which one interruption of the machine does not move."""
        if len(self.blocks_ns) < POLICY.least_blocks:
            return self.mean_ns
        return statistics.median(self.blocks_ns)


@dataclass(frozen=True, slots=True)
class ProcessRecord:
    """What one trial process produced. `ranks` are the agents' records, ordered by rank."""

    process: TrialProcess
    seconds: float
    stdout: str
    stderr_tail: str
    ranks: tuple[Mapping[str, Any], ...]
    refused: tuple[str, ...] = ()
    """Paths outside the working copy that the process tried to write."""
    written: tuple[str, ...] = ()
    """Files created or changed in the working copy, by the path they stand for."""
    side_outputs: Mapping[str, str] = field(default_factory=dict)
    """Text written elsewhere than to standard output, by name; filled in mode "numbers" only."""

    @property
    def steps(self) -> int:
        """Steps that every rank made."""
        return min(int(rank["steps"]) for rank in self.ranks)

    @property
    def startup_seconds(self) -> float:
        """Everything but the steps: imports, model construction, compilation, shutdown."""
        return max(0.0, self.seconds - self.steps * self.seconds_per_step)

    @property
    def seconds_per_step(self) -> float:
        """Mean step time of the first rank by the host's clock."""
        host = self.ranks[0]["clock"]["host_ns"]
        return (host[-1] - host[0]) / 1e9 / (len(host) - 1) if len(host) > 1 else self.seconds

    @property
    def peak_bytes(self) -> int | None:
        """The most memory that tensors took on a GPU, over all ranks; None without a GPU."""
        peaks = [rank.get("peak_bytes") for rank in self.ranks]
        return max((peak for peak in peaks if peak is not None), default=None)

    def timed_steps(self) -> TimedSteps | None:
        """The timed steps of the slowest rank; None where a rank ended within its warm-up."""
        per_rank = [timed for rank in self.ranks if (timed := timed_steps_of(rank["clock"])) is not None]
        return max(per_rank, key=lambda timed: timed.step_ns) if len(per_rank) == len(self.ranks) else None


def timed_steps_of(clock: Mapping[str, Any]) -> TimedSteps | None:
    """Step times after warm-up from one rank's step timer: CUDA events where there are any, else the host's clock."""
    warmup, block, host = clock["warmup"], clock["block"], clock["host_ns"]
    spans = clock["cuda_blocks"]
    if spans:
        total = sum(span["ns"] for span in spans)
        steps = spans[-1]["last"] - spans[0]["first"]
        full = [span for span in spans if span["last"] - span["first"] == block]
        return TimedSteps(total / steps, tuple(span["ns"] / block for span in full), steps, "cuda_event")
    ends = host[max(warmup, 1) - 1 :]
    if len(ends) < 2:
        return None
    blocks = tuple((ends[i + block] - ends[i]) / block for i in range(0, len(ends) - block, block))
    return TimedSteps((ends[-1] - ends[0]) / (len(ends) - 1), blocks, len(ends) - 1, "host")
