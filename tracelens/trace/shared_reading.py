"""A large trace file, read by several processes: each unpacks all of it and decodes the blocks that it comes to first.

In: a path. Out: what one process would have read, row for row; None for a small file, for one that is damaged anywhere,
and where only one core is free: those are read by one process. Decoding holds Python's lock, so that threads would not
do. The other processes are fresh ones, not forked: this one may have threads.
"""

from __future__ import annotations

import contextlib
import gc
import os
import pickle
import struct
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from tracelens.errors import InputError
from tracelens.trace import raw_bytes
from tracelens.trace.columns import ColumnBuilder, ColumnPart
from tracelens.trace.events import EventReader
from tracelens.trace.file_blocks import FileBlocks, UndividedError, count
from tracelens.trace.load_notes import LoadNotes

SMALLEST_PACKED, SMALLEST_PLAIN = 4 << 20, 64 << 20
"""Bytes of a file below which another process takes longer to start than it saves."""
MOST_READERS = 4
"""Each unpacks the whole file and takes some 60 MB of memory."""
CLAIMS = 1 << 14
"""Blocks at most; 64 GiB of text, and what a pipe holds."""
_CLAIM = struct.Struct("<i")
_PROGRAM = "import sys; sys.path[:0] = sys.argv[3:]; from tracelens.trace import shared_reading as s; s.help_reading()"


@dataclass
class BlockRows:
    """The events of one block; without rows where the file ends inside it."""

    number: int
    metadata: dict[str, Any] = field(default_factory=dict)
    rows: ColumnPart | None = None
    dropped: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class SharedReading:
    """What was read, the blocks in the order of the file."""

    metadata: dict[str, Any]
    parts: tuple[ColumnPart, ...]
    dropped: Counter[str]


def read(path: Path | str) -> SharedReading | None:
    """Read a large file together with other processes."""
    readers = min(_cores(), MOST_READERS)
    if readers < 2 or not _is_large(path):
        return None
    claims = _claims()
    try:
        with _helpers(path, claims, readers - 1) as answers:
            blocks = [*_blocks(path, claims)]
            for answer in answers:
                blocks += pickle.load(answer)
        return _joined(blocks)
    except (UndividedError, InputError, EOFError, pickle.UnpicklingError):
        return None
    finally:
        os.close(claims)


def help_reading() -> None:
    """The other process: read blocks until none is left, then hand over what was read."""
    gc.disable()  # nothing decoded forms a cycle
    _, path, claims, *_ = sys.argv
    with contextlib.suppress(UndividedError, InputError):
        pickle.dump([*_blocks(path, int(claims))], sys.stdout.buffer, protocol=5)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _is_large(path: Path | str) -> bool:
    try:
        with open(path, "rb") as handle:
            packed = handle.read(4).startswith((raw_bytes.GZIP_MAGIC, raw_bytes.ZSTD_MAGIC))
            return os.fstat(handle.fileno()).st_size >= (SMALLEST_PACKED if packed else SMALLEST_PLAIN)
    except (OSError, ValueError):  # whoever reads it says why
        return False


def _claims() -> int:
    """A pipe of the numbers of all blocks: to take one out is to claim it."""
    taken, given = os.pipe()
    os.set_blocking(given, False)
    with contextlib.suppress(BlockingIOError):
        os.write(given, b"".join(map(_CLAIM.pack, range(CLAIMS))))
    os.close(given)
    return taken


@contextlib.contextmanager
def _helpers(path: Path | str, claims: int, wanted: int) -> Iterator[list[IO[bytes]]]:
    """What the other processes answer once they are done."""
    folders = [str(Path(__file__).resolve().parents[2]), *filter(None, sys.path)]
    command = [sys.executable, "-ISc", _PROGRAM, str(path), str(claims), *folders]
    started: list[subprocess.Popen[bytes]] = []
    try:
        for _ in range(wanted):
            with contextlib.suppress(OSError):
                started.append(
                    subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, pass_fds=(claims,))
                )
        yield [helper.stdout for helper in started if helper.stdout is not None]
    finally:
        for helper in started:
            helper.kill()
            helper.communicate()


def _blocks(path: Path | str, claims: int) -> Iterator[BlockRows]:
    """The blocks that this process comes to first. Raises `UndividedError` for a damaged file."""
    unpacking = LoadNotes()
    blocks = FileBlocks(raw_bytes.pieces(path, unpacking))
    while (number := _claimed(claims)) is not None and (text := blocks.text(number)) is not None:
        yield _rows(number, text, blocks, str(path))
    if number is None or unpacking.warnings:
        raise UndividedError


def _claimed(claims: int) -> int | None:
    claim = os.read(claims, _CLAIM.size)
    return _CLAIM.unpack(claim)[0] if claim else None


def _rows(number: int, text: Iterator[bytes], blocks: FileBlocks, name: str) -> BlockRows:
    begin = next(text, None)
    if begin is None:
        return BlockRows(number)
    damage, unusable = LoadNotes(), LoadNotes()
    reader = EventReader(_with(begin, text), name, damage)
    builder = ColumnBuilder(unusable)
    for batch in reader:
        builder.add(batch)
    if damage.dropped or damage.warnings or not reader.ended or (blocks.goes_on and reader.has_tail):
        raise UndividedError
    return BlockRows(number, reader.metadata, builder.part(), unusable.dropped)


def _with(first: bytes, following: Iterator[bytes]) -> Iterator[bytes]:
    yield first
    yield from following


def _joined(blocks: list[BlockRows]) -> SharedReading:
    blocks.sort(key=lambda block: block.number)
    count(block.number for block in blocks)
    metadata: dict[str, Any] = {}
    dropped: Counter[str] = Counter()
    for block in blocks:
        metadata |= block.metadata
        dropped += block.dropped
    return SharedReading(metadata, tuple(block.rows for block in blocks if block.rows is not None), dropped)
