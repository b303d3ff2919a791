"""Names of API calls and of GPU work: what kind each is, and whether a call blocks by definition.

In: the name of an API call or of a GPU copy. Out: the words that the `calls` and `ops` tables use (`model.Tables`). The
names themselves are in `vendor_calls`.
"""

from __future__ import annotations

import re

from tracelens.trace.vendor_calls import CALLS

KINDS = (
    "launch",
    "copy",
    "memset",
    "graph_launch",
    "device_sync",
    "stream_sync",
    "event_sync",
    "event_record",
    "stream_wait",
    "alloc",
    "free",
    "event_query",
    "other",
)
STARTS_WORK = ("launch", "copy", "memset", "graph_launch")
"""Kinds that put work on a stream."""

_COMPILED = tuple(
    (kind, re.compile("|".join(f"(?:{pattern})" for pattern in names.values()))) for kind, names in CALLS.items()
)

_WAITS_BY_NAME = re.compile(r"synchroni[sz]e|(?<![a-z])wait|block.?until", re.IGNORECASE)
"""What a call that waits is called in runtimes of which the calls are not in the table above."""

_BLOCKING_COPY = re.compile(
    r"^(?:cuda|cu|hip|musa|aclrt)Memcpy"
    r"(?:WithStream|Param|[23]D|HtoD|DtoH|ToSymbol|FromSymbol|ToArray|FromArray)*(?:_ptsz|_ptds|_v\d+)*$"
)
"""Synchronous by definition: no `Async` in the name. Elsewhere (`urEnqueueUSMMemcpy`) the name does not tell."""

_H2D = re.compile(r"HtoD|HostToDevice|\([MH]2D\)", re.IGNORECASE)
_D2H = re.compile(r"DtoH|DeviceToHost|\(D2[MH]\)", re.IGNORECASE)
_P2P = re.compile(r"PtoP|PeerToPeer", re.IGNORECASE)
_D2D = re.compile(r"DtoD|DeviceToDevice|\(D2D\)", re.IGNORECASE)
_COLLECTIVE = re.compile(r"nccl|rccl|msccl|nvshmem|all_?reduce_kernel|^oneccl", re.IGNORECASE)
"""Libraries, and the kernels of torch's symmetric memory (`one_shot_all_reduce_kernel`, …)."""


def kind(name: str) -> str:
    """The word of `KINDS` for an API call."""
    return next((word for word, pattern in _COMPILED if pattern.search(name)), "other")


def unknown_wait(name: str) -> bool:
    """Whether a call waits by its name, and is none of those whose waiting is understood."""
    return kind(name) == "other" and _WAITS_BY_NAME.search(name) is not None


def copies_synchronously(name: str) -> bool:
    """Whether a copy call returns only after the copy is done, whatever the memory."""
    return _BLOCKING_COPY.search(name) is not None


def direction(name: str) -> str:
    """Direction of a GPU copy by the name that the profiler gives it; "" where it does not say."""
    for word, pattern in (("h2d", _H2D), ("d2h", _D2H), ("p2p", _P2P), ("d2d", _D2D)):
        if pattern.search(name):
            return word
    return ""


def memory(name: str) -> str:
    """Kind of host memory of a copy; "" where no host memory takes part."""
    if direction(name) not in ("h2d", "d2h"):
        return ""
    lower = name.lower()
    if "(h2d)" in lower or "(d2h)" in lower:  # Level Zero: H is memory that the driver allocated, M any other
        return "pinned"
    return next((word for word in ("pageable", "pinned") if word in lower), "unknown")


def is_collective(name: str) -> bool:
    """Whether a kernel is communication between GPUs."""
    return _COLLECTIVE.search(name) is not None
