"""Detaches CUPTI, the CUDA tracer, after a recording: left attached, it slows a launch-bound loop by a quarter.

In: the end of a recording in a process whose training goes on. Out: CUPTI is detached, or stays attached with a note
that says why. Each condition here stands for a crash that was seen; docs/capture.md names them.

Kineto detaches CUPTI if TEARDOWN_CUPTI is set when a session stops: on a thread of its own, at the next CUDA call. It
reads the variable again afterwards and reattaches CUPTI if the variable is gone by then. So the variable is set until
that call was made, and no longer: a profiler of the script's own must not see it.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import os
import time
from collections.abc import Iterable, Iterator
from typing import Any

import torch

from tracelens.capture.inside import process_facts

VARIABLE = "TEARDOWN_CUPTI"
_OTHERS = ("CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH", "DISABLE_CUPTI_LAZY_REINIT")
"""Set where another tool uses CUPTI, or where the user has turned such detaching off."""
OLDEST = (12, 6)
"""The CUDA version from which on PyTorch itself detaches CUPTI (pull request 150957)."""
_CALLS = 20
"""CUDA calls, a millisecond apart, that are made so that the detaching thread finishes; it needs a few."""
ATTACHED = "the CUDA tracer stays attached after the recording, which slows the launches of what follows: "

_graphs: list[bool] = []


def watch_graphs() -> None:
    """Note captures of CUDA graphs from now on: replaying a graph that was traced may crash once CUPTI is gone."""
    owner = getattr(torch.cuda, "CUDAGraph", None)
    original = getattr(owner, "capture_begin", None)
    if original is None or hasattr(original, "__wrapped__"):
        return

    @functools.wraps(original)
    def capture_begin(*args: Any, **kwargs: Any) -> Any:
        _graphs.append(True)
        return original(*args, **kwargs)

    owner.capture_begin = capture_begin  # type: ignore[union-attr]


def note_graph_launches(event_names: Iterable[str]) -> None:
    """Look for graph launches among recorded events: a library may capture graphs in C++, which no patch sees."""
    if any("GraphLaunch" in name for name in event_names):
        _graphs.append(True)


def obstacle() -> str | None:
    """Why CUPTI must stay attached; None where it may be detached."""
    if _version(torch.version.cuda) < OLDEST:
        return f"it can be taken away since CUDA {'.'.join(map(str, OLDEST))}, this is {torch.version.cuda}"
    variable = next((name for name in (VARIABLE, *_OTHERS) if name in os.environ), None)
    if variable is not None:
        return f"{variable} is set"
    return "CUDA graphs were captured" if _graphs or _has_graphs() else None


@contextlib.contextmanager
def detaching(*, wanted: bool, notes: list[str]) -> Iterator[None]:
    """Around the stop of a session: detach CUPTI, or append to `notes` why it stays. Nothing where not `wanted`."""
    traced = torch.version.cuda is not None and process_facts.device_in_use() is not None
    if not wanted or not traced or os.environ.get(VARIABLE) == "1":  # Kineto detaches it then anyway
        yield
        return
    why = obstacle()
    if why is not None:
        yield
        notes.append(ATTACHED + why)
        return
    os.environ[VARIABLE] = "1"
    try:
        yield
        _make_cuda_calls()
    finally:
        os.environ.pop(VARIABLE, None)


def _make_cuda_calls() -> None:
    stream = torch.cuda.current_stream(process_facts.device_in_use())
    with contextlib.suppress(RuntimeError):  # an asynchronous error of the script's, raised by its next call as well
        for _ in range(_CALLS):
            stream.query()  # does not synchronize
            time.sleep(0.001)


def _has_graphs() -> bool:
    """Whether graphs exist that were captured before `watch_graphs` (a recording that the script begins itself)."""
    owner = getattr(torch.cuda, "CUDAGraph", None)
    return owner is not None and any(type(item) is owner for item in gc.get_objects())


def _version(text: str | None) -> tuple[int, ...]:
    return tuple(int(part) for part in (text or "0").split(".")[:2] if part.isdigit())
