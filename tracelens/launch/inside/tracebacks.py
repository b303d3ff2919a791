"""Removes our frames from the traceback of an error of the script that has passed through our wrappers.

In: the error, as it passes. Out: its traceback, as the script or `sys.excepthook` shows it, has only the frames that it
would have without us.
"""

from __future__ import annotations

import os
import sys
from types import FrameType, TracebackType

import tracelens

_OURS = tuple(os.path.join(os.path.dirname(tracelens.__file__), folder, "") for folder in ("launch", "capture"))


def hide_our_frames(error: BaseException) -> None:
    """Remove our frames from `error`; afterwards re-raise it with a bare `raise`, which adds no frame (Python 3.11).

    Also wraps `sys.excepthook`, for frames of ours that are added further out.
    """
    if isinstance(error, StopIteration):  # raised at the end of every epoch, and never shown
        return
    error.__traceback__ = _without_our_frames(error.__traceback__)
    if getattr(sys.excepthook, "__module__", None) == __name__:
        return
    previous = sys.excepthook

    def excepthook(kind: type[BaseException], error: BaseException, _trace: TracebackType | None) -> None:
        seen: set[int] = set()
        pending: list[BaseException | None] = [error]
        while pending:
            link = pending.pop()
            if link is not None and id(link) not in seen:
                seen.add(id(link))
                link.__traceback__ = _without_our_frames(link.__traceback__)
                pending += [link.__cause__, link.__context__]
        previous(kind, error, error.__traceback__)

    sys.excepthook = excepthook


def _without_our_frames(trace: TracebackType | None) -> TracebackType | None:
    kept = []
    while trace is not None:
        if not _is_ours(trace.tb_frame):
            kept.append(trace)
        trace = trace.tb_next
    following: TracebackType | None = None
    for entry in reversed(kept):
        entry.tb_next = following
        following = entry
    return following


def _is_ours(frame: FrameType) -> bool:
    """Whether the frame is ours, or Dynamo's wrapper wrapped a function of ours that it must not compile."""
    if frame.f_code.co_filename.startswith(_OURS):
        return True
    if frame.f_globals.get("__name__") != "torch._dynamo.eval_frame":
        return False
    wrapped = getattr(frame.f_locals.get("fn"), "__code__", None)
    return wrapped is not None and wrapped.co_filename.startswith(_OURS)
