"""The tracer of CUDA leaves the process after a recording: attached, it slows a launch-bound loop by a third.

In: the end of a recording in a process whose training goes on. Out: CUPTI is gone, or stays, and why. Apart because
each condition here stands for processes that it has crashed: docs/capture.md names them.

The profiler library detaches CUPTI where an environment variable says so as a session stops: on a thread of its own,
at the next call into CUDA. It reads the variable again afterwards, and puts CUPTI back if it is gone by then. So the
variable stays until that call was made, and no longer: a profiler of the script's own must not find it.
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
"""Another tool uses CUPTI, or somebody has met such a crash."""
OLDEST = (12, 6)
"""CUDA since which PyTorch itself takes it for safe (pull request 150957)."""
_CALLS = 20
"""Calls into CUDA, a millisecond apart: the thread that detaches needs a few."""
ATTACHED = "the CUDA tracer stays attached after the recording, which slows the launches of what follows: "

_graphs: list[bool] = []


def watch_graphs() -> None:
    """Know from now on whether CUDA graphs are captured: to replay one that was traced may crash without the tracer."""
    owner = getattr(torch.cuda, "CUDAGraph", None)
    original = getattr(owner, "capture_begin", None)
    if original is None or hasattr(original, "__wrapped__"):
        return

    @functools.wraps(original)
    def capture_begin(*args: Any, **kwargs: Any) -> Any:
        _graphs.append(True)
        return original(*args, **kwargs)

    owner.capture_begin = capture_begin  # type: ignore[union-attr]


def saw(names: Iterable[str]) -> None:
    """What a recorded step called: a library may launch graphs that no Python knows of."""
    if any("GraphLaunch" in name for name in names):
        _graphs.append(True)


def obstacle() -> str | None:
    """Why the tracer must stay; None where it may go."""
    if _version(torch.version.cuda) < OLDEST:
        return f"it can be taken away since CUDA {'.'.join(map(str, OLDEST))}, this is {torch.version.cuda}"
    found = next((name for name in (VARIABLE, *_OTHERS) if name in os.environ), None)
    if found is not None:
        return f"{found} is set"
    return "CUDA graphs were captured" if _graphs or _has_graphs() else None


@contextlib.contextmanager
def detaching(*, wanted: bool, notes: list[str]) -> Iterator[None]:
    """Around the end of a session: without the tracer afterwards, or with a note."""
    traced = torch.version.cuda is not None and process_facts.device_in_use() is not None
    if not wanted or not traced or os.environ.get(VARIABLE) == "1":  # then it goes by itself
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
        _call()
    finally:
        os.environ.pop(VARIABLE, None)


def _call() -> None:
    stream = torch.cuda.current_stream(process_facts.device_in_use())
    with contextlib.suppress(RuntimeError):  # an error of the script's own, which its next call meets as well
        for _ in range(_CALLS):
            stream.query()  # waits for nothing
            time.sleep(0.001)


def _has_graphs() -> bool:
    """Captured before we were there (a recording from inside)."""
    owner = getattr(torch.cuda, "CUDAGraph", None)
    return owner is not None and any(type(one) is owner for one in gc.get_objects())


def _version(text: str | None) -> tuple[int, ...]:
    return tuple(int(part) for part in (text or "0").split(".")[:2] if part.isdigit())
