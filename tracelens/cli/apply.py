"""`tracelens apply`: show the diff, then write it, with a backup."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tracelens.cli import options, output
from tracelens.cli.options import Presentation
from tracelens.cli.planning import PlanOptions, chosen_scheme, patching, pipeline_options, planned, typed
from tracelens.cli.renderers.renderer import CommandOutcome, render
from tracelens.errors import UsageError
from tracelens.messages import say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tracelens.model import Hunk, IllustratedDiagnosis, Patch, PlannedDiagnosis, UnsafeOffer
    from tracelens.remedies import HunkChoice

SAID = {
    "written": say("Written."),
    "shown": say("Not written: --dry-run."),
    "already": say("Applied already: nothing to do."),
    "nothing": say("Nothing to apply."),
}


@click.command(short_help="Write the recommended patch; --dry-run only shows it.")
@options.one_run
@patching
@options.only
@options.skip
@click.option("--dry-run", is_flag=True, help="Show the diff, write nothing.")
@options.presented("apply")
def apply(
    run: Path | None,
    plan_options: PlanOptions,
    only: tuple[str, ...],
    skip: tuple[str, ...],
    dry_run: bool,
    shown: Presentation,
) -> None:
    """Print the diff of the recommended change and write it; a backup makes `revert` exact."""
    from tracelens import remedies

    folder = options.run_folder(run)
    diagnosis = planned((folder,), plan_options, count_unsafe=True)
    if diagnosis.run is None and not dry_run:
        raise UsageError(
            say("`tracelens apply` needs a run, not a bare trace: a run keeps the backup"),
            hint=say("look at it with --dry-run"),
        )
    done = _apply(diagnosis, folder, plan_options, remedies.HunkChoice(only, skip), dry_run)
    more = _more(diagnosis, folder, plan_options, done.change.hunks if done.change is not None else ())
    answer = CommandOutcome(
        lambda: _text(done, shown, more),
        _document(done, diagnosis.unsafe),
    )
    output.result(render(shown.renderer.outcome, answer, shown))
    if done.outcome == "written" and done.change is not None and shown.for_people:
        output.note(say("written: {paths}", paths=", ".join(output.shown(file.path) for file in done.change.files)))


@dataclass(frozen=True, slots=True)
class ApplyResult:
    """What became of it: `written`, `shown` (dry run), `already` in the files, or `nothing` to do."""

    outcome: str
    verdict: str
    scheme: str | None
    change: Patch | None
    next_command: str
    check: str = ""
    """The command that checks what was left out."""


def _apply(
    diagnosis: IllustratedDiagnosis, folder: Path, plan_options: PlanOptions, hunks: HunkChoice, dry_run: bool
) -> ApplyResult:
    from tracelens import chosen_patches, pipeline, remedies
    from tracelens import run as runs
    from tracelens.patch.files import apply as patcher
    from tracelens.report import next_commands, wording

    patcher.check_not_edited(folder / runs.BACKUP_FOLDER)
    if not dry_run:
        patcher.clean_up(folder / runs.BACKUP_FOLDER)
    again, verdict = typed((folder,), plan_options), wording.verdict(diagnosis)
    name = chosen_scheme(diagnosis, plan_options.scheme)
    if name is None:
        return ApplyResult("nothing", verdict, None, None, next_commands.next_command(diagnosis, again))
    change = chosen_patches.patch_to_write(diagnosis, name, hunks, pipeline_options(plan_options))
    check = next_commands.check(diagnosis, again, name)
    unsafe = ("--unsafe",) if plan_options.unsafe else ()
    verify = check if change.left_out else next_commands.line("verify", *again, "--lever", name, *unsafe)
    if change.empty and not change.left_out and name in diagnosis.edits_of_levers:
        verify = next_commands.line("try", next_commands.folder(folder), name)
    if patcher.is_applied(change, runs.applied_patch(folder / runs.BACKUP_FOLDER)):
        return ApplyResult("already", verdict, name, change, verify, check)
    if change.empty or dry_run:
        seen = dry_run and not change.empty and (_was_measured(diagnosis, name) or hunks != remedies.HunkChoice())
        after = next_commands.line("apply", *again, *_choice(plan_options, hunks)) if seen else verify
        return ApplyResult("nothing" if change.empty else "shown", verdict, name, change, after, check)
    patcher.write(change, folder / runs.BACKUP_FOLDER, name)
    pipeline.save(diagnosis)
    return ApplyResult("written", verdict, name, change, verify, check)


def _was_measured(diagnosis: PlannedDiagnosis, name: str) -> bool:
    """Whether a trial found the change good enough to be written: what was only predicted is measured first."""
    from tracelens.model import counting

    trial = counting(diagnosis.verifications, name)
    return trial is not None and trial.outcome in ("faster", "no change")


def _more(diagnosis: PlannedDiagnosis, folder: Path, plan_options: PlanOptions, shown: Sequence[Hunk]) -> str:
    """The line on changes that --unsafe would add and that pay; empty where there are none."""
    from tracelens.report import next_commands, wording

    if plan_options.unsafe and not any(hunk.tier == "unsafe" for hunk in shown):
        return say("Nothing here needs --unsafe: the change is the same without it.")
    if diagnosis.unsafe is None:
        return ""
    words = typed((folder,), plan_options)
    return say(
        "{need_unsafe}; see each with its reason: {command}",
        need_unsafe=wording.need_unsafe(diagnosis.unsafe.hunks),
        command=next_commands.with_unsafe(diagnosis.unsafe, words),
    )


def _text(done: ApplyResult, shown: Presentation, more: str) -> str:
    from tracelens.report import text

    change, ending = done.change, say("next: {next_command}", next_command=done.next_command)
    if more:
        ending = say("{more}\n\n{ending}", more=more, ending=ending)
    if shown.quiet:
        return say("{verdict}\n{said}", verdict=done.verdict, said=SAID[done.outcome])
    if done.outcome == "already":
        return say(
            "This patch ({scheme}) is applied already: nothing to do.\n\n{ending}", scheme=done.scheme, ending=ending
        )
    if change is None:
        return text.nothing_to_apply(done.verdict, shown.style(), done.next_command, more)
    return text.patch(change, shown.style(), done.next_command, done.check, more)


def _document(done: ApplyResult, unsafe: UnsafeOffer | None) -> dict[str, Any]:
    """docs/apply.schema.json."""
    from tracelens.report.text import hunk_document, patch_document

    return {
        "schema_version": 1,
        "outcome": done.outcome,
        "scheme": done.scheme,
        "verdict": done.verdict,
        "patch": patch_document(done.change, done.check) if done.change is not None else None,
        "needs_unsafe": []
        if unsafe is None
        else [{**hunk_document(hunk), "lever": unsafe.lever} for hunk in unsafe.hunks],
        "next": done.next_command,
    }


def _choice(plan_options: PlanOptions, hunks: HunkChoice) -> tuple[str, ...]:
    """The options that chose what was shown, for the command that writes it."""
    words = ["--lever", plan_options.scheme] if plan_options.scheme else []
    pairs = (("--only", hunks.only), ("--skip", hunks.skip))
    words += [word for flag, names in pairs for name in names for word in (flag, name)]
    return (*words, "--unsafe") if plan_options.unsafe else tuple(words)
