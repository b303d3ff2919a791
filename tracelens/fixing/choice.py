"""Which levers `fix` may take: what a patch writes, and the results stay as they are.

In: a PlannedDiagnosis, and what `try` would measure on it. Out: ids of levers, the most promising first; or why there
are none. Pure: nothing is run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tracelens import chosen_patches, lever_names
from tracelens.errors import UsageError
from tracelens.findings import debug_settings
from tracelens.lever_trials import LeverPlan
from tracelens.levers.definition import LeverRule, by_id
from tracelens.messages import capital, joined, say
from tracelens.model import Lever, LeverNumbers, Owner, Patch, PlannedDiagnosis, on_baseline
from tracelens.pipeline import Options
from tracelens.schemes.loss import MOST_BUSY, REMOVABLE
from tracelens.verify.compare import pooled_times, times
from tracelens.verify.lever_store import LeverRecord
from tracelens.verify.lever_trial import LeverMeasurement

_HARMLESS: tuple[LeverNumbers, ...] = ("same", "inside_seed_band")
BY_HAND_SHARE = 0.2
"""Of a step: what a person has to write is the answer to a large loss, and no answer beside a larger one."""
MOST_TRIED = 4
"""Levers tried beside each other: each takes a numbers run and pairs, out of one budget."""


@dataclass(frozen=True, slots=True)
class Change:
    """One or more levers as one patch."""

    names: tuple[str, ...]
    patch: Patch

    @property
    def name(self) -> str:
        return "+".join(self.names)

    @property
    def unsafe(self) -> bool:
        """Some of it was asked for by name although what the script prints or computes may change."""
        return self.patch.unsafe


def change_of(diagnosis: PlannedDiagnosis, names: Sequence[str], options: Options) -> Change:
    """These levers as one change; raises `UsageError` where one patch cannot make them all, or makes nothing, and
    `Refused` where there is no patch of a single one."""
    patch = chosen_patches.patch_together(diagnosis, names, options)
    if patch is None:
        listed = " and ".join(names)
        raise UsageError(
            say("no patch makes {listed} at once", listed=listed), hint=say("fix them one after the other")
        )
    if patch.empty:
        why = patch.declined[0] if patch.declined else None
        said = f": {why.location}: {why.obstacle}" if why is not None else ""
        hint = say("by hand: {by_hand}", by_hand=why.by_hand) if why is not None else say("see: tracelens recommend")
        raise UsageError(
            say("the patch of {names} changes nothing here{said}", names=joined(" and ", names), said=said), hint=hint
        )
    return Change(tuple(names), patch)


def possible(diagnosis: PlannedDiagnosis, planned: LeverPlan) -> tuple[str, ...]:
    """The levers worth a trial that a patch writes, without what was measured to gain nothing; at most one scheme."""
    gained = [one.trial.id for one in planned.known if one.gains and one.numbers == "same"]
    ids = [name for name in (*gained, *(trial.id for trial in planned.trials)) if _writes(diagnosis, name)]
    order = {lever.id: place for place, lever in enumerate(diagnosis.levers)}
    wanted = (diagnosis.recommendation.scheme, diagnosis.recommendation.lever, diagnosis.recommendation.measure)
    ids.sort(key=lambda name: (name not in wanted, order.get(name, len(order))))
    schemes = [name for name in ids if any(scheme.id == name for scheme in diagnosis.schemes)]
    return tuple(name for name in dict.fromkeys(ids) if name not in schemes[1:])[:MOST_TRIED]


def _writes(diagnosis: PlannedDiagnosis, name: str) -> bool:
    patch = diagnosis.patches.get(name)
    return patch is not None and not patch.empty and not patch.unsafe


def first_of(names: Sequence[str], rules: Sequence[LeverRule]) -> tuple[str, ...]:
    """The most promising; with all others that make calls rarer, where it does that too: none of them computes."""
    rarer = tuple(name for name in names if (rule := by_id(rules, name)) is not None and rule.recipe == "rare-call")
    return rarer if names[0] in rarer else tuple(names[:1])


def best_of(record: LeverRecord, tried: Sequence[str]) -> tuple[str, ...]:
    """The fastest of the levers that were tried, or several together, whose numbers are the same; empty: none gains."""
    together = record.combination
    members = together.trial.members or (together.trial.id,) if together is not None else ()
    if together is not None and together.gains and together.numbers == "same" and set(members) <= set(tried):
        return members
    same = [one for one in record.levers if one.trial.id in tried and one.gains and one.numbers == "same"]
    best = max(same, key=lambda one: one.speedup.speedup if one.speedup else 0.0, default=None)
    return () if best is None else (best.trial.id,)


def settled(one: LeverMeasurement) -> bool:
    """Whether a trial that found no gain is an answer: it is slower, or within what counts as no change."""
    middle = pooled_times.center(one.pairs)
    if one.standing != "measured" or middle is None:
        return one.standing in ("failed", "already", "refused", "unused")
    return middle < 1 or times.judge(times.ratio_of(one.pairs), len(one.pairs)) in ("no change", "slower")


@dataclass(frozen=True, slots=True)
class Unfixed:
    """Why there is nothing to change: the loop is fine, or what would help is not for a patch to write."""

    fine: bool
    reason: str
    try_next: str | None = None
    """A lever that can be measured all the same."""
    fix_next: tuple[str, ...] = ()
    """Levers that round otherwise, and made the step faster within what seeds do: written where they are named."""


def without_change(diagnosis: PlannedDiagnosis, rules: Sequence[LeverRule]) -> Unfixed:
    """What is said where no lever with the same results is possible, and what was measured with others."""
    kept, names = _with_same_results(diagnosis, rules), rounding_gains(diagnosis, rules)
    if not names:
        return _without_gain_by_rounding(kept, diagnosis, rules)
    speedup, numbers = _measured_of(diagnosis, names)
    told = {
        "kept": kept.reason,
        "names": joined(" and ", [lever_names.named(name) for name in names]),
        "speedup": speedup,
    }
    if numbers == "same":
        said = say(
            "{kept} {names} made the step {speedup:.2f} times as fast when tried, with the same results.", **told
        )
    else:
        said = say(
            "{kept} Rounding otherwise, {names} made the step {speedup:.2f} times as fast when tried, with losses that "
            "differ as much as other seeds' do.",
            **told,
        )
    return replace(kept, reason=said, fix_next=names)


def _without_gain_by_rounding(kept: Unfixed, diagnosis: PlannedDiagnosis, rules: Sequence[LeverRule]) -> Unfixed:
    """With what was measured of levers that round otherwise, where none gains within what seeds do."""
    tried = [lever.id for lever, rule in _writable(diagnosis, rules) if lever.measured is not None]
    if not tried:
        return kept
    names = joined(" and ", [lever_names.named(name) for name in tried])
    said = say(
        "{kept} Rounding otherwise, {names} gained nothing beyond doubt when tried.", kept=kept.reason, names=names
    )
    return replace(kept, reason=said)


def _writable(diagnosis: PlannedDiagnosis, rules: Sequence[LeverRule]) -> Iterator[tuple[Lever, LeverRule]]:
    """The levers with another rounding that a recipe writes."""
    for lever in diagnosis.levers:
        rule = by_id(rules, lever.id.partition("=")[0])
        if rule is not None and rule.recipe is not None and rule.effect == "rounding":
            yield lever, rule


def rounding_gains(diagnosis: PlannedDiagnosis, rules: Sequence[LeverRule]) -> tuple[str, ...]:
    """The best of the levers that a recipe writes with another rounding, as `try` measured them on this Run: those of
    the best combination if it is of these alone, else the fastest one; empty where none gains within what seeds do."""
    written = {
        lever.id: lever.measured.speedup
        for lever, _ in _writable(diagnosis, rules)
        if lever.measured is not None and lever.measured.low > 1 and lever.numbers in _HARMLESS
    }
    together = diagnosis.combination
    gains = together is not None and together.measured.low > 1 and together.numbers in _HARMLESS
    if together is not None and gains and set(together.levers) <= set(written):
        return together.levers
    return (max(written, key=lambda name: written[name]),) if written else ()


def rounding_untried(diagnosis: PlannedDiagnosis, rules: Sequence[LeverRule]) -> tuple[str, ...]:
    """Levers with another rounding that act on what limits the loop: where that is the GPU's own work, the first of
    each family; else those of the same owner as the lever to try next, itself among them. Empty where that one does
    more than round, no recipe writes it, or there is no GPU."""
    told = without_change(diagnosis, rules)
    owners = sorted(diagnosis.owners.owners, key=lambda owner: -owner.owned_ns)
    first = "" if told.fine else told.try_next or ""
    limiting = (one for one in owners if (one.kind == "gpu" if told.fine else first.partition("=")[0] in one.remedies))
    remedies = next((one.remedies for one in limiting), ())
    found = [
        lever
        for lever, rule in _writable(diagnosis, rules)
        if rule.id in remedies and lever.state == "not_tried" and lever.command
    ]
    firsts = {lever.family: lever.id for lever in reversed(found)}
    ids = [lever.id for lever in found if not told.fine or firsts[lever.family] == lever.id]
    return tuple(ids[:MOST_TRIED]) if told.fine or first in ids else ()


def _measured_of(diagnosis: PlannedDiagnosis, names: tuple[str, ...]) -> tuple[float, LeverNumbers | None]:
    """How many times as fast the step is with these levers, together where they are several, and their numbers."""
    together = diagnosis.combination
    if together is not None and together.levers == names:
        return together.measured.speedup, together.numbers
    measured = ((lever.measured, lever.numbers) for lever in diagnosis.levers if lever.id == names[0])
    return next((one.speedup, numbers) for one, numbers in measured if one is not None)


def _with_same_results(diagnosis: PlannedDiagnosis, rules: Sequence[LeverRule]) -> Unfixed:
    """What is said where no lever is possible."""
    missing = next((item for item in diagnosis.abstentions if item.detector == "patch"), None)
    if missing is not None:
        return Unfixed(
            False, say("No patch can be made: {missing}. {hint}.", missing=missing.missing, hint=missing.hint)
        )
    setting = debug_settings.unjudged(diagnosis.run)
    if setting is not None:
        name = debug_settings.lever(diagnosis.run)
        return Unfixed(False, f"{capital(setting.missing)}. {capital(setting.hint)}.", name)
    if all(owner.kind == "unknown" for owner in diagnosis.owners.owners):
        return Unfixed(False, f"{diagnosis.headline.rstrip('.')}.")
    owner, lever = _by_hand(diagnosis, rules)
    if owner is not None and lever is not None:
        place = f"{owner.locations[0]}: " if owner.locations else ""
        said = say(
            "No patch is made for {lever}{obstacle}. By hand: {place}{text}.",
            lever=lever_names.named(lever.id),
            obstacle=_obstacle(diagnosis, lever),
            place=place,
            text=lever.text,
        )
        return Unfixed(False, said, _to_try(diagnosis, lever))
    busy = on_baseline(diagnosis).gpu_busy_share
    verdict = diagnosis.recommendation.verdict.rstrip(".")
    if busy is not None and busy >= MOST_BUSY:
        return Unfixed(True, f"{verdict}.")
    limited = busy is not None  # without a GPU the largest part of a step is the work itself
    said = say("{verdict}. No change that keeps the results was found for it.", verdict=verdict)
    return Unfixed(not limited, said, _first_open(diagnosis) if limited else None)


def _obstacle(diagnosis: PlannedDiagnosis, lever: Lever) -> str:
    """What stands in the way of its recipe; empty for a lever without one."""
    patch = diagnosis.patches.get(lever.id)
    declined = patch.declined if patch is not None else ()
    return f" ({declined[0].obstacle})" if declined else ""


def _to_try(diagnosis: PlannedDiagnosis, lever: Lever) -> str | None:
    """The lever itself where a toggle shows what it brings; of one whose recipe declines, its line left out."""
    if lever.id not in diagnosis.patches:
        return lever.id if lever.command else None
    lines = (one for one in diagnosis.levers if one.id.startswith("line=") and one.command)
    return next((one.id for one in lines if set(one.locations) & set(lever.locations)), None)


def _first_open(diagnosis: PlannedDiagnosis) -> str | None:
    """A lever of the largest owner that can be measured all the same: of several the one that every list has first."""
    owners = sorted(diagnosis.owners.owners, key=lambda owner: -owner.owned_ns)
    untried = [lever.id for lever in diagnosis.levers if lever.state == "not_tried" and lever.command]
    return next(
        (lever for owner in owners for lever in untried if lever.partition("=")[0] in owner.remedies),
        None,
    )


def _by_hand(diagnosis: PlannedDiagnosis, rules: Sequence[LeverRule]) -> tuple[Owner | None, Lever | None]:
    """The largest owner with a lever that keeps the training as it is, and that nobody has tried."""
    open_levers = {
        lever.id.partition("=")[0]: lever for lever in diagnosis.levers if lever.state in ("not_tried", "predicted")
    }
    for owner in sorted(diagnosis.owners.owners, key=lambda owner: -(owner.recoverable_ns or owner.owned_ns)):
        weight = max(owner.owned_ns, owner.recoverable_ns or 0)
        if owner.kind not in REMOVABLE or weight < BY_HAND_SHARE * diagnosis.owners.wall_ns:
            continue
        for name in owner.remedies:
            rule = by_id(rules, name)
            if name in open_levers and (rule is None or _is_about(rule, owner)):
                return owner, open_levers[name]
    return None, None


def _is_about(rule: LeverRule, owner: Owner) -> bool:
    """Whether a lever keeps the training as it is and is about this owner, not about lines of Python in general."""
    special = bool(rule.callees or rule.code) or owner.kind != "host_line"
    return special and rule.effect in ("none", "samples")
