"""Patching scripts as if every place of their batches waited once per step, without a recording: for corpora, checks.

In: scripts of one project, and the kinds of Edits to make. Out: a `Patch`, whose hunks say that no cost is known.
Nothing is written.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import libcst as cst

from tracelens.edit_kinds import EditKind, WaitGroup, definition
from tracelens.messages import say
from tracelens.model import Edit, FilePatch, Location, Patch, Stall
from tracelens.patch.code.batches import batches
from tracelens.patch.code.names import walk
from tracelens.patch.code.source import SourceFile, Unreadable, parse
from tracelens.patch.effects.project import parsed
from tracelens.patch.files import diff, vendored
from tracelens.patch.loop import guards
from tracelens.patch.loop import options as option_defaults
from tracelens.patch.loop.never import never_runs
from tracelens.patch.loop.sites import SiteKind, find
from tracelens.patch.recipes import PatchOptions, make

NOT_RECORDED = say("nothing was recorded: what it costs is not known")
ONE_PER_STEP = 1.0
SELDOM = 0.1
"""Calls per step of a place below `if step % k == 0` where nobody says what k is: most often it is 10 or more."""
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
    for patch in patches:
        files |= {file.path: _joined(files.get(file.path), file) for file in patch.files}
    return Patch(
        root=root.resolve(),
        files=tuple(files.values()),
        hunks=tuple(hunk for patch in patches for hunk in patch.hunks),
        declined=tuple(item for patch in patches for item in patch.declined),
        diff=diff.unified(files.values(), root.resolve()),
        left_out=tuple(hunk for patch in patches for hunk in patch.left_out),
    )


def _joined(known: FilePatch | None, file: FilePatch) -> FilePatch:
    """Two scripts of a folder share one helper file, which has what either calls."""
    if known is None or file.path.name != f"{vendored.MODULE}.py":
        return file
    return replace(file, after=vendored.content(vendored.offers(known.after) | vendored.offers(file.after)))


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
    asked = tree is not None and (find(source) or guards.find(source))
    inside = batches(tree, _run_together(source)) if tree is not None and asked else ()
    places: dict[WaitGroup, tuple[int, ...]] = {
        group: _lines(
            site.line
            for site in find(source)
            if site.kind == kind and site.line in inside and not never_runs(source, site.node)
        )
        for kind, group in _GROUPS.items()
    }
    places["steering-read"] = _lines(source.line(guard.node) for guard in guards.find(source))
    edits: list[Edit] = []
    for kind, interval in intervals.items():
        known = definition(kind)
        if not (known.ends_waits and known.acts_on):
            every = interval if "interval" in known.parameters else 1
            edits.append(Edit(kind, interval=every, workers=WORKERS if "workers" in known.parameters else 0))
            continue
        names = tuple(_name(group, line) for group in known.acts_on for line in places.get(group, ()))
        if names:
            edits.append(Edit(kind, stalls=names, interval=interval, depth=DEPTH))
    shares = {site.line: _share(source, site.node) for site in find(source)}
    stalls = (
        _stall(group, Location(source.shown, line), shares.get(line, ONE_PER_STEP))
        for group, lines in places.items()
        for line in lines
    )
    return tuple(edits), tuple(stalls)


def _run_together(source: SourceFile) -> Iterator[ast.Module]:
    """The other files of the project that run when this one does."""
    trees = map(source.project.tree, source.project.around(source.path))
    return (tree for tree in trees if tree is not None)


def _share(source: SourceFile, node: cst.CSTNode) -> float:
    """The calls per step of a place, by the `if step % k == 0` in its loop that it stands below."""
    below = node
    for ancestor in source.ancestors(node):
        if isinstance(ancestor, (cst.For, cst.While, cst.FunctionDef)):
            break
        if isinstance(ancestor, cst.If) and below is ancestor.body:
            divided = [part for part in walk(ancestor.test) if _is_remainder(part)]
            if divided:
                by = cst.ensure_type(divided[0], cst.BinaryOperation).right
                known = by if isinstance(by, cst.Integer) else option_defaults.default_of(source, by)
                return SELDOM if known is None else 1 / max(known.evaluated_value, 1)
        below = ancestor
    return ONE_PER_STEP


def _is_remainder(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Modulo)


def _lines(numbers: Iterable[int]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(numbers))


def _name(group: WaitGroup, line: int) -> str:
    return f"{group}{line}"


def _stall(group: WaitGroup, place: Location, calls: float) -> Stall:
    """A wait that was not recorded, of no length."""
    name = _name(group, place.line or 0)
    return Stall(name, "cudaStreamSynchronize", "d2h", calls, 0, 0, None, "unknown", place)
