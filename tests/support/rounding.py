"""Patches of levers that round otherwise, without a recording: what is written, and what is declined."""

from __future__ import annotations

import textwrap
from pathlib import Path

from tracelens.edit_kinds import EditKind
from tracelens.model import Edit, Patch
from tracelens.patch.recipes import PatchOptions, make


def written(folder: Path, kind: EditKind, files: dict[str, str], choice: str = "") -> Patch:
    """The patch of one lever of a project, whose script is its first file."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text).lstrip("\n"))
    script = folder / next(iter(files))
    return make(folder, script, (Edit(kind, choice=choice),), (), PatchOptions(unsafe=True))


def changed_lines(patch: Patch) -> list[str]:
    """The lines of the diff that are taken out or added."""
    lines = patch.diff.splitlines()
    return [line for line in lines if line[:1] in ("+", "-") and line[:3] not in ("+++", "---") and line[1:].strip()]


def obstacles(patch: Patch) -> list[str]:
    return [one.obstacle for one in patch.declined]


def write(patch: Patch) -> None:
    """Put it into the files."""
    for file in patch.files:
        file.path.write_bytes(file.after)
