"""The levers of one Run: those of `rules/levers/` and the schemes, in one list.

In: a Diagnosis, the rules, the schemes judged on it, and what its trials found. Out: `Lever`s, ranked. Apart from
`levers` because schemes, replays and trials meet here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tracelens.findings import debug_settings, recorded_loaders
from tracelens.levers.definition import ChosenLever, by_id
from tracelens.levers.states import LeverFacts, levers_of_run
from tracelens.messages import joined, say
from tracelens.model import (
    Abstention,
    Diagnosis,
    Estimate,
    Lever,
    LeverCombination,
    LeverState,
    Location,
    MedianPair,
    Scheme,
    Speedup,
    Verification,
    counting,
)
from tracelens.schemes.catalog import Rules
from tracelens.verify import lever_store
from tracelens.verify.compare import times
from tracelens.verify.lever_store import LeverRecord
from tracelens.verify.lever_trial import LeverMeasurement


@dataclass(frozen=True, slots=True)
class SchemeResults:
    """What is known of the schemes on this Run."""

    schemes: tuple[Scheme, ...]
    replayed: Mapping[str, Estimate]
    trials: tuple[Verification, ...]


@dataclass(frozen=True, slots=True)
class RunLevers:
    """The levers of a Run, and the best of them together."""

    levers: tuple[Lever, ...]
    combination: LeverCombination | None


def collect(diagnosis: Diagnosis, rules: Rules, results: SchemeResults, facts: LeverFacts) -> RunLevers:
    """All levers, the schemes among them."""
    summaries = {rule.id: rule.summary for rule in rules.schemes}
    schemes = [
        _scheme_lever(scheme, results, diagnosis, summaries.get(scheme.id, scheme.title)) for scheme in results.schemes
    ]
    record = recorded_trials(diagnosis)
    titles = {lever.id: lever for lever in schemes}
    measured = [lever for one in record.levers if (lever := _tried(one, rules, titles)) is not None]
    switched = () if diagnosis.timeline.trace.program == "cpp" else rules.levers  # they are switched on in Python
    levers = _one_order(levers_of_run(switched, facts, schemes, measured), results.schemes)
    best = record.combination
    if best is None or best.speedup is None:
        return RunLevers(levers, None)
    members = best.trial.members or (best.trial.id,)
    return RunLevers(
        levers, LeverCombination(members, best.speedup, best.numbers, best.memory_bytes_delta, _pair(best))
    )


def _one_order(levers: Sequence[Lever], schemes: Sequence[Scheme]) -> tuple[Lever, ...]:
    """With the schemes that gain in the order in which they are recommended: near ties are decided there, and a page
    has one ranking. Other levers keep their places."""
    ranks = {scheme.id: scheme.rank for scheme in schemes if scheme.rank is not None}
    slots = [
        place
        for place, lever in enumerate(levers)
        if lever.id in ranks and lever.known is not None and lever.known.excludes_zero
    ]
    out = list(levers)
    for place, lever in zip(
        slots, sorted((levers[slot] for slot in slots), key=lambda x: ranks[x.id] or 0), strict=True
    ):
        out[place] = replace(lever, rank=levers[place].rank)
    return tuple(out)


def facts_of(diagnosis: Diagnosis, workers: Sequence[int] = ()) -> LeverFacts:
    """What the Run tells about levers. `workers` are the numbers that pay by the replay."""
    name, places = debug_settings.lever(diagnosis.run), debug_settings.places(diagnosis.run)
    return LeverFacts(
        gpu=_has_gpu(diagnosis),
        owners=diagnosis.owners,
        inventory=diagnosis.inventory,
        torch=_torch(diagnosis),
        loader=_has_loader(diagnosis),
        variables=_variables(diagnosis),
        texts=diagnosis.sources,
        settings=_environment(diagnosis),
        places={name: places} if name is not None and places else {},
        loader_place=recorded_loaders.loader_place(diagnosis.run, diagnosis.timeline.trace.rank),
        values={"workers": tuple(str(number) for number in workers)} if workers else {},
    )


def workers_to_try(diagnosis: Diagnosis, rules: Rules) -> tuple[int, ...]:
    """The usual numbers of workers, where no replay tells which pay: those that the recorded machine has cores for, and
    that are more than the loop has. A machine whose cores are not known gets all of them."""
    rule, cores = by_id(rules.levers, "workers"), _environment(diagnosis).get("cpu_count")
    item = diagnosis.item("loader_workers")
    known = item.value or 0 if item is not None else 0
    usual = [int(number) for number in rule.value.usual] if rule is not None else []
    return tuple(n for n in usual if known < n and (not isinstance(cores, int) or n <= cores))


def recorded_trials(diagnosis: Diagnosis) -> LeverRecord:
    """What `try` measured on this Run, as long as the project's sources are what was tried."""
    run = diagnosis.run
    if run is None:
        return LeverRecord()
    record = lever_store.read(run.path)
    return record if lever_store.unchanged(record, run.cwd) else LeverRecord()


def _tried(one: LeverMeasurement, rules: Rules, schemes: Mapping[str, Lever]) -> Lever | None:
    """A measurement as a lever; None where it was not reached, or where no rule describes it any more."""
    base, rule = _untried(one.trial.id, rules, schemes), by_id(rules.levers, one.trial.id.partition("=")[0])
    if one.standing == "not_reached" or base is None:
        return None
    if one.standing == "measured" and one.speedup is None:
        return replace(base, reason=say("one run is too few for an interval: give a larger --budget"))
    same = one.gains and one.numbers == "same" and base.family == "scheme"
    named = one.gains and one.numbers == "inside_seed_band" and rule is not None and rule.recipe is not None
    return replace(
        base,
        state=_STATES[one.standing],
        measured=one.speedup,
        pair=_pair(one),
        numbers=one.numbers,
        memory_bytes_delta=one.memory_bytes_delta,
        reason=one.reason or _compiled(one),
        command=f"apply --lever {base.id}" if same else f"fix {base.id}" if named else None,
    )


def _pair(one: LeverMeasurement) -> MedianPair | None:
    both = times.median_pair(one.pairs) if one.speedup is not None else None
    return None if both is None else MedianPair(round(both[0]), round(both[1]))


def _untried(lever_id: str, rules: Rules, schemes: Mapping[str, Lever]) -> Lever | None:
    """The lever as if nobody had tried it."""
    rule_id, _, value = lever_id.partition("=")
    rule, scheme = by_id(rules.levers, rule_id), schemes.get(lever_id)
    if rule is not None:
        text = ChosenLever(rule, value).text
        return Lever(lever_id, rule.family, "not_tried", rule.title, text, effect=rule.effect)
    if scheme is None:
        return None
    return replace(scheme, state="not_tried", predicted=None, measured=None, pair=None, numbers=None, reason=None)


_STATES: Mapping[str, LeverState] = {
    "measured": "measured",
    "failed": "measured",
    "already": "done",
    "refused": "not_applicable",
    "unused": "not_applicable",
}


def _compiled(one: LeverMeasurement) -> str | None:
    """What compiling took, and when that has paid."""
    known = one.compiled
    if known is None:
        return None
    said = say(
        "compiling took {seconds:g} s, {graphs} graphs, {breaks} graph breaks",
        seconds=known["seconds"],
        graphs=known["graphs"],
        breaks=known["breaks"],
    )
    pays = known["pays_after_steps"]
    return say("{sentence}; it has paid after {steps} steps", sentence=said, steps=pays) if pays is not None else said


def _has_gpu(diagnosis: Diagnosis) -> bool | None:
    """False for a whole recording without GPU work; None where it might have been lost."""
    if diagnosis.breakdown is not None:
        return True
    return False if diagnosis.timeline.coverage.whole else None


def _has_loader(diagnosis: Diagnosis) -> bool | None:
    """None for a bare trace, and where a recording did not look; the recorder notes each loader that gives a batch."""
    noted = [recording.meta.get("loaders") for recording in diagnosis.run.recordings] if diagnosis.run else []
    if any(noted):
        return True
    return False if noted and all(loaders == [] for loaders in noted) else None


def _environment(diagnosis: Diagnosis) -> Mapping[str, Any]:
    return diagnosis.run.environment if diagnosis.run is not None else {}


def _torch(diagnosis: Diagnosis) -> str | None:
    version = _environment(diagnosis).get("torch")
    return version if isinstance(version, str) else None


def _variables(diagnosis: Diagnosis) -> Mapping[str, object] | None:
    return diagnosis.run.variables if diagnosis.run is not None else None


def _scheme_lever(scheme: Scheme, results: SchemeResults, diagnosis: Diagnosis, summary: str) -> Lever:
    trial = counting(results.trials, scheme.id)
    measured = _measured(trial)
    graded = trial.predicted if trial is not None and measured is not None else None
    predicted = predicted_by(graded or results.replayed.get(scheme.id))  # a measurement stands beside what it grades
    lever = Lever(
        id=scheme.id,
        family="scheme",
        state="not_tried",
        title=scheme.title,
        text=summary,
        predicted=predicted,
        locations=_locations(scheme, diagnosis),
        reason=joined("; ", scheme.reasons) if scheme.reasons else None,
    )
    return _with_state(lever, scheme, trial, measured)


def with_trial(lever: Lever, trial: Verification) -> Lever:
    """The lever with what a `verify` of its patch measured."""
    measured = _measured(trial)
    return replace(
        lever,
        state="measured",
        measured=measured,
        pair=_pair_of(trial),
        numbers=_NUMBERS[trial.numbers_equal],
        reason=trial.verdict,
    )


def _with_state(lever: Lever, scheme: Scheme, trial: Verification | None, measured: Speedup | None) -> Lever:
    if trial is not None and (measured is not None or trial.outcome == "failed"):
        numbers = _NUMBERS[trial.numbers_equal]
        fine = trial.numbers_equal is True and measured is not None and measured.excludes_zero
        maybe = measured is not None and measured.low <= 1 and not measured.is_narrow and measured.may_gain
        command = f"apply --lever {scheme.id}" if fine else f"try {scheme.id}" if maybe else None
        reason = trial.verdict if measured is None else lever.reason
        return replace(
            lever,
            state="measured",
            measured=measured,
            pair=_pair_of(trial),
            numbers=numbers,
            reason=reason or trial.verdict,
            command=command,
        )
    if not scheme.edits:
        return replace(
            lever, state="not_applicable", predicted=None, reason=lever.reason or say("nothing to change here")
        )
    if scheme.same_as is not None:  # one change has one row
        return replace(lever, state="not_applicable", predicted=None)
    if lever.predicted is not None:
        return replace(lever, state="predicted", command=f"try {scheme.id}")
    return replace(lever, command=f"try {scheme.id}")


_NUMBERS: Mapping[bool | None, Any] = {True: "same", False: "outside_seed_band", None: "unknown"}


def predicted_by(estimate: Estimate | Abstention | None) -> Speedup | None:
    """What an Estimate promises, as a ratio."""
    if isinstance(estimate, Abstention):
        return None
    if estimate is None or min(estimate.step_ns, estimate.low_ns, estimate.high_ns) <= 0:
        return None
    ends = (estimate.base_ns / estimate.high_ns, estimate.base_ns / estimate.low_ns)
    return Speedup(estimate.speedup, min(*ends, estimate.speedup), max(*ends, estimate.speedup))


def _measured(trial: Verification | None) -> Speedup | None:
    if trial is None or trial.ratio is None:
        return None
    return Speedup(1 / trial.ratio.value, 1 / trial.ratio.high, 1 / trial.ratio.low)


def _pair_of(trial: Verification) -> MedianPair | None:
    if trial.ratio is None or trial.base_ns is None or trial.patched_ns is None:
        return None
    return MedianPair(trial.base_ns, trial.patched_ns)


def _locations(scheme: Scheme, diagnosis: Diagnosis) -> tuple[Location, ...]:
    """The lines of the waits that its Edits act on, in the order of the Edits."""
    by_id = {stall.id: stall.location for stall in diagnosis.stalls}
    places = (by_id.get(stall) for edit in scheme.edits for stall in edit.stalls)
    return tuple(dict.fromkeys(place for place in places if place is not None))
