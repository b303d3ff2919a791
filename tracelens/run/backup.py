"""The backup of an applied patch, as it lies in a Run folder: its manifest, and the files as they were.

    manifest.json    per file: its path, sha256 before and after, permissions
    0, 1, …          the files as they were

In: a backup folder. Out: its `BackupEntry`s, and the `AppliedPatch` while every file is still as it was written. Only
`patch/files/apply` writes and restores; the manifest is read here because which source text belongs to a Run depends
on it.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tracelens import jsonfile
from tracelens.errors import InputError
from tracelens.messages import say
from tracelens.model import FilePatch
from tracelens.run.folder import relative, sha256
from tracelens.run.writing import write_json

MANIFEST = "manifest.json"
MANIFEST_VERSION = 1
_SHAPE = {"mark": str, "files": [{"path": str, "sha256_before": str, "sha256_after": str, "mode": int}]}


@dataclass(frozen=True, slots=True)
class BackupEntry:
    """One file of a backup. `before` None: the patch created the file."""

    path: Path
    before: str | None
    after: str
    mode: int | None
    copy: Path
    mark: str | None
    """A part of the names of temporary files, by which a later run knows its own; None in an early backup."""


@dataclass(frozen=True, slots=True)
class AppliedPatch:
    """A patch that is in the user's files at present, and the scheme it belongs to where that was said."""

    files: tuple[FilePatch, ...]
    scheme: str | None


def applied_patch(backup: Path) -> AppliedPatch | None:
    """The patch whose backup this is, as long as every file is still as it was written."""
    if not (backup / MANIFEST).is_file():
        return None
    files = backup_entries(backup)
    if any(file_digest(entry.path) != entry.after for entry in files):
        return None
    return AppliedPatch(
        tuple(
            FilePatch(e.path, e.copy.read_bytes() if e.before is not None else None, e.path.read_bytes()) for e in files
        ),
        json.loads((backup / MANIFEST).read_text(encoding="utf-8")).get("scheme"),
    )


def backup_entries(backup: Path) -> list[BackupEntry]:
    """The files of a backup; raises `InputError` where there is none, or where the manifest is not ours."""
    path = backup / MANIFEST
    if not path.is_file():
        raise InputError(
            say("there is no backup in {backup}", backup=backup), hint=say("nothing was applied from this run")
        )
    by_hand = say("restore the files from git")
    manifest = jsonfile.read(path, missing=by_hand, damaged=by_hand)
    version = manifest.get("schema_version")
    if version != MANIFEST_VERSION:
        hint = say("revert with the version of TraceLens that applied the patch")
        raise InputError(
            say(
                "{path} has schema version {version!r}, this program reads {manifest_version}",
                path=path,
                version=version,
                manifest_version=MANIFEST_VERSION,
            ),
            hint=hint,
        )
    try:
        jsonfile.check(manifest, _SHAPE)
        mark = _mark_of(manifest)
        return [_entry(row, number, backup, mark) for number, row in enumerate(manifest["files"])]
    except (KeyError, TypeError, ValueError, OSError) as error:
        raise InputError(
            say("{path} is not a backup's list of files: {error}", path=path, error=error), hint=by_hand
        ) from error


def new_mark() -> str:
    """A mark for one write: no two backups share it."""
    return secrets.token_hex(8)


def write_manifest(backup: Path, files: Sequence[BackupEntry], scheme: str | None, mark: str) -> None:
    """The list of files; the backup counts from then on."""
    rows = [
        {
            "path": relative(entry.path.resolve(), backup.resolve()),
            "sha256_before": entry.before,
            "sha256_after": entry.after,
            "mode": entry.mode,
        }
        for entry in files
    ]
    head = {"schema_version": MANIFEST_VERSION, "scheme": scheme, "mark": mark}
    write_json(backup / MANIFEST, {**head, "files": rows})


def file_digest(path: Path) -> str | None:
    """The file's sha256; None if there is none (which is also how a created file looks before)."""
    try:
        return sha256(path.read_bytes()) if path.is_file() else None
    except OSError as error:
        hint = say("make it readable, then try again")
        raise InputError(
            say("{path} cannot be read: {strerror}", path=path, strerror=error.strerror or error), hint=hint
        ) from error


def _mark_of(manifest: Mapping[str, Any]) -> str | None:
    """It becomes a part of file names: nothing but what we write ourselves is one."""
    mark: str | None = manifest.get("mark")
    if mark is not None and re.fullmatch(r"[0-9a-f]{16}", mark) is None:
        raise ValueError(f"{mark!r} is no mark")
    return mark


def _entry(row: Mapping[str, Any], number: int, backup: Path, mark: str | None) -> BackupEntry:
    path = (backup.resolve() / row["path"]).resolve()
    return BackupEntry(path, row["sha256_before"], row["sha256_after"], row["mode"], backup / str(number), mark)
