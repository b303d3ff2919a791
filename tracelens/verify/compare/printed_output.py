"""Compare what two versions of a script print, leaving out the tokens that differ between two runs of the original.

In: standard outputs as text. Out: the first line that differs, or None. A token that varies between runs of the same
code (a time, a path with a process id) says nothing about the patch. It is masked where it stands and, for the same
line shape, in its column: a clock that happened to agree on line 7 is still a clock. A number with a unit of time is
masked always. Spaces beside it go with it: they pad a number to a width.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

_NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?|nan|inf)", re.IGNORECASE)
_PIECE = re.compile(r"([^\s,;:=()\[\]{}|/%]+)")
_SIXTIETHS = re.compile(r"[0-5]\d(?:\.\d+)?")
"""Minutes or seconds behind a colon."""
_NUMBER_WITH_UNIT = re.compile(r"[-+]?\d+(?:\.\d*)?([a-z]*)", re.IGNORECASE)
_TIMED = re.compile(r"(?:.*[_-])?(?:time|eta|elapsed|took|duration|speed|throughput)", re.IGNORECASE)
"""A word behind which stands a time or a rate."""
_UNIT = re.compile(
    r"\s+(?:ms|s|secs?|seconds?|minutes?|hours?)(?!\w)|(?:\s+\w+)?/(?:s|secs?|second)(?!\w)", re.IGNORECASE
)
"""What stands behind a time or a rate."""
_MASK = "\N{WHITE SQUARE}"


@dataclass(frozen=True, slots=True)
class Mask:
    """What to ignore: tokens by line number, tokens by line shape, and (where the tokenization differs) whole lines."""

    tokens: frozenset[tuple[int, int]] = frozenset()
    columns: frozenset[tuple[str, int]] = frozenset()
    lines: frozenset[int] = frozenset()
    comparable: bool = True
    """False where two originals printed different numbers of lines: nothing can be said about the output then."""


@dataclass(frozen=True, slots=True)
class LineDifference:
    """The first difference of two outputs; None on the side that ended earlier. Lines count from 1."""

    line: int
    original: str | None
    patched: str | None


def mask_of(outputs: Sequence[str]) -> Mask:
    """The tokens that differ between runs of the original."""
    base = lines(outputs[0])
    tokens: set[tuple[int, int]] = set()
    columns: set[tuple[str, int]] = set()
    whole: set[int] = set()
    for other in map(lines, outputs[1:]):
        if len(other) != len(base):
            return Mask(comparable=False)
        for number, (left, right) in enumerate(zip(base, other, strict=True)):
            a, b = _PIECE.split(left), _PIECE.split(right)
            if list(map(_unspaced, a[0::2])) != list(map(_unspaced, b[0::2])):
                whole.add(number)
                continue
            for index in (i for i in range(1, len(a), 2) if a[i] != b[i]):
                for part in _clock(a, index):
                    tokens.add((number, part))
                    columns.update(((_shape(left), part), (_shape(right), part)))
    return Mask(frozenset(tokens), frozenset(columns), frozenset(whole))


def difference(original: str, patched: str, mask: Mask, *, ordered: bool = True) -> LineDifference | None:
    """The first line that differs after masking. `ordered=False` compares the lines as a multiset (several ranks)."""
    left = [(masked(number, line, mask), line) for number, line in enumerate(lines(original))]
    right = [(masked(number, line, mask), line) for number, line in enumerate(lines(patched))]
    if not ordered:
        left.sort()
        right.sort()
    for number, (a, b) in enumerate(zip_longest(left, right, fillvalue=(None, None)), 1):
        if a[0] != b[0]:
            return LineDifference(number, a[1], b[1])
    return None


def masked(number: int, line: str, mask: Mask) -> str:
    """Line `number` (from 0) with its masked tokens replaced."""
    if number in mask.lines:
        return _MASK
    shape = _shape(line)
    pieces = _PIECE.split(line)
    for index in range(1, len(pieces), 2):
        if (number, index) in mask.tokens or (shape, index) in mask.columns or _is_time(pieces, index):
            pieces[index - 1 : index + 2] = _unspaced(pieces[index - 1]), _MASK, _unspaced(pieces[index + 1])
    return "".join(pieces)


def _is_time(pieces: Sequence[str], index: int) -> bool:
    """Whether a token is a time or a rate, by its unit or the word before it: two originals may round to the same, and
    the patch, which is faster, to another."""
    found = _NUMBER_WITH_UNIT.fullmatch(pieces[index])
    if found is None:
        return False
    known = found[1].lower() in ("ms", "s", "sec", "secs", "min", "mins", "m", "h", "hr", "hrs")
    said = index > 2 and not found[1] and _TIMED.fullmatch(pieces[index - 2]) is not None
    return known or said or _UNIT.match("".join(pieces[index + 1 : index + 5])) is not None


def _clock(pieces: Sequence[str], index: int) -> range:
    """The tokens of the time that token `index` is a part of: where the minutes differ, the hours may at any moment."""
    first = last = index
    while first > 1 and pieces[first - 1] == ":" and _SIXTIETHS.fullmatch(pieces[first]):
        first -= 2
    while last + 2 < len(pieces) and pieces[last + 1] == ":" and _SIXTIETHS.fullmatch(pieces[last + 2]):
        last += 2
    whole = last > first and pieces[first].isdigit()
    return range(first, last + 1, 2) if whole else range(index, index + 1)


def _shape(line: str) -> str:
    """The line without its numbers: what lines printed by one statement have in common."""
    return _unspaced(_NUMBER.sub("#", line))


def _unspaced(text: str) -> str:
    return "".join(text.split())


def lines(text: str) -> list[str]:
    """Lines without padding; a carriage return redraws a line, only its last state was left to be seen."""
    return [line.rstrip().rsplit("\r", 1)[-1] for line in text.split("\n") if line.strip()]
