"""Checks a rank's trace right after it was written, while it can still be recorded again.

In: the rank's entry and the Run folder. Out: the entry, with a reason if its trace is truncated, cannot be read, or
holds no GPU work though the process used a GPU.
"""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

from tracelens.messages import say

_CHUNK_BYTES = 1 << 20
_GZIP_WINDOW = 31
_TAIL_BYTES = 64


def checked(entry: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The rank's entry, marked incomplete with a reason if its trace is truncated or cannot be read."""
    if not entry.get("trace"):
        return entry
    path = folder / entry["trace"]
    device = (entry.get("process") or {}).get("device")
    fault = _cut_short(path) or _unreadable(path, uses_gpu=device not in ("cpu", None))
    return entry if fault is None else {**entry, "complete": False, "reason": fault}


def _cut_short(path: Path) -> str | None:
    """Why the file is truncated, judged by its compression and its last byte; None if it is whole."""
    unpacker, tail = zlib.decompressobj(_GZIP_WINDOW) if path.suffix == ".gz" else None, b""
    try:
        with path.open("rb") as source:
            while chunk := source.read(_CHUNK_BYTES):
                tail = (tail + (unpacker.decompress(chunk) if unpacker else chunk))[-_TAIL_BYTES:]
    except (OSError, zlib.error) as error:
        return say("{path} cannot be read: {error}", path=path.name, error=error)
    if (unpacker and not unpacker.eof) or not tail.rstrip().endswith(b"}"):
        return say("{path} is not complete: is the disk full?", path=path.name)
    return None


def _unreadable(path: Path, *, uses_gpu: bool) -> str | None:
    """Why the reader of all later commands rejects the trace, None if it does not; imports it late, as it is heavy."""
    import numpy as np

    from tracelens.errors import InputError
    from tracelens.trace import chrome

    try:
        trace = chrome.load(path)
    except InputError as error:
        return str(error)
    cut = next((text for text in trace.warnings if text.startswith("the file ends early")), None)
    if cut is not None:
        return say("{path} is not complete: {cut}", path=path.name, cut=cut)
    present = {trace.categories[code] for code in np.unique(trace.columns["category"])}
    if uses_gpu and present.isdisjoint(chrome.GPU_CATEGORIES):
        return say(
            "{path} holds no GPU work, though the process used a GPU: is another profiler attached?", path=path.name
        )
    return None
