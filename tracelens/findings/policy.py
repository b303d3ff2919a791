"""From which value on a symptom is worth a person's time: all thresholds in one place, each with its reason."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Policy:
    """Shares are of the step's wall time."""

    harmless_share: float = 0.01
    """Below 1 % of the step a cost drowns in the variation between two runs of the same loop."""

    idle_share: float = 0.05
    """A GPU that is idle for less than this is healthy: what is left are launch gaps that no remedy here removes."""

    loader_share: float = 0.02
    """Fetching a ready batch takes some 0.1 ms; only where it shows in the step is the loader worth a word."""

    launch_share: float = 0.20
    """Some idle time between launches is normal. From a fifth of the step on the host sets the pace."""

    launches: int = 50
    """Fewer launches per step are too few to blame the launching itself."""

    short_kernel_ns: int = 30_000
    """Issuing one kernel from Python costs 5-20 µs: kernels longer than this can be issued faster than they run."""

    allocations: float = 1.0
    """One driver allocation every step is a habit; less may be a pool that still grows."""

    positions: int = 32
    """Waits of one API without source lines are told apart by their order in the step, up to so many; more would
    be a list that nobody reads."""

    position_share: float = 0.5
    """A place in the step is told apart if it waits in half of the steps: what comes now and then has no place."""


POLICY = Policy()
