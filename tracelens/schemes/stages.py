"""The seeds' three stages for this run: their goals, met or not as far as they were measured, and what comes next.

In: the stage rules, scored schemes, Facts. Out: `Stage`s. A goal that was not measured has no verdict: an estimate
meets nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from tracelens.edit_kinds import definition
from tracelens.messages import say
from tracelens.model import OUTCOMES, Goal, Scheme, Stage, Verification
from tracelens.schemes.catalog import GoalRule, Rules, StageRule
from tracelens.schemes.facts import Facts
from tracelens.schemes.score import verification_of
from tracelens.schemes.weighing import uncertain
from tracelens.schemes.wording import percent, tried

WAITS = {"syncs_drop_percent": "syncs_per_step", "host_wait_drop_percent": "sync_wait_us_per_step"}
"""Metrics of waits for the GPU, by what a window counts of them."""
NOT_SURE_YET = say("verify this first: a prediction cannot tell whether it pays")


def stages(rules: Rules, schemes: Sequence[Scheme], facts: Facts) -> tuple[Stage, ...]:
    """All stages in order."""
    return tuple(_stage(rule, schemes, facts) for rule in rules.stages)


def _stage(rule: StageRule, schemes: Sequence[Scheme], facts: Facts) -> Stage:
    own = [scheme for scheme in schemes if scheme.id in rule.schemes]
    trial = _best_trial(rule, facts)
    concerned = trial is not None or any(scheme.applicable for scheme in own)
    goals = tuple(_goal(goal, trial) for goal in rule.goals if concerned and _applies(goal, trial, own))
    found = _next(own, goals, trial)
    if isinstance(found, str):
        return Stage(rule.number, rule.title, rule.schemes, goals, found, None)
    sure = any(scheme.rank is not None for scheme in own)
    advice, command = say("next command") if sure else NOT_SURE_YET, found
    return Stage(rule.number, rule.title, rule.schemes, goals, advice, command)


def _best_trial(rule: StageRule, facts: Facts) -> Verification | None:
    """The fastest trial of a scheme of this stage that kept the numbers."""
    trials = [trial for name in rule.schemes if (trial := verification_of(name, facts)) is not None]
    usable = [trial for trial in trials if trial.outcome not in ("different numbers", "failed")]
    return min(usable or trials, key=lambda trial: trial.ratio.value if trial.ratio else 1.0, default=None)


def _next(
    schemes: Sequence[Scheme], goals: Sequence[Goal], trial: Verification | None
) -> str | tuple[Literal["verify", "apply"], str]:
    """What to do in this stage: a sentence, or a command and its scheme."""
    paying = [scheme for scheme in schemes if scheme.rank is not None]
    best = min(paying, key=lambda scheme: scheme.rank or 0, default=None)
    if trial is not None and goals and all(goal.met for goal in goals):
        return say("stop: every goal of this stage is met")
    if trial is not None and best is None:
        return say("stop: {lever} was measured: {outcome}", lever=tried(trial), outcome=OUTCOMES[trial.outcome])
    maybe = uncertain(schemes)
    if best is None and maybe is not None:
        return "verify", maybe.id
    if best is None:
        open_question = next((scheme.reasons[0] for scheme in schemes if scheme.applicable and scheme.reasons), None)
        reason = next((scheme.reasons[0] for scheme in schemes if scheme.reasons), say("no lever of it was considered"))
        return say("not judged: {what}", what=open_question) if open_question else say("skip: {reason}", reason=reason)
    if trial is not None and trial.scheme == best.id:
        return "apply", best.id
    return "verify", best.id


def _applies(rule: GoalRule, trial: Verification | None, schemes: Sequence[Scheme]) -> bool:
    """Not a goal about waits where the measured scheme acts on copies alone, or where there were none to be fewer."""
    key = WAITS.get(rule.metric)
    if trial is None or key is None:
        return True
    edits = next((scheme.edits for scheme in schemes if scheme.id == trial.scheme), ())
    copies = bool(edits) and all(definition(edit.kind).acts_on == ("copy",) for edit in edits)
    return not copies and trial.window("before").get(key) != 0


def _goal(rule: GoalRule, trial: Verification | None) -> Goal:
    value = _metric(rule.metric, trial) if trial is not None else None
    if trial is None or value is None:
        return Goal(rule.text, None, say("not measured"))
    said = percent(value) if rule.metric == "gain_percent" else f"{value:.0f} %"
    if rule.metric.endswith("_drop_percent") and value <= -0.5:
        said = say("up by {share:.0f} %", share=-value)
    text = say("{lever}: {value}, measured", lever=tried(trial), value=said)
    return Goal(rule.text, value >= rule.at_least, text)


def _metric(metric: str, trial: Verification) -> float | None:
    """One measured quantity of a trial in percent; None where it was not measured."""
    before, after = trial.window("before"), trial.window("after")
    match metric:
        case "gain_percent":
            return 100 * (trial.speedup - 1) if trial.speedup is not None else None
        case "syncs_drop_percent":
            return _drop(before.get("syncs_per_step"), after.get("syncs_per_step"))
        case "host_wait_drop_percent":
            return _drop(before.get("sync_wait_us_per_step"), after.get("sync_wait_us_per_step"))
        case "cpu_percent":
            return _share(after.get("cpu_busy_share"))
        case _:
            return _share(trial.gpu_busy_share)


def _drop(before: Any, after: Any) -> float | None:
    """By how many percent a quantity went down; None where it was not measured or was nothing before."""
    known = isinstance(before, int | float) and isinstance(after, int | float)
    return 100 * (1 - after / before) if known and before > 0 else None


def _share(value: Any) -> float | None:
    return 100 * value if isinstance(value, int | float) else None
