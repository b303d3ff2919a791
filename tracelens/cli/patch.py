"""`tracelens patch`: every place that the recipes can change, without a Run; for corpora and checks."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tracelens.cli import options, output
from tracelens.cli.options import Presentation
from tracelens.cli.renderers.renderer import CommandOutcome, render
from tracelens.errors import InputError, UsageError
from tracelens.messages import joined, say

if TYPE_CHECKING:
    from tracelens.model import EditKind, Patch

INTERVAL = 10
NO_COST = say("No cost is known, because nothing was recorded: `tracelens profile` tells what each place costs.")
SAID = {"written": say("Written."), "shown": say("Not written: --dry-run."), "nothing": say("Nothing to write.")}


@dataclass(frozen=True, slots=True)
class EveryPlaceOptions:
    """What to patch, and how."""

    every_place: bool
    levers: tuple[str, ...]
    checked: bool
    project: Path | None
    dry_run: bool
    import_runtime: bool


@dataclass(frozen=True, slots=True)
class EveryPlaceResult:
    """What became of it: `written`, `shown` (dry run) or `nothing` to do. `folder` holds the backup."""

    outcome: str
    change: Patch
    folder: Path | None
    next_command: str


choices = options.bundled(
    "chosen",
    EveryPlaceOptions,
    click.option("--every-place", is_flag=True, help="Patch each place of a batch, as if it waited in each step."),
    click.option(
        "--lever", "levers", multiple=True, metavar="ID", help="Only the changes of these levers, or these Edits."
    ),
    click.option("--checked", is_flag=True, help="Also write what is not proved and has no known obstacle."),
    click.option(
        "--project",
        type=click.Path(path_type=Path, exists=True, file_okay=False),
        help="The folder whose sources belong together.  [default: the folder that holds all FILEs]",
    ),
    click.option("--dry-run", is_flag=True, help="Show the diff, write nothing."),
    options.import_runtime,
)


@click.command(short_help="Each place in FILEs that can be patched, without a run.")
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@choices
@options.presented("patch")
def patch(files: tuple[Path, ...], chosen: EveryPlaceOptions, shown: Presentation) -> None:
    """Patch every place of FILEs that the recipes can, as if each waited in every step. What they cost is not known.

    Meant for corpora and checks: a run tells which places cost something, and `apply` changes only those. A backup
    below tracelens-runs makes `revert` exact.
    """
    if not chosen.every_place:
        raise UsageError(
            say("without a run, only every place can be patched: --every-place"),
            hint=say("the places that cost something: tracelens profile train.py, then tracelens apply"),
        )
    scripts, project = _scripts(files, chosen.project)
    done = _patched(scripts, project, _intervals(chosen.levers), chosen)
    answer = CommandOutcome(lambda: _text(done, shown), _document(done))
    output.result(render(shown.renderer.outcome, answer, shown))
    if done.outcome == "written" and shown.for_people:
        output.note(say("written: {paths}", paths=", ".join(output.shown(file.path) for file in done.change.files)))


def _scripts(files: Sequence[Path], project: Path | None) -> tuple[tuple[Path, ...], Path]:
    """The files and the folder of their project; raises for what is no file in it."""
    for file in files:
        if file.is_dir():
            raise UsageError(
                say("{file} is a folder", file=file),
                hint=say("name its files: tracelens patch {file}/*.py --every-place", file=file),
            )
        if not file.is_file():
            raise InputError(
                say("{file} does not exist", file=file),
                hint=say("name Python files: tracelens patch train.py --every-place"),
            )
    scripts = tuple(dict.fromkeys(file.resolve() for file in files))
    root = (project or Path(os.path.commonpath([script.parent for script in scripts]))).resolve()
    outside = [script for script in scripts if not script.is_relative_to(root)]
    if outside:
        raise UsageError(
            say("{outside} is not below {root}", outside=outside[0], root=root),
            hint=say("--project names a folder that holds all FILEs"),
        )
    return scripts, root


def _intervals(levers: Sequence[str]) -> dict[EditKind, int]:
    """The kinds of Edits to make, each with its N: those of the schemes and Edits that were named, else all safe ones
    that need no known gain."""
    from tracelens.edit_kinds import SAFE_EDITS, definition
    from tracelens.schemes import rules

    if not levers:
        return dict.fromkeys((kind for kind in SAFE_EDITS if not definition(kind).needs_known_gain), INTERVAL)
    schemes = {rule.id: rule.edits for rule in rules.load().schemes}
    known = [*schemes, *(kind for kind in SAFE_EDITS if kind not in schemes)]
    wanted: dict[EditKind, int] = {}
    for lever in levers:
        if lever not in known:
            guess = options.did_you_mean(lever, known)
            raise UsageError(
                say("there is no lever {lever!r} here.{guess}", lever=lever, guess=guess),
                hint=say("one of: {known}", known=joined(", ", known)),
            )
        edits = schemes.get(lever)
        pairs = [(edit.kind, edit.interval or INTERVAL) for edit in edits] if edits is not None else []
        pairs += [(kind, INTERVAL) for kind in SAFE_EDITS if edits is None and kind == lever]
        for kind, interval in pairs:
            if kind in SAFE_EDITS:
                wanted[kind] = max(interval, wanted.get(kind, 0))
    return {kind: wanted[kind] for kind in SAFE_EDITS if kind in wanted}


def _patched(
    scripts: Sequence[Path], project: Path, intervals: dict[EditKind, int], chosen: EveryPlaceOptions
) -> EveryPlaceResult:
    from tracelens import run as runs
    from tracelens.patch.every_place import patch_files
    from tracelens.patch.files import apply as patcher
    from tracelens.patch.recipes import PatchOptions
    from tracelens.report import next_commands

    with output.progress(say("looking for places")):
        change = patch_files(
            scripts, project, intervals, PatchOptions(checked=chosen.checked, import_runtime=chosen.import_runtime)
        )
    record = next_commands.line("profile", output.shown(scripts[0]))
    if change.empty:
        return EveryPlaceResult("nothing", change, None, record)
    if chosen.dry_run:
        return EveryPlaceResult("shown", change, None, record)
    folder = runs.new_patch_folder(project, scripts)
    try:
        patcher.write(change, folder / runs.BACKUP_FOLDER)
    except BaseException:
        if not (folder / runs.BACKUP_FOLDER).exists():
            runs.remove_patch_folder(folder)
        raise
    return EveryPlaceResult(
        "written", change, folder, next_commands.line("revert", next_commands.folder(output.shown(folder)))
    )


def _text(done: EveryPlaceResult, shown: Presentation) -> str:
    from tracelens.report import every_place

    summary = say(
        "{changed} changed, {declined} declined. {no_cost}",
        changed=len(done.change.hunks),
        declined=len(done.change.declined),
        no_cost=NO_COST,
    )
    if shown.quiet:
        return say("{summary}\n{said}", summary=summary, said=SAID[done.outcome])
    return every_place.text(done.change, shown.style(), done.next_command, summary)


def _document(done: EveryPlaceResult) -> dict[str, Any]:
    """docs/patch.schema.json."""
    from tracelens.report import every_place

    return {
        "schema_version": 1,
        "outcome": done.outcome,
        "cost": None,
        **every_place.document(done.change),
        "folder": None if done.folder is None else output.shown(done.folder),
        "next": done.next_command,
    }
