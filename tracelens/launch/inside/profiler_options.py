"""Options of `torch.profiler.profile` for our profiler sessions.

In: the installed torch. Out: the options that it knows. Shared by the recording and by `verify`, which must record the
same rows.
"""

from __future__ import annotations

import inspect
from typing import Any

import torch


def options() -> dict[str, Any]:
    """Record synchronization events; since torch 2.5, suppress a warning about second cycles, which we never have."""
    known = inspect.signature(torch.profiler.profile).parameters
    keep_events = {"acc_events": True} if "acc_events" in known else {}
    return {"experimental_config": _sync_events(), **keep_events}


def _sync_events() -> Any:
    try:
        return torch._C._profiler._ExperimentalConfig(enable_cuda_sync_events=True)
    except (AttributeError, TypeError):  # a torch that cannot record them
        return None
