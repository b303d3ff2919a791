"""Writing a patch into the user's project, and taking it back to the byte.

In: a Patch and a backup folder; later the folder alone. Out: files written or restored. The backup (`run/backup`) is
complete before the first file changes, so whatever happens in between, `revert` can put everything back.
"""

from __future__ import annotations

import contextlib
import errno
import shutil
import stat
from collections.abc import Sequence
from pathlib import Path

from tracelens import run
from tracelens.errors import InputError, Refused
from tracelens.messages import say
from tracelens.model import FilePatch, Patch
from tracelens.patch.files.folder_lock import exclusive
from tracelens.run.backup import MANIFEST, BackupEntry, backup_entries, file_digest, new_mark, write_manifest


def write(patch: Patch, backup: Path, scheme: str | None = None) -> None:
    """Write all files of a patch, or none. `scheme` is kept with the backup.

    Raises `Refused` if a file is not what the patch was made from, if the backup folder holds another patch that is
    still applied, or if a file cannot be written; then everything is as before. Another Run's patch of files in the
    same folders is waited for.
    """
    if patch.empty:
        return
    with exclusive(backup.parent, {one.path.parent for one in patch.files}):
        _check_backup_is_free(backup)
        for one in patch.files:
            _check_unchanged(one)
        _write(patch, backup, scheme)


def revert(backup: Path, projects: Sequence[Path] = ()) -> tuple[Path, ...]:
    """Put every file back as it was, remove those the patch created, and return their paths.

    Raises `Refused` if a file was edited since or lies in none of `projects` (a Run may come from another machine), and
    `InputError` without a backup; then nothing is changed.
    """
    with exclusive(backup.parent, _folders(backup)):
        return _revert(backup, projects)


def clean_up(backup: Path) -> None:
    """Remove what a killed `write` or `revert` of this backup left beside the user's files."""
    if (backup / MANIFEST).is_file():
        with exclusive(backup.parent, _folders(backup)):
            _sweep(backup_entries(backup) if (backup / MANIFEST).is_file() else ())


def check_not_edited(backup: Path) -> None:
    """Raise `Refused` where a patch is applied and one of its files was edited since: a new patch would be of both."""
    if not (backup / MANIFEST).is_file():
        return
    edited = [
        entry.path for entry in backup_entries(backup) if file_digest(entry.path) not in (entry.after, entry.before)
    ]
    if edited:
        names = ", ".join(str(path) for path in edited)
        hint = say("undo these edits and `tracelens revert`, then apply again; or apply from a new recording")
        raise Refused(say("a patch is applied already, and edited since: {names}", names=names), hint=hint)


def is_applied(patch: Patch, applied: run.AppliedPatch | None) -> bool:
    """Whether the files hold exactly this patch at present; `applied` is what they hold."""
    if applied is None or patch.empty:
        return False
    return {file.path: file.after for file in applied.files} == {file.path: file.after for file in patch.files}


# ----------------------------------------------------------------------------------------------------- helpers


def _is_edited(entry: BackupEntry) -> bool:
    """Whether a file is neither as it was nor as the patch left it."""
    return file_digest(entry.path) not in (entry.after, entry.before)


def _folders(backup: Path) -> set[Path]:
    """Of the files that a backup names. Read before they are locked; a backup that changes meanwhile is its Run's."""
    return {entry.path.parent for entry in backup_entries(backup)} if (backup / MANIFEST).is_file() else set()


def _sweep(entries: Sequence[BackupEntry]) -> None:
    """Remove plain files under the names that this backup's mark gives; other files are not ours."""
    for entry in entries:
        if entry.mark is not None:
            left = run.temporary(entry.path, entry.mark)
            with contextlib.suppress(OSError):
                if stat.S_ISREG(left.lstat().st_mode):
                    left.unlink()


def _write(patch: Patch, backup: Path, scheme: str | None) -> None:
    entries: list[BackupEntry] = []
    try:
        entries = _back_up(patch.files, backup, scheme)
        for one, entry in zip(patch.files, entries, strict=True):
            run.write_bytes(one.path, one.after, mark=entry.mark)
    except OSError as error:
        _take_back(entries, backup)
        raise Refused(
            say("{what_failed}; nothing was changed", what_failed=_what_failed(error)), hint=_cure(error)
        ) from error
    except BaseException:  # an interrupt between two files
        _take_back(entries, backup)
        raise


def _revert(backup: Path, projects: Sequence[Path]) -> tuple[Path, ...]:
    entries = backup_entries(backup)
    homes = [project.resolve() for project in projects]
    strange = [entry.path for entry in entries if homes and not any(map(entry.path.is_relative_to, homes))]
    if strange:
        hint = say("a backup only holds files of the project that was patched; look at it before you trust it")
        raise Refused(
            say("{backup} names a file outside the project: {strange}", backup=backup, strange=strange[0]), hint=hint
        )
    edited = [entry for entry in entries if _is_edited(entry)]
    if edited:
        names = ", ".join(str(entry.path) for entry in edited)
        hint = say("undo these edits first; the files as they were are in {backup}", backup=backup)
        raise Refused(say("edited since the patch was applied: {names}", names=names), hint=hint)
    for entry in entries:
        whole = entry.before is None or (entry.copy.is_file() and run.sha256(entry.copy.read_bytes()) == entry.before)
        if not whole:
            raise InputError(
                say("the backup of {path} is damaged: {copy}", path=entry.path, copy=entry.copy),
                hint=say("restore it from git"),
            )
    try:
        _sweep(entries)
        for entry in entries:
            _restore(entry)
    except OSError as error:
        hint = say(
            "make the file and its folder writable, then `tracelens revert` again; the backup {backup} is complete",
            backup=backup,
        )
        raise Refused(
            say("not all files were put back: {what_failed}", what_failed=_what_failed(error)), hint=hint
        ) from error
    _discard(backup)
    return tuple(entry.path for entry in entries)


def _check_backup_is_free(backup: Path) -> None:
    if (backup / MANIFEST).exists():
        entries = backup_entries(backup)
        _sweep(entries)
        digests = [file_digest(entry.path) for entry in entries]
        if any(digest != entry.before for digest, entry in zip(digests, entries, strict=True)):
            whole = all(digest != entry.before for digest, entry in zip(digests, entries, strict=True))
            said = (
                say("a patch is applied already")
                if whole
                else say("a patch was written in part when TraceLens was ended")
            )
            hint = (
                say("run `tracelens revert` first, or give another run")
                if whole
                else say("run `tracelens revert` first")
            )
            raise Refused(say("{said}; its backup is in {backup}", said=said, backup=backup), hint=hint)
        _discard(backup)  # ended before the first file was written, or after the last was put back
    shutil.rmtree(backup, ignore_errors=True)  # no manifest: never finished, or done with; no file is changed by it


def _check_unchanged(one: FilePatch) -> None:
    if one.path.is_symlink():
        raise Refused(
            say("{path} is a symbolic link", path=one.path), hint=say("give the project that holds the file itself")
        )
    if one.before is None:
        if one.path.exists():
            raise Refused(
                say("{path} has appeared since the patch was made", path=one.path), hint=say("make the patch again")
            )
    elif file_digest(one.path) != run.sha256(one.before):
        raise Refused(
            say("{path} has changed since the patch was made", path=one.path), hint=say("make the patch again")
        )


def _back_up(files: Sequence[FilePatch], backup: Path, scheme: str | None) -> list[BackupEntry]:
    listed, mark = [], new_mark()
    for number, one in enumerate(files):
        copy = backup / str(number)
        mode = None
        if one.before is not None:
            mode = one.path.stat().st_mode & 0o7777
            run.write_bytes(copy, one.before)
        before = None if one.before is None else run.sha256(one.before)
        listed.append(BackupEntry(one.path, before, run.sha256(one.after), mode, copy, mark))
    write_manifest(backup, listed, scheme, mark)
    return listed


def _restore(entry: BackupEntry) -> None:
    if entry.before is None:
        with contextlib.suppress(FileNotFoundError):
            entry.path.unlink()
    else:
        run.write_bytes(entry.path, entry.copy.read_bytes(), mode=entry.mode, mark=entry.mark)


def _take_back(entries: Sequence[BackupEntry], backup: Path) -> None:
    """After a failure: put back what was written, and only that; where even this fails, `revert` still can."""
    try:
        for entry in reversed(entries):
            if file_digest(entry.path) != entry.before:
                _restore(entry)
    except (OSError, InputError) as error:
        cure = _cure(error) if isinstance(error, OSError) else error.hint
        hint = say("{cure}; then `tracelens revert`; the files as they were are in {backup}", cure=cure, backup=backup)
        raise Refused(
            say(
                "the patch is written in part: {error}", error=error.message if isinstance(error, InputError) else error
            ),
            hint=hint,
        ) from error
    _discard(backup)


def _discard(backup: Path) -> None:
    """The list of files goes first: without it the rest of the folder means nothing, whenever the program ends."""
    with contextlib.suppress(OSError):
        (backup / MANIFEST).unlink(missing_ok=True)
    shutil.rmtree(backup, ignore_errors=True)


def _what_failed(error: OSError) -> str:
    name = error.filename2 or error.filename or "a file"  # of a rename that failed, the file it was to become
    return say("{name} cannot be written: {strerror}", name=name, strerror=error.strerror or error)


def _cure(error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return say("free some space")
    return say("make the file and its folder writable")
