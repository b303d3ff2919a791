"""Trying levers on a Run: from its Diagnosis and what the user named to what was measured.

In: a PlannedDiagnosis, words of the command line, and what a trial may cost. Out: a `LeverRecord`, kept in try.json of
the Run. Beside `trials`, which measures patches for `verify`: here several levers share the original's runs, most of
them without a patch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tracelens import run_levers
from tracelens.chosen_patches import patch_together
from tracelens.errors import Refused, UsageError
from tracelens.findings import debug_settings
from tracelens.levers import line_edit
from tracelens.levers.chosen import chosen
from tracelens.levers.definition import ChosenLever, LeverRule, by_id
from tracelens.levers.states import LeverFacts, done_already, not_applicable, suggested_by
from tracelens.messages import say
from tracelens.model import FilePatch, Lever, Patch, PlannedDiagnosis, Run, Toggle
from tracelens.pipeline import Options, patch_of
from tracelens.trials import command_of, start_seconds, way_back
from tracelens.verify import lever_store
from tracelens.verify.lever_store import LeverRecord
from tracelens.verify.lever_trial import LeverMeasurement, LeverRequest, LeverTrial, preferable
from tracelens.verify.supervisor import lever_session
from tracelens.verify.supervisor.lever_session import LeverSessionResult

ALL = "all"
WORTH_A_TRIAL = 1.01
"""A scheme that is predicted to give less is tried only with `all`, or by its name."""
LEAST_OWNER_SHARE = 0.05
"""Of the step without its largest owner, because that may go: levers on owners below are tried only with `all`, or by
their name."""
_IN_PARENT = ("line", "patch")
"""Kinds of toggles that the parent makes as a patch of the working copy."""


def _silent(_: str) -> None:
    """Nothing is shown."""


@dataclass(frozen=True, slots=True)
class LeverOptions:
    """What a trial of levers may cost, and what its progress is told to."""

    budget_s: float
    seed: int
    progress: Callable[[str], None]
    found: Callable[[str], None] = _silent
    """Receives one line for each pair that was measured."""
    patches: Options = field(default_factory=Options)
    """How patches of several levers together are made."""


@dataclass(frozen=True, slots=True)
class LeverPlan:
    """What is to be tried, in this order, and what is not, each with its reason."""

    trials: tuple[LeverTrial, ...]
    left_out: tuple[LeverMeasurement, ...] = ()
    known: tuple[LeverMeasurement, ...] = ()
    """Measured before, on the same sources, and not named by the user: kept as they are."""


@dataclass(frozen=True, slots=True)
class LeverOutcome:
    """What the trial came to."""

    record: LeverRecord
    tried: tuple[str, ...]
    interrupted: bool
    apart: tuple[str, ...] = ()
    """Levers that gain, and were not tried beside the best for lack of time."""


def plan(diagnosis: PlannedDiagnosis, rules: Sequence[LeverRule], words: Sequence[str]) -> LeverPlan:
    """The levers that the words name: those that the owners of this Run suggest where there are none."""
    run = run_of(diagnosis)
    facts = run_levers.facts_of(diagnosis)
    named = [word for word in words if word != ALL]
    if named:
        levers = [lever for word in named for lever in _named(word, rules, diagnosis)]
        before: tuple[LeverMeasurement, ...] = ()
    else:
        levers = _candidates(diagnosis, rules, facts, everything=ALL in words)
        measured = run_levers.recorded_trials(diagnosis).levers
        before = tuple(one for one in measured if one.standing != "not_reached")
    known = {one.trial.id for one in before}
    trials: list[LeverTrial] = []
    left_out: list[LeverMeasurement] = []
    for lever in dict.fromkeys(levers):
        if _lever_id(lever) in known:
            continue
        made = _trial(lever, diagnosis, run, facts) if named else _candidate(lever, diagnosis, run, facts)
        if isinstance(made, LeverTrial):
            trials.append(made)
        else:
            left_out.append(made)
    return LeverPlan(tuple(trials), tuple(left_out), before)


def run_plan(diagnosis: PlannedDiagnosis, planned: LeverPlan, options: LeverOptions) -> LeverOutcome:
    """Measure what is planned, and keep it in the Run after each round."""
    run = run_of(diagnosis)
    old = run_levers.recorded_trials(diagnosis)
    fixed = LeverRecord(planned.left_out, None, None, old.environment, old.sources)
    if not planned.trials:
        return LeverOutcome(lever_store.merged(old, fixed), (), False)

    def keep(result: LeverSessionResult) -> LeverRecord:
        sources = lever_store.digests(result.sources, run.cwd)
        levers = (*planned.left_out, *result.levers)
        new = LeverRecord(levers, result.combination, result.base_ns, result.environment, sources)
        record = lever_store.merged(old, new)
        lever_store.write(run.path, record)
        return record

    request = LeverRequest(
        command=command_of(run),
        cwd=run.cwd,
        project=run.cwd,
        budget_s=options.budget_s,
        seed=options.seed,
        step_ns=diagnosis.steps.best_known_ns,
        start_s=start_seconds(diagnosis),
        original=way_back(run),
        progress=options.progress,
        found=options.found,
        joined=lambda names: patch_together(diagnosis, names, options.patches),
    )
    result = lever_session.try_levers(request, planned.trials, on_result=keep)
    return LeverOutcome(keep(result), tuple(trial.id for trial in planned.trials), result.interrupted, result.apart)


def recorded(diagnosis: PlannedDiagnosis) -> LeverRecord:
    """What `try` has measured on this Run."""
    return run_levers.recorded_trials(diagnosis)


def run_of(diagnosis: PlannedDiagnosis) -> Run:
    """The Run to try levers on. Raises `UsageError` for a bare trace, `Refused` where the script has changed."""
    if diagnosis.run is None:
        raise UsageError(
            say("levers can be tried on a run, not on a bare trace"), hint=say("record one: tracelens profile train.py")
        )
    changed = next((item for item in diagnosis.abstentions if item.detector == "patch"), None)
    if changed is not None and "changed since" in changed.missing:
        raise Refused(changed.missing, hint=say("record it again: tracelens profile train.py"))
    return diagnosis.run


# ------------------------------------------------------------------------------------------------- which levers


def _named(word: str, rules: Sequence[LeverRule], diagnosis: PlannedDiagnosis) -> list[ChosenLever | str]:
    """A scheme by its id, or levers of the rules."""
    schemes = [scheme.id for scheme in diagnosis.schemes]
    return [word] if word in schemes else list(chosen(word, rules, schemes))


def _candidates(
    diagnosis: PlannedDiagnosis, rules: Sequence[LeverRule], facts: LeverFacts, *, everything: bool
) -> list[ChosenLever | str]:
    """What is worth a trial here, in the order of the plan: what owners suggest and does not change the training. With
    a setting for debugging on it is the lever that ends it alone: owners mean nothing before."""
    first = by_id(rules, debug_settings.lever(diagnosis.run) or "")
    if first is not None and not everything:
        return [ChosenLever(first)]
    out: list[ChosenLever | str] = []
    patches: list[dict[Path, bytes]] = []
    by_patch = {rule.id for rule in rules if any(toggle.kind == "patch" for toggle in rule.toggles)}
    open_ids = {lever.id for lever in diagnosis.levers if lever.state not in ("done", "not_applicable")}
    for lever in diagnosis.levers:
        if lever.state in ("done", "not_applicable"):
            continue
        if lever.family == "scheme":
            written = _written(diagnosis, lever.id)
            pays = lever.predicted is None or lever.predicted.speedup >= WORTH_A_TRIAL
            if written and written not in patches and (everything or pays):
                patches.append(written)
                out.append(lever.id)
            continue
        rule_id, _, value = lever.id.partition("=")
        rule = by_id(rules, rule_id)
        if rule is None or not rule.toggles:
            continue
        if not everything and any(other in open_ids for other in preferable(rule.id)):
            continue
        if not everything and rule.value.takes == "place" and _has_patch(lever, diagnosis, by_patch):
            continue
        harmless = rule.effect != "training" or rule.value.takes == "place"
        if everything or (harmless and _suggested(rule, facts)):
            out.append(ChosenLever(rule, value))
    return out


def _has_patch(lever: Lever, diagnosis: PlannedDiagnosis, by_patch: set[str]) -> bool:
    """Whether another lever writes what leaving the call out would show."""
    return any(
        other.id in by_patch and set(other.locations) & set(lever.locations)
        for other in diagnosis.levers
        if other.id in diagnosis.patches and not diagnosis.patches[other.id].empty
    )


def _written(diagnosis: PlannedDiagnosis, scheme: str) -> dict[Path, bytes]:
    """What the scheme's patch writes: schemes that come to the same on this Run are one trial."""
    patch = diagnosis.patches.get(scheme)
    return {} if patch is None else {file.path: file.after for file in patch.files}


def _suggested(rule: LeverRule, facts: LeverFacts) -> bool:
    """Whether an owner of some weight suggests it; where nothing is known of owners, everything is suggested."""
    known = [owner for owner in facts.owners.owners if owner.kind != "unknown"]
    weights = [
        max(owner.owned_ns, owner.recoverable_ns or 0) for owner in suggested_by(rule, facts.owners, facts.texts)
    ]
    return not known or max(weights, default=0) >= LEAST_OWNER_SHARE * _rest_ns(facts)


def _rest_ns(facts: LeverFacts) -> int:
    """The step without the owner of which most may go."""
    return facts.owners.wall_ns - max((owner.recoverable_ns or 0 for owner in facts.owners.owners), default=0)


def _lever_id(lever: ChosenLever | str) -> str:
    return lever if isinstance(lever, str) else lever.id


# -------------------------------------------------------------------------------------------- from lever to trial


def _candidate(
    lever: ChosenLever | str, diagnosis: PlannedDiagnosis, run: Run, facts: LeverFacts
) -> LeverTrial | LeverMeasurement:
    """The same for a lever that nobody named: one that cannot be made is left out."""
    try:
        return _trial(lever, diagnosis, run, facts)
    except UsageError as error:
        return LeverMeasurement(LeverTrial(_lever_id(lever)), "refused", error.message)


def _trial(
    lever: ChosenLever | str, diagnosis: PlannedDiagnosis, run: Run, facts: LeverFacts
) -> LeverTrial | LeverMeasurement:
    """The trial of a lever, or why there is none."""
    if isinstance(lever, str):
        return _patched(lever, diagnosis)
    rule, bare = lever.rule, LeverTrial(lever.id)
    missing, done = not_applicable(rule, facts), done_already(rule, facts)
    if missing is not None:
        return LeverMeasurement(bare, "refused", missing)
    if done is not None:
        return LeverMeasurement(bare, "already", done)
    if any(toggle.kind == "patch" for toggle in lever.toggles):
        return _patched(lever.id, diagnosis)
    lines = [toggle for toggle in lever.toggles if toggle.kind == "line"]
    return LeverTrial(
        id=lever.id,
        toggles=tuple(toggle for toggle in lever.toggles if toggle.kind not in _IN_PARENT),
        patch=_line_patch(lines[0], run) if lines else None,
        factor=_factor(lever.toggles),
        another_training=rule.family == "batch",
    )


def _patched(name: str, diagnosis: PlannedDiagnosis) -> LeverTrial | LeverMeasurement:
    """A scheme, or a lever that a recipe writes: its patch in the working copy."""
    try:
        patch = patch_of(diagnosis, name)
    except Refused as error:
        return LeverMeasurement(LeverTrial(name), "refused", error.message)
    if patch.empty:
        why = next(
            (f"{one.location}: {one.obstacle}" for one in patch.declined), say("its patch changes nothing on this run")
        )
        return LeverMeasurement(LeverTrial(name), "unused", why)
    return LeverTrial(name, patch=patch)


def _factor(toggles: Sequence[Toggle]) -> int:
    return next((int(str(toggle.value).removesuffix("x")) for toggle in toggles if toggle.kind == "batch"), 1)


def _line_patch(toggle: Toggle, run: Run) -> Patch:
    """The file without the call on that line, as it was recorded."""
    where = line_edit.place(str(toggle.value))
    folders = [run.cwd, *((run.script.parent,) if run.script is not None else ())]
    path = next((folder / where.path for folder in folders if (folder / where.path).is_file()), None)
    if path is None:
        raise UsageError(
            say("{path} is not a file of this run's project", path=where.path),
            hint=say("paths are relative to {cwd}", cwd=run.cwd),
        )
    back = way_back(run)
    before = next((file.after for file in back.files if file.path.resolve() == path.resolve()), None) if back else None
    data = path.read_bytes() if before is None else before
    after = line_edit.without_call(data.decode("utf-8"), where)
    return Patch(run.cwd, (FilePatch(path.resolve(), data, after.encode()),), (), (), "")
