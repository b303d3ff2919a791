"""Which levers there are on one Run, and what is known of each.

In: the rules, and what was found out about the Run. Out: `Lever`s, ranked. Pure: nothing is tried here.

A lever is `done` or does not apply only where the Run says so; what is not known makes it `not_tried`, because a trial
answers it. Owners put the levers that act on them in front; levers without a number keep that order.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tracelens.levers.definition import ChosenLever, DoneWhen, LeverNeed, LeverRule
from tracelens.messages import joined, say
from tracelens.model import LEVER_EFFECTS, InventoryItem, Lever, Location, Owner, Owners, Speedup

MOST_PLACES = 4
"""Lines for which a lever is listed: each of the others owns less than any of these."""
MOST_CALLEES = 2
"""Named in a sentence."""
LEAST_SHARE = 0.01
"""Of the step: what owns less is no reason to change anything."""


@dataclass(frozen=True, slots=True)
class LeverFacts:
    """What is known of the Run. `None` is unknown."""

    gpu: bool | None
    owners: Owners
    inventory: tuple[InventoryItem, ...] = ()
    torch: str | None = None
    """Its version."""
    loader: bool | None = None
    """Whether the recorded process drew a batch from a DataLoader."""
    variables: Mapping[str, object] | None = None
    """The environment variables that the recording noted."""
    settings: Mapping[str, object] = field(default_factory=dict)
    """Settings of torch, as the recording found them."""
    values: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By lever id, the values that this Run suggests instead of the usual ones."""
    texts: Mapping[str, str] = field(default_factory=dict)
    """Source files by the path that locations name, as far as they are at hand."""
    places: Mapping[str, tuple[Location, ...]] = field(default_factory=dict)
    """By lever id, lines that the recording names for it, whoever owns time there."""
    loader_place: Location | None = None
    """The line that makes the loop's DataLoader."""
    predictions: Mapping[str, Speedup] = field(default_factory=dict)
    """By lever id with its value."""

    def item(self, name: str) -> InventoryItem | None:
        """An item of the inventory."""
        return next((item for item in self.inventory if item.id == name), None)


def levers_of_run(
    rules: Sequence[LeverRule], facts: LeverFacts, others: Iterable[Lever] = (), measured: Iterable[Lever] = ()
) -> tuple[Lever, ...]:
    """All levers with their states and ranks.

    `others` are levers that no rule describes (the schemes); `measured` are results of trials, which go before what
    this module would say of the same lever.
    """
    results = {lever.id: lever for lever in measured}
    listed = [*others, *(lever for rule in rules for lever in _levers_of_rule(rule, facts))]
    known = {lever.id for lever in listed}
    merged = [_with_result(lever, results.get(lever.id)) for lever in listed]
    merged += [result for lever_id, result in results.items() if lever_id not in known]
    return ranked(merged, rules, facts)


def suggested_by(rule: LeverRule, owners: Owners, texts: Mapping[str, str] | None = None) -> tuple[Owner, ...]:
    """The owners whose time the lever can shorten, the largest first; those below a hundredth of the step are left
    out. `texts`: of source files, for levers that are about what stands in a line."""
    return tuple(
        owner
        for owner in owners.owners
        if owner.kind in rule.owners
        and (not rule.callees or owner.callee in rule.callees)
        and (not rule.code or re.search(rule.code, line_of(owner, texts or {})) is not None)
        and max(owner.owned_ns, owner.recoverable_ns or 0) >= LEAST_SHARE * owners.wall_ns
    )


def line_of(owner: Owner, texts: Mapping[str, str]) -> str:
    """What stands in the owner's line; empty where that is not at hand."""
    place = owner.locations[0] if owner.locations else None
    lines = texts.get(place.path, "").splitlines() if place is not None else []
    return lines[place.line - 1] if place is not None and place.line and place.line <= len(lines) else ""


def ranked(levers: Iterable[Lever], rules: Sequence[LeverRule], facts: LeverFacts) -> tuple[Lever, ...]:
    """In the order in which they are shown: certain gains by their middle, then what is known without a certain gain,
    then what nobody tried, the levers of the largest owner first. Only what is measured or predicted has a rank."""
    order = _owner_order(rules, facts)
    out: list[Lever] = []
    for lever in sorted(levers, key=lambda lever: _sort_key(lever, order)):
        number = len(out) + 1 if lever.state in ("measured", "predicted") and lever.known is not None else None
        out.append(replace(lever, rank=number))
    return tuple(out)


def _sort_key(lever: Lever, order: Mapping[str, int]) -> tuple[int, float, int, str]:
    place = order.get(lever.id.partition("=")[0], len(order))
    if lever.state in ("measured", "predicted") and lever.known is not None:
        return (0 if lever.known.excludes_zero else 1, -lever.known.speedup, place, lever.id)
    return ({"measured": 2, "predicted": 2, "not_tried": 3, "done": 4, "not_applicable": 5}[lever.state], 0, place, "")


def _owner_order(rules: Sequence[LeverRule], facts: LeverFacts) -> dict[str, int]:
    """Position by lever id: the levers of the largest owner first; of one owner, those that change numbers least. What
    only takes back a setting that nobody knows to be there comes last."""

    def key(rule: LeverRule) -> tuple[bool, int, int]:
        largest = max((owner.owned_ns for owner in suggested_by(rule, facts.owners)), default=0)
        return _hardly_needed(rule, facts), -largest, LEVER_EFFECTS.index(rule.effect)

    return {rule.id: place for place, rule in enumerate(sorted(rules, key=key))}


def _hardly_needed(rule: LeverRule, facts: LeverFacts) -> bool:
    """Whether it is for a setting or a version that most runs do not have, and this recording does not tell."""
    known = rule.done_when
    if known is not None and known.setting is not None:
        return known.equals == ("False",) and known.setting not in facts.settings
    if known is not None and known.variable is not None and known.equals:
        return facts.variables is None
    return "pytorch-1" in rule.needs and facts.torch is None


def _levers_of_rule(rule: LeverRule, facts: LeverFacts) -> list[Lever]:
    owners = suggested_by(rule, facts.owners, facts.texts)
    if rule.value.takes == "place":
        return [_line_lever(rule, owner, facts) for owner in owners if owner.locations][:MOST_PLACES]
    usual = (*(("",) if rule.value.optional else ()), *rule.value.usual)
    values = facts.values.get(rule.id) or usual or ("",)
    return [_lever(ChosenLever(rule, value), owners, facts) for value in values if not _has(rule, value, facts)]


def _has(rule: LeverRule, value: str, facts: LeverFacts) -> bool:
    """Whether the loop is set to this value, or beyond: 2 workers instead of 2 are no change, instead of 12 no help."""
    workers = facts.item("loader_workers") if rule.recipe == "loader-workers" else None
    known = workers.value if workers is not None and workers.present else None
    return known is not None and value.isdigit() and int(value) <= known


def _line_lever(rule: LeverRule, owner: Owner, facts: LeverFacts) -> Lever:
    place = owner.locations[0]
    lever = _lever(ChosenLever(rule, f"{place.path}:{place.line}"), (owner,), facts)
    gain = _without(owner, facts.owners.step_ns)
    return lever if gain is None else replace(lever, state="predicted", predicted=gain)


def _lever(chosen: ChosenLever, owners: Sequence[Owner], facts: LeverFacts) -> Lever:
    rule, predicted = chosen.rule, facts.predictions.get(chosen.id)
    done, missing = done_already(rule, facts), not_applicable(rule, facts)
    lever = Lever(
        id=chosen.id,
        family=rule.family,
        state="not_tried",
        title=rule.title,
        text=chosen.text,
        effect=rule.effect,
        locations=facts.places.get(rule.id) or _locations(owners),
        command=f"try {chosen.id}" if rule.toggles else None,
        reason=None if rule.toggles else say("it cannot be tried by itself: done by hand"),
    )
    if missing is not None:
        return replace(lever, state="not_applicable", reason=missing, command=None)
    if done is not None:
        return replace(lever, state="done", reason=done, command=None)
    return lever if predicted is None else replace(lever, state="predicted", predicted=predicted)


def done_already(rule: LeverRule, facts: LeverFacts) -> str | None:
    """What the Run shows of it, where the loop has the lever already."""
    known = rule.done_when
    if known is None:
        return None
    if known.inventory is not None:
        item = facts.item(known.inventory)
        return item.evidence if item is not None and item.present else None
    if known.setting is not None:
        value = facts.settings.get(known.setting)
        done = value is not None and str(value) in known.equals
        return say("{name} is {value}", name=known.setting, value=value) if done else None
    return _variable(known, facts)


def _variable(known: DoneWhen, facts: LeverFacts) -> str | None:
    if facts.variables is None or known.variable is None:
        return None
    value = facts.variables.get(known.variable)
    shown = "unset" if value is None else str(value)
    done = shown in known.equals if known.equals else value is not None
    if not done:
        return None
    if value is None:
        return say("{name} is not set", name=known.variable)
    return say("{name} is {value}", name=known.variable, value=value)


def not_applicable(rule: LeverRule, facts: LeverFacts) -> str | None:
    """Why it cannot be used on this Run; None where it can, or where nobody knows."""
    about_lines = bool(rule.callees or rule.code) and rule.value.takes != "place"  # which the user names by its place
    if about_lines and not suggested_by(rule, facts.owners, facts.texts):
        if not rule.callees:
            return say("no line that takes time in a step looks like that")
        calls = joined(" or ", rule.callees[:MOST_CALLEES])
        return say("no line that takes time in a step calls {calls}", calls=calls)
    return next((reason for reason in (_missing(need, facts) for need in rule.needs) if reason is not None), None)


def _missing(need: LeverNeed, facts: LeverFacts) -> str | None:
    """Why the Run does not have what a lever needs; None where it has, or where nobody knows."""
    if need == "gpu" and facts.gpu is False:
        return say("no GPU work was recorded")
    if need == "pytorch-1" and facts.torch is not None and not facts.torch.startswith("1."):
        return say("this is PyTorch {version}, and the lever is for PyTorch 1", version=facts.torch)
    if need in ("loader", "kept-iterator"):
        return _missing_of_loader(need, facts)
    item = facts.item({"workers": "loader_workers"}.get(need, need))
    if item is None or item.present is not False:
        return None
    if need == "workers":
        return say("the DataLoader has no workers ({evidence})", evidence=item.evidence)
    return item.evidence if need == "convolutions" else None


def _missing_of_loader(need: LeverNeed, facts: LeverFacts) -> str | None:
    if need == "kept-iterator" and facts.owners.makes_iterators:
        return say("the loop makes an iterator in each step, and would start its workers with it")
    return say("no batch came from a DataLoader") if need == "loader" and facts.loader is False else None


def _without(owner: Owner, step_ns: int) -> Speedup | None:
    """The step without this owner's time, where that was replayed; what comes in slow steps alone is of another one."""
    if owner.occurrences:
        return None
    gains = (owner.low_ns, owner.recoverable_ns, owner.high_ns)
    if any(ns is None or ns >= step_ns for ns in gains):
        return None
    low, middle, high = (step_ns / (step_ns - ns) for ns in gains if ns is not None)
    return Speedup(middle, min(low, middle), max(middle, high))


def _locations(owners: Iterable[Owner]) -> tuple[Location, ...]:
    places = (owner.locations[0] for owner in owners if owner.locations)
    return tuple(dict.fromkeys(places))[:MOST_PLACES]


def _with_result(lever: Lever, result: Lever | None) -> Lever:
    """What a trial found, with the prediction, which is graded and not replaced."""
    if result is None:
        return lever
    if result.state == "not_tried":
        return replace(lever, reason=result.reason)
    return replace(result, predicted=lever.predicted, locations=lever.locations or result.locations)
