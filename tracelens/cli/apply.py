"""`tracelens apply`: show the diff, then write it, with a backup."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tracelens.cli import options, output
from tracelens.cli.options import Shown
from tracelens.cli.planning import Wishes, chosen_scheme, patching, pipeline_options, planned, typed
from tracelens.errors import UsageError

if TYPE_CHECKING:
    from tracelens.model import Hunk, IllustratedDiagnosis, Patch, PlannedDiagnosis
    from tracelens.patch.files.apply import AppliedPatch

SAID = {
    "written": "Written.",
    "shown": "Not written: --dry-run.",
    "already": "Applied already: nothing to do.",
    "nothing": "Nothing to apply.",
}


@click.command(short_help="Write the recommended patch; --dry-run only shows it.")
@options.one_run
@patching
@options.only
@options.skip
@click.option("--dry-run", is_flag=True, help="Show the diff, write nothing.")
@options.presented("text", "json")
def apply(
    run: Path | None, wishes: Wishes, only: tuple[str, ...], skip: tuple[str, ...], dry_run: bool, shown: Shown
) -> None:
    """Print the diff of the recommended scheme and write it; a backup makes `revert` exact."""
    folder = options.run_folder(run)
    diagnosis = planned((folder,), wishes, count_unsafe=True)
    if diagnosis.run is None and not dry_run:
        raise UsageError(
            "`tracelens apply` needs a run, not a bare trace: a run keeps the backup", hint="look at it with --dry-run"
        )
    done = _apply(diagnosis, folder, wishes, Hunks(only, skip), dry_run)
    _print(done, shown, diagnosis.unsafe, _more(diagnosis, folder, wishes))


@dataclass(frozen=True, slots=True)
class Hunks:
    """Which hunks were asked for."""

    only: tuple[str, ...]
    skip: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Done:
    """What became of it: `written`, `shown` (dry run), `already` in the files, or `nothing` to do."""

    outcome: str
    verdict: str
    scheme: str | None
    change: Patch | None
    next_command: str


def _apply(diagnosis: IllustratedDiagnosis, folder: Path, wishes: Wishes, hunks: Hunks, dry_run: bool) -> Done:
    from tracelens import pipeline, remedies
    from tracelens import run as runs
    from tracelens.patch.files import apply as patcher
    from tracelens.report import next_commands, words

    patcher.check_not_edited(folder / runs.BACKUP_FOLDER)
    if not dry_run:
        patcher.clean_up(folder / runs.BACKUP_FOLDER)
    again, verdict = typed((folder,), wishes), words.headline(diagnosis)
    name = chosen_scheme(diagnosis, wishes.scheme)
    if name is None:
        return Done("nothing", verdict, None, None, next_commands.line("report", *again))
    change = pipeline.partial_patch(
        diagnosis, name, remedies.HunkChoice(hunks.only, hunks.skip), pipeline_options(wishes)
    )
    verify = next_commands.line("verify", *again, "--scheme", name)
    if _stands(change, patcher.applied_patch(folder / runs.BACKUP_FOLDER)):
        return Done("already", verdict, name, change, verify)
    if change.empty or dry_run:
        after = next_commands.line("apply", *again, *_choice(wishes, hunks)) if dry_run and not change.empty else verify
        return Done("nothing" if change.empty else "shown", verdict, name, change, after)
    patcher.write(change, folder / runs.BACKUP_FOLDER, name)
    pipeline.save(diagnosis)
    return Done("written", verdict, name, change, verify)


def _more(diagnosis: PlannedDiagnosis, folder: Path, wishes: Wishes) -> str:
    """The line on changes that --unsafe would add and that pay; empty where there are none."""
    from tracelens.report import next_commands, words

    if not diagnosis.unsafe:
        return ""
    chosen = ("--scheme", wishes.scheme) if wishes.scheme else ()
    command = next_commands.line("apply", *typed((folder,), wishes), *chosen, "--unsafe", "--dry-run")
    return f"{words.need_unsafe(diagnosis.unsafe)}; see each with its reason: {command}"


def _print(done: Done, shown: Shown, unsafe: tuple[Hunk, ...], more: str) -> None:
    if shown.form == "json":
        output.document(_document(done, unsafe))
    else:
        _print_text(done, shown, more)


def _print_text(done: Done, shown: Shown, more: str) -> None:
    from tracelens.report import text

    change, ending = done.change, f"{more}\n\n" * bool(more) + f"next: {done.next_command}"
    if shown.quiet:
        output.result(f"{done.verdict}\n{SAID[done.outcome]}")
    elif done.outcome == "already":
        output.result(f"This patch ({done.scheme}) is applied already: nothing to do.\n\n{ending}")
    elif change is None:
        output.result(f"{done.verdict}\nNothing to apply.\n\n{ending}")
    else:
        output.result(text.patch(change, shown.look(), done.next_command, more))
        if done.outcome == "written":
            output.note(f"written: {', '.join(output.shown(file.path) for file in change.files)}")


def _document(done: Done, unsafe: tuple[Hunk, ...]) -> dict[str, Any]:
    """docs/apply.schema.json."""
    from tracelens.report.text import hunk_document, patch_document

    return {
        "schema_version": 1,
        "outcome": done.outcome,
        "scheme": done.scheme,
        "verdict": done.verdict,
        "patch": patch_document(done.change) if done.change is not None else None,
        "needs_unsafe": [hunk_document(hunk) for hunk in unsafe],
        "next": done.next_command,
    }


def _stands(change: Patch, standing: AppliedPatch | None) -> bool:
    """Whether the files hold exactly this patch at present."""
    if standing is None or change.empty:
        return False
    return {file.path: file.after for file in standing.files} == {file.path: file.after for file in change.files}


def _choice(wishes: Wishes, hunks: Hunks) -> tuple[str, ...]:
    """The options that chose what was shown, for the command that writes it."""
    words = ["--scheme", wishes.scheme] if wishes.scheme else []
    pairs = (("--only", hunks.only), ("--skip", hunks.skip))
    words += [word for flag, names in pairs for name in names for word in (flag, name)]
    return (*words, "--unsafe") if wishes.unsafe else tuple(words)
