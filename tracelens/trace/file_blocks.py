"""A trace file in blocks of equal length, each of which can be read without the others.

In: pieces of raw text, and the numbers of the blocks wanted. Out: per block the text of the events that begin in it, as
a file of its own. Where a block begins depends on the text around it alone, so that several processes which each read
some of the blocks have read every event once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tracelens.trace.events import BOUNDARY

BLOCK = 4 << 20
"""Raw bytes per block: some 40 ms of work, which is the longest that one process waits for another."""
SEARCHED = 256 << 10
"""An event begins within this many bytes; a file with longer ones is not divided."""


class UndividedError(Exception):
    """The file cannot be read in blocks: it is damaged, or has an event that is longer than any."""


class FileBlocks:
    """The blocks of one file, to be asked for in ascending order."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._ahead = b""
        """Text that was unpacked and not used, from `_at` on."""
        self._at = 0
        self.goes_on = False
        """Whether the file goes on after the block that was read last."""

    def text(self, number: int) -> Iterator[bytes] | None:
        """The block's events as pieces of a trace file; None where the file ends before it. To be used up before the
        next block is asked for. Raises `UndividedError`."""
        head = self._head(number)
        if not head:
            return None
        self.goes_on = False
        if number == 0:
            return self._text(number, head)
        begin = BOUNDARY.search(head)
        if begin is not None:
            return self._text(number, b"[" + head[begin.end() :])
        if len(head) == SEARCHED:
            raise UndividedError
        return iter(())  # the end of the file, which belongs to the block before

    def _text(self, number: int, head: bytes) -> Iterator[bytes]:
        yield head
        while self._at < (number + 1) * BLOCK and (piece := self._some((number + 1) * BLOCK - self._at)):
            yield piece
        following = self._head(number + 1)
        end = BOUNDARY.search(following)
        if end is None and len(following) == SEARCHED:
            raise UndividedError
        self.goes_on = end is not None
        yield following if end is None else following[: end.start() + 1] + b"]"
        self._ahead, self._at = following + self._ahead, (number + 1) * BLOCK

    def _head(self, number: int) -> bytes:
        """The text in which the block's first event begins; shorter where the file ends."""
        while self._at < number * BLOCK and self._some(number * BLOCK - self._at):
            pass
        parts: list[bytes] = []
        have = 0
        while have < SEARCHED and (piece := self._some(SEARCHED - have)):
            parts.append(piece)
            have += len(piece)
        return b"".join(parts)

    def _some(self, most: int) -> bytes:
        """The next bytes of the file, at most so many; none at its end."""
        if not self._ahead:
            self._ahead = next(self._pieces, b"")
        piece, self._ahead = (self._ahead, b"") if len(self._ahead) <= most else _cut(self._ahead, most)
        self._at += len(piece)
        return piece


def _cut(text: bytes, at: int) -> tuple[bytes, bytes]:
    return text[:at], text[at:]


def count(claimed: Iterable[int]) -> int:
    """How many blocks there are, where these are all; raises `UndividedError` where one is missing."""
    numbers = sorted(claimed)
    if numbers != [*range(len(numbers))]:
        raise UndividedError
    return len(numbers)
