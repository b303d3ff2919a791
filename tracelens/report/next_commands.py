"""The next command, ready to paste: every report and every command ends with one.

In: a Diagnosis (or a path). Out: shell lines, quoted. In a report, paths are relative to where the Run was started,
so that a report that is sent on does not carry a home folder. A command in a terminal hands in the words (paths and
options) that its user typed, so that the next command works from the same folder and on the same plan.
"""

from __future__ import annotations

import math
import os
import shlex
from collections.abc import Sequence
from pathlib import Path, PurePath

from tracelens.messages import say
from tracelens.model import (
    Diagnosis,
    Lever,
    PlannedDiagnosis,
    Run,
    Stage,
    UnsafeOffer,
    Verification,
    counting,
    on_baseline,
)

SEEDS_INTERVAL = 10
MOSTLY_BUSY = 0.5
"""Of the step: above, what makes the GPU's own work shorter is tried first."""
MOST_WAYS_TO_COMPILE = 2
MOST_TWICE = 100_000
"""Steps, or seconds of budget, above which a trial is not suggested again with twice as many."""


def line(*words: str) -> str:
    """One shell line, each word quoted where it must be."""
    return " ".join(_quoted(word) for word in ("tracelens", *words))


def _quoted(word: str) -> str:
    """Control characters, which must not reach a terminal, in the notation of bash and zsh, so that pasting works."""
    if word.isprintable():
        return shlex.quote(word)
    shown = word.replace("\\", "\\\\").replace("'", "\\'")
    return "$'" + "".join(c if c.isprintable() else _escaped(c) for c in shown) + "'"


def _escaped(character: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in character.encode("utf-8", "surrogateescape"))


def folder(path: Path | str) -> str:
    """A folder as it is typed, with the slash that the shell completes: `tracelens report run` reads as a verb."""
    return f"{os.fspath(path).rstrip('/')}/"


def named(path: Path) -> str:
    """A path that the user named."""
    return folder(path) if path.is_dir() else str(path)


def run_argument(run: Run) -> str:
    """The Run as an argument: relative to the folder it was launched in, else its bare name."""
    path = os.path.relpath(run.path.resolve(), run.cwd)
    return folder(Path(run.path).name if path.startswith("..") else Path(path).as_posix())


def target(diagnosis: Diagnosis) -> tuple[str, ...]:
    """What the Diagnosis is about, as arguments."""
    if diagnosis.run is not None:
        return (run_argument(diagnosis.run),)
    return tuple(Path(trace.path).name for trace in diagnosis.traces)


def plan(diagnosis: PlannedDiagnosis) -> tuple[str, ...]:
    """`target` with the --interval that this plan was made for, where it is not the default."""
    chosen = diagnosis.interval
    return (*target(diagnosis), *(("--interval", str(chosen)) if chosen != _usual(diagnosis) else ()))


def _usual(diagnosis: Diagnosis) -> int:
    """The N of a plan without --interval: what the loop does already, else 10."""
    spacing = diagnosis.item("reads_every_k")
    return spacing.value if spacing is not None and spacing.present and spacing.value else SEEDS_INTERVAL


def which(diagnosis: Diagnosis, typed: Sequence[str] = ()) -> tuple[str, ...]:
    """What the Diagnosis is about as the user named it, without the options of the plan."""
    if not typed:
        return target(diagnosis)
    options = next((place for place, word in enumerate(typed) if word.startswith("--")), len(typed))
    return tuple(typed[:options])


def after_analyze(diagnosis: Diagnosis, typed: Sequence[str] = ()) -> str:
    return line("recommend", *(typed or target(diagnosis)))


def next_command(diagnosis: PlannedDiagnosis, typed: Sequence[str] = ()) -> str:
    """The one decision that terminal, page and every other format end with.

    What is in the files and was measured to be wrong, or slower, is taken back before anything else. What was measured
    is written, what was only predicted is measured and then written, what no patch can write is tried; where nothing
    of it is left, or nothing could be judged, the loop is recorded again.
    """
    chosen, words = _chosen(diagnosis), typed or plan(diagnosis)
    if diagnosis.applied is not None and unwanted(_trial(diagnosis, diagnosis.applied)):
        return line("revert", *which(diagnosis, typed))
    if (maybe := _to_measure(diagnosis)) is not None:
        tried = _trial(diagnosis, maybe)
        return line("fix", *words, maybe) if tried is None else line("verify", *words, "--lever", maybe, *longer(tried))
    if chosen is None:
        return _without_change(diagnosis, typed)
    trial = _trial(diagnosis, chosen)
    if trial is not None and trial.outcome == "inconclusive":
        return line("verify", *words, *longer(trial))
    proved = trial is not None and trial.numbers_equal is True and not diagnosis.patches[chosen].unchecked
    if proved and chosen == diagnosis.applied:
        return record_again(diagnosis)
    return line("apply" if proved else "fix", *words)


def _without_change(diagnosis: PlannedDiagnosis, typed: Sequence[str]) -> str:
    """Where no patch is recommended: a trial of what nobody knows, else another recording, as where slow steps cost
    most, which are made rarer by hand; a trace of a program that is not Python can only be looked at."""
    lever, by_hand = diagnosis.recommendation.lever, diagnosis.rare_cost_leads
    if lever is None and diagnosis.run is not None and not by_hand:
        if (name := _undecided(diagnosis)) is not None and (tried := _trial(diagnosis, name)) is not None:
            return line("verify", *which(diagnosis, typed), "--lever", name, *longer(tried))
        if _first_is_written(diagnosis):
            return line("fix", *which(diagnosis, typed))
    untried = (lever,) if lever is not None else () if by_hand else worth_a_trial(diagnosis)
    if untried and diagnosis.run is not None:
        return line("try", *which(diagnosis, typed), *untried)
    if diagnosis.timeline.trace.program != "cpp":
        return record_again(diagnosis)
    seen = which(diagnosis, typed)[0]
    return line("annotate", seen, "-o", f"{PurePath(seen).name.split('.')[0]}.tracelens.json.gz")


def _undecided(diagnosis: PlannedDiagnosis) -> str | None:
    """What acts on the largest loss and was tried without an answer, where a patch can be tried again."""
    largest = diagnosis.owners.remedies_of_largest
    about_it = [name for name in diagnosis.patches if name.partition("=")[0] in largest]
    trials = ((name, _trial(diagnosis, name)) for name in about_it)
    return next((name for name, trial in trials if trial is not None and trial.outcome == "inconclusive"), None)


def _first_is_written(diagnosis: PlannedDiagnosis) -> bool:
    """Whether nobody has tried what acts on the largest loss, and a patch that `fix` may make writes it."""
    untried = next((lever for lever in diagnosis.levers if lever.state == "not_tried" and lever.command), None)
    patch = diagnosis.patches.get(untried.id) if untried is not None else None
    return patch is not None and not patch.empty and not patch.unsafe


def worth_a_trial(diagnosis: PlannedDiagnosis) -> tuple[str, ...]:
    """What could make the GPU's own work shorter: the first of each such family; or launching it: both ways to compile,
    because the one that makes CUDA graphs does not take every loop. On a CPU compiling, where its work takes the
    time."""
    if diagnosis.headline_kind == "unjudged":
        return ()
    busy = (on_baseline(diagnosis).gpu_busy_share or 0.0) >= MOSTLY_BUSY
    untried = [lever for lever in diagnosis.levers if lever.state == "not_tried" and lever.command]
    if not busy:
        ways = MOST_WAYS_TO_COMPILE if diagnosis.gpu_busy_share is not None else 1
        return tuple(lever.id for lever in untried if lever.family == "compile")[:ways]
    first = (
        next((lever.id for lever in untried if lever.family == family), None) for family in ("precision", "compile")
    )
    return tuple(name for name in first if name is not None)


def with_lever(lever: Lever, diagnosis: Diagnosis, typed: Sequence[str] = ()) -> str:
    """How to try or apply a lever; empty where there is no Run to do it with, or no name to tell."""
    if lever.command is None or diagnosis.run is None or diagnosis.run.meta.get("redacted"):
        return ""
    verb, *words = lever.command.split()
    return line(verb, *which(diagnosis, typed), *words)


def check(diagnosis: PlannedDiagnosis, typed: Sequence[str] = (), scheme: str | None = None) -> str:
    """The trial that checks what is not proved of a scheme's patch, by default of the recommended one."""
    if diagnosis.run is None:
        return line("profile", "SCRIPT")
    chosen = scheme or _recommended(diagnosis) or ""
    return line("verify", *(typed or plan(diagnosis)), "--lever", chosen)


def with_unsafe(offer: UnsafeOffer, words: Sequence[str]) -> str:
    """Shows the changes that --unsafe would add, by the lever that they are a part of, and writes nothing."""
    return line("apply", *words, "--lever", offer.lever, "--unsafe", "--dry-run")


def advice(stage: Stage, diagnosis: PlannedDiagnosis, typed: Sequence[str] = ()) -> str:
    """What a stage of the plan says to do; a bare trace can be neither verified nor patched."""
    if stage.command is None:
        return stage.advice
    command, scheme = stage.command
    if diagnosis.run is None:
        return say("try {lever} on a run of your own: {command}", lever=scheme, command=line("profile", "SCRIPT"))
    if scheme not in diagnosis.patches:
        return say("no patch for {lever}: {reason}", lever=scheme, reason=no_source(diagnosis))
    shell = line(command, *(typed or plan(diagnosis)), "--lever", scheme)
    return say("{advice}: {command}", advice=stage.advice, command=shell)


def no_source(diagnosis: Diagnosis) -> str:
    """Why there is no patch of any scheme, and what helps."""
    abstention = next((item for item in diagnosis.abstentions if item.detector == "patch"), None)
    if abstention is None:
        return say("the source of this loop is not at hand")
    return say("{sentence}; {more}", sentence=abstention.missing, more=abstention.hint)


def patch_commands(diagnosis: PlannedDiagnosis, typed: Sequence[str] = ()) -> tuple[tuple[str, str], ...]:
    """(what it does, command) for what is recommended: measure, apply, undo. Empty without a Run or a patch."""
    chosen = _chosen(diagnosis)
    if chosen is None:
        return ()
    words = (*(typed or plan(diagnosis)), "--lever", chosen)
    again = _trial(diagnosis, chosen) is not None
    measure = (
        say("Measure it again: original against patched, same results?")
        if again
        else say("Measure it first: original against patched, same results?")
    )
    return (
        (measure, line("verify", *words)),
        (say("Apply it to your source"), line("apply", *words)),
        (say("Undo, byte for byte"), line("revert", *which(diagnosis, typed))),
    )


def unwanted(trial: Verification | None) -> bool:
    """Whether a trial says that the change must not stay: it computes something else, fails or costs time."""
    return trial is not None and trial.outcome in ("different numbers", "failed", "slower")


def record_again(diagnosis: Diagnosis) -> str:
    """The launch that was recorded, to be recorded again; relative to where it was started. For longer, where that
    shows the line of slow steps."""
    run, slow = diagnosis.run, diagnosis.owners.slow
    longer = () if slow is None or slow.record_steps is None else ("--steps", str(slow.record_steps))
    if run is None or run.meta.get("redacted"):
        return line("profile", *longer, "SCRIPT")
    match (run.meta.get("capture") or {}).get("kind", "script"):
        case "module":
            return line("profile", *longer, "-m", *run.command[2:])
        case "script":
            return line("profile", *longer, *run.command[1:])
        case "command":
            return line("profile", *longer, "--", *run.command)
        case _:
            return line("profile", *longer, "SCRIPT")


def _to_measure(diagnosis: PlannedDiagnosis) -> str | None:
    """The scheme that only a trial can judge; a bare trace cannot be tried."""
    return diagnosis.recommendation.measure if diagnosis.run is not None else None


def _trial(diagnosis: PlannedDiagnosis, scheme: str) -> Verification | None:
    """The trial of a scheme that counts, else the last, which came to no number."""
    last = next((trial for trial in reversed(diagnosis.verifications) if trial.scheme == scheme), None)
    return counting(diagnosis.verifications, scheme) or last


def longer(trial: Verification) -> tuple[str, ...]:
    """Options for twice the steps and the time of a trial, and never less than it said is needed; only the time where
    it allowed fewer than two pairs."""
    words: list[str] = []
    steps, budget = ("--steps", "steps", ""), ("--budget", "budget_s", "s")
    for option, name, unit in (budget,) if trial.ratio is None else (steps, budget):
        spent = trial.details.get(name)
        if isinstance(spent, int | float) and 0 < spent < MOST_TWICE:
            needed = trial.details.get("needed_s") if option == "--budget" else None
            enough = max(2 * spent, needed) if isinstance(needed, int | float) else 2 * spent
            words += [option, f"{math.ceil(enough)}{unit}"]
    return tuple(words)


def _chosen(diagnosis: PlannedDiagnosis) -> str | None:
    """The recommended scheme, where there is a Run to apply it to and a patch that makes it."""
    chosen = _recommended(diagnosis)
    patch = diagnosis.patches.get(chosen) if chosen is not None and diagnosis.run is not None else None
    is_lever = chosen in diagnosis.edits_of_levers
    return None if patch is None or (is_lever and patch.empty) else chosen


def _recommended(diagnosis: PlannedDiagnosis) -> str | None:
    """The scheme, else the lever that acts on the largest loss."""
    return diagnosis.recommendation.scheme or diagnosis.recommendation.lever
