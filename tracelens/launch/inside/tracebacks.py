"""An error of the user's that has passed through our hooks reads as if we were not there.

In: the moment at which an error passes. Out: whoever shows it, the script itself or Python's report of an uncaught
error, sees the frames it had without us.
Apart from the hooks because it is about `sys.excepthook`, which others replace as well.
"""

from __future__ import annotations

import os
import sys
from types import FrameType, TracebackType

import tracelens

_OURS = tuple(os.path.join(os.path.dirname(tracelens.__file__), folder, "") for folder in ("launch", "capture"))


def hide_our_frames(error: BaseException) -> None:
    """See to it before the error goes on, by a bare `raise`: that adds no frame again (since Python 3.11).

    Python's report is seen to as well, for frames that are added further out.
    """
    if isinstance(error, StopIteration):  # the end of every epoch
        return
    error.__traceback__ = _without_our_frames(error.__traceback__)
    if getattr(sys.excepthook, "__module__", None) == __name__:
        return
    previous = sys.excepthook

    def excepthook(kind: type[BaseException], error: BaseException, _trace: TracebackType | None) -> None:
        seen: set[int] = set()
        pending: list[BaseException | None] = [error]
        while pending:
            one = pending.pop()
            if one is not None and id(one) not in seen:
                seen.add(id(one))
                one.__traceback__ = _without_our_frames(one.__traceback__)
                pending += [one.__cause__, one.__context__]
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
    """Ours, or what torch.compile has put around a function of ours that it shall not look at."""
    if frame.f_code.co_filename.startswith(_OURS):
        return True
    if frame.f_globals.get("__name__") != "torch._dynamo.eval_frame":
        return False
    around = getattr(frame.f_locals.get("fn"), "__code__", None)
    return around is not None and around.co_filename.startswith(_OURS)
