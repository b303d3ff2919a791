"""`tracelens fix`: record, try, patch, verify, show, ask, write."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tracelens.cli import interrupts, options, output, question, subjects
from tracelens.cli.live_line import live_line
from tracelens.cli.options import Presentation
from tracelens.cli.planning import PlanOptions, chosen_scheme, pipeline_options, planned, planning, typed
from tracelens.cli.renderers.renderer import CommandOutcome, render
from tracelens.cli.verify import seconds
from tracelens.errors import Inconclusive, UsageError
from tracelens.messages import joined, say

if TYPE_CHECKING:
    from tracelens.fixing.choice import Unfixed
    from tracelens.fixing.stages import FixResult
    from tracelens.levers.definition import LeverRule
    from tracelens.model import IllustratedDiagnosis
    from tracelens.report.fix_card import FixAnswer, FixCard, FixOutcome

EXIT = {"written": 0, "already": 0, "not_written": 0, "nothing": 0, "declined": 1, "refused": 1, "undecided": 3}
EXIT_INTERRUPTED = 130
_OUTCOMES: dict[str, FixOutcome] = {"nothing": "nothing", "undecided": "undecided", "refused": "refused"}
LEAST_BUDGET_S = 10
"""Below this no verdict can come of any script: eleven processes import torch."""
NO_TERMINAL = say("Nothing was written: this is no terminal, and --yes was not given.")
NOT_WRITTEN = say("Nothing was written: --no-write.")


@dataclass(frozen=True, slots=True)
class Consent:
    """Whether the files may be changed: `--yes`, `--no-write`, or a question."""

    yes: bool = False
    no_write: bool = False


consenting = options.bundled(
    "consent",
    Consent,
    click.option("--yes", is_flag=True, help="Write what is faster with the same results, without asking."),
    click.option("--no-write", is_flag=True, help="Show the change and what it brings, write nothing."),
)


@click.command(
    "fix",
    cls=subjects.ScriptArgumentsCommand,
    short_help="Record, try, patch, verify, show, ask, write: the whole loop.",
)
@click.argument("words", metavar="[RUN|SCRIPT] [LEVER...] [-- ARGS]...", nargs=-1)
@click.option("--budget", callback=seconds, default="10m", show_default=True, help="Time to spend at most.")
@click.option("--seed", type=int, default=0, show_default=True, help="The seed that all runs get.")
@consenting
@planning
@options.presented("fix")
def fix(
    *,
    words: Sequence[str],
    budget: float,
    seed: int,
    consent: Consent,
    plan_options: PlanOptions,
    shown: Presentation,
    script_words: tuple[str, ...] = (),
) -> int:
    """Find the change that makes the step faster with the same results, measure it, show it, ask, and write it.

    Without a LEVER, what the largest owners of this run suggest. Your files stay as they are until you say yes; a
    backup makes `revert` exact.
    """
    from tracelens.lever_trials import ALL
    from tracelens.schemes import rules

    began = time.monotonic()
    asked = subjects.words_of(words)
    levers = rules.load(plan_options.rules).levers
    subjects.check_names(asked, levers)
    if ALL in asked.levers:
        raise UsageError(
            say("fix chooses by itself what it may change"), hint=say("measure everything: tracelens try all")
        )
    if consent.yes and consent.no_write:
        raise UsageError(say("--yes and --no-write exclude each other"), hint=say("leave one of them out"))
    if budget < LEAST_BUDGET_S:
        raise Inconclusive(
            say("{budget:g} s are too short to measure anything", budget=budget), hint=say("give --budget 2m")
        )
    effort = _Effort(began, budget, seed)
    folder = None
    try:
        folder = Path(output.shown(subjects.run_to_work_on(asked.subject, script_words, shown, budget)))
        return _Fix(folder, asked.levers, effort, consent, _wanted(asked.levers, levers, plan_options), shown).run(
            levers
        )
    except KeyboardInterrupt:
        output.note(say("\nInterrupted. {state_of_files}", state_of_files=_state_of_files(folder)))
        return EXIT_INTERRUPTED


def _state_of_files(folder: Path | None) -> str:
    """What an interrupt left, as the files say: a change is in them whole or not at all."""
    from tracelens import run as runs
    from tracelens.report import next_commands

    if folder is None or runs.applied_patch(folder / runs.BACKUP_FOLDER) is None:
        return say("Your files are as they were.")
    return say(
        "The change is in your files; undo: {line}", line=next_commands.line("revert", next_commands.folder(folder))
    )


@dataclass(frozen=True, slots=True)
class _Effort:
    began: float
    budget_s: float
    seed: int


def _wanted(names: Sequence[str], levers: Sequence[LeverRule], plan_options: PlanOptions) -> PlanOptions:
    """The plan's options with what naming a lever means: its value, and changes that are made only when asked for."""
    from tracelens.edit_kinds import UNSAFE_EDITS
    from tracelens.levers.definition import by_id

    rules = [by_id(levers, name.partition("=")[0]) for name in names]
    unsafe = any(rule is not None and rule.recipe in UNSAFE_EDITS for rule in rules)
    valued = next((name for name in names if "=" in name), None)
    forced = valued or (names[0] if len(names) == 1 else None)
    return replace(plan_options, scheme=forced, named=tuple(names), unsafe=unsafe)


def _without_a_change(unfixed: Unfixed | None, where: Sequence[str], worth: Sequence[str]) -> tuple[str, ...]:
    """What rounds otherwise and was measured to gain is fixed by its name; what nobody knows is tried, with what
    `recommend` would have tried beside it."""
    if unfixed is not None and unfixed.fix_next:
        return ("fix", *where, *unfixed.fix_next)
    lever = unfixed.try_next if unfixed is not None else None
    tried = worth if lever is None or lever in worth else (lever,)
    return ("try", *where, *tried) if tried else ("recommend", *where)


@dataclass(frozen=True, slots=True)
class _Fix:
    """One fix of one run."""

    folder: Path
    names: tuple[str, ...]
    effort: _Effort
    consent: Consent
    plan_options: PlanOptions
    shown: Presentation
    announced: list[bool] = field(default_factory=list)
    """Whether it was said that measuring begins."""

    def run(self, levers: Sequence[LeverRule]) -> int:
        planning_began = time.monotonic()
        with interrupts.kept() as check_interrupt:
            diagnosis = planned((self.folder,), self.plan_options)
            check_interrupt()
            answer_s = time.monotonic() - planning_began  # with what was measured it is planned again, or its page made
            for name in self.names:
                chosen_scheme(diagnosis, name)
            result = self._found(diagnosis, levers, answer_s, check_interrupt)
        answer = self._concluded(diagnosis, result)
        self._say(answer)
        return EXIT[answer.outcome]

    # ------------------------------------------------------------------------------------------------- measuring

    def _found(
        self,
        diagnosis: IllustratedDiagnosis,
        levers: Sequence[LeverRule],
        answer_s: float,
        check_interrupt: Callable[[], None],
    ) -> FixResult:
        from tracelens.fixing import stages
        from tracelens.report.shared_machine import shared_machine

        until = self.effort.began + self.effort.budget_s
        if self.shown.for_people:
            output.result(f"{diagnosis.headline.rstrip('.')}.")
            for sentence in shared_machine(diagnosis).said():
                output.result(sentence)
        with live_line(until, silent=self.shown.quiet) as line:

            def doing(text: str) -> None:
                check_interrupt()
                line.doing(text)

            wanted = stages.FixOptions(
                began=self.effort.began,
                budget_s=self.effort.budget_s,
                seed=self.effort.seed,
                patches=pipeline_options(self.plan_options),
                progress=doing,
                found=line.found,
                begun=lambda: self._announce(until),
                planned_again=lambda: planned((self.folder,), self.plan_options),
                answer_s=answer_s,
            )
            return stages.find(diagnosis, levers, self.names, wanted)

    def _announce(self, until: float) -> None:
        if not self.shown.quiet and not self.announced:
            self.announced.append(True)
            left = max(1, round((until - time.monotonic()) / 60))
            output.note(
                say("Measuring first, at most {left} min; your files stay as they are. Ctrl-C leaves.\n", left=left)
            )

    # ------------------------------------------------------------------------------------------------ concluding

    def _concluded(self, diagnosis: IllustratedDiagnosis, result: FixResult) -> FixAnswer:
        """What becomes of what was found; asks and writes where that is allowed."""
        standing = result.judged.standing
        if result.applied:
            return self._answer(diagnosis, result, "already", result.judged.reason)
        if standing not in ("proved", "other") or result.change is None or result.trial is None:
            outcome = _OUTCOMES.get(standing, "undecided")
            return self._answer(diagnosis, result, outcome, result.judged.reason)
        return self._offered(diagnosis, result)

    def _offered(self, diagnosis: IllustratedDiagnosis, result: FixResult) -> FixAnswer:
        from tracelens.fixing import stages
        from tracelens.report import fix_card

        assert result.change is not None and result.trial is not None
        card = fix_card.card(diagnosis, result.change.patch, result.trial)
        if self.shown.form == "text":
            output.result(card.said if self.shown.quiet else fix_card.text(card, self.shown.style()))
        run = diagnosis.run
        assert run is not None
        agreed, why = self._agreed(result, card)
        if not agreed:
            kept = stages.keep_diff(result.change, run)
            outcome: FixOutcome = "declined" if why == "" or self.consent.yes else "not_written"
            said = say("{why} The diff is in {kept}.", why=why or say("Nothing changed."), kept=output.shown(kept))
            return self._answer(diagnosis, result, outcome, said)
        return self._written(diagnosis, result)

    def _agreed(self, result: FixResult, card: FixCard) -> tuple[bool, str]:
        """Whether it may be written, and why not where nobody was asked."""
        from tracelens.report import fix_card

        assert result.change is not None
        if self.consent.no_write:
            return False, NOT_WRITTEN
        if result.judged.standing == "other" and self.consent.yes:
            return False, say(
                "Nothing was written: the results are not the same, and --yes is for the same results only."
            )
        if self.consent.yes:
            return True, ""
        if self.shown.form != "text" or not question.can_ask():
            return False, NO_TERMINAL
        files = (output.shown(file.path) for file in result.change.patch.files if file.before is not None)
        names = joined(", ", files)
        other = say("The results are not the same. ") if result.judged.standing == "other" else ""
        long = card.rows > fix_card.SHORT_DIFF
        show = (lambda: output.result(fix_card.whole_diff(card, self.shown.style()))) if long else None
        return question.agreed(say("\n{other}Put it into {names}?", other=other, names=names), show), ""

    def _written(self, diagnosis: IllustratedDiagnosis, result: FixResult) -> FixAnswer:
        from tracelens import pipeline
        from tracelens.fixing import stages

        assert result.change is not None and diagnosis.run is not None
        files = stages.write(result.change, diagnosis.run)
        said = say("Written: {files}.", files=joined(", ", (output.shown(path) for path in files)))
        try:
            pipeline.save(diagnosis)
            stages.keep_diff(result.change, diagnosis.run)
        except KeyboardInterrupt:  # the files are complete: what is missing is only a page of the run
            said = say("{said} Its report was interrupted.", said=said)
        return self._answer(diagnosis, result, "written", said)

    # ----------------------------------------------------------------------------------------------------- saying

    def _answer(
        self, diagnosis: IllustratedDiagnosis, result: FixResult, outcome: FixOutcome, reason: str
    ) -> FixAnswer:
        from tracelens.report.fix_card import FixAnswer

        change = result.change
        after = self._next(diagnosis, result, outcome)
        return FixAnswer(
            outcome, reason, change.names if change else (), change.patch if change else None, result.trial, after
        )

    def _next(self, diagnosis: IllustratedDiagnosis, result: FixResult, outcome: FixOutcome) -> str:
        from tracelens.report import next_commands

        where = typed((self.folder,), self.plan_options)
        names = result.change.names if result.change else self.names
        match outcome:
            case "written":
                return next_commands.record_again(diagnosis)
            case "already":
                return next_commands.line("revert", next_commands.folder(self.folder))
            case "not_written" | "declined" if len(names) == 1 and result.judged.standing == "proved":
                return next_commands.line("apply", *where, "--lever", *names)
            case "not_written" | "declined":
                return next_commands.line("fix", *where, *names)
            case "undecided" if result.unfixed is None:
                return next_commands.line("fix", "--budget", f"{2 * self.effort.budget_s:g}s", *where, *names)
            case _:
                worth = next_commands.worth_a_trial(diagnosis)
                return next_commands.line(*_without_a_change(result.unfixed, where, worth))

    def _say(self, answer: FixAnswer) -> None:
        from tracelens.report import fix_card
        from tracelens.report import json as json_report

        if self.shown.form == "text":
            output.result(self._ending(answer))
            return
        after = planned((self.folder,), self.plan_options)  # with what was measured
        document = {**json_report.document(after), "fix": fix_card.document(answer)}
        output.result(render(self.shown.renderer.outcome, CommandOutcome(lambda: "", document), self.shown))

    def _ending(self, answer: FixAnswer) -> str:
        from tracelens.report import next_commands

        if self.shown.quiet:
            return answer.reason
        undo = (
            say("undo: {line}\n", line=next_commands.line("revert", next_commands.folder(self.folder)))
            if answer.outcome == "written"
            else ""
        )
        return say(
            "  {reason}\n\n{undo}next: {next_command}",
            reason=answer.reason,
            undo=undo,
            next_command=answer.next_command,
        )
