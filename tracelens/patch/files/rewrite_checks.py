"""No rewrite is trusted: what a rewritten file must pass before anyone sees it.

In: a file before and after. Out: nothing, or a sentence that says what is wrong; then the whole file is given up.
"""

from __future__ import annotations

import io
import tokenize
import warnings
from collections import Counter
from functools import lru_cache

from tracelens.patch.code.source import PARSED_FILES, SourceFile, Unreadable, parse


def rewrite_mistake(before: SourceFile, after: bytes) -> str | None:
    """What is wrong with a rewritten file, in a sentence; None if it parses, compiles and kept its comments."""
    try:
        parse(before.path, before.shown, after, before.entry)  # kept for those who read the result
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


@lru_cache(maxsize=PARSED_FILES)
def _comments(data: bytes) -> Counter[str]:
    tokens = tokenize.tokenize(io.BytesIO(data).readline)
    return Counter(token.string.strip() for token in tokens if token.type == tokenize.COMMENT)
