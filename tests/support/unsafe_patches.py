"""Patches that need --unsafe: made, run, and their reasons."""

from __future__ import annotations

from pathlib import Path

from tests.support.patching import Outcome, fired, patch_of, patched_text, run
from tracelens.model import Edit, Patch

N = 10


def edits(text: str, *kinds: str) -> tuple[Edit, ...]:
    """One Edit per kind, at every line that fires."""
    out = []
    for kind in kinds:
        if kind in ("more-workers", "persistent-workers"):
            out.append(Edit(kind, workers=2 if kind == "more-workers" else 0))  # type: ignore[arg-type]
        else:
            out.append(Edit(kind, locations=fired(text), interval=N))  # type: ignore[arg-type]
    return tuple(out)


def unsafe(folder: Path, text: str, *kinds: str, **options: object) -> Patch:
    return patch_of(folder, text, edits(text, *kinds), unsafe=True, **options)


def ran(folder: Path, patch: Patch) -> Outcome:
    """Run the patched script beside the helper file that came with it."""
    folder.mkdir(parents=True, exist_ok=True)
    for one in patch.files:
        if one.path.name == "tracelens_runtime.py":
            (folder / one.path.name).write_bytes(one.after)
    return run(folder, patched_text(patch))


def reasons(patch: Patch, kind: str) -> list[str]:
    return [one.obstacle for one in patch.declined if one.edit == kind]
