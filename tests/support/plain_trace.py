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
    name: str = ""

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
    whole = document if isinstance(document, dict) else {"traceEvents": document}
    return PlainTrace(raw, whole, path.name.partition(".")[0])


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
    """A file of which some parts were never written to the disk: they read as zeros."""
    out = bytearray(raw)
    for share in shares:
        at = int(len(raw) * share)
        out[at : at + size] = b"\0" * len(out[at : at + size])
    return bytes(out)


# --------------------------------------------------------------------------------------------- signals taken away


def without_rows(drop: Callable[[Row], bool]) -> Callable[[PlainTrace], dict[str, Any]]:
    return lambda file: file.without(drop)


def without_argument(key: str, *top: str) -> Callable[[PlainTrace], dict[str, Any]]:
    """Strips an argument of all rows, and keys of the file."""

    def stripped(file: PlainTrace) -> dict[str, Any]:
        rows = [
            {**row, "args": {name: value for name, value in row["args"].items() if name != key}}
            if isinstance(row.get("args"), dict)
            else row
            for row in file.document["traceEvents"]
        ]
        rest = {name: value for name, value in file.document.items() if name not in top}
        return {**rest, "traceEvents": rows}

    return stripped


def _named(start: str) -> Callable[[Row], bool]:
    return lambda row: str(row.get("name", "")).startswith(start)


STRIPPED: Mapping[str, Callable[[PlainTrace], dict[str, Any]]] = {
    "stacks": without_rows(lambda row: category(row) == "python_function"),
    "sync rows": without_rows(lambda row: category(row) == "cuda_sync"),
    "copies": without_rows(lambda row: category(row) in ("gpu_memcpy", "memcpy")),
    "correlation": without_argument("correlation"),
    "flows": without_rows(lambda row: str(row.get("ph")) in "stf"),
    "step marks": without_rows(_named("ProfilerStep")),
    "loader marks": without_rows(_named("enumerate(DataLoader)")),
    "device attributes": without_argument("device", "deviceProperties"),
    "calls": without_rows(is_call),
    "gpu": without_rows(is_gpu),
}
"""One signal of a recording each, taken away as if it had never been recorded."""
