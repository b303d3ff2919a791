"""No rewrite is trusted: what a rewritten file must pass before anyone sees it.

In: a file before and after. Out: nothing, or a sentence that says what is wrong; then the whole file is given up.
"""

from __future__ import annotations

import difflib
import io
import tokenize
import warnings
from collections import Counter

from tracelens.patch.source import SourceFile, Unreadable, parse


def mistake(before: SourceFile, after: bytes) -> str | None:
    """What is wrong with a rewritten file, in a sentence; None if it parses, compiles and kept its comments."""
    try:
        parse(before.path, before.shown, after)
    except Unreadable as error:
        return f"the patched file {error}"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the user's own code, such as invalid escapes: not ours to report
            compile(after, before.shown, "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        return f"the patched file does not compile: {error}"
    lost = _comments(before.data) - _comments(after)
    if lost:
        return f"a comment would be lost: {next(iter(lost))}"
    return None


def moved_line(before: bytes, after: bytes, line: int) -> int | None:
    """Where a line of the file as it was stands now; None where it was taken out."""
    old, new = before.splitlines(), after.splitlines()
    for tag, start, end, new_start, new_end in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if start <= line - 1 < end:
            same_size = end - start == new_end - new_start
            return new_start + line - start if tag == "equal" or (tag == "replace" and same_size) else None
    return None


def _comments(data: bytes) -> Counter[str]:
    tokens = tokenize.tokenize(io.BytesIO(data).readline)
    return Counter(token.string.strip() for token in tokens if token.type == tokenize.COMMENT)
