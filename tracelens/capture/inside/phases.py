"""The phases of a recording, in their order.

In: nothing. Out: names. `window_plan.WindowPlan` says how many steps each lasts.
"""

from __future__ import annotations

import enum


class Phase(enum.Enum):
    SETTLE = "settle"
    UNPROFILED = "unprofiled"
    PROBE = "probe"
    WARMUP = "warm-up"
    CLEAN = "clean"
    ATTRIBUTED = "attributed"
    SLOW_STEP = "slow step"
    DONE = "done"


PROFILER_ATTACHED = (Phase.PROBE, Phase.WARMUP, Phase.CLEAN, Phase.ATTRIBUTED, Phase.SLOW_STEP)
"""Its session is open; in the last one it records no more."""
