"""The methods of dataclasses, compiled by the first command after an installation and kept for the others.

`dataclasses` writes the methods of a class as text and compiles it in every process that imports the class: a third of
what our imports cost, half of it for LibCST. In: nothing. Out: a context in which the same text gives the same byte
code without being compiled again. What is kept lies where Python keeps its compiled modules, is read only by the same
Python and if it is whole, and is as trusted as the `.pyc` files beside it. Where nothing can be written it is not kept.
"""

from __future__ import annotations

import builtins
import contextlib
import dataclasses
import hashlib
import marshal
import os
import sys
from collections.abc import Iterator, Mapping
from importlib.util import cache_from_source
from pathlib import Path
from typing import Any

MOST_KEPT = 10_000
"""Texts: three times those of all our commands. Upgraded libraries leave theirs behind; then all are compiled anew."""

_PYTHON = sys.version.encode()
"""Byte code and its serial form belong to one build of Python."""

_DIGEST_BYTES = 16


class _Methods:
    """Byte code by the digest of its text."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self._known: dict[bytes, bytes] | None = None
        self._added = False

    def execute(self, text: str, variables: dict[str, Any], local: Mapping[str, Any]) -> None:
        """What `exec` does with a text, for the module `dataclasses`."""
        if self._known is None:  # `--help` defines hardly any
            self._known = _read(self._place)
        digest = hashlib.blake2b(text.encode(), digest_size=_DIGEST_BYTES).digest()
        if digest not in self._known:
            code = compile(text, "<string>", "exec", dont_inherit=True)
            self._known[digest] = marshal.dumps(code)
            self._added = True
        else:
            code = marshal.loads(self._known[digest])
        builtins.exec(code, variables, local)

    def keep(self) -> None:
        if self._known is not None and self._added and not sys.dont_write_bytecode:
            _write(self._place, self._known)


@contextlib.contextmanager
def kept(place: Path | None = None) -> Iterator[None]:
    """Dataclasses that are defined inside take the methods that were compiled before; `place`: the file of them."""
    methods = _Methods(place or Path(cache_from_source(str(Path(__file__).with_name("dataclass_methods_kept.py")))))
    module: dict[str, Any] = vars(dataclasses)
    before = module.get("exec", builtins.exec)
    module["exec"] = methods.execute
    try:
        yield
    finally:
        module["exec"] = before
        methods.keep()


def _read(place: Path) -> dict[bytes, bytes]:
    """Nothing where the file is missing, damaged, or of another Python."""
    try:
        data = place.read_bytes()
    except OSError:
        return {}
    digest, payload = data[:_DIGEST_BYTES], data[_DIGEST_BYTES:]
    if digest != _digest(payload):
        return {}
    known: dict[bytes, bytes] = marshal.loads(payload)
    return known if len(known) < MOST_KEPT else {}


def _write(place: Path, known: dict[bytes, bytes]) -> None:
    """Written apart and renamed, because other commands may read it meanwhile."""
    payload = marshal.dumps(known)
    unfinished = place.with_name(f"{place.name}.{os.getpid()}")
    with contextlib.suppress(OSError):
        place.parent.mkdir(parents=True, exist_ok=True)
        unfinished.write_bytes(_digest(payload) + payload)
        unfinished.replace(place)


def _digest(payload: bytes) -> bytes:
    """Of the payload and of the Python that made it."""
    return hashlib.blake2b(_PYTHON + payload, digest_size=_DIGEST_BYTES).digest()
