"""The stages of `fix` within one budget: try what the owners suggest, verify the best of it, write what was accepted.

In: a PlannedDiagnosis, the levers that were named, a deadline. Out: a `FixResult`; later the files. Ctrl-C comes
through as `KeyboardInterrupt`, with what `try` measured kept in the Run.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tracelens import chosen_patches, lever_trials, remedies, trials
from tracelens import run as runs
from tracelens.errors import Inconclusive, Refused
from tracelens.fixing import choice, judgement
from tracelens.fixing.choice import Change, Unfixed
from tracelens.fixing.judgement import Judgement
from tracelens.levers.definition import LeverRule
from tracelens.messages import joined, say
from tracelens.model import PlannedDiagnosis, Run, Verification
from tracelens.patch.files import apply as patcher
from tracelens.pipeline import Options, applied_to
from tracelens.verify import equality, lever_trial, store
from tracelens.verify.equality import TrialSubject
from tracelens.verify.lever_trial import LEVER_POLICY
from tracelens.verify.policy import POLICY
from tracelens.verify.request import BUDGET_MARGIN, Pace, duration_text, seconds_needed


@dataclass(frozen=True, slots=True)
class FixOptions:
    """What a fix may cost, how its patches are made, and what is told meanwhile."""

    began: float
    """`time.monotonic()` when the command began: recording is part of the budget."""
    budget_s: float
    seed: int
    patches: Options
    progress: Callable[[str], None]
    found: Callable[[str], None]
    begun: Callable[[], None]
    """Called before anything is measured."""
    planned_again: Callable[[], PlannedDiagnosis]
    """The plan with what was measured meanwhile."""
    answer_s: float = 0.0
    """What is kept for the answer after the last measurement."""

    @property
    def left_s(self) -> float:
        return self.budget_s - self.answer_s - (time.monotonic() - self.began)


@dataclass(frozen=True, slots=True)
class FixResult:
    """What was found: a change with what was measured of it, or why there is none."""

    judged: Judgement
    change: Change | None = None
    trial: Verification | None = None
    applied: bool = False
    """The change is in the files already."""
    unfixed: Unfixed | None = None


def find(
    diagnosis: PlannedDiagnosis, rules: Sequence[LeverRule], names: Sequence[str], options: FixOptions
) -> FixResult:
    """The change that was named, or the best that can be written, measured and judged. Raises `Refused` where the
    script changed or holds another patch, `Inconclusive` where the budget is too short for a verdict."""
    run = lever_trials.run_of(diagnosis)
    _check_files(run)
    if names:
        return _proved(diagnosis, run, choice.change_of(diagnosis, names, options.patches), options)
    planned = lever_trials.plan(diagnosis, rules, ())
    ids = choice.possible(diagnosis, planned)
    if not ids:
        return _with_other_rounding(diagnosis, rules, _nothing_possible(diagnosis, rules, planned), options)
    best = _known_best(diagnosis, ids) or choice.first_of(ids, rules)
    if len(ids) > len(best) and _known_best(diagnosis, ids) is None and (most := _affordable(diagnosis, options)) > 1:
        options.begun()
        best, result = _tried(diagnosis, rules, ids[:most], options)
        if not best:
            return result
    return _proved(diagnosis, run, choice.change_of(diagnosis, best, options.patches), options)


def write(change: Change, run: Run) -> tuple[Path, ...]:
    """Put the change into the user's files, with a backup; returns their paths."""
    backup = run.path / runs.BACKUP_FOLDER
    patcher.clean_up(backup)
    patcher.write(change.patch, backup, change.name)
    return tuple(file.path for file in change.patch.files)


def keep_diff(change: Change, run: Run) -> Path:
    """The diff in the Run folder, for a person who does not want it written yet."""
    path = run.path / runs.PATCH_FILE
    runs.write_output(path, change.patch.diff.encode(errors="surrogateescape"))
    return path


# ------------------------------------------------------------------------------------------------------- the stages


def _check_files(run: Run) -> None:
    """An edit on top of an applied patch is told before anything is measured."""
    patcher.check_not_edited(run.path / runs.BACKUP_FOLDER)


def _nothing_possible(
    diagnosis: PlannedDiagnosis, rules: Sequence[LeverRule], planned: lever_trials.LeverPlan
) -> FixResult:
    tried = [one for one in planned.known if one.trial.id in diagnosis.patches]
    if tried and all(choice.settled(one) for one in tried):
        names = ", ".join(one.trial.id for one in tried)
        said = say("No gain with the same results: {names} measured before, with try.", names=names)
        other = choice.rounding_gains(diagnosis, rules)
        unfixed = Unfixed(True, said, fix_next=other) if other else None
        return FixResult(Judgement("nothing", said), unfixed=unfixed)
    unfixed = choice.without_change(diagnosis, rules)
    return FixResult(Judgement("nothing" if unfixed.fine else "undecided", unfixed.reason), unfixed=unfixed)


def _with_other_rounding(
    diagnosis: PlannedDiagnosis, rules: Sequence[LeverRule], found: FixResult, options: FixOptions
) -> FixResult:
    """Why nothing can be changed with the same results, and what another rounding brings: that is measured in the time
    that is left, as somebody who asks for ten minutes expects it, and written only where it is named."""
    names = choice.rounding_untried(diagnosis, rules) if found.unfixed is not None else ()
    step_ns, start_s = diagnosis.steps.best_known_ns, trials.start_seconds(diagnosis)
    if not names or options.left_s < BUDGET_MARGIN * lever_trial.seconds_needed(step_ns, len(names), start_s):
        return found
    options.begun()
    wanted = lever_trials.LeverOptions(options.left_s, options.seed, options.progress, options.found, options.patches)
    outcome = lever_trials.run_plan(diagnosis, lever_trials.plan(diagnosis, rules, names), wanted)
    if outcome.interrupted:
        raise KeyboardInterrupt
    again = options.planned_again()
    return _nothing_possible(again, rules, lever_trials.plan(again, rules, ()))


def _known_best(diagnosis: PlannedDiagnosis, ids: Sequence[str]) -> tuple[str, ...] | None:
    """What an earlier `try` found to be the best, where it has tried all of these."""
    record = lever_trials.recorded(diagnosis)
    reached = {one.trial.id for one in record.levers if one.standing != "not_reached"}
    return choice.best_of(record, ids) or None if set(ids) <= reached else None


def _affordable(diagnosis: PlannedDiagnosis, options: FixOptions) -> int:
    """How many levers can be tried so that time for a verdict is left."""
    pace = _pace(diagnosis)
    left = options.left_s - seconds_needed(pace, POLICY.least_steps)
    processes = left / pace.seconds_for(LEVER_POLICY.least_steps)
    return math.floor((processes - 3) / 2)


def _tried(
    diagnosis: PlannedDiagnosis, rules: Sequence[LeverRule], ids: Sequence[str], options: FixOptions
) -> tuple[tuple[str, ...], FixResult]:
    """The best of these levers or of several together, and what is said where none gains."""
    planned = lever_trials.plan(diagnosis, rules, ids)
    budget_s = options.left_s - seconds_needed(_pace(diagnosis), POLICY.least_steps)
    wanted = lever_trials.LeverOptions(budget_s, options.seed, options.progress, options.found, options.patches)
    outcome = lever_trials.run_plan(diagnosis, planned, wanted)
    if outcome.interrupted:
        raise KeyboardInterrupt
    best = choice.best_of(outcome.record, ids)
    mine = [one for one in outcome.record.levers if one.trial.id in ids]
    if all(choice.settled(one) for one in mine):
        return best, FixResult(
            Judgement("nothing", say("No gain with the same results: {ids} measured.", ids=joined(", ", ids)))
        )
    return best, FixResult(Judgement("undecided", say("No gain beyond doubt from {ids}.", ids=joined(", ", ids))))


def _proved(diagnosis: PlannedDiagnosis, run: Run, change: Change, options: FixOptions) -> FixResult:
    """The change, measured; where it is not the same and a part of it is proved to be, that part."""
    if patcher.is_applied(change.patch, applied_to(run)):
        return FixResult(
            Judgement("nothing", say("{change} is in the files already.", change=change.name)), change, applied=True
        )
    if applied_to(run) is not None:
        raise Refused(
            say("another patch of this run is in the files"),
            hint=say("take it out first: tracelens revert {path}", path=f"{run.path}/"),
        )
    result = _measured(diagnosis, run, change, options)
    if result.judged.standing in ("proved", "other"):
        return result
    proved = chosen_patches.proved_part(diagnosis, change.names, change.patch, options.patches)
    if proved is None or result.judged.standing == "nothing" or _too_short(diagnosis, options):
        return result
    options.found(
        say("{change}: {reason} Measuring what is proved of it.", change=change.name, reason=result.judged.reason)
    )
    second = _measured(diagnosis, run, Change(change.names, proved), options)
    return second if second.judged.standing == "proved" else result


def _measured(diagnosis: PlannedDiagnosis, run: Run, change: Change, options: FixOptions) -> FixResult:
    """An earlier verdict on the very same bytes counts; else there is a new one."""
    subject = TrialSubject(remedies.project_of(run, change.patch), diagnosis.timeline.trace.device)
    trial = equality.counting(change.patch, store.read(run.path), subject)
    if trial is None or trial.outcome != "faster":
        _check_budget(diagnosis, options)
        options.begun()
        steps = _steps(diagnosis, options)
        wanted = trials.TrialOptions(steps, options.left_s, options.seed, options.progress, options.found)
        trial = trials.verify_patch(diagnosis, change.name, change.patch, wanted)
    marked = Change(change.names, equality.checked(change.patch, (trial,), subject))
    return FixResult(judgement.judge(trial, marked.patch), marked, trial)


# ---------------------------------------------------------------------------------------------------------- budget


def _pace(diagnosis: PlannedDiagnosis) -> Pace:
    return Pace(trials.start_seconds(diagnosis), diagnosis.steps.best_known_ns / 1e9)


def _steps(diagnosis: PlannedDiagnosis, options: FixOptions) -> int:
    """The most steps per process, of the usual number and its halves, with which a verdict fits into what is left, also
    where the machine is slower than it was, or two originals differ and are compared once more."""
    steps, pace = POLICY.default_steps, _pace(diagnosis)
    while steps // 2 >= POLICY.least_steps and BUDGET_MARGIN * seconds_needed(pace, steps) > options.left_s:
        steps //= 2
    return steps


def _too_short(diagnosis: PlannedDiagnosis, options: FixOptions) -> bool:
    return options.left_s < seconds_needed(_pace(diagnosis), POLICY.least_steps)


def _check_budget(diagnosis: PlannedDiagnosis, options: FixOptions) -> None:
    """Raise `Inconclusive` before the first run where no verdict can come of it."""
    if not _too_short(diagnosis, options):
        return
    needed = seconds_needed(_pace(diagnosis), POLICY.least_steps)
    spent = options.budget_s - options.left_s
    minutes = math.ceil((spent + 2 * needed) / 60)
    raise Inconclusive(
        say(
            "the {left} left of {budget} are too short to measure this (about {needed} are needed)",
            left=duration_text(max(options.left_s, 0)),
            budget=duration_text(options.budget_s),
            needed=duration_text(needed),
        ),
        hint=say("give --budget {minutes}m", minutes=minutes),
    )
