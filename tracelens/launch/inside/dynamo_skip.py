"""Keeps Dynamo (torch.compile) from compiling our own functions: at a graph break it looks at every frame that runs.

In: functions of ours. Out: they run uncompiled, and the user's graphs, breaks and recompilations are as without us.
A module of its own because it uses private names of torch that change between versions. `torch._dynamo` is not
imported here: that takes a second, and a script that compiles has imported it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

_FRAMES: Any = getattr(getattr(torch._C, "_dynamo", None), "eval_frame", None)
set_callback: Callable[[Any], Any] = getattr(_FRAMES, "set_eval_frame", lambda _callback: None)
"""Sets Dynamo's frame callback of this thread (None: no frame is compiled) and returns the previous one, to restore."""


def skip_frames(*functions: Callable[..., Any]) -> None:
    """Never compile frames of these functions; what they call is still compiled."""
    for function in functions:
        code = function.__code__
        if hasattr(_FRAMES, "set_code_exec_strategy"):  # since 2.7
            action = _FRAMES._FrameAction
            _FRAMES.set_code_exec_strategy(code, _FRAMES._FrameExecStrategy(action.SKIP, action.DEFAULT))
        elif hasattr(_FRAMES, "skip_code"):
            _FRAMES.skip_code(code)


def transparent(function: Callable[..., Any], inner: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, marked so that torch.compile traces `inner` in its place.

    Cheaper than asking in each call whether torch.compile is tracing. Not for methods: Dynamo drops `self`.
    """
    skip_frames(function)
    function._torchdynamo_inline = inner  # type: ignore[attr-defined]
    return function
