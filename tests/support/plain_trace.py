"""A second, slow reader of traces in plain Python, and damage to hold the tool against.

Nothing here uses the package: what the tool says of a cut or stripped file is compared with numbers that were computed
from the whole file's JSON events. All times are nanoseconds as the file counts them.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Row = dict[str, Any]
GPU_CATEGORIES = {"kernel", "gpu_memcpy", "gpu_memset", "memcpy", "memset"}
API_CATEGORIES = {"cuda_runtime", "cuda_driver", "runtime", "hip_runtime"}


@dataclass(frozen=True)
class PlainTrace:
    """A whole file: its raw text and its complete events."""

    raw: bytes
    document: Mapping[str, Any]

    @property
    def rows(self) -> list[Row]:
        return [row for row in self.document["traceEvents"] if row.get("ph") == "X" and "dur" in row]

    def busy_ns(self, start_ns: float, end_ns: float, device: int) -> float:
        """How long the device ran anything inside [start, end)."""
        spans = sorted(span(row) for row in self.rows if is_gpu(row) and device_of(row) == device)
        total, reached = 0.0, start_ns
        for begin, end in spans:
            begin, end = max(begin, reached), min(end, end_ns)
            if end > begin:
                total, reached = total + end - begin, end
        return total

    def without(self, drop: Callable[[Row], bool]) -> dict[str, Any]:
        """The document without some rows."""
        return {**self.document, "traceEvents": [row for row in self.document["traceEvents"] if not drop(row)]}


def read(path: Path) -> PlainTrace:
    raw = gzip.decompress(path.read_bytes())
    document = json.loads(raw.decode("utf-8", "replace"), strict=False)
    return PlainTrace(raw, document if isinstance(document, dict) else {"traceEvents": document})


def span(row: Row) -> tuple[float, float]:
    start = float(row["ts"]) * 1000
    return start, start + float(row["dur"]) * 1000


def category(row: Row) -> str:
    return str(row.get("cat") or "").lower()


def is_gpu(row: Row) -> bool:
    return category(row) in GPU_CATEGORIES


def is_call(row: Row) -> bool:
    return category(row) in API_CATEGORIES


def device_of(row: Row) -> int:
    return int((row.get("args") or {}).get("device", row.get("pid", -1)))


def cut(raw: bytes, share: float) -> bytes:
    """The first part of a file, as a killed job leaves it."""
    return raw[: int(len(raw) * share)]


def cut_archive(raw: bytes, share: float) -> bytes:
    """A gzip file of which only the first part was written."""
    packed = gzip.compress(raw, 1)
    return packed[: int(len(packed) * share)]


def broken_archive(raw: bytes, share: float) -> bytes:
    """A gzip file with a damaged block in the middle."""
    packed = bytearray(gzip.compress(raw, 1))
    at = int(len(packed) * share)
    packed[at : at + 64] = bytes(64)
    return bytes(packed)


def with_holes(raw: bytes, shares: Iterable[float], size: int = 200) -> bytes:
    """A file in which some hundred bytes are overwritten with blanks, as by a failing disk."""
    out = bytearray(raw)
    for share in shares:
        at = int(len(raw) * share)
        out[at : at + size] = b" " * len(out[at : at + size])
    return bytes(out)
