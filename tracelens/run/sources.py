"""The user's source text: the training script as it was recorded, and the files that locations name.

In: a Run, a script named by the user, Stalls. Out: texts. Apart because a line that is shown beside a number must be
the line that was running: a file that changed since the recording is not shown and not patched.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tracelens.errors import InputError
from tracelens.messages import say
from tracelens.model import Abstention, Owners, Run, Stall
from tracelens.run.folder import sha256

SourceScope = Literal["all", "project", "none"]
LARGEST_BYTES = 4 << 20
"""A larger file was generated; its lines are not shown."""
_HINT = say("give it with --script, or record again: tracelens profile SCRIPT")


@dataclass(frozen=True, slots=True)
class TrainingScript:
    """The training script: where it lies, the folder of its project, its text as it was recorded."""

    path: Path
    root: Path
    text: str


def training_script(
    run: Run | None, given: Path | None, originals: Mapping[Path, bytes] | None = None
) -> TrainingScript | Abstention:
    """The script as recorded. A file named by the user is taken as it is; one of the Run must not have changed.

    `originals` are the bytes from before a patch that is applied at present.
    """
    if given is not None:
        data = _content(given)
        if data is None:
            raise InputError(
                say("{given} is not a file that can be read", given=given),
                hint=say("--script names the training script"),
            )
        return TrainingScript(given.resolve(), given.resolve().parent, _text(data))
    if run is None or run.script is None:
        return _missing(say("the recording does not name a training script"))
    data = _content(run.script)
    if data is None:
        return _missing(
            say("the training script {script} is not where it was recorded, or cannot be read", script=run.script.name)
        )
    recorded = (run.meta.get("script") or {}).get("sha256")
    data = (originals or {}).get(run.script.resolve(), data)
    if recorded is not None and sha256(data) != recorded:
        return _missing(say("the training script {script} changed since it was recorded", script=run.script.name))
    root = run.cwd if run.script.is_relative_to(run.cwd) else run.script.parent
    return TrainingScript(run.script, root, _text(data))


def located_texts(
    stalls: Iterable[Stall], owners: Owners, run: Run | None, code: TrainingScript | Abstention, which: SourceScope
) -> dict[str, str]:
    """Text per path that the places of waits and owners name; `project` keeps to files below the script's project."""
    waits = (stall.location.path for stall in stalls if stall.location is not None)
    lines = (location.path for owner in owners.owners for location in owner.locations)
    return texts_of((*waits, *lines), run, code, which)


def texts_of(
    paths: Iterable[str], run: Run | None, code: TrainingScript | Abstention, which: SourceScope
) -> dict[str, str]:
    """Text per path, of the files at hand."""
    if which == "none" or isinstance(code, Abstention):
        return {}
    texts: dict[str, str] = {}
    for path in sorted(set(paths)):
        file = _file(path, run, code)
        inside = file is not None and file.resolve().is_relative_to(code.root.resolve())
        if file is not None and (inside or which == "all"):
            is_script = file.resolve() == code.path.resolve()
            texts[path] = code.text if is_script else _text(_content(file) or b"")
    return texts


def _file(path: str, run: Run | None, code: TrainingScript) -> Path | None:
    """The file a location means; a bare name that equals the script's is the script, wherever that lies now."""
    for folder in (run.cwd if run else code.root, code.root):
        if _is_source(folder / path):
            return folder / path
    return code.path if Path(path).name == code.path.name else None


def _is_source(path: Path) -> bool:
    with contextlib.suppress(OSError):  # a location in a trace can name anything
        return path.is_file() and path.stat().st_size <= LARGEST_BYTES
    return False


def _content(path: Path) -> bytes | None:
    """None for what is no file or may not be read."""
    with contextlib.suppress(OSError):
        return path.read_bytes() if path.is_file() else None
    return None


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _missing(what: str) -> Abstention:
    return Abstention("patch", what, _HINT)
