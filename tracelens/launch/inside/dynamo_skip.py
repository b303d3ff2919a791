"""Keeps torch.compile away from our own code: where a graph breaks, it looks at every frame that runs, ours included.

In: functions of ours. Out: they run as they are, and the user's graphs, breaks and recompilations stay as without us.
Apart from the hooks because it knows names of torch that change from version to version. `torch._dynamo` is not
imported: that takes a second, and only scripts that compile have it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

_FRAMES: Any = getattr(getattr(torch._C, "_dynamo", None), "eval_frame", None)
set_callback: Callable[[Any], Any] = getattr(_FRAMES, "set_eval_frame", lambda _callback: None)
"""What looks at the frames from now on (None: nobody does); returns what did. Put back what it returned."""


def leave_alone(*functions: Callable[..., Any]) -> None:
    """Frames of these functions are never compiled; what they call still is."""
    for function in functions:
        code = function.__code__
        if hasattr(_FRAMES, "set_code_exec_strategy"):  # since 2.7
            action = _FRAMES._FrameAction
            _FRAMES.set_code_exec_strategy(code, _FRAMES._FrameExecStrategy(action.SKIP, action.DEFAULT))
        elif hasattr(_FRAMES, "skip_code"):
            _FRAMES.skip_code(code)


def transparent(function: Callable[..., Any], inner: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, in whose place torch.compile reads `inner` where it traces a call of it. Cheaper than asking in each
    call whether it does; not for methods, of which it forgets the object."""
    leave_alone(function)
    function._torchdynamo_inline = inner  # type: ignore[attr-defined]
    return function
