"""Patches of the project that a Run recorded.

In: the project, its waits, Edits. Out: a Patch. Apart from the recipes, so that who only asks another process for
patches does not import LibCST.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tracelens import run as runs
from tracelens.model import Abstention, Edit, Patch, Stall
from tracelens.run import sources


@dataclass(frozen=True, slots=True)
class RecordedProject:
    """What patches of a Run are made of."""

    root: Path
    script: Path
    stalls: tuple[Stall, ...]
    applied: runs.AppliedPatch | None = None
    """The patch of this Run that is in the user's files at present."""


@dataclass(frozen=True, slots=True)
class WantedHunks:
    """Which hunks of a patch are wanted, and how they are to be made: `PatchOptions` says what each field means."""

    unsafe: bool = False
    only: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    import_runtime: bool = False
    checked: bool = True


def make(project: RecordedProject, edits: tuple[Edit, ...], wanted: WantedHunks) -> Patch:
    """The patch that makes `edits` in the files as they were recorded."""
    from tracelens.patch import recipes
    from tracelens.patch.files import originals

    options = recipes.PatchOptions(
        wanted.unsafe, wanted.only, wanted.skip, wanted.import_runtime, checked=wanted.checked, lossy=False
    )

    def made(root: Path, script: Path) -> Patch:
        return recipes.make(root, script, edits, project.stalls, options)

    places = (stall.location for stall in project.stalls if stall.location is not None)
    return originals.make(project.applied, project.root, project.script, places, made)


def read_ahead(paths: tuple[Path, ...], script: Path | None) -> None:
    """Work out what every patch of this Run needs, of the script that it names: who is asked next answers sooner."""
    path = runs.newest(Path(runs.RUNS_FOLDER)) if not paths else paths[0]
    run = runs.read(path) if runs.is_run(path) else None
    code = sources.training_script(run, script)
    if isinstance(code, Abstention):
        return
    from tracelens.patch import recipes  # noqa: F401 - is needed next
    from tracelens.patch.code import source

    root, entry = code.root.resolve(), code.path.resolve()
    if entry.is_relative_to(root):
        parsed = source.parse(entry, entry.relative_to(root).as_posix(), entry.read_bytes(), entry)
        _ = parsed.names, parsed.effects.replaced
