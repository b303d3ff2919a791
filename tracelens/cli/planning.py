"""What recommend, report, apply and verify share: the options that shape a plan, and making one.

In: click's parsed values. Out: a Diagnosis with schemes. The plan is made anew each time, from the Run alone, so that
no command depends on which other one ran before it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracelens import helper_process
from tracelens.cli import dataclass_methods, interrupts, options, output
from tracelens.errors import UsageError
from tracelens.messages import joined, say

if TYPE_CHECKING:
    from tracelens.model import Diagnosis, IllustratedDiagnosis, PlannedDiagnosis
    from tracelens.pipeline import Options


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """Options of a plan as the user gave them."""

    script: Path | None = None
    interval: int | None = None
    rules: Path | None = None
    weights: Mapping[str, float] | None = None
    unsafe: bool = False
    import_runtime: bool = False
    source: Any = "project"
    redact: bool = False
    scheme: str | None = None
    named: tuple[str, ...] = ()
    """Levers named beside each other."""


@dataclass(frozen=True, slots=True)
class Constraints:
    """What the user can afford and wants."""

    time: float | None = None
    gain: float | None = None
    change: Any = None


PLAN_OPTIONS = (options.script, options.interval, options.rules_folder, options.weights)
planning = options.bundled("plan_options", PlanOptions, *PLAN_OPTIONS)
patching = options.bundled(
    "plan_options", PlanOptions, options.scheme, *PLAN_OPTIONS, options.unsafe, options.import_runtime
)
reporting = options.bundled("plan_options", PlanOptions, *PLAN_OPTIONS, options.source, options.redact)


def planned(
    paths: tuple[Path, ...],
    plan_options: PlanOptions,
    constraints: Constraints | None = None,
    *,
    count_unsafe: bool = False,
) -> IllustratedDiagnosis:
    """The plan for what the user named; with `count_unsafe` also the changes that --unsafe would add."""
    with interrupts.kept(), helper_process.started(partial(_read_ahead, paths, plan_options.script)) as patcher:
        from tracelens import pipeline

        inputs = options.opened(paths)
        wanted = replace(pipeline_options(plan_options, constraints), count_unsafe=count_unsafe)
        with output.progress(say("predicting what each lever would give")):
            examined = pipeline.examine(inputs, wanted)
            return pipeline.illustrate(examined, pipeline.plan(examined, wanted, patcher))


def _read_ahead(paths: tuple[Path, ...], script: Path | None) -> None:
    """In the process that makes the patches."""
    with dataclass_methods.kept():
        from tracelens.patch import recorded

        recorded.read_ahead(paths, script)


def chosen_scheme(diagnosis: PlannedDiagnosis, wanted: str | None) -> str | None:
    """The scheme or lever named by the user, else the recommended one; None where nothing is recommended."""
    if wanted is None:
        return diagnosis.recommendation.scheme or diagnosis.recommendation.lever
    known = [*(scheme.id for scheme in diagnosis.schemes), *diagnosis.edits_of_levers]
    if wanted in known:
        return wanted
    lever = next((lever for lever in diagnosis.levers if lever.id == wanted), None)
    if lever is not None:
        where = f" at {lever.locations[0]}" if lever.locations else ""
        why = lever.reason if lever.state in ("done", "not_applicable") else say("no recipe writes it")
        raise UsageError(
            say("there is no patch for {wanted}: {why}", wanted=wanted, why=why),
            hint=say("by hand{where}: {text}", where=where, text=lever.text),
        )
    guess = options.did_you_mean(wanted, known)
    raise UsageError(
        say("there is no scheme or lever {wanted!r}.{guess}", wanted=wanted, guess=guess),
        hint=say("one of: {known}", known=joined(", ", known)),
    )


def typed(paths: Sequence[Path], plan_options: PlanOptions, diagnosis: Diagnosis | None = None) -> tuple[str, ...]:
    """What the user typed, for the next command: the same run, the same plan. A run that was found is named."""
    from tracelens.report import next_commands

    if not paths and diagnosis is not None and diagnosis.run is not None:
        paths = (diagnosis.run.path,)
    words = [next_commands.named(path) for path in paths]
    if plan_options.interval is not None:
        words += ["--interval", str(plan_options.interval)]
    for flag, path in (("--script", plan_options.script), ("--rules", plan_options.rules)):
        words += [flag, str(path)] if path is not None else []
    if plan_options.weights is not None:
        words += ["--weights", ",".join(f"{name}={weight:g}" for name, weight in plan_options.weights.items())]
    return (*words, "--import-runtime") if plan_options.import_runtime else tuple(words)


def pipeline_options(plan_options: PlanOptions, constraints: Constraints | None = None) -> Options:
    from tracelens.pipeline import Options
    from tracelens.schemes.facts import AdoptionLimits

    return Options(
        interval=plan_options.interval,
        script=plan_options.script,
        rules=plan_options.rules,
        weights=plan_options.weights,
        limits=AdoptionLimits(constraints.time, constraints.gain, constraints.change) if constraints else None,
        source=plan_options.source,
        unsafe=plan_options.unsafe,
        import_runtime=plan_options.import_runtime,
        forced=plan_options.scheme,
        named=(*plan_options.named, *((plan_options.scheme,) if plan_options.scheme else ())),
    )
