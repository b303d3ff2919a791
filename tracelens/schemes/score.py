"""Confront the seeds' opinions with evidence: what is known of each scheme on this run, criterion by criterion.

In: rules and Facts. Out: `Scheme`s, best first (`ranking`), rejected ones last with their reason. Each score says where
it comes from: `measured` by a trial, `replayed`, or counted in the `patch`. The seeds' opinions (`prior`) stand beside
them and enter nothing. The curves from quantity to score are data (`rules/weights.yaml`); what is counted is code:

    performance      saved time as a share of the best candidate's (`ranking`), from the trial, else from the Estimate
    memory           batch bytes x extra batches as a share of the free device memory; no extra batch needs no memory
                     (`patch` where a patch makes the Edits, `replayed` where only the replay ran with them)
    difficulty       places for a person: unsafe hunks 1, manual hunks and declined places 2
    complexity       lines that the patch adds and removes, those of the files that it creates included
    maintainability  functions touched + kinds of change in them
    risk             hunks whose effect is not proven; after a trial, 10 for equal numbers

A scheme whose gain is within noise of zero is rejected whatever its other scores.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from math import ceil, log
from typing import Literal

from tracelens.edit_kinds import definition
from tracelens.messages import say
from tracelens.model import (
    CRITERIA,
    OUTCOMES,
    Abstention,
    Edit,
    Estimate,
    Patch,
    Scheme,
    Score,
    Speedup,
    Verification,
    counting,
)
from tracelens.model.levers import NARROW
from tracelens.schemes import ranking
from tracelens.schemes.catalog import Rules, SchemeRule
from tracelens.schemes.facts import Facts
from tracelens.schemes.plan import DEFAULT_INTERVAL
from tracelens.schemes.wording import gain, gain_percent, tried

__all__ = ["Facts", "comparable", "judge", "set_aside", "verification_of"]

SURE_PERCENT = 1.0
"""What verify calls no change. A replay whose range reaches below it promised +2.7 % on a GPU-bound H200 loop, and
+0.5 % was measured."""
MOST_PAIRS = 40
"""Of interleaved processes: more are no advice."""
WORTH_PERCENT = 2.0
"""A replayed gain below this is no gain, however narrow its range: replays of such loops are off by a few percent."""

WORTH_MEASURING_PERCENT = 5.0
"""A replayed gain of this size is no "nothing" when its range alone reaches below zero: a trial can decide it."""

NUMBERS_EQUAL, NUMBERS_DIFFER = 10.0, 0.0
"""Risk after a trial: the same numbers are the best there is, other numbers the worst."""


VERIFY_AGAIN = say("verify this plan on the recorded machine: tracelens verify")


def judge(rules: Rules, facts: Facts) -> tuple[Scheme, ...]:
    """Every scheme of the rules on this run: ranked ones first, then those that were not judged, rejected ones last."""
    judged = ranking.with_twins(
        [_scheme(rule, rules, facts) for rule in rules.schemes],
        facts.patches,
        {rule.id: len(rule.edits) for rule in rules.schemes},
    )
    ranked = ranking.order(ranking.candidates(judged), rules.weights, facts.told_apart)
    names = {scheme.id for scheme in ranked}
    rest = [scheme for scheme in judged if scheme.id not in names]
    return (*ranked, *sorted(rest, key=lambda scheme: (not scheme.applicable, scheme.same_as is not None)))


def verification_of(scheme_id: str, facts: Facts) -> Verification | None:
    """The trial of this scheme that counts, where it came to a verdict."""
    trial = counting(facts.verifications, scheme_id)
    return trial if trial is not None and trial.outcome != "inconclusive" else None


def comparable(
    trials: tuple[Verification, ...],
    plans: Mapping[str, tuple[Edit, ...] | str],
    interval: int,
    device: str | None = None,
) -> tuple[Verification, ...]:
    """The trials of these plans on this device: one that spaced its waits out by another N says nothing about this N,
    and one on another GPU, or on none, nothing about the recorded one."""

    return tuple(trial for trial in trials if _unlike(trial, plans, interval, device) is None)


def set_aside(
    trials: tuple[Verification, ...],
    plans: Mapping[str, tuple[Edit, ...] | str],
    interval: int,
    device: str | None = None,
) -> tuple[Abstention, ...]:
    """The trials that are no evidence for this plan, each with the reason."""
    return tuple(
        Abstention(
            "verify", say("verify.json holds a trial of {lever} {why}", lever=tried(trial), why=reason), VERIFY_AGAIN
        )
        for trial in trials
        if (reason := _unlike(trial, plans, interval, device)) is not None
    )


def _unlike(
    trial: Verification, plans: Mapping[str, tuple[Edit, ...] | str], interval: int, device: str | None
) -> str | None:
    """How a trial differs from the plan it is held against; None where it does not."""
    plan = plans.get(trial.scheme or "", ())
    spaced = not isinstance(plan, str) and any(edit.interval > 1 for edit in plan)
    tried = trial.details.get("interval", DEFAULT_INTERVAL)
    if spaced and tried != interval:
        return say("with N = {tried}, which says nothing about N = {interval}", tried=tried, interval=interval)
    if trial.device is not None and device is not None and trial.device != device:
        return say(
            "on {device}, which says nothing about the recorded {recorded}", device=trial.device, recorded=device
        )
    return None


def _scheme(rule: SchemeRule, rules: Rules, facts: Facts) -> Scheme:
    plan = facts.plans.get(rule.id, say("it was not considered"))
    found = () if isinstance(plan, str) else plan
    estimate = _estimate(rule, facts)
    scores = _scores(rule, rules, facts, found)
    objection, notes = (plan, []) if isinstance(plan, str) else _objection(rule, facts, found, estimate)
    return Scheme(
        id=rule.id,
        title=rule.title,
        edits=found,
        prior=rule.priors,
        scores=scores,
        prior_mean=_mean_of_five(rule),
        prior_total=_weighted(rule.priors, rules) if rule.priors else None,
        total=None,
        rank=None,
        estimate=estimate,
        applicable=objection is None,
        reasons=(*([objection] if objection else []), *notes),
    )


def _mean_of_five(rule: SchemeRule) -> float | None:
    """The seeds' own mean: all criteria but risk."""
    if rule.priors is None:
        return None
    return round(sum(value for criterion, value in rule.priors.items() if criterion != "risk") / 5, 2)


def _weighted(scores: Mapping[str, float], rules: Rules) -> float | None:
    """The seeds' weighted total; None when none of the criteria weighs anything."""
    weight = sum(rules.weights[criterion] for criterion in scores)
    if weight == 0:
        return None
    return round(sum(score * rules.weights[criterion] for criterion, score in scores.items()) / weight, 2)


# ---------------------------------------------------------------------------------------------------- does it pay?


def _estimate(rule: SchemeRule, facts: Facts) -> Estimate | None:
    """What the scheme gives: the trial's numbers where there was one, else the replay's."""
    estimate = facts.estimates.get(rule.id)
    replayed = estimate if isinstance(estimate, Estimate) else None
    trial = counting(facts.verifications, rule.id)
    if trial is None or trial.ratio is None:
        return replayed
    predicted = replayed or trial.predicted
    binding = predicted.binding if predicted else facts.binding
    if binding is None:  # an Estimate names its limit; one that is unknown must not be made up
        return replayed
    base = facts.step_ns  # an older trial contributes its ratio: there is one step time on a page
    return Estimate(
        base_ns=base,
        step_ns=round(base * trial.ratio.value),
        low_ns=round(base * trial.ratio.low),
        high_ns=round(base * trial.ratio.high),
        binding=binding,
        basis="unprofiled",
        evidence="measured",
        assumptions=(),
    )


def _objection(
    rule: SchemeRule, facts: Facts, edits: tuple[Edit, ...], estimate: Estimate | None
) -> tuple[str | None, list[str]]:
    """Why the scheme is rejected (None: it is not), and what else should be known about it."""
    notes: list[str] = []
    trial = counting(facts.verifications, rule.id)
    if trial is not None and trial.outcome == "inconclusive":
        return _undecided(trial, estimate, facts.estimates.get(rule.id)), notes
    if trial is not None and trial.outcome != "faster":
        return _trial_sentence(trial), notes
    too_large = _too_large(facts, edits)
    if too_large:
        return too_large, notes
    given = facts.estimates.get(rule.id)
    if trial is not None and trial.ratio is not None:
        notes.append(say("measured: step time x {value:.3f}", value=trial.ratio.value))
    elif estimate is not None:
        no_gain = _no_gain(estimate)
        if no_gain:
            return no_gain, notes
        notes.append(say("gain: {gain}", gain=gain(estimate)))
    elif isinstance(given, Abstention):
        notes.append(say("no estimate: {missing}; {hint}", missing=given.missing, hint=given.hint))
    else:
        notes.append(say("no estimate was made"))
    return None, notes + _left_out(rule, edits) + _patch_notes(facts.patches.get(rule.id))


def _trial_sentence(trial: Verification) -> str:
    outcome = OUTCOMES[trial.outcome]
    if trial.ratio is None:
        return say("measured by a trial: {outcome}", outcome=outcome)
    value = trial.ratio.value
    return say("measured by a trial: {outcome} (step time x {value:.3f})", outcome=outcome, value=value)


def _undecided(trial: Verification, estimate: Estimate | None, predicted: Estimate | Abstention | None) -> str:
    """Of a trial that came to no verdict: what it measured, whether a longer one is worth its time, and how long that
    would be."""
    if estimate is None:
        return say("measured by a trial: {outcome}", outcome=OUTCOMES["inconclusive"])
    measured = Speedup(estimate.speedup, estimate.base_ns / estimate.high_ns, estimate.base_ns / estimate.low_ns)
    promised = isinstance(predicted, Estimate) and _no_gain(predicted) is None
    if promised or 100 * (measured.speedup - 1) >= WORTH_MEASURING_PERCENT:
        return say("not sure: {gain}; {longer} can tell", gain=gain(estimate), longer=_longer(trial, measured))
    if measured.is_narrow:
        return say("no gain: {gain} is within noise of zero", gain=gain(estimate))
    return say("undecided: {gain}; {longer} can tell", gain=gain(estimate), longer=_longer(trial, measured))


def _longer(trial: Verification, measured: Speedup) -> str:
    """How many pairs that scatter like these tell a gain of this size, or that there is none: the range shrinks with
    the root of their number. Too many for anybody's patience: steps that scatter less."""
    pairs, half = len(trial.pairs_ns), log(measured.high / measured.low) / 2
    if not pairs:
        return say("only a longer measurement")
    wanted = ceil(pairs * (half / max(abs(log(measured.speedup)), NARROW)) ** 2)
    if wanted > MOST_PAIRS:
        return say("only more --steps on a quieter machine")
    return say("about {pairs} pairs like these {measured}", pairs=max(wanted, pairs + 1), measured=pairs)


def _no_gain(estimate: Estimate) -> str | None:
    saved = estimate.base_ns - estimate.step_ns
    middle = gain_percent(estimate.base_ns, estimate.step_ns)
    word = estimate.evidence
    if saved < 0 and -saved > estimate.noise_ns:
        return say("slower: {gain}", gain=gain(estimate))
    low = gain_percent(estimate.base_ns, estimate.high_ns)
    if word == "replayed" and middle >= WORTH_MEASURING_PERCENT and low < SURE_PERCENT:
        return say("not sure: {gain}; only a measurement can tell", gain=gain(estimate))
    if saved <= estimate.noise_ns:
        return say("no gain: {gain} is within noise of zero", gain=gain(estimate))
    if word == "replayed" and middle < WORTH_PERCENT:
        return say(
            "no gain: {gain} is below the {least:g} % that a prediction can promise",
            gain=gain(estimate),
            least=WORTH_PERCENT,
        )
    if word == "replayed" and low < SURE_PERCENT:
        return say("no gain to promise: {gain}; at the low end verify would see no change", gain=gain(estimate))
    return None


def _too_large(facts: Facts, edits: tuple[Edit, ...]) -> str | None:
    extra = _extra_batches(edits)
    if not extra or facts.batch_bytes is None or facts.free_bytes is None:
        return None
    needed = extra * facts.batch_bytes
    if needed <= facts.free_bytes:
        return None
    return say(
        "{extra} more batch needs {needed:.0f} MiB on the GPU, {free:.0f} MiB are free",
        extra=extra,
        needed=needed / 2**20,
        free=facts.free_bytes / 2**20,
    )


def _left_out(rule: SchemeRule, edits: tuple[Edit, ...]) -> list[str]:
    """The scheme's Edits that this loop does not get: a reader would miss them in the patch."""
    kinds = {edit.kind for edit in edits}
    missing = [template.kind for template in rule.edits if template.kind not in kinds]
    if not missing:
        return []
    kept = ", ".join(missing)
    return [say("without {missing}: done already, nothing to act on, or no gain on this run", missing=kept)]


def _patch_notes(patch: Patch | None) -> list[str]:
    if patch is None or not patch.by_hand:
        return []
    first = patch.by_hand[0]
    count = len(patch.by_hand)
    if count == 1:
        return [say("one place is left to do by hand: {obstacle}", obstacle=first.obstacle)]
    return [say("{count} places are left to do by hand: {obstacle}", count=count, obstacle=first.obstacle)]


# -------------------------------------------------------------------------------------------------------- criteria


def _scores(rule: SchemeRule, rules: Rules, facts: Facts, edits: tuple[Edit, ...]) -> dict[str, Score]:
    """What is known besides the gain; no score where nothing is."""
    if not edits:
        return {}
    patch, trial = facts.patches.get(rule.id), verification_of(rule.id, facts)
    known = _from_patch(patch, rules) if patch is not None else {}
    memory = _memory(rule, rules, facts, edits)
    if memory is not None:
        known["memory"] = memory
    if trial is not None and trial.numbers_equal is not None:
        known["risk"] = Score(NUMBERS_EQUAL if trial.numbers_equal else NUMBERS_DIFFER, "measured")
    return {criterion: known[criterion] for criterion in CRITERIA if criterion in known}


def _memory(rule: SchemeRule, rules: Rules, facts: Facts, edits: tuple[Edit, ...]) -> Score | None:
    extra = _extra_batches(edits)
    if extra == 0:
        source = _edits_from(rule, facts)
        return Score(rules.scales["memory"].score(0.0), source) if source is not None else None
    if facts.batch_bytes is None or not facts.free_bytes:
        return None
    return Score(rules.scales["memory"].score(100 * extra * facts.batch_bytes / facts.free_bytes), "measured")


def _edits_from(rule: SchemeRule, facts: Facts) -> Literal["patch", "replayed"] | None:
    """Where it is known that these Edits are the scheme here: a patch makes them, or the replay ran with them."""
    patch = facts.patches.get(rule.id)
    if patch is not None and not patch.empty:
        return "patch"
    return "replayed" if isinstance(facts.estimates.get(rule.id), Estimate) else None


def _extra_batches(edits: tuple[Edit, ...]) -> int:
    """Batches that are on the GPU beside the one being computed; deferred losses are single numbers."""
    return max((edit.depth for edit in edits if "depth" in definition(edit.kind).parameters), default=0)


def _from_patch(patch: Patch, rules: Rules) -> dict[str, Score]:
    """What can be counted in a patch. One that could not be made tells only how hard it is."""
    unsafe = sum(hunk.tier == "unsafe" for hunk in patch.hunks)
    by_hand = sum(hunk.tier == "manual" for hunk in patch.hunks) + len(patch.by_hand)
    counted = {"difficulty": float(unsafe + 2 * by_hand)}
    if not patch.empty:
        functions = {(hunk.location.path, hunk.location.function) for hunk in patch.hunks}
        counted["complexity"] = float(_lines_changed(patch))
        counted["maintainability"] = float(len(functions) + len({hunk.edit for hunk in patch.hunks}))
        counted["risk"] = float(unsafe + by_hand + len(patch.unchecked))
    elif not patch.by_hand:
        return {}
    return {name: Score(rules.scales[name].score(value), "patch") for name, value in counted.items()}


def _lines_changed(patch: Patch) -> int:
    """Lines added and removed; a file of helpers that the patch creates is read by its owner as well."""
    return sum(_difference(file.before or b"", file.after) for file in patch.files)


def _difference(before: bytes, after: bytes) -> int:
    blocks = difflib.SequenceMatcher(None, before.splitlines(), after.splitlines(), autojunk=False).get_opcodes()
    return sum((i2 - i1) + (j2 - j1) for tag, i1, i2, j1, j2 in blocks if tag != "equal")
