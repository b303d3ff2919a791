"""The bytes of a trace file, decompressed, a piece at a time.

In: a path (or `-` for standard input); plain, gzip or zstd, told apart by content. Out: pieces of the raw text. A file
that is cut short or damaged gives everything before the damage and a remark in `LoadNotes`; only a file that cannot be
opened raises `InputError`. Memory stays at one piece, however much a file expands.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from tracelens.errors import InputError
from tracelens.messages import say
from tracelens.trace.load_notes import LoadNotes

try:
    inflate: Any = importlib.import_module("isal.isal_zlib")
except ImportError:  # a platform without wheels of it: four times slower, same result
    inflate = zlib

PIECE = 256 << 10
"""Raw bytes per piece: large against call costs, small enough to stay in the cache until it is decoded."""
PACKED = 32 << 10
"""Compressed bytes per piece: what one call leaves of it is copied for the next."""
SMALL_STEP = 64
"""Compressed bytes per call when a damaged file is read again up to the damage: at most this much is lost."""
GZIP_MAGIC, ZSTD_MAGIC = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
GZIP_WINDOW = 31
"""zlib's number for "gzip header, largest window"."""
ZSTD_WINDOW = 1 << 27
"""What `zstd` itself accepts unasked: 128 MiB; a damaged or malicious header may ask for more memory than there is."""
ZSTD_STEP = 1 << 10
"""Compressed bytes per call: a kibibyte can expand to 32 MiB, and what a call yields is not bounded otherwise."""

_HINT = say("give a .json or .json.gz that torch.profiler wrote, or a run folder of `tracelens profile`")
_DAMAGE: tuple[type[BaseException], ...] = (zlib.error, inflate.error, EOFError)


def pieces(path: Path | str, notes: LoadNotes, max_bytes: int | None = None) -> Iterator[bytes]:
    """Yield the raw text of `path`; stops with a warning after `max_bytes`."""
    total = 0
    with _opened(path) as handle:
        for piece in _decompressed(handle, str(path), notes):
            total += len(piece)
            if max_bytes is not None and total > max_bytes:
                notes.warn(say("only the first {max_bytes} bytes were read, as asked", max_bytes=max_bytes))
                yield piece[: len(piece) - (total - max_bytes)]
                return
            yield piece


@contextlib.contextmanager
def _opened(path: Path | str) -> Iterator[IO[bytes]]:
    if str(path) == "-":
        yield sys.stdin.buffer
        return
    try:
        handle = open(path, "rb")  # noqa: SIM115 - closed below; only the opening may raise InputError
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(say("{path} cannot be read: {reason}", path=path, reason=reason), hint=_HINT) from error
    with handle:
        yield handle


def _decompressed(handle: IO[bytes], name: str, notes: LoadNotes) -> Iterator[bytes]:
    head = _read(handle, PIECE, name, notes)
    if head.startswith(GZIP_MAGIC):
        yield from _gunzipped(handle, head, name, notes)
    elif head.startswith(ZSTD_MAGIC):
        yield from _unzstd(handle, head, name, notes)
    else:
        while head:
            yield head
            head = _read(handle, PIECE, name, notes)


def _read(handle: IO[bytes], size: int, name: str, notes: LoadNotes) -> bytes:
    """Read, taking a failing disk or network share for the end of the file."""
    try:
        return handle.read(size)
    except IsADirectoryError as error:
        raise InputError(say("{name} is a folder", name=name), hint=say("give a trace file or a run folder")) from error
    except OSError as error:
        notes.warn(say("reading stopped: {strerror}", strerror=error.strerror or error))
        return b""


def _gunzipped(handle: IO[bytes], head: bytes, name: str, notes: LoadNotes) -> Iterator[bytes]:
    given = 0
    try:
        for piece in _members(handle, head, PACKED, name, notes):
            given += len(piece)
            yield piece
    except _DAMAGE:
        notes.warn(say("the compressed data is damaged; everything before the damage was read"))
        if handle.seekable():
            handle.seek(0)
            yield from _up_to_damage(_members(handle, handle.read(SMALL_STEP), SMALL_STEP, name, notes), given)


def _up_to_damage(again: Iterator[bytes], given: int) -> Iterator[bytes]:
    """What the second reading, in small steps, yields beyond the `given` bytes of the first."""
    with contextlib.suppress(*_DAMAGE):
        for piece in again:
            if given < len(piece):
                yield piece[given:]
            given = max(0, given - len(piece))


def _members(handle: IO[bytes], data: bytes, step: int, name: str, notes: LoadNotes) -> Iterator[bytes]:
    """All gzip members; bytes after the last one are left alone."""
    while data.startswith(GZIP_MAGIC):
        inflater = inflate.decompressobj(GZIP_WINDOW)
        while not inflater.eof:
            if not data and not (data := _read(handle, step, name, notes)):
                notes.warn(say("the compressed data ends early (a killed job or a full disk)"))
                return
            piece = inflater.decompress(data, PIECE)
            data = inflater.unconsumed_tail
            if piece:
                yield piece
        data = inflater.unused_data or _read(handle, step, name, notes)
        if len(data) < len(GZIP_MAGIC):
            data += _read(handle, step, name, notes)
    if data.strip(b"\0"):
        notes.warn(say("bytes after the end of the compressed data were ignored"))


def _unzstd(handle: IO[bytes], data: bytes, name: str, notes: LoadNotes) -> Iterator[bytes]:
    zstandard = _zstandard()
    unpacker = zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW)
    while data.startswith(ZSTD_MAGIC):
        frame = unpacker.decompressobj()
        while not frame.eof:
            if not data and not (data := _read(handle, PACKED, name, notes)):
                notes.warn(say("the compressed data ends early (a killed job or a full disk)"))
                return
            try:
                piece = frame.decompress(data[:ZSTD_STEP])
            except zstandard.ZstdError:
                notes.warn(say("the compressed data is damaged; everything before the damage was read"))
                return
            data = frame.unused_data + data[ZSTD_STEP:]
            if piece:
                yield piece
        while len(data) < len(ZSTD_MAGIC) and (more := _read(handle, PACKED, name, notes)):
            data += more
    if data.strip(b"\0"):
        notes.warn(say("bytes after the end of the compressed data were ignored"))


def _zstandard() -> Any:
    try:
        return importlib.import_module("zstandard")
    except ImportError:
        hint = say("pip install zstandard, or unpack it: zstd -d FILE")
        raise InputError(say("reading .zst needs the zstandard library"), hint=hint) from None
