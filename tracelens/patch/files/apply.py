"""Writing a patch into the user's project, and taking it back to the byte.

In: a Patch and a backup folder; later the folder alone. Out: files written or restored. The backup is complete
before the first file changes, so whatever happens in between, `revert` can put everything back.

    manifest.json    per file: its path, sha256 before and after, permissions
    0, 1, …          the files as they were
"""

from __future__ import annotations

import contextlib
import errno
import json
import re
import secrets
import shutil
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tracelens import jsonfile, run
from tracelens.errors import InputError, Refused
from tracelens.model import FilePatch, Patch
from tracelens.patch.files.alone import alone

MANIFEST = "manifest.json"
SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True)
class _Entry:
    """One file of a backup. `before` None: the patch created the file."""

    path: Path
    before: str | None
    after: str
    mode: int | None
    copy: Path
    mark: str | None
    """None in a backup of an earlier version."""


@dataclass(frozen=True, slots=True)
class AppliedPatch:
    """A patch that is applied at present, and the scheme it belongs to where that was said."""

    files: tuple[FilePatch, ...]
    scheme: str | None


def applied_patch(backup: Path) -> AppliedPatch | None:
    """The patch whose backup this is, as long as every file is still as it was written."""
    if not (backup / MANIFEST).is_file():
        return None
    entries = _entries(backup)
    if any(_digest(entry.path) != entry.after for entry in entries):
        return None
    return AppliedPatch(
        tuple(
            FilePatch(e.path, e.copy.read_bytes() if e.before is not None else None, e.path.read_bytes())
            for e in entries
        ),
        json.loads((backup / MANIFEST).read_text(encoding="utf-8")).get("scheme"),
    )


def write(patch: Patch, backup: Path, scheme: str | None = None) -> None:
    """Write all files of a patch, or none. `scheme` is kept with the backup.

    Raises `Refused` if a file is not what the patch was made from, if the backup folder holds another patch that is
    still applied, or if a file cannot be written; then everything is as before. Another Run's patch of files in the
    same folders is waited for.
    """
    if patch.empty:
        return
    with alone(backup.parent, {one.path.parent for one in patch.files}):
        _check_backup_is_free(backup)
        for one in patch.files:
            _check_unchanged(one)
        _write(patch, backup, scheme)


def revert(backup: Path, projects: Sequence[Path] = ()) -> tuple[Path, ...]:
    """Put every file back as it was, remove those the patch created, and return their paths.

    Raises `Refused` if a file was edited since or lies in none of `projects` (a Run may come from somebody else), and
    `InputError` without a backup; then nothing is changed.
    """
    with alone(backup.parent, _folders(backup)):
        return _revert(backup, projects)


def clean_up(backup: Path) -> None:
    """Remove what a killed `write` or `revert` of this backup left beside the user's files."""
    if (backup / MANIFEST).is_file():
        with alone(backup.parent, _folders(backup)):
            _sweep(_entries(backup) if (backup / MANIFEST).is_file() else ())


def check_not_edited(backup: Path) -> None:
    """Raise `Refused` where a patch is applied and one of its files was edited since: a new patch would be of both."""
    if not (backup / MANIFEST).is_file():
        return
    edited = [entry.path for entry in _entries(backup) if _digest(entry.path) not in (entry.after, entry.before)]
    if edited:
        names = ", ".join(str(path) for path in edited)
        hint = "undo these edits and `tracelens revert`, then apply again; or apply from a new recording"
        raise Refused(f"a patch is applied already, and edited since: {names}", hint=hint)


# ----------------------------------------------------------------------------------------------------- helpers


def _folders(backup: Path) -> set[Path]:
    """Of the files that a backup names. Read before they are locked; a backup that changes meanwhile is its Run's."""
    return {entry.path.parent for entry in _entries(backup)} if (backup / MANIFEST).is_file() else set()


def _sweep(entries: Sequence[_Entry]) -> None:
    """Only plain files under the very names that this backup's mark gives: anything else is somebody else's."""
    for entry in entries:
        if entry.mark is not None:
            left = run.temporary(entry.path, entry.mark)
            with contextlib.suppress(OSError):
                if stat.S_ISREG(left.lstat().st_mode):
                    left.unlink()


def _write(patch: Patch, backup: Path, scheme: str | None) -> None:
    entries: list[_Entry] = []
    try:
        entries = _back_up(patch.files, backup, scheme)
        for one, entry in zip(patch.files, entries, strict=True):
            run.write_bytes(one.path, one.after, mark=entry.mark)
    except OSError as error:
        _take_back(entries, backup)
        raise Refused(f"{_what_failed(error)}; nothing was changed", hint=_cure(error)) from error
    except BaseException:  # an interrupt between two files
        _take_back(entries, backup)
        raise


def _revert(backup: Path, projects: Sequence[Path]) -> tuple[Path, ...]:
    entries = _entries(backup)
    homes = [project.resolve() for project in projects]
    strange = [entry.path for entry in entries if homes and not any(map(entry.path.is_relative_to, homes))]
    if strange:
        hint = "a backup only holds files of the project that was patched; look at it before you trust it"
        raise Refused(f"{backup} names a file outside the project: {strange[0]}", hint=hint)
    edited = [entry for entry in entries if _digest(entry.path) not in (entry.after, entry.before)]
    if edited:
        names = ", ".join(str(entry.path) for entry in edited)
        hint = f"undo these edits first; the files as they were are in {backup}"
        raise Refused(f"edited since the patch was applied: {names}", hint=hint)
    for entry in entries:
        whole = entry.before is None or (entry.copy.is_file() and run.sha256(entry.copy.read_bytes()) == entry.before)
        if not whole:
            raise InputError(f"the backup of {entry.path} is damaged: {entry.copy}", hint="restore it from git")
    try:
        _sweep(entries)
        for entry in entries:
            _restore(entry)
    except OSError as error:
        hint = f"make the file and its folder writable, then `tracelens revert` again; the backup {backup} is complete"
        raise Refused(f"not all files were put back: {_what_failed(error)}", hint=hint) from error
    _discard(backup)
    return tuple(entry.path for entry in entries)


def _check_backup_is_free(backup: Path) -> None:
    if (backup / MANIFEST).exists():
        entries = _entries(backup)
        _sweep(entries)
        digests = [_digest(entry.path) for entry in entries]
        if any(digest != entry.before for digest, entry in zip(digests, entries, strict=True)):
            whole = all(digest != entry.before for digest, entry in zip(digests, entries, strict=True))
            said = "a patch is applied already" if whole else "a patch was written in part when TraceLens was ended"
            hint = "run `tracelens revert` first, or give another run" if whole else "run `tracelens revert` first"
            raise Refused(f"{said}; its backup is in {backup}", hint=hint)
        _discard(backup)  # ended before the first file was written, or after the last was put back
    shutil.rmtree(backup, ignore_errors=True)  # no manifest: never finished, or done with; no file is changed by it


def _check_unchanged(one: FilePatch) -> None:
    if one.path.is_symlink():
        raise Refused(f"{one.path} is a symbolic link", hint="give the project that holds the file itself")
    if one.before is None:
        if one.path.exists():
            raise Refused(f"{one.path} has appeared since the patch was made", hint="make the patch again")
    elif _digest(one.path) != run.sha256(one.before):
        raise Refused(f"{one.path} has changed since the patch was made", hint="make the patch again")


def _back_up(files: Sequence[FilePatch], backup: Path, scheme: str | None) -> list[_Entry]:
    entries, mark = [], secrets.token_hex(8)
    for number, one in enumerate(files):
        copy = backup / str(number)
        mode = None
        if one.before is not None:
            mode = one.path.stat().st_mode & 0o7777
            run.write_bytes(copy, one.before)
        before = None if one.before is None else run.sha256(one.before)
        entries.append(_Entry(one.path, before, run.sha256(one.after), mode, copy, mark))
    rows = [
        {
            "path": run.relative(entry.path.resolve(), backup.resolve()),
            "sha256_before": entry.before,
            "sha256_after": entry.after,
            "mode": entry.mode,
        }
        for entry in entries
    ]
    head = {"schema_version": SCHEMA_VERSION, "scheme": scheme, "mark": mark}
    run.write_json(backup / MANIFEST, {**head, "files": rows})
    return entries


_SHAPE = {"mark": str, "files": [{"path": str, "sha256_before": str, "sha256_after": str, "mode": int}]}


def _entries(backup: Path) -> list[_Entry]:
    path = backup / MANIFEST
    if not path.is_file():
        raise InputError(f"there is no backup in {backup}", hint="nothing was applied from this run")
    by_hand = "restore the files from git"
    manifest = jsonfile.read(path, missing=by_hand, damaged=by_hand)
    version = manifest.get("schema_version")
    if version != SCHEMA_VERSION:
        hint = "revert with the version of TraceLens that applied the patch"
        raise InputError(f"{path} has schema version {version!r}, this program reads {SCHEMA_VERSION}", hint=hint)
    try:
        jsonfile.check(manifest, _SHAPE)
        mark = _mark_of(manifest)
        return [_entry(row, number, backup, mark) for number, row in enumerate(manifest["files"])]
    except (KeyError, TypeError, ValueError, OSError) as error:
        raise InputError(f"{path} is not a backup's list of files: {error}", hint=by_hand) from error


def _mark_of(manifest: Mapping[str, Any]) -> str | None:
    """It becomes a part of file names: nothing but what we write ourselves is one."""
    mark: str | None = manifest.get("mark")
    if mark is not None and re.fullmatch(r"[0-9a-f]{16}", mark) is None:
        raise ValueError(f"{mark!r} is no mark")
    return mark


def _entry(row: Mapping[str, Any], number: int, backup: Path, mark: str | None) -> _Entry:
    path = (backup.resolve() / row["path"]).resolve()
    return _Entry(path, row["sha256_before"], row["sha256_after"], row["mode"], backup / str(number), mark)


def _restore(entry: _Entry) -> None:
    if entry.before is None:
        with contextlib.suppress(FileNotFoundError):
            entry.path.unlink()
    else:
        run.write_bytes(entry.path, entry.copy.read_bytes(), mode=entry.mode, mark=entry.mark)


def _take_back(entries: Sequence[_Entry], backup: Path) -> None:
    """After a failure: put back what was written, and only that; where even this fails, `revert` still can."""
    try:
        for entry in reversed(entries):
            if _digest(entry.path) != entry.before:
                _restore(entry)
    except (OSError, InputError) as error:
        cure = _cure(error) if isinstance(error, OSError) else error.hint
        hint = f"{cure}; then `tracelens revert`; the files as they were are in {backup}"
        raise Refused(f"the patch is written in part: {error}", hint=hint) from error
    _discard(backup)


def _discard(backup: Path) -> None:
    """The list of files goes first: without it the rest of the folder means nothing, whenever the program ends."""
    with contextlib.suppress(OSError):
        (backup / MANIFEST).unlink(missing_ok=True)
    shutil.rmtree(backup, ignore_errors=True)


def _what_failed(error: OSError) -> str:
    name = error.filename2 or error.filename or "a file"  # of a rename that failed, the file it was to become
    return f"{name} cannot be written: {error.strerror or error}"


def _cure(error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "free some space"
    return "make the file and its folder writable"


def _digest(path: Path) -> str | None:
    """The file's sha256; None if there is none (which is also how a created file looks before)."""
    try:
        return run.sha256(path.read_bytes()) if path.is_file() else None
    except OSError as error:
        hint = "make it readable, then try again"
        raise InputError(f"{path} cannot be read: {error.strerror or error}", hint=hint) from error
