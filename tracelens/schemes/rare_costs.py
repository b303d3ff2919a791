"""The verdict where a cost that comes in some steps only is the largest: a checkpoint every tenth step.

In: Facts, and the chosen scheme. Out: the sentences of `verdict`, about slow steps where they cost more than anything
in an ordinary one. What they cost is a part of the mean step, and everything else is told of the median one: so each
sentence says which steps it is about, and no gain is taken out of both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tracelens import units
from tracelens.lever_names import ordinal
from tracelens.messages import begun, say
from tracelens.model import ISSUING_KINDS, HeadlineKind, Owner, Owners, Scheme, SlowSteps
from tracelens.model.slow_steps import LEAST_SHARE
from tracelens.schemes import loss_text, verdict
from tracelens.schemes.facts import Facts
from tracelens.schemes.loss import BUSY, Loss, on_the_cpu
from tracelens.schemes.wording import bounded, lever_name, place, throughput

KNOWN_SHARE = 0.5
"""Of what slow steps take longer: with less at known lines, what is told is what they cost together."""


def headline(facts: Facts, scheme: Scheme | None = None) -> str:
    """The largest cost in at most 60 characters and without a line."""
    slow = _leading(facts, scheme)
    if slow is None:
        return verdict.headline(facts, scheme)
    return next(text for text in _headlines(slow, _owner(facts.owners)) if len(text) <= loss_text.HEADLINE_LENGTH)


def headline_kind(facts: Facts, scheme: Scheme | None = None) -> HeadlineKind:
    """What `headline` is about."""
    return "loss" if leads(facts, scheme) else verdict.headline_kind(facts, scheme)


def leads(facts: Facts, scheme: Scheme | None = None) -> bool:
    """Whether slow steps are what `headline` is about."""
    return _leading(facts, scheme) is not None


def before_plan(facts: Facts) -> Mapping[str, Any]:
    """What an examination says, as fields of a Diagnosis."""
    rare, first = clause(facts.owners), leads(facts)
    return {
        "headline": headline(facts) if first else verdict.headline_before_plan(facts),
        "headline_kind": headline_kind(facts),
        "loss_beside_waits": rare if first else verdict.loss_beside_waits(facts),
        "rare_cost": rare,
        "rare_cost_leads": first,
    }


def largest_owner(facts: Facts) -> Owner | None:
    """The owner whose lever answers the verdict; what comes in some steps is made rarer by hand."""
    return None if leads(facts) else verdict.largest_owner(facts)


def recommended(scheme: Scheme, gives_up: Mapping[str, Any] | None, facts: Facts, limits: str) -> str:
    """What the scheme gives on this run, behind slow steps that cost more."""
    slow, estimate = _leading(facts, scheme), scheme.estimate
    if slow is None or estimate is None:
        return verdict.recommended(scheme, gives_up, facts, limits)
    gain = say(
        "in an ordinary step {lever}: {gain}", lever=lever_name(scheme), gain=throughput(estimate, facts.step_ns)
    )
    return bounded(begun(clause(facts.owners)), gain, "")


def nothing(schemes: Sequence[Scheme], facts: Facts) -> str:
    """The largest cost, where no scheme is recommended."""
    slow = _leading(facts)
    if slow is None:
        return verdict.nothing(schemes, facts)
    text = begun(clause(facts.owners))
    return bounded(text, *_more(slow, facts), "")


def beside(schemes: Sequence[Scheme], facts: Facts) -> str:
    """What the headline leaves out of `nothing`."""
    slow = _leading(facts)
    return verdict.beside(schemes, facts) if slow is None else nothing(schemes, facts)


def _more(slow: SlowSteps, facts: Facts) -> Iterator[str]:
    """What to record where no line is known; else what making it rarer gives, which is arithmetic."""
    if slow.reason is not None:
        yield slow.reason
        return
    if slow.every is None:
        return
    rarer = 10 * slow.every
    yield say(
        "at every {nth} step it would be {left} ms per step",
        nth=ordinal(rarer),
        left=units.step_ms(_ns(slow, facts.owners) / 10, slow.mean_ns),
    )


def _leading(facts: Facts, scheme: Scheme | None = None) -> SlowSteps | None:
    """The slow steps, where they cost more than anything in an ordinary step is known to."""
    slow = facts.owners.slow if facts.owners is not None and facts.unjudged is None else None
    if slow is None or not facts.steps_found or _ns(slow, facts.owners) < LEAST_SHARE * slow.mean_ns:
        return None
    loss = verdict.told_loss(facts, scheme) if facts.has_gpu else on_the_cpu(facts.owners)
    return slow if loss is None or not _is_larger(loss, _ns(slow, facts.owners), facts.owners) else None


def _is_larger(loss: Loss, slow_ns: int, owners: Owners | None) -> bool:
    """Whether an ordinary step has a larger loss. Work that has to be done in any case is none, nor is time of which
    nothing is known to come back, where that was replayed, nor what has no line where slow steps have one."""
    if loss.returns:
        return loss.ns > slow_ns
    replayed = owners is not None and any(owner.recoverable_ns is not None for owner in owners.ordinary.owners)
    if replayed or loss.of_training or loss.owner.kind in (*BUSY, *ISSUING_KINDS):
        return False
    unknown = not loss.owner.locations or loss.owner.reason is not None
    return loss.ns > slow_ns and not (unknown and _owner(owners) is not None)


def _owner(owners: Owners | None) -> Owner | None:
    """The largest line of slow steps, where their lines are known."""
    slow = owners.slow if owners is not None else None
    if owners is None or slow is None or slow.explained < KNOWN_SHARE:
        return None
    return max(owners.of_slow_steps, key=lambda owner: owner.recoverable_ns or 0, default=None)


def _ns(slow: SlowSteps, owners: Owners | None) -> int:
    """What the largest line adds to the mean step, else all slow steps."""
    owner = _owner(owners)
    return slow.per_step_ns if owner is None else owner.recoverable_ns or 0


def _when(slow: SlowSteps) -> str:
    """'every 10th step', 'one of 14 steps'."""
    if slow.every is not None:
        return say("every {nth} step", nth=ordinal(slow.every))
    return say("one of {count} steps", count=round(slow.steps / slow.seen))


def _headlines(slow: SlowSteps, owner: Owner | None) -> Iterator[str]:
    """The fullest first."""
    when = _when(slow)
    if owner is not None:
        for who in loss_text.names(owner):
            yield begun(say("{who} takes {taken} at {when}", who=who, taken=_at_one_step(slow, owner), when=when))
    longer = units.step_ms(slow.ordinary_ns + slow.excess_ns, slow.ordinary_ns)
    usual = units.step_ms(slow.ordinary_ns, slow.ordinary_ns)
    yield begun(say("{when} takes {longer} ms, the others {usual}", when=when, longer=longer, usual=usual))
    yield begun(say("{when} takes {longer} ms", when=when, longer=longer))


def _at_one_step(slow: SlowSteps, owner: Owner) -> str:
    """What the owner takes of one slow step."""
    taken_ns = slow.excess_ns * (owner.recoverable_ns or 0) / max(1, slow.per_step_ns)
    return say("{taken} ms", taken=units.step_ms(taken_ns, slow.excess_ns))


def clause(owners: Owners | None) -> str:
    """'train.py:148 (torch.save) takes 32.1 ms at every 10th step: 3.2 ms per step on average, 26 % of the time'; ""
    where no step is slow."""
    slow = owners.slow if owners is not None else None
    if slow is None:
        return ""
    owner, when = _owner(owners), _when(slow)
    mean = units.step_ms(_ns(slow, owners), slow.mean_ns)
    share = f"{100 * _ns(slow, owners) / slow.mean_ns:.0f} %"
    cost = say("{mean} ms per step on average, {share} of the training time", mean=mean, share=share)
    if owner is None:
        longer, usual = (
            units.step_ms(ns, slow.ordinary_ns) for ns in (slow.ordinary_ns + slow.excess_ns, slow.ordinary_ns)
        )
        return say(
            "{when} takes {longer} ms and the others {usual}: {cost}", when=when, longer=longer, usual=usual, cost=cost
        )
    where = place(owner.locations[0]) if owner.locations else ""
    who = say("{where} ({call})", where=where, call=owner.callee) if where and owner.callee else where or owner.callee
    return say("{who} takes {taken} at {when}: {cost}", who=who, taken=_at_one_step(slow, owner), when=when, cost=cost)
