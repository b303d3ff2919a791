"""The folder of a patch that was made without a recording: its backup, and which project it belongs to.

    tracelens-runs/<utc>-patch-<id>/
      patch.json    the folder of the project and the scripts, relative to this folder
      backup/       as in a Run folder

It lies beside the Runs, so that `revert` finds it, and is no Run: no other command takes it for one.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tracelens import jsonfile
from tracelens.errors import InputError
from tracelens.jsonfile import Shape
from tracelens.messages import say
from tracelens.run.folder import RUNS_FOLDER, new_folder, relative
from tracelens.run.writing import write_json

PATCH_DESCRIPTION = "patch.json"
PATCH_SCHEMA_VERSION = 1
_SHAPE: Shape = {"project": str, "scripts": [str]}


@dataclass(frozen=True, slots=True)
class PatchFolder:
    """What patch.json says."""

    path: Path
    project: Path
    scripts: tuple[Path, ...]


def new_patch_folder(project: Path, scripts: Iterable[Path]) -> Path:
    """Make the folder of a patch below the current folder's Runs."""
    folder = new_folder("patch", Path(RUNS_FOLDER))
    home = folder.resolve()
    document = {
        "schema_version": PATCH_SCHEMA_VERSION,
        "project": relative(project.resolve(), home),
        "scripts": [relative(script.resolve(), home) for script in scripts],
    }
    write_json(folder / PATCH_DESCRIPTION, document)
    return folder


def remove_patch_folder(folder: Path) -> None:
    """Remove the folder of a patch that was not written, or that was taken back; one that holds more stays."""
    with contextlib.suppress(OSError):
        (folder / PATCH_DESCRIPTION).unlink(missing_ok=True)
        folder.rmdir()


def is_patch_folder(folder: Path) -> bool:
    """Whether a folder is one of these; no for a path that cannot even be looked at."""
    with contextlib.suppress(OSError):
        return (folder / PATCH_DESCRIPTION).is_file()
    return False


def read_patch_folder(folder: Path) -> PatchFolder:
    """Read patch.json; raises `InputError` with the file and what is wrong with it."""
    path, by_hand = folder / PATCH_DESCRIPTION, say("restore the files from its backup folder by hand, or from git")
    document = jsonfile.read(path, missing=by_hand, damaged=by_hand)
    version = document.get("schema_version")
    if version != PATCH_SCHEMA_VERSION:
        hint = say("revert with the version of TraceLens that wrote it")
        raise InputError(
            say(
                "{path} has schema version {version!r}, this program reads {patch_schema_version}",
                path=path,
                version=version,
                patch_schema_version=PATCH_SCHEMA_VERSION,
            ),
            hint=hint,
        )
    try:
        jsonfile.check(document, _SHAPE)
        home = folder.resolve()
        project, *scripts = ((home / name).resolve() for name in (document["project"], *document["scripts"]))
    except (KeyError, TypeError, ValueError, OSError) as error:
        raise InputError(
            say("{path} does not describe a patch: {error}", path=path, error=error), hint=by_hand
        ) from error
    return PatchFolder(folder, project, tuple(scripts))
