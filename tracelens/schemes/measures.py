"""The training speed guide's measures beside this run: what the loop has already, what it has not, what cannot be told.

In: measures.yaml, the inventory, the Run. Out: `MeasureRule`s and, on a run, `Measure`s. Apart from the
schemes because nothing here is scored: these change the computation itself, a replay cannot tell what they give, and
the gains are the seed's opinion.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tracelens.messages import say
from tracelens.model import BREAKDOWN_PARTS, Breakdown, Diagnosis, InventoryItem, Measure
from tracelens.rule_files.fields import Fields
from tracelens.schemes.catalog import ExpectedRange, MeasureRule

NOT_TOLD = say("a recording of training steps does not tell")


def read(value: Any, mistakes: list[str]) -> tuple[MeasureRule, ...]:
    """What measures.yaml holds; what is wrong with it goes to `mistakes`."""
    if value is None:
        return ()
    fields = Fields(value, "measures.yaml", mistakes)
    found = fields.each("measures", _rule)
    fields.done()
    if len({rule.id for rule in found}) != len(found):
        fields.wrong("measures", say("expected each id once"))
    return found


def measures_of_run(rules: Sequence[MeasureRule], diagnosis: Diagnosis) -> tuple[Measure, ...]:
    """All measures in the order of the guide; without a Run its environment is not known. They
    are Python's: none for a C++ program."""
    if diagnosis.timeline.trace.program == "cpp":
        return ()
    items, run, parts = {item.id: item for item in diagnosis.inventory}, diagnosis.run, diagnosis.breakdown
    variables = run.variables if run is not None else None
    if diagnosis.owners.makes_iterators:  # workers that begin and end with each batch: no setting of them helps
        rules = [rule for rule in rules if rule.acts_on != ("idle_dataloader",)]
    measures = (_measure(rule, items, variables) for rule in rules)
    shares = (_share(parts, rule.acts_on) if parts is not None and rule.acts_on else None for rule in rules)
    return tuple(replace(measure, share=share) for measure, share in zip(measures, shares, strict=True))


def _rule(fields: Fields) -> MeasureRule:
    seen = fields.inner("seen_in") if fields.has("seen_in") else None
    gain = fields.inner("gain") if fields.has("gain") else None
    rule = MeasureRule(
        id=fields.text("id"),
        title=fields.prose("title"),
        how=fields.prose("how"),
        caution=fields.prose("caution"),
        gain=_gain(gain) if gain else None,
        inventory=seen.text("inventory") if seen and seen.has("inventory") else None,
        variable=seen.text("variable") if seen and seen.has("variable") else None,
        acts_on=fields.choices("acts_on", BREAKDOWN_PARTS) if fields.has("acts_on") else (),
    )
    if seen is not None:
        seen.done()
    return rule


def _gain(fields: Fields) -> ExpectedRange:
    low, high = fields.number("low", 0, 100), fields.number("high", 0, 100)
    if low > high:
        fields.wrong("low", say("expected low not above high"))
    span = ExpectedRange(low, high, fields.text("seed"), fields.text("section"), fields.prose("note", default=""))
    fields.done()
    return span


def _share(parts: Breakdown, names: Sequence[str]) -> float | None:
    """None where one of the parts is not known."""
    times = [parts.known.get(name) for name in names]
    return None if None in times else sum(ns for ns in times if ns is not None) / max(parts.wall_ns, 1)


def _measure(rule: MeasureRule, items: Mapping[str, InventoryItem], variables: Mapping[str, object] | None) -> Measure:
    present, evidence = _seen(rule, items, variables)
    gain = (rule.gain.low, rule.gain.high) if rule.gain else None
    source = f"{rule.gain.seed}, {rule.gain.section}" if rule.gain else None
    note = rule.gain.note if rule.gain else ""
    return Measure(rule.id, rule.title, rule.how, rule.caution, present, evidence, gain, note, source)


def _seen(
    rule: MeasureRule, items: Mapping[str, InventoryItem], variables: Mapping[str, object] | None
) -> tuple[bool | None, str]:
    if rule.inventory is not None and rule.inventory in items:
        item = items[rule.inventory]
        return item.present, item.evidence
    if rule.variable is None or variables is None:
        return None, NOT_TOLD
    value = variables.get(rule.variable)
    evidence = say("{name} is {value}", name=rule.variable, value=say("not set") if value is None else value)
    if rule.variable == "CUDA_LAUNCH_BLOCKING":
        return value in (None, "", "0"), evidence
    return True if value is not None else None, evidence  # not set: its default may be the better choice
