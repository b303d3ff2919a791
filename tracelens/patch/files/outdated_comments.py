"""Comments that say that their line waits, behind a line that waits no more: an engineer takes them out with the wait.

In: a file before and after. Out: the file without them. `torch.cuda.synchronize()  # wait for the step to finish`
becomes `batch_done.record()`: what was said of the call that is gone does not hold of the new one. Any other comment is
the user's and stays, and so does one that tells a tool what to do.
"""

from __future__ import annotations

import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from tracelens.patch.code.source import PARSED_FILES

_SAYS_WAITING = re.compile(r"\b(wait|sync|block|flush|finish|stall)", re.IGNORECASE)
_FOR_TOOLS = re.compile(
    r"noqa|type:|pragma|pylint|fmt:|nosec|isort|yapf|tracelens|\b(todo|fixme|xxx|hack|note)\b", re.I
)
_WAITS = re.compile(r"\b(?:float|int|bool)\(|\.(?:synchronize|item|tolist|cpu|numpy|wait)\(")


class _Trailing(NamedTuple):
    """A comment behind code; `row` and `column` as tokenize counts them."""

    code: str
    comment: str
    row: int
    column: int


def without_outdated(before: bytes, after: bytes) -> bytes:
    """`after` without the comments of waits that it has no more; the same object where there are none."""
    old: dict[str, set[str]] = {}
    for one in _trailing(before):
        if _is_about_the_wait(one):
            old.setdefault(one.comment, set()).add(one.code)
    if not old:
        return after
    gone = [one for one in _trailing(after) if one.comment in old and _waits_no_more(one, old[one.comment])]
    return _cut(after, gone) if gone else after


def of_waits(data: bytes) -> Counter[str]:
    """The comments that say of a waiting line that it waits: with the wait they may go."""
    return Counter(one.comment for one in _trailing(data) if _is_about_the_wait(one))


def _is_about_the_wait(one: _Trailing) -> bool:
    says = _SAYS_WAITING.search(one.comment) is not None and _FOR_TOOLS.search(one.comment) is None
    return says and _WAITS.search(one.code) is not None


def _waits_no_more(one: _Trailing, old: set[str]) -> bool:
    return one.code not in old and _WAITS.search(one.code) is None


@lru_cache(maxsize=PARSED_FILES)
def _trailing(data: bytes) -> tuple[_Trailing, ...]:
    return tuple(_comments_behind_code(data))


def _comments_behind_code(data: bytes) -> Iterator[_Trailing]:
    for token in tokenize.tokenize(io.BytesIO(data).readline):
        row, column = token.start
        if token.type == tokenize.COMMENT and (code := token.line[:column].strip()):
            yield _Trailing(code, token.string.strip(), row, column)


def _cut(data: bytes, gone: list[_Trailing]) -> bytes:
    encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    lines = data.decode(encoding).split("\n")
    for one in gone:
        line = lines[one.row - 1]
        if line[one.column :].strip() == one.comment:  # else the lines of this file are counted in another way
            lines[one.row - 1] = line[: one.column].rstrip() + ("\r" if line.endswith("\r") else "")
    return "\n".join(lines).encode(encoding)
