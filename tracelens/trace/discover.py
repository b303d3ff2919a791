"""Which trace files a path means.

In: a file, a folder or a glob. Out: trace files in the order of their ranks, as far as their names state one. No file
is read here.
"""

from __future__ import annotations

import glob
from pathlib import Path

from tracelens.errors import InputError
from tracelens.messages import say
from tracelens.trace.chrome import rank_from_name

TRACE_SUFFIXES = (".json", ".json.gz", ".json.zst", ".trace", ".trace.gz")
NOT_TRACES = ("run.json", "sources.json", "lines.json", "analysis.json", "verify.json", "monitor.json", "package.json")
"""JSON files that lie beside traces in a Run folder (and one that lies everywhere)."""
MAX_DEPTH = 2
"""A folder of ranks (`rank0/…`, `iteration_5/rank0_trace.json`), not a whole disk."""
_HINT = say("give a .json or .json.gz of torch.profiler, or a run folder of `tracelens profile`")


def discover(path: Path | str) -> tuple[Path, ...]:
    """The trace files that `path` means; raises `InputError` if it means none.

    A file (or `-`, standard input) is taken as it is, whatever its name. In a folder (and one level below) and for a
    glob, files count whose names end as traces do. Files named `*.pt.trace.json*` exclude others beside them: only
    torch.profiler's handlers write that name.
    """
    given = Path(path)
    try:
        folder = given.is_dir()
        if str(path) == "-" or (given.exists() and not folder):
            return (given,)
    except OSError as error:
        raise InputError(
            say("{given} cannot be read: {strerror}", given=given, strerror=error.strerror), hint=_HINT
        ) from error
    if folder:
        candidates = [
            file for pattern in ("*", "*/*")[:MAX_DEPTH] for file in given.glob(pattern) if _looks_like_trace(file)
        ]
        what = say("the folder {given} holds no trace", given=given)
    else:
        candidates = [file for name in glob.glob(str(path), recursive=True) if _looks_like_trace(file := Path(name))]
        what = (
            say("{given} does not exist", given=given)
            if not glob.has_magic(str(path))
            else say("no trace matches {given}", given=given)
        )
    unmistakable = [file for file in candidates if ".pt.trace.json" in file.name]
    files = sorted(set(unmistakable or candidates), key=_order)
    if not files:
        raise InputError(what, hint=_HINT)
    return tuple(files)


def _looks_like_trace(file: Path) -> bool:
    named = file.name.endswith(TRACE_SUFFIXES) and file.name not in NOT_TRACES and not file.name.startswith(".")
    return named and file.is_file()


def _order(file: Path) -> tuple[bool, int, str]:
    """By stated rank as a number (10 after 9), files without one last, by name."""
    rank = rank_from_name(file)
    return rank is None, rank or 0, str(file)
