"""Compiled templates of the page, kept where Python keeps its compiled modules.

In: the source of a template. Out: its byte code, compiled by the first command that draws a page after an installation:
compiling took as long as drawing. What is kept is read only if it was made of the same source with the same settings
by the same versions of Python and Jinja; it is as trusted as the `.pyc` files beside it. Where nothing can be written
nothing is kept.
"""

from __future__ import annotations

import contextlib
import os
import sys
from importlib.util import cache_from_source
from pathlib import Path

from jinja2.bccache import Bucket, BytecodeCache


class CompiledTemplates(BytecodeCache):
    """One file per template in the `__pycache__` of this package. `settings`: those of the environment that matter."""

    def __init__(self, settings: str) -> None:
        self._settings = settings

    def get_source_checksum(self, source: str) -> str:
        """Also of the settings, on which the byte code depends as on the source."""
        return super().get_source_checksum(f"{self._settings}\n{source}")

    def load_bytecode(self, bucket: Bucket) -> None:
        """Leaves the bucket empty where nothing usable is kept."""
        with contextlib.suppress(OSError, EOFError, ValueError, TypeError), _place(bucket).open("rb") as file:
            bucket.load_bytecode(file)

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Written apart and renamed, because other commands may read it meanwhile."""
        if sys.dont_write_bytecode:
            return
        place = _place(bucket)
        unfinished = place.with_name(f"{place.name}.{os.getpid()}")
        with contextlib.suppress(OSError):
            place.parent.mkdir(parents=True, exist_ok=True)
            unfinished.write_bytes(bucket.bytecode_to_string())
            unfinished.replace(place)


def _place(bucket: Bucket) -> Path:
    """`bucket.key` is a hash of the template's name."""
    return Path(cache_from_source(str(Path(__file__).with_name(f"template_{bucket.key}.py"))))
