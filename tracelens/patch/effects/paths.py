"""Methods of a `pathlib.Path`, which is data like any other: what is done by them is told by their arguments.

In: a called function's full name and what it is handed. Out: the name of the vocabulary for what it does.
"""

from __future__ import annotations

from tracelens.patch.effects.dispatch import Arguments

_OF_PATHS_TOO = frozenset({"<data>.replace", "<data>.copy", "<data>.move", "<data>.to_string"})
"""Methods of texts, dicts and arrays; the one argument of a path's, or a table's, is where the file goes."""
_GOES_TO = frozenset({"target", "buf"})
_CLASSES = frozenset({"pathlib.Path", "pathlib.PosixPath", "pathlib.WindowsPath"})


def full_name(full: str, given: Arguments) -> str:
    """`<data>.rename` for `path.replace(target)`; `<data>.unlink` for `Path.unlink(path)`."""
    owner, _, method = full.rpartition(".")
    unbound = owner in _CLASSES and len(given.positional) > 0
    own = f"<data>.{method}" if unbound else full
    number = len(given.positional) - unbound + len(_GOES_TO & given.named.keys())
    return "<data>.rename" if own in _OF_PATHS_TOO and (given.rest or number == 1) else own
