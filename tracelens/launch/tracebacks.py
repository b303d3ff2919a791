"""An error of the user's that has passed through our hooks reads as if we were not there.

In: the moment at which an error passes. Out: Python's report of an uncaught error shows the frames it had without us.
Apart from the hooks because it is about `sys.excepthook`, which others replace as well.
"""

from __future__ import annotations

import os
import sys
from types import TracebackType

_OURS = tuple(os.path.join(os.path.dirname(os.path.dirname(__file__)), part, "") for part in ("launch", "capture"))


def hide_our_frames() -> None:
    """See to it, once, before the error goes on."""
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
        if not trace.tb_frame.f_code.co_filename.startswith(_OURS):
            kept.append(trace)
        trace = trace.tb_next
    following: TracebackType | None = None
    for entry in reversed(kept):
        entry.tb_next = following
        following = entry
    return following
