"""Making patches of a project in which one is applied already: from the files as they were before it.

In: a function that makes a patch, and the patch that stands. Out: the same Patch as before it was applied, its paths
those of the project. The files are put together in a folder of their own, because recipes read a project from the disk.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

from tracelens.model import Location, Patch
from tracelens.patch.code import movers
from tracelens.patch.effects.project import Project
from tracelens.run import AppliedPatch

Make = Callable[[Path, Path], Patch]
"""Makes a patch from a project's root and its script; what else it needs it brings along."""


def make(applied: AppliedPatch | None, root: Path, script: Path, places: Iterable[Location], recipe: Make) -> Patch:
    """`recipe(root, script)` on the original files; `places` name the files of the project that it reads."""
    root, script = root.resolve(), script.resolve()
    if applied is None:
        return recipe(root, script)
    with tempfile.TemporaryDirectory(prefix="tracelens-originals-") as name:
        shadow = Path(name).resolve()
        _restore(applied, _named(places, root, script), root, shadow)
        patch = recipe(shadow, shadow / script.relative_to(root))
    files = tuple(replace(file, path=root / file.path.relative_to(shadow)) for file in patch.files)
    return replace(patch, root=root, files=files)


def _named(places: Iterable[Location], root: Path, script: Path) -> set[Path]:
    files = {(folder / place.path).resolve() for place in places for folder in (root, script.parent)}
    files |= {root / place.path for place in movers.find(root)}
    found = {script, *(file for file in files if file.is_file() and file.is_relative_to(root))}
    project = Project(root)
    return found.union(*(project.imported(file) for file in found))


def _restore(applied: AppliedPatch, named: set[Path], root: Path, shadow: Path) -> None:
    before = {file.path.resolve(): file.before for file in applied.files}
    for path in {*named, *(file for file in before if file.is_relative_to(root))}:
        data = before[path] if path in before else path.read_bytes()
        if data is not None:  # the patch created the others
            copy = shadow / path.relative_to(root)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(data)
