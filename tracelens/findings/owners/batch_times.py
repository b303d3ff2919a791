"""What a DataLoader's batches are spent on, as the recording measured it in its workers or in the training process.

In: a RankRecording. Out: `BatchTimes`, or None where nothing was measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tracelens.model import BatchPart, BatchTimes, Location, RankRecording

COLLATE, SAMPLES = "collate_fn", "__getitem__"


def measured(recording: RankRecording | None) -> BatchTimes | None:
    """Of the first DataLoader that was measured, which is the training's in all but odd scripts."""
    loaders = recording.meta.get("loaders") if recording is not None else None
    splits = (loader.get("split") for loader in loaders or () if isinstance(loader, Mapping))
    return next((times for split in splits if split and (times := _times(split)) is not None), None)


def _times(split: Mapping[str, Any]) -> BatchTimes | None:
    batches, fetch_ns, collate_ns = (int(split.get(key) or 0) for key in ("batches", "fetch_ns", "collate_ns"))
    if batches < 1:
        return None
    transforms = [BatchPart(str(name), round(ns / batches)) for name, ns in (split.get("transforms") or {}).items()]
    collate = BatchPart(COLLATE, round(collate_ns / batches), _location(split.get("collate_place")))
    rest = round(fetch_ns / batches) - collate.ns - sum(part.ns for part in transforms)
    samples = _location(split.get("sample_place"))
    name = (samples.function or SAMPLES).rpartition(".")[2] if samples is not None else SAMPLES
    parts = [*transforms, collate, BatchPart(name, max(0, rest), samples)]
    parts.sort(key=lambda part: -part.ns)
    return BatchTimes(int(split.get("workers") or 0), tuple(part for part in parts if part.ns > 0))


def _location(place: Mapping[str, Any] | None) -> Location | None:
    return Location(place["path"], place.get("line"), place.get("function")) if place and place.get("path") else None
