"""What each profiler session of ours asks of torch, inside the user's process.

In: an installed torch. Out: options of `torch.profiler.profile` that this torch knows. Apart because the recording and
the trials of a patched script look at the same rows.
"""

from __future__ import annotations

import inspect
from typing import Any

import torch


def options() -> dict[str, Any]:
    """Rows for synchronizations; and no word, since 2.5, in the user's output, that a second cycle would drop the
    first: there is no second."""
    known = inspect.signature(torch.profiler.profile).parameters
    quietly = {"acc_events": True} if "acc_events" in known else {}
    return {"experimental_config": _sync_events(), **quietly}


def _sync_events() -> Any:
    try:
        return torch._C._profiler._ExperimentalConfig(enable_cuda_sync_events=True)
    except (AttributeError, TypeError):  # a torch that cannot record them
        return None
