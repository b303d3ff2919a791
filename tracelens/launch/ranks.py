"""Rank and world size of this process, from the variables that its launcher has set. Without torch.

In: the environment. Out: numbers. Recording, the monitor and `verify` share it, so that they agree.
"""

from __future__ import annotations

import os

_RANKS = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK")
_WORLDS = ("WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE")


def rank() -> int | None:
    """The rank; None where no launcher has set it."""
    return number(*_RANKS)


def world() -> int | None:
    """The number of ranks; None where no launcher has set it."""
    return number(*_WORLDS)


def number(*names: str) -> int | None:
    """The first of these variables that holds a number."""
    return next((int(os.environ[name]) for name in names if os.environ.get(name, "").isdecimal()), None)
