"""Patching scripts as if every place of their batches waited once per step, without a recording: for corpora, checks.

In: scripts of one project, and the kinds of Edits to make. Out: a `Patch`, whose hunks say that no cost is known.
Nothing is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from tracelens.edit_kinds import EditKind, WaitGroup, definition
from tracelens.model import Edit, FilePatch, Location, Patch, Stall
from tracelens.patch.code.batches import batches, parsed
from tracelens.patch.code.source import SourceFile, Unreadable, parse
from tracelens.patch.files import diff
from tracelens.patch.loop import guards
from tracelens.patch.loop.sites import SiteKind, find
from tracelens.patch.recipes import PatchOptions, make

NOT_RECORDED = "nothing was recorded: what it costs is not known"
ONE_PER_STEP = 1.0
DEPTH = 1
WORKERS = 16
"""More than any script asks for, so that each loader is a place for more of them."""
_GROUPS: Mapping[SiteKind, WaitGroup] = {"read": "read", "sync": "synchronize", "copy": "copy"}


def patch_files(scripts: Iterable[Path], root: Path, intervals: Mapping[EditKind, int], options: PatchOptions) -> Patch:
    """The patch of several scripts of the project `root`, each by itself; `intervals`: the kinds to make, with their N.

    Raises `InputError` if a script cannot be read.
    """
    patches = [patch_script(script, root, intervals, options) for script in dict.fromkeys(scripts)]
    files: dict[Path, FilePatch] = {}
    for patch in patches:  # two scripts of a folder bring the same helpers
        files |= {file.path: file for file in patch.files}
    return Patch(
        root=root.resolve(),
        files=tuple(files.values()),
        hunks=tuple(hunk for patch in patches for hunk in patch.hunks),
        declined=tuple(item for patch in patches for item in patch.declined),
        diff=diff.unified(files.values(), root.resolve()),
        left_out=tuple(hunk for patch in patches for hunk in patch.left_out),
    )


def patch_script(script: Path, root: Path, intervals: Mapping[EditKind, int], options: PatchOptions) -> Patch:
    """The patch of one script."""
    script, root = script.resolve(), root.resolve()
    shown = script.relative_to(root).as_posix()
    edits: tuple[Edit, ...] = ()
    stalls: tuple[Stall, ...] = ()
    try:
        edits, stalls = _every_edit(parse(script, shown, script.read_bytes()), intervals)
    except (Unreadable, OSError):  # `make` says what is wrong with the file
        edits = tuple(Edit(kind, interval=interval) for kind, interval in list(intervals.items())[:1])
    patch = make(root, script, edits, stalls, options)
    hunks, left_out = (
        tuple(replace(hunk, evidence=NOT_RECORDED) for hunk in group) for group in (patch.hunks, patch.left_out)
    )
    return replace(patch, hunks=hunks, left_out=left_out)


def _every_edit(source: SourceFile, intervals: Mapping[EditKind, int]) -> tuple[tuple[Edit, ...], tuple[Stall, ...]]:
    """One Edit of each kind, for all places that it may act on, and the waits that stand for the places."""
    tree = parsed(source.data)
    inside = batches(tree) if tree is not None else ()
    places: dict[WaitGroup, tuple[int, ...]] = {
        group: _lines(site.line for site in find(source) if site.kind == kind and site.line in inside)
        for kind, group in _GROUPS.items()
    }
    places["steering-read"] = _lines(source.line(guard.node) for guard in guards.find(source))
    edits: list[Edit] = []
    for kind, interval in intervals.items():
        known = definition(kind)
        if not known.ends_waits:
            edits.append(Edit(kind, workers=WORKERS if "workers" in known.parameters else 0))
            continue
        names = tuple(_name(group, line) for group in known.acts_on for line in places.get(group, ()))
        if names:
            edits.append(Edit(kind, stalls=names, interval=interval, depth=DEPTH))
    stalls = (_stall(group, source.shown, line) for group, lines in places.items() for line in lines)
    return tuple(edits), tuple(stalls)


def _lines(numbers: Iterable[int]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(numbers))


def _name(group: WaitGroup, line: int) -> str:
    return f"{group}{line}"


def _stall(group: WaitGroup, file: str, line: int) -> Stall:
    """A wait that was not recorded: once per step, of no length."""
    name = _name(group, line)
    return Stall(name, "cudaStreamSynchronize", "d2h", ONE_PER_STEP, 0, 0, None, "unknown", Location(file, line))
