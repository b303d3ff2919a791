"""Which rank this process is, by what its launcher has set. Without torch.

In: the environment. Out: numbers. Apart because four who ask (recording, the monitor's file, verify) must hear the same
answer, and the monitor asks where torch may be missing.
"""

from __future__ import annotations

import os

_RANKS = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK")
_WORLDS = ("WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE")


def rank() -> int | None:
    """None where no launcher says it."""
    return number(*_RANKS)


def world() -> int | None:
    """How many ranks there are; None where no launcher says it."""
    return number(*_WORLDS)


def number(*names: str) -> int | None:
    """The first of these variables that holds a number."""
    return next((int(os.environ[name]) for name in names if os.environ.get(name, "").isdecimal()), None)
