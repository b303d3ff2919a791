"""Files of one rank in the Run folder: the trace, compressed, then sources.json and lines.json, then rank.json.

In: what one process has recorded. Out: files; rank.json is written last, so that the others are complete once it
exists. Beside the formats that `tracelens.run` reads:
    rank.json   the rank's entry of run.json (trace, sources, clock, steps, window, loaders, memory, notes) with
                "process" (see `process_facts.process`), "complete" and "reason"
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
from tracelens.capture.inside.user_frames import Place, stored_place

LEVEL = 5
"""gzip level. Level 5 shrinks traces 14-fold, level 9 15-fold in three times the time, while the training waits."""
_CHUNK_BYTES = 1 << 20
_MOST_FOLDERS = 1000
_GZIP_WINDOW = 31


@dataclass(frozen=True)
class Sources:
    """What ties waits to source lines and to each other. `samples` are (Unix ns, native thread id, place)."""

    marks: Iterable[Mark] = ()
    samples: Iterable[tuple[int, int, Place]] = ()
    uses: Iterable[EventCall] = ()
    collections: Iterable[Collection] = ()


def claim_folder(parent: Path, rank: int) -> Path:
    """Create the folder `rankN`, or `rankN.2` and so on where an earlier process of that rank (a restart) made it."""
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
    """Replace a file by its gzip, which gets its final name once it is complete. Raises `OSError` (no room)."""
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
    """Remove traces that were not written to their end: on a full disk their room is needed for the other files."""
    for path in folder.glob("*.json*"):
        with suppress(OSError):
            path.unlink()


def write_entry(folder: Path, entry: Mapping[str, Any]) -> None:
    """Write rank.json, the last of a rank's files."""
    run.write_json(folder / "rank.json", entry)


def write_sources(path: Path, sources: Sources, cwd: str) -> None:
    """Write sources.json, with paths relative to `cwd` where they lie below it."""
    run.write_json(
        path,
        {
            "marks": [
                {
                    "start_unix_ns": mark.start_unix_ns,
                    "end_unix_ns": mark.end_unix_ns,
                    "thread": mark.thread,
                    "call": mark.call,
                    **stored_place(mark.place, cwd),
                }
                for mark in sources.marks
            ],
            "samples": [
                {"unix_ns": at, "thread": thread, **stored_place(place, cwd)} for at, thread, place in sources.samples
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
    place = None if collection.place is None else stored_place(collection.place, cwd)
    return {**asdict(collection), "place": place}
