"""Where a recording stands.

In: nothing. Out: names. Apart from the agent, which goes through them, so that its rules stand alone.
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
    DONE = "done"


RECORDING = (Phase.PROBE, Phase.WARMUP, Phase.CLEAN, Phase.ATTRIBUTED)
