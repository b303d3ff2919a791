"""What the levers with a recipe would write into this run's script, and which levers an owner has.

In: the levers' rules, the owners of a step, and a `PatchContext`. Out: a `Remedy` per lever, as schemes have them, and
the Owners with the ids of their levers. Apart from `levers` because patches, replays and trials meet here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tracelens import remedies, run_levers
from tracelens.edit_kinds import EDIT_DEFINITIONS, EditKind, definition
from tracelens.findings import debug_settings
from tracelens.levers.definition import LeverRule
from tracelens.levers.states import LeverFacts, done_already, not_applicable, suggested_by
from tracelens.messages import say
from tracelens.model import (
    Abstention,
    Diagnosis,
    Edit,
    Estimate,
    Hunk,
    Lever,
    LeverCombination,
    Location,
    Owner,
    Owners,
    Scheme,
    UnsafeOffer,
    Verification,
    counting,
)
from tracelens.remedies import PatchContext, Remedy
from tracelens.replay import estimate
from tracelens.replay.replay_trace import ReplayTrace
from tracelens.run_levers import SchemeResults
from tracelens.schemes.catalog import Rules
from tracelens.schemes.plan import DEFAULT_INTERVAL

NOT_REPLAYED = Abstention(
    "replay", say("no number is known for what this lever changes"), say("measure it: tracelens verify")
)

LOADER_ARGUMENTS: tuple[EditKind, ...] = ("loader-workers", "loader-ahead", "loader-pinning")
MOST_NUMBERS = 2
"""Of workers that are offered: what is enough, and half of it, which takes half the memory."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the plan and its user decide about levers."""

    workers: tuple[int, ...] | None
    """Numbers of workers that pay by the replay, none where more bring nothing; None where nothing was replayed."""
    asked: tuple[str, ...]
    """Levers that the user named."""
    interval: int = DEFAULT_INTERVAL


@dataclass(frozen=True, slots=True)
class PlannedLevers:
    """The levers of a run, what those with a recipe would write, and the owners with their levers."""

    levers: tuple[Lever, ...]
    combination: LeverCombination | None
    by_lever: Mapping[str, Remedy]
    owners: Owners
    first: str | None = None
    """The lever that ends a setting for debugging: before it is gone, no owner means anything."""

    @property
    def edits(self) -> dict[str, tuple[Edit, ...]]:
        """By lever id, the Edits of its patch."""
        return {name: one.edits for name, one in self.by_lever.items() if not isinstance(one.edits, str)}


def plan(
    context: PatchContext, diagnosis: Diagnosis, rules: Rules, results: SchemeResults, wanted: Wanted
) -> PlannedLevers:
    """The levers of a run. `results`: what is known of its schemes, which are levers too."""
    workers = run_levers.workers_to_try(diagnosis, rules) if wanted.workers is None else wanted.workers
    facts, first = run_levers.facts_of(diagnosis, workers[-MOST_NUMBERS:]), debug_settings.lever(diagnosis.run)
    edits = edits_of([rule for rule in rules.levers if first in (None, rule.id)], facts, wanted)
    by_lever = remedies.with_trials(remedies_of(edits, context, diagnosis, rules.levers), diagnosis, results.trials)
    predicted = {name: gain for name, one in by_lever.items() if (gain := run_levers.predicted_by(one.estimate))}
    of_run = run_levers.collect(diagnosis, rules, results, replace(facts, predictions=predicted))
    owners = with_remedies(diagnosis.owners, rules.levers, facts, results.schemes)
    levers = _with_patches(of_run.levers, by_lever, results.trials)
    return PlannedLevers(levers, of_run.combination, by_lever, owners, first)


def edits_of(rules: Sequence[LeverRule], facts: LeverFacts, wanted: Wanted) -> dict[str, tuple[Edit, ...]]:
    """By lever id, with its value where it takes one, the Edits that write it.

    A lever that is done already, does not apply or has no place is left out.
    """
    out: dict[str, tuple[Edit, ...]] = {}
    for rule in rules:
        if rule.recipe is None or done_already(rule, facts) or not_applicable(rule, facts):
            continue
        owners = suggested_by(rule, facts.owners.ordinary, facts.texts)  # what is rare already gets no "every N"
        lines = tuple(dict.fromkeys(owner.locations[0] for owner in owners if owner.locations))
        made = (facts.loader_place,) if facts.loader_place is not None else ()  # of a loader: its time goes elsewhere
        if definition(rule.recipe).looks_for:  # another rounding: made for whoever names it, and for nobody else
            out |= {name: (Edit(rule.recipe, choice=choice),) for name, choice in _chosen(rule, wanted.asked)}
        elif places := facts.places.get(rule.id):
            out[rule.id] = (Edit(rule.recipe, locations=places),)
        elif rule.value.takes == "integer":
            values = _values(rule, facts, wanted.asked) if owners or _asked(rule, wanted.asked) else ()
            out |= {f"{rule.id}={value}": (_numbered(rule.recipe, int(value), made),) for value in values}
        elif rule.family == "loader" and (owners or _asked(rule, wanted.asked)):
            out[rule.id] = (Edit(rule.recipe, locations=made),)
        elif lines and (rule.callees or rule.code):  # else an owner does not tell where it stands
            out[rule.id] = (Edit(rule.recipe, locations=lines, interval=rule.interval or wanted.interval),)
    return out


def _numbered(kind: EditKind, number: int, made: tuple[Location, ...]) -> Edit:
    """The Edit of a lever that takes a number: both are arguments of the loader, which is made at that line."""
    ahead = "depth" in definition(kind).parameters
    return Edit(kind, locations=made, depth=number) if ahead else Edit(kind, locations=made, workers=number)


def _asked(rule: LeverRule, asked: Sequence[str]) -> Mapping[str, str]:
    """The names by which a lever was asked for, each with its value; empty without one."""
    parts = ((name, *name.partition("=")) for name in asked)
    return {name: value for name, lever, _, value in parts if lever == rule.id}


def _chosen(rule: LeverRule, asked: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The same without values that it does not take."""
    for name, value in _asked(rule, asked).items():
        if value in rule.value.choices or "=" not in name:
            yield name, value


def _values(rule: LeverRule, facts: LeverFacts, asked: Sequence[str]) -> tuple[str, ...]:
    """The values that this run suggests, and those that were asked for."""
    usual = rule.value.usual if "workers" in rule.needs else ()  # there are some, and nobody tells a better number
    known = facts.values.get(rule.id, usual)
    return tuple(dict.fromkeys((*known, *filter(str.isdecimal, _asked(rule, asked).values()))))


def remedies_of(
    edits: Mapping[str, tuple[Edit, ...]], context: PatchContext, diagnosis: Diagnosis, rules: Sequence[LeverRule]
) -> dict[str, Remedy]:
    """The patch of each lever, and what it buys."""
    remedies.ask_ahead(context, edits.values())
    by_id = {rule.id: rule for rule in rules}
    out = {}
    for name, chosen in edits.items():
        patch = remedies.patch_of_edits(chosen, context)
        owners = suggested_by(by_id[name.partition("=")[0]], diagnosis.owners.ordinary, diagnosis.sources)
        out[name] = Remedy(chosen, _estimate(chosen, owners, context.replay_trace, diagnosis), patch)
    return out


def _estimate(
    edits: tuple[Edit, ...], owners: Sequence[Owner], trace: ReplayTrace | Abstention, diagnosis: Diagnosis
) -> Estimate | Abstention:
    """The replay of the Edits; for a line that runs every N batches, what its owner gives back in the others."""
    if isinstance(trace, Abstention):
        return trace
    if any(edit.workers for edit in edits):
        return estimate.predict(trace, edits)
    if any(edit.kind != "rare-call" for edit in edits):  # what is left of the owner is not known
        return NOT_REPLAYED
    gains = [(owner.low_ns, owner.recoverable_ns, owner.high_ns) for owner in owners if owner.low_ns is not None]
    if len(gains) != 1:  # numbers of several owners do not add up
        return NOT_REPLAYED
    every = max(edit.interval for edit in edits)
    base_ns = diagnosis.steps.best_known_ns
    low, middle, high = (round((ns or 0) * (1 - 1 / every)) if every > 1 else ns or 0 for ns in gains[0])
    if base_ns <= high:
        return NOT_REPLAYED
    return Estimate(base_ns, base_ns - middle, base_ns - high, base_ns - low, "host", "unprofiled", "replayed")


def with_remedies(owners: Owners, rules: Sequence[LeverRule], facts: LeverFacts, schemes: Iterable[Scheme]) -> Owners:
    """Each owner with its levers: schemes that end its waits, then the rules', those that a recipe writes first. Where
    levers are about the very call or line, those that are about lines in general are left out."""
    possible = [rule for rule in rules if not done_already(rule, facts) and not not_applicable(rule, facts)]
    possible.sort(key=lambda rule: rule.recipe is None or bool(definition(rule.recipe).looks_for))
    waits = [(scheme.id, {stall for edit in scheme.edits for stall in edit.stalls}) for scheme in schemes]
    out = []
    for owner in owners.owners:
        ended = [name for name, stalls in waits if owner.group in stalls]
        own = [rule for rule in possible if owner in suggested_by(rule, owners, facts.texts)]
        if owner.occurrences:  # rare already: what makes it as rare, and what is about every step, is no help
            every = owners.slow.distance if owners.slow is not None else 1
            own = [rule for rule in own if (rule.callees or rule.code) and not 0 < rule.interval <= every]
        special = [rule for rule in own if rule.callees or rule.code]
        chosen = [*special, *(rule for rule in own if rule.value.takes == "place")] if special else own
        out.append(replace(owner, remedies=tuple(dict.fromkeys((*ended, *(rule.id for rule in chosen))))))
    return replace(owners, owners=tuple(out))


def lever_of_loss(owner: Owner | None, planned: PlannedLevers) -> str | None:
    """The lever of an owner: one that a patch writes, else one whose recipe declines here; None where there is none.
    With a setting for debugging on it is the lever that ends that, where a patch does."""
    if planned.first is not None:
        remedy = planned.by_lever.get(planned.first)
        return planned.first if remedy is not None and remedy.patch is not None and not remedy.patch.empty else None
    same = (one for one in planned.owners.owners if owner is not None and _who(one) == _who(owner))
    names = next((one.remedies for one in same), ())
    own = [known for name in names for known in _fastest_first(planned.by_lever) if known.partition("=")[0] == name]
    patches = {known: planned.by_lever[known].patch for known in own if not _is_a_guess(planned.by_lever[known])}
    written = (known for known, patch in patches.items() if patch is not None and not patch.empty)
    return next(written, next((known for known, patch in patches.items() if patch is not None), None))


def _fastest_first(by_lever: Mapping[str, Remedy]) -> list[str]:
    """Of values of one lever, say four or eight workers, the one that is recommended is the one that ranks first."""

    def step_ns(name: str) -> float:
        estimate = by_lever[name].estimate
        return estimate.step_ns if isinstance(estimate, Estimate) else float("inf")

    return sorted(by_lever, key=step_ns)


def _is_a_guess(remedy: Remedy) -> bool:
    """Whether it is an argument of the loader that nothing predicts: worth a trial, and no answer to a loss."""
    edits = remedy.edits if not isinstance(remedy.edits, str) else ()
    predicted = isinstance(remedy.estimate, Estimate)
    return bool(edits) and not predicted and all(edit.kind in LOADER_ARGUMENTS for edit in edits)


def beyond_levers(offer: UnsafeOffer | None, by_lever: Mapping[str, Remedy]) -> UnsafeOffer | None:
    """What only --unsafe makes: not what a lever of its own writes at the same place once a trial has checked it."""
    patches = (remedy.patch for remedy in by_lever.values() if remedy.patch is not None)
    own = {_change(hunk) for patch in patches for hunk in patch.hunks}
    left = tuple(hunk for hunk in offer.hunks if _change(hunk) not in own) if offer is not None else ()
    return replace(offer, hunks=left) if offer is not None and left else None


def _change(hunk: Hunk) -> tuple[str, str, int | None]:
    known = EDIT_DEFINITIONS.get(hunk.edit)
    return known.recipe if known is not None else hunk.edit, hunk.location.path, hunk.location.line


def _who(owner: Owner) -> tuple[object, ...]:
    return owner.kind, owner.locations, owner.callee, owner.owned_ns


def _with_patches(
    levers: Iterable[Lever], by_lever: Mapping[str, Remedy], trials: Sequence[Verification]
) -> tuple[Lever, ...]:
    """The levers that a recipe writes, with what their last trial measured and the command that writes them."""
    out = []
    for lever in levers:
        remedy = by_lever.get(lever.id)
        trial = counting(trials, lever.id)
        if remedy is not None and trial is not None:
            lever = run_levers.with_trial(lever, trial)
        if remedy is not None:
            lever = replace(lever, command=_command(lever, remedy), locations=_where(lever, remedy))
        out.append(lever)
    return tuple(out)


def _where(lever: Lever, remedy: Remedy) -> tuple[Location, ...]:
    """Where the lever is pulled: for the owner's line, or, of a loader, where it is made: its time goes elsewhere, say
    in the data set."""
    own, changed = lever.locations, _places(remedy)
    return changed or own if lever.family == "loader" else own or changed


def _places(remedy: Remedy) -> tuple[Location, ...]:
    """Where its patch changes the source, else the lines that stand in the way of one."""
    found = (remedy.patch.hunks or remedy.patch.by_hand) if remedy.patch is not None else ()
    return tuple(dict.fromkeys(one.location for one in found))


def _command(lever: Lever, remedy: Remedy) -> str | None:
    patch = remedy.patch
    if patch is None or patch.empty:
        return lever.command
    proved = lever.state == "measured" and lever.numbers == "same" and not patch.unchecked
    return f"apply --lever {lever.id}" if proved else f"fix {lever.id}"
