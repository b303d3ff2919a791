"""The sources that belong to a script which is tried in place of another.

In: a script. Out: the files of its own folder that it imports, directly or through one another. Other files there are
not part of the change. Nothing is executed: imports are read from the syntax tree.
"""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Iterator
from pathlib import Path

from tracelens.errors import UsageError
from tracelens.messages import say

MOST_FILES = 200
"""A change of more files than this is another project, which is recorded by itself."""


def imported(script: Path) -> tuple[Path, ...]:
    """The files below the script's folder that it imports, sorted; `UsageError` if they are too many."""
    folder = script.parent
    sources: set[Path] = set()
    pending = deque([script])
    while pending:
        for name in _names(pending.popleft()):
            for path in _files(folder, name):
                if path != script and path not in sources:
                    sources.add(path)
                    pending.append(path)
        if len(sources) > MOST_FILES:
            raise UsageError(
                say(
                    "{script} imports more than {most_files} files beside it", script=script.name, most_files=MOST_FILES
                ),
                hint=say("put both versions of the script into one folder, with the files that both import"),
            )
    return tuple(sorted(sources))


def _names(path: Path) -> Iterator[str]:
    """First parts of the modules that a file imports; nothing for what is no Python."""
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]


def _files(folder: Path, name: str) -> Iterator[Path]:
    """What `import name` would load from the folder; all of a package, whose modules import one another relatively."""
    package = folder / name
    if package.is_dir():
        yield from (path for path in package.rglob("*.py") if path.is_file())
    elif (module := folder / f"{name}.py").is_file():
        yield module
