"""Options of `torch.profiler.profile` for our profiler sessions, and what such a session leaves out.

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


def without_event_objects(session: Any) -> None:
    """Call once `session` is prepared: when it stops, torch shall not make a Python object of every event.

    We write the trace, which torch does from its own records, and never ask for the objects. Torch makes them at each
    stop where `acc_events` is set: some 50 us of CPU time per event (2.13), a minute for a million, while the training
    waits. A torch that names the method otherwise makes them as before.
    """
    profiler = session.profiler
    if hasattr(profiler, "_parse_kineto_results"):
        profiler._parse_kineto_results = _no_objects


def _no_objects(*_args: Any, **_options: Any) -> list[Any]:
    return []


def _sync_events() -> Any:
    try:
        return torch._C._profiler._ExperimentalConfig(enable_cuda_sync_events=True)
    except (AttributeError, TypeError):  # a torch that cannot record them
        return None
