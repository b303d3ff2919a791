"""How long the lines of a file may be: what its project says, or its own longest line.

In: a parsed file. Out: a number of characters. A patch that is wider than the file it goes into is the first thing that
the project's linter says.
"""

from __future__ import annotations

import re
from functools import lru_cache

from tracelens.patch.code.source import PARSED_FILES, SourceFile

SHORTEST, LONGEST = 79, 100
"""Of PEP 8, and of what is written where a file's own lines are longer than anybody wants them."""
_TOLD_IN = ("pyproject.toml", "ruff.toml", ".ruff.toml", "setup.cfg", "tox.ini", ".flake8")
_TOLD = re.compile(r"^\s*(?:max-line-length|max_line_length|line-length|line_length)\s*=\s*(\d+)", re.MULTILINE)
_MOST_BYTES = 1 << 16


@lru_cache(maxsize=PARSED_FILES)
def line_limit(source: SourceFile) -> int:
    """The longest line that a patch may write where it can be broken."""
    for name in _TOLD_IN:
        path = source.root / name
        found = _TOLD.search(path.read_text("utf-8", "replace")[:_MOST_BYTES]) if path.is_file() else None
        if found is not None:
            return max(int(found.group(1)), SHORTEST)
    longest = max((len(line.expandtabs(4)) for line in source.text.splitlines()), default=0)
    return min(max(longest, SHORTEST), LONGEST)
