"""The verdict: one sentence of at most 240 characters that says what to do, what it gives, and where.

In: the chosen scheme (or none) and Facts. Out: text, of an ordinary step: `rare_costs` goes before, where what comes
in every N-th step costs more. Apart from `advise` because the sentence is the product: it stands
unchanged on screen, in JSON and in the report. Where nothing pays it names the limit that binds and what helps instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tracelens import lever_names, units
from tracelens.edit_kinds import definition
from tracelens.messages import joined, say
from tracelens.model import Abstention, Estimate, HeadlineKind, Owner, Scheme, Stall
from tracelens.schemes import loss_text
from tracelens.schemes.facts import Facts
from tracelens.schemes.limits import LIMIT_OF, binding_of, busy, communicates, copies_share, helps_against, is_full
from tracelens.schemes.loss import (
    MOST_BUSY_WHEN_LAUNCHING,
    Loss,
    Period,
    StepFacts,
    largest,
    on_the_cpu,
)
from tracelens.schemes.weighing import scheme_gain, uncertain
from tracelens.schemes.wording import (
    LIMIT,
    bounded,
    cost,
    gain,
    interval_of,
    lever_name,
    percent,
    places,
    step,
    throughput,
    unstopped,
)

RECORD_STEPS = say("record steps: tracelens profile SCRIPT")

MENTIONED_POINTS = 2.0
"""The fastest scheme is named beside the winner when it is that many percentage points faster."""

_LOADER_HELPS = say("more DataLoader workers, cheaper preprocessing, cached samples would help")
_ITERATOR_HELPS = say("one DataLoader iterator for many batches would help")

_NOT_JUDGED = {
    "launch-blocking": say("Not judged: CUDA_LAUNCH_BLOCKING was set"),
    "anomaly-detection": say("Not judged: anomaly detection was on"),
}
"""Settings with which no time means anything: they are said instead of everything else."""


def headline(facts: Facts, scheme: Scheme | None = None) -> str:
    """The loss that the verdict is about, in at most 60 characters and without a line."""
    if facts.unjudged is not None:
        return _NOT_JUDGED.get(facts.unjudged.detector, say("Not judged: too much of the recording is missing"))
    loss = told_loss(facts, scheme) if facts.has_gpu else on_the_cpu(facts.owners)
    if loss is None:
        if not facts.has_gpu:
            return say("Not judged: no GPU work was recorded")
        return say("Not judged: no owner of the time is known")
    if loss.owner.kind == "gpu":
        return loss_text.gpu_headline(facts.gpu_busy_share or 0.0, copies_share(facts))
    return loss_text.headline(loss, _period(facts))


def headline_kind(facts: Facts, scheme: Scheme | None = None) -> HeadlineKind:
    """What `headline` is about: a loss, the GPU's own work, or why nothing could be judged."""
    loss = (
        None if facts.unjudged is not None else told_loss(facts, scheme) if facts.has_gpu else on_the_cpu(facts.owners)
    )
    if loss is None:
        return "unjudged"
    return "gpu" if loss.owner.kind == "gpu" else "loss"


def headline_before_plan(facts: Facts) -> str:
    """The loss as far as an examination knows it. Which of several waits a change ends, and what that gives, only a
    plan tells: then it is what they leave of a step."""
    loss = _largest(facts) if facts.has_gpu and facts.unjudged is None else None
    if loss is None or loss.count < 2 or facts.breakdown is None:
        return headline(facts)
    parts = facts.breakdown.known
    idle = sum(ns for part, ns in parts.items() if part.startswith("idle_"))
    copies = parts.get("copy_exposed", 0)
    share = f"{100 * max(idle, copies) / max(facts.breakdown.wall_ns, 1):.0f} %"
    step = say("each step") if facts.steps_found else say("the recording")
    if idle >= copies:
        return say("The GPU is idle {share} of {step}", share=share, step=step)
    return say("The GPU is only copying {share} of {step}", share=share, step=step)


def largest_owner(facts: Facts) -> Owner | None:
    """The owner that the verdict is about, where no scheme is."""
    loss = _largest(facts) if facts.has_gpu else on_the_cpu(facts.owners)
    return loss.owner if loss is not None else None


def loss_beside_waits(facts: Facts) -> str:
    """The largest loss with its line, as the second half of a sentence, where it is neither a wait nor the GPU's own
    work; else ""."""
    loss = _largest(facts) if facts.has_gpu and facts.unjudged is None else None
    if loss is None or loss.owner.kind in ("wait", "copy", "gpu"):
        return ""
    return loss_text.clause(loss, _period(facts))


def recommended(scheme: Scheme, gives_up: Mapping[str, Any] | None, facts: Facts, limits: str) -> str:
    """What the scheme gives on this run. It has an estimate: only such schemes are recommended."""
    estimate = scheme.estimate
    if estimate is None:
        raise ValueError(f"{scheme.id} cannot be recommended without an estimate")
    saved_ns, loss = _saved(estimate, facts), _largest(facts)
    base_ns = facts.step_ns
    saved = step(units.saved_ns(base_ns, base_ns - saved_ns), base_ns)
    told = {"lever": lever_name(scheme), "saved": saved, "gain": throughput(estimate, base_ns)}
    if loss is not None and not _remedies(scheme, loss, saved_ns):
        text = loss_text.sentence(loss, _period(facts))
        shorter = say("{lever}: {gain}", lever=told["lever"], gain=gain(estimate, base_ns))
        return bounded(text, say("{lever} saves {saved}: {gain}", **told), shorter)
    where = places(stall.location for stall in _costly(scheme, facts))
    text = say("{lever} saves {saved} of every {step} step: {gain}", **told, step=step(facts.step_ns, facts.step_ns))
    text = say("{where}: {text}", where=where, text=text) if where else text
    if gives_up is not None and gives_up["points"] >= MENTIONED_POINTS:
        most = percent(gives_up["fastest_gain_percent"])
        limits = limits or say(
            "{lever} would be fastest with {gain}",
            lever=lever_names.named(gives_up["fastest"], interval_of(scheme)),
            gain=most,
        )
    if not limits and loss is not None and loss.owner.kind not in ("wait", "copy") and _shares_idle_time(scheme, loss):
        limits = say("{who} takes part in the same idle time", who=loss_text.subject(loss))
    return bounded(text, limits)


def nothing(schemes: Sequence[Scheme], facts: Facts) -> str:
    """Why no scheme is recommended: the largest loss, and what the schemes lack."""
    if unrecorded := _unrecorded(facts):
        return unrecorded
    unjudged, loss = _not_judged(facts), _largest(facts)
    if loss is None and unjudged is not None:
        return bounded(say("No lever could be judged: {missing}", missing=unjudged.missing), unjudged.hint)
    if loss is None:
        return _limit_alone(schemes, facts)
    if loss.owner.kind in LIMIT_OF and not loss.returns:
        return _limited(loss, unjudged, facts)
    text = loss_text.sentence(loss, _period(facts))
    return bounded(text, *_beside(loss, unjudged, schemes), "")


def beside(schemes: Sequence[Scheme], facts: Facts) -> str:
    """What the headline leaves out of `nothing`: where and how much it is, and what helps; empty where no owner is."""
    loss = _largest(facts) if facts.has_gpu else on_the_cpu(facts.owners)
    if facts.unjudged is not None or (facts.has_gpu and _unrecorded(facts)):
        return ""
    if loss is None:
        return "" if facts.has_gpu else say("What a GPU waits for cannot be judged: profile where a GPU is.")
    if not facts.has_gpu:
        return _beside_on_the_cpu(loss, facts)
    kind, unjudged = loss.owner.kind, _not_judged(facts)
    said = [] if kind == "gpu" else [loss_text.details(loss, _period(facts))]
    limit = None if loss.returns else "loader" if kind == "dataloader" else LIMIT_OF.get(kind)
    if limit is not None:
        said.append(say("What might help: {helps}", helps=helps_against(limit, facts)[1]))
    said += [say("What might help: one operation for all that the loop goes through")] if loss.owner.loop else []
    if unjudged is not None and unjudged.detector == "steps":
        said.append(say("No steps were found: mark them, or record them with tracelens profile SCRIPT"))
    elif unjudged is None and (maybe := uncertain(schemes)) is not None and maybe.estimate is not None:
        said.append(say("{lever} may pay: {gain}", lever=lever_name(maybe), gain=gain(maybe.estimate)))
    return say("{sentence}.", sentence=joined(". ", said))


def _beside_on_the_cpu(loss: Loss, facts: Facts) -> str:
    if not loss.of_training:
        return say("On the CPU, no GPU work was recorded: {loss}.", loss=loss_text.details(loss, _period(facts)))
    longest = sorted(loss.of_training, key=lambda owner: -owner.owned_ns)
    told = {"places": places(owner.locations[0] for owner in longest), "helps": helps_against("cpu", facts)[1]}
    return say("On the CPU, no GPU work was recorded: most of it at {places}. What might help: {helps}.", **told)


def _not_judged(facts: Facts) -> Abstention | None:
    """Why no scheme could be judged."""
    unjudged = _unjudged(facts)
    if unjudged is None and _waits(facts) and not facts.steps_found:
        return Abstention("steps", say("no steps were found, so what each batch does cannot be told"), RECORD_STEPS)
    return unjudged


def _limited(loss: Loss, unjudged: Abstention | None, facts: Facts) -> str:
    """Where launching, communication, copies or the GPU's own work take the time: the limit, and what helps."""
    name, helps = helps_against(LIMIT_OF[loss.owner.kind], facts)
    works = busy(facts)
    hints = (unjudged.hint, "") if unjudged is not None else ("",)
    limit = say("{limit}, {busy}", limit=name, busy=works) if works else name
    if loss.owner.kind == "gpu":
        if is_full(facts):
            limit = say("{limit}: nothing to fix in the loop", limit=limit)
        texts = [_with_help(limit, helps, hint) for hint in hints]
    else:
        text = loss_text.sentence(loss, _period(facts))
        limit = say("{loss}: {limit}", loss=text, limit=limit)
        texts = [*(_with_help(limit, helps, hint) for hint in hints), limit]
    return bounded(*_first_that_fits(texts))


def _with_help(limit: str, helps: str, hint: str) -> str:
    helping = say("{limit}; {helps} would help", limit=limit, helps=helps)
    return say("{sentence}; {more}", sentence=helping, more=unstopped(hint)) if hint else helping


def _first_that_fits(texts: Sequence[str]) -> tuple[str]:
    return (next((text for text in texts if len(text) < LIMIT), texts[-1]),)


def _beside(loss: Loss, unjudged: Abstention | None, schemes: Sequence[Scheme]) -> tuple[str, ...]:
    """What to know beside an owner that no scheme acts on, the fullest form first."""
    loader = _ITERATOR_HELPS if loss.owner.makes_iterators else _LOADER_HELPS
    helps = (loader,) if loss.owner.kind == "dataloader" and not loss.returns else ()
    if unjudged is not None:  # what keeps the patcher from other places says nothing of this one
        return helps if unjudged.detector == "patch" else (*helps, unjudged.hint)
    maybe = uncertain(schemes)
    if maybe is not None and maybe.estimate is not None:
        said = say("{lever} may pay: {gain}", lever=lever_name(maybe), gain=gain(maybe.estimate))
        return (*(say("{sentence}; {more}", sentence=help_, more=said) for help_ in helps), said)
    if loss.owner.kind in ("wait", "copy") and (tried := _best_attempt(schemes)):
        return (tried,)
    return helps


def _limit_alone(schemes: Sequence[Scheme], facts: Facts) -> str:
    """Where no owner is large enough to be named."""
    waits = _waits(facts)
    waited = sum(stall.wait_ns for stall in waits)
    if not waits:
        where = say("these steps") if facts.steps_found else say("this recording (no steps were found in it)")
        text = say("Nothing to fix: the host never waits for the GPU in {where}", where=where)
    elif (maybe := uncertain(schemes)) is not None and maybe.estimate is not None:
        text = say(
            "Nothing to fix yet: waits last {waits}, and {lever} may pay: {gain}",
            waits=cost(waited),
            lever=lever_name(maybe),
            gain=gain(maybe.estimate),
        )
        if not facts.has_run:
            return bounded(text, say("only a run can be measured: tracelens profile SCRIPT"))
        measures = say("{command} measures it", command=f"tracelens verify --lever {maybe.id}")
        return bounded(text, measures, say("measure it with tracelens verify"))
    else:
        best = _best_attempt(schemes)
        text = say("Nothing to fix: waits last {waits} but {best}", waits=cost(waited), best=best)
    binding = facts.binding or binding_of(facts)
    if binding is None:
        return bounded(text)
    if binding == "host" and (facts.gpu_busy_share or 0.0) > MOST_BUSY_WHEN_LAUNCHING:
        binding = "stream"
    name, helps = helps_against("communication" if binding == "stream" and communicates(facts) else binding, facts)
    limit = say("{limit}, {busy}", limit=name, busy=works) if (works := busy(facts)) else name
    instead = say("{limit}: {helps} would help instead", limit=limit, helps=helps)
    return bounded(text, instead, say("{limit}: {helps} would help", limit=name, helps=helps), name)


# ---------------------------------------------------------------------------------------------- the largest loss


def _largest(facts: Facts) -> Loss | None:
    loss = largest(facts.owners, StepFacts(facts.step_ns, facts.gpu_busy_share or 0.0, facts.exposed_together_ns))
    return None if loss is None else _with_blocked(loss, (loss.owner.group or "").split("+"), facts)


def _with_blocked(loss: Loss, ended: Sequence[str], facts: Facts) -> Loss:
    """With the time that Python is blocked at the lines of these Stalls, as their lines on every page have it."""
    if loss.owner.kind not in ("wait", "copy") or loss.owner.is_gpu_work or not loss.sure:
        return loss
    waits = _waits(facts)
    lines = {(at.path, at.line) for stall in waits if stall.id in ended and (at := stall.location) is not None}
    there = [
        stall
        for stall in waits
        if stall.id in ended or (stall.location is not None and (stall.location.path, stall.location.line) in lines)
    ]
    return replace(loss, blocked_ns=sum(stall.wait_ns for stall in there)) if there else loss


def told_loss(facts: Facts, scheme: Scheme | None = None) -> Loss | None:
    """What the verdict is about: the scheme's waits, where these are the largest loss or share its idle time."""
    loss, estimate = _largest(facts), scheme.estimate if scheme is not None else None
    if scheme is None or estimate is None:
        return loss
    saved_ns = _saved(estimate, facts)
    if loss is not None and not _remedies(scheme, loss, saved_ns):
        return loss
    stalls = _costly(scheme, facts)
    copies = all(definition(edit.kind).acts_on == ("copy",) for edit in scheme.edits)
    lines = tuple(dict.fromkeys(stall.location for stall in stalls if stall.location is not None))
    called = (stalls[0].call or stalls[0].api) if stalls else None
    owner = Owner("copy" if copies else "wait", 0, lines, called, recoverable_ns=saved_ns, evidence=estimate.evidence)
    return _with_blocked(Loss(owner, max(1, len(stalls))), [stall.id for stall in stalls], facts)


def _saved(estimate: Estimate, facts: Facts) -> int:
    """What the estimate takes off the one step time that is told; its own base may be a replay of it."""
    return round(facts.step_ns * (1 - estimate.step_ns / estimate.base_ns)) if estimate.base_ns else 0


def _remedies(scheme: Scheme, loss: Loss, saved_ns: int) -> bool:
    """Whether the verdict is about the scheme: it acts on the loss, or saves more than that costs."""
    return saved_ns >= loss.ns or _shares_idle_time(scheme, loss)


def _shares_idle_time(scheme: Scheme, loss: Loss) -> bool:
    ended = {stall for edit in scheme.edits for stall in edit.stalls}
    if loss.owner.kind in ("wait", "copy") and (loss.count > 1 or loss.owner.group is None):
        return True
    return not ended.isdisjoint((loss.owner.group or "").split("+"))


def _period(facts: Facts) -> Period:
    wall_ns = facts.owners.wall_ns if facts.owners is not None else facts.step_ns
    return Period(facts.step_ns, wall_ns, "step" if facts.steps_found else "recording", facts.has_gpu)


def _unrecorded(facts: Facts) -> str:
    """What the recording lacks to judge any scheme; "" where it has all that is needed."""
    if facts.unjudged is not None:
        return bounded(say("Nothing can be judged: {missing}", missing=facts.unjudged.missing), facts.unjudged.hint)
    if not facts.has_gpu:
        return _without_gpu(facts)
    if facts.unknown_waits:
        calls = ", ".join(facts.unknown_waits[:2])
        unknown = say(
            "Waits cannot be judged: the host calls {calls}, of a runtime that TraceLens does not know", calls=calls
        )
        return bounded(unknown)
    if not facts.waits_recorded and facts.calls_recorded:
        return say(
            "Waits cannot be judged: the trace does not say which call launched which GPU work (no correlation ids)."
        )
    if not facts.waits_recorded:
        return say(
            "The host's calls were not recorded, so waits cannot be judged: record CPU and CUDA activities together."
        )
    return ""


def _waits(facts: Facts) -> list[Stall]:
    return [stall for stall in facts.stalls if stall.verdict != "window_edge"]


def _without_gpu(facts: Facts) -> str:
    loss = on_the_cpu(facts.owners)
    if loss is None:
        return say("No GPU work was recorded, so what a GPU waits for cannot be judged: profile where a GPU is.")
    text = say("No GPU work was recorded; on the CPU {loss}", loss=loss_text.clause(loss, _period(facts)))
    return bounded(text, "")


def _best_attempt(schemes: Sequence[Scheme]) -> str:
    timed = [(speed, scheme) for scheme in schemes if (speed := scheme_gain(scheme)) is not None]
    if not timed:
        return say("no lever applies")
    speed, best = max(timed, key=lambda pair: pair[0])
    if round(speed) < 0:
        return say("no lever gains")
    return say("no lever gains (best: {lever} {gain})", lever=lever_name(best), gain=percent(speed))


def _unjudged(facts: Facts) -> Abstention | None:
    """The first abstention, when there are Edits to judge but not a single estimate of them."""
    fitting = [name for name, plan in facts.plans.items() if not isinstance(plan, str)]
    given = [facts.estimates.get(name) for name in fitting]
    tried = any(trial.scheme in fitting for trial in facts.verifications)
    if not fitting or tried or any(isinstance(one, Estimate) for one in given):
        return None
    abstained = next((one for one in given if isinstance(one, Abstention)), None)
    return abstained or _declined(facts, fitting)


def _declined(facts: Facts, names: Sequence[str]) -> Abstention:
    """Why nothing was estimated, when the patcher could make none of the Edits."""
    declined = next((p.by_hand[0] for name in names if (p := facts.patches.get(name)) and p.by_hand), None)
    if declined is not None:
        obstacle = say("the loop cannot be patched: {obstacle}", obstacle=declined.obstacle)
        return Abstention("patch", obstacle, declined.by_hand)
    return Abstention("replay", say("no estimate was made"), say("run tracelens recommend on the run again"))


def _costly(scheme: Scheme, facts: Facts) -> list[Stall]:
    """The Stalls that the scheme acts on, the most costly first."""
    ids = {stall for edit in scheme.edits for stall in edit.stalls}
    own = [stall for stall in facts.stalls if stall.id in ids]
    return sorted(own, key=lambda s: (-(s.exposed_ns or 0), -(s.gpu_idle_ns or 0), -s.wait_ns))
