"""Load a Chrome trace of torch.profiler (Kineto): a file in, a `Trace` out.

This module and the ones that it uses (`events`, `event_decoder`, `columns`) are the only ones that know the names that
Kineto writes. Whatever is unusual about a file (truncated, damaged, of another generation) ends in `Trace.dropped` and
`Trace.warnings`; only a file without a single complete timed event raises `InputError`.
"""

from __future__ import annotations

import contextlib
import gc
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from tracelens.errors import InputError
from tracelens.messages import say
from tracelens.model import Trace
from tracelens.trace import completeness, freed_memory, raw_bytes, shared_reading
from tracelens.trace.columns import Column, ColumnBuilder, rows_among
from tracelens.trace.events import EventReader
from tracelens.trace.load_notes import LoadNotes

GPU_CATEGORIES = ("kernel", "gpu_memcpy", "gpu_memset")
RUNTIME_CATEGORIES = ("cuda_runtime", "cuda_driver")

_RANK_PATTERNS = (
    re.compile(r"(?:^|[^a-z])rank[-_]?\[?(\d{1,6})(?!\d)", re.IGNORECASE),
    re.compile(r"^profile_(\d{1,6})\.json"),  # accelerate
)
_RUN_FOLDER_RANK = re.compile(r"rank(\d{1,6})$")

EPOCH_NS = (1_262_304_000_000_000_000, 4_102_444_800_000_000_000)
"""2010 to 2100: a first timestamp in between counts from 1970, one outside from an unknown zero."""
STRAY_NS = 3_600_000_000_000
"""Rows at time 0 of length 0, an hour before all others, are unfinished records (torch 2.12, CUDA 13), not events."""


def load(path: Path | str, *, max_bytes: int | None = None) -> Trace:
    """Read `.json`, `.json.gz`, `.zst` or `-` (standard input). `max_bytes` bounds the raw text that is read.

    Raises `InputError` for a file that cannot be opened, is no trace, or has no complete timed event.
    """
    notes = LoadNotes()
    with _no_collection():
        read = _read(path, max_bytes, notes)
    columns = _without_strays(read.builder.columns(), notes)
    freed_memory.give_back()
    if not columns or not len(columns["start_ns"]):
        hint = say("record again; a profiler that was never stepped or stopped writes an empty trace")
        raise InputError(say("{path} holds no complete timed event", path=path), hint=hint)
    notes.warn_of_dropped()
    return _trace(str(path), read, columns, notes)


@dataclass(frozen=True, slots=True)
class _FileContent:
    """Of a file: its events, and its other top-level keys."""

    builder: ColumnBuilder
    metadata: dict[str, Any]
    ended: bool
    """Whether the file closes its list of events."""


def _read(path: Path | str, max_bytes: int | None, notes: LoadNotes) -> _FileContent:
    builder = ColumnBuilder(notes)
    shared = shared_reading.read(path) if max_bytes is None else None
    if shared is not None:
        for part in shared.parts:
            builder.join(part)
        for reason, times in shared.dropped.items():
            notes.drop(reason, times)
        return _FileContent(builder, shared.metadata, ended=True)
    reader = EventReader(raw_bytes.pieces(path, notes, max_bytes), str(path), notes)
    for batch in reader:
        builder.add(batch)
    return _FileContent(builder, reader.metadata, reader.ended)


def rank_from_name(path: Path | str) -> int | None:
    """The rank that a file name states (`rank-3.…`, `…_rank3…`, `profile_3.json`, `rank3/…`), None without one."""
    file = Path(path)
    for pattern in _RANK_PATTERNS:
        if match := pattern.search(file.name):
            return int(match[1])
    match = _RUN_FOLDER_RANK.fullmatch(file.parent.name)
    return int(match[1]) if match else None


def _trace(path: str, read: _FileContent, columns: dict[str, Column], notes: LoadNotes) -> Trace:
    names, categories, metadata = read.builder.names(), read.builder.categories(), read.metadata
    origin = int(columns["start_ns"][0])
    columns["start_ns"] -= origin
    columns["end_ns"] -= origin
    distributed = metadata.get("distributedInfo")
    distributed = distributed if isinstance(distributed, dict) else {}
    stated = _count(distributed.get("rank"))
    for column in columns.values():
        column.flags.writeable = False
    return Trace(
        path=path,
        rank=stated if stated is not None else rank_from_name(path),
        world_size=_count(distributed.get("world_size")),
        device=_device(metadata, columns, categories),
        signals=_signals(columns, names, categories, read.builder.has_shapes),
        dropped=dict(notes.dropped),
        warnings=tuple(notes.warnings),
        columns=columns,
        names=names,
        categories=categories,
        base_unix_ns=_unix_zero(metadata, origin),
        origin_ns=origin,
        metadata=metadata,
        program=_program(columns, names),
        completeness=completeness.of_columns(columns, names, categories, read.ended, notes),
    )


def _without_strays(columns: dict[str, Column], notes: LoadNotes) -> dict[str, Column]:
    if not columns:
        return columns
    start = columns["start_ns"]
    stray = (start == 0) & (columns["end_ns"] == 0)
    others = start[~stray]
    if not stray.any() or (len(others) and others.min() < STRAY_NS):
        return columns
    notes.drop(say("unfinished record at time 0"), int(np.count_nonzero(stray)))
    return {key: column[~stray] for key, column in columns.items()}


def _signals(
    columns: Mapping[str, Column], names: tuple[str, ...], categories: tuple[str, ...], shapes: bool
) -> frozenset[str]:
    category = columns["category"]
    present = {categories[code] for code in np.flatnonzero(np.bincount(category))}
    gpu = rows_among(category, categories, GPU_CATEGORIES)
    runtime = rows_among(category, categories, RUNTIME_CATEGORIES)
    launched, launching = columns["correlation"][gpu], columns["correlation"][runtime]
    linked = np.isin(launched[launched > 0], launching)
    used = [names[code] for code in np.flatnonzero(np.bincount(columns["name"]))]
    presence = {
        "gpu": gpu.any(),
        "runtime": runtime.any(),
        "correlation": linked.any(),
        "sync_events": "cuda_sync" in present,
        "steps": any(name.startswith("ProfilerStep") for name in used),
        "python_stacks": "python_function" in present,
        "dataloader": any(name.startswith("enumerate(DataLoader)") for name in used),
        "optimizer": any(name.startswith("Optimizer.step") for name in used),
        "shapes": shapes,
        "collectives": any("nccl" in name.lower() or "rccl" in name.lower() for name in used),
    }
    return frozenset(signal for signal, there in presence.items() if there)


_BACKWARD = "autograd::engine::evaluate_function"
_PYTHON_MARKS = ("ProfilerStep", "Optimizer.", "enumerate(DataLoader)", "DistributedDataParallel.", "Torch-Compiled")
"""Rows that torch's Python leaves of itself: every optimizer of `torch.optim` marks its step, whatever is recorded."""


def _program(columns: Mapping[str, Column], names: tuple[str, ...]) -> Literal["cpp"] | None:
    """A backward pass without a row of Python's is one of a C++ program (libtorch)."""
    used = [names[code] for code in np.flatnonzero(np.bincount(columns["name"]))]
    trains = any(name.startswith(_BACKWARD) for name in used)
    python = any(name.startswith(_PYTHON_MARKS) or ".py(" in name for name in used)
    return "cpp" if trains and not python else None


def _device(metadata: Mapping[str, Any], columns: Mapping[str, Column], categories: tuple[str, ...]) -> str | None:
    """Name of the device that ran most of the GPU work (of the first one where nothing ran). ROCm counts its ids from
    the CPUs on and lists the GPUs from 0: a device that is not listed is known only where all are alike."""
    properties = metadata.get("deviceProperties")
    known = [entry for entry in properties if isinstance(entry, dict)] if isinstance(properties, list) else []
    named = {entry.get("id"): str(entry["name"]) for entry in known if entry.get("name")}
    gpu = rows_among(columns["category"], categories, GPU_CATEGORIES)
    used = columns["device"][gpu & (columns["device"] >= 0)]
    if not len(used):
        return next(iter(named.values()), None)
    devices, counts = np.unique(used, return_counts=True)
    alike = next(iter(named.values())) if len({*named.values()}) == 1 else None
    return named.get(int(devices[counts.argmax()]), alike)


def _unix_zero(metadata: Mapping[str, Any], origin: int) -> int | None:
    base = _count(metadata.get("baseTimeNanoseconds"))
    if base and EPOCH_NS[0] <= base + origin <= EPOCH_NS[1]:
        return base + origin
    return origin if EPOCH_NS[0] <= origin <= EPOCH_NS[1] else None


def _count(value: object) -> int | None:
    """A whole number that may come as text."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value if value >= 0 else None
    if isinstance(value, str) and re.fullmatch(r"\d{1,20}", value):
        return int(value)
    return None


@contextlib.contextmanager
def _no_collection() -> Iterator[None]:
    """Decoded events form no cycles: to scan them again and again would cost a third of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
