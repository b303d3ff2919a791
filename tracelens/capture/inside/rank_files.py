"""Files of one rank in the Run folder: the trace, compressed, then sources.json and lines.json, then rank.json.

In: what the agent has gathered. Out: files; rank.json comes last, so whoever sees it finds the others complete.
Formats, beside those that `tracelens.run` reads:
    rank.json   the rank's entry of run.json (trace, sources, clock, steps, window, loaders, memory, notes) with
                "process" (see `facts.process`), "complete" and "reason"
"""

from __future__ import annotations

import json
import os
import re
import time
import zlib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tracelens import run
from tracelens.capture.inside.attribution import Mark
from tracelens.capture.inside.cuda_event_log import EventCall
from tracelens.capture.inside.gc_log import Collection
from tracelens.capture.inside.user_frames import Place, shown

LEVEL = 5
"""Traces shrink 14-fold at 5 and 15-fold at 9, which takes three times as long while the training waits."""
_CHUNK_BYTES = 1 << 20
_MOST_FOLDERS = 1000
_GZIP_WINDOW = 31


@dataclass(frozen=True)
class Sources:
    """What ties waits to source lines and to one another. `samples` are (Unix ns, native thread id, place)."""

    marks: Iterable[Mark] = ()
    samples: Iterable[tuple[int, int, Place]] = ()
    uses: Iterable[EventCall] = ()
    collections: Iterable[Collection] = ()


def claim_folder(parent: Path, rank: int) -> Path:
    """Create `rankN`, or `rankN.2` and so on where a process of the same rank was here before (a restart)."""
    for attempt in range(1, _MOST_FOLDERS):
        folder = parent / (f"rank{rank}" if attempt == 1 else f"rank{rank}.{attempt}")
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            continue
        return folder
    raise FileExistsError(f"{parent} holds {_MOST_FOLDERS} folders of rank {rank}")


def trace_name(rank: int, host: str) -> str:
    """A name that TensorBoard's and HTA's readers accept; unique per host, process and time."""
    plain = re.sub(r"[^A-Za-z0-9_-]", "_", host) or "host"
    return f"rank{rank}_{plain}_{os.getpid()}.{time.time_ns()}.pt.trace.json"


def compress(path: Path) -> Path:
    """Replace a file by its gzip; streamed, and complete before it gets its name."""
    target = path.with_name(path.name + ".gz")
    part = path.with_name(f".{path.name}.gz.part")
    packer = zlib.compressobj(LEVEL, zlib.DEFLATED, _GZIP_WINDOW)
    try:
        with path.open("rb") as source, part.open("wb") as out:
            while chunk := source.read(_CHUNK_BYTES):
                out.write(packer.compress(chunk))
            out.write(packer.flush())
    except OSError:
        part.unlink(missing_ok=True)
        raise
    part.replace(target)
    path.unlink()
    return target


def remove_parts(folder: Path) -> None:
    """Remove traces that were not written to their end: on a full disk they take the room of what still could be."""
    for path in folder.glob("*.json*"):
        with suppress(OSError):
            path.unlink()


def write_entry(folder: Path, entry: Mapping[str, Any]) -> None:
    """The rank's own file, last: whoever sees it finds the others complete."""
    run.write_json(folder / "rank.json", entry)


def write_sources(path: Path, sources: Sources, cwd: str) -> None:
    """Everything in one file; places relative to `cwd` where they lie below it."""
    run.write_json(
        path,
        {
            "marks": [
                {
                    "start_unix_ns": mark.start_unix_ns,
                    "end_unix_ns": mark.end_unix_ns,
                    "thread": mark.thread,
                    "call": mark.call,
                    **_place(mark.place, cwd),
                }
                for mark in sources.marks
            ],
            "samples": [
                {"unix_ns": at, "thread": thread, **_place(place, cwd)} for at, thread, place in sources.samples
            ],
            "events": [asdict(use) for use in sources.uses],
            "collections": [_collection(each, cwd) for each in sources.collections],
        },
    )


def write_lines(path: Path, document: Mapping[str, Any]) -> None:
    """The line clock's log: long columns of small numbers, so without a line break after each."""
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    run.write_bytes(path, text.encode("utf-8", "backslashreplace"))


def _collection(collection: Collection, cwd: str) -> dict[str, Any]:
    place = None if collection.place is None else _place(collection.place, cwd)
    return {**asdict(collection), "place": place}


def _place(place: Place, cwd: str) -> dict[str, Any]:
    path, line, function = place
    return {"path": shown(path, cwd), "line": line, "function": function}
