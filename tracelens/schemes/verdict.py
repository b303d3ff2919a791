"""The verdict: one sentence of at most 240 characters that says what to do, what it gives, and where.

In: the chosen scheme (or none) and Facts. Out: text. Apart from `advise` because the sentence is the product: it stands
unchanged on screen, in JSON and in the report. Where nothing pays it names the limit that binds and what helps instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tracelens.model import Abstention, Binding, Estimate, Owner, Scheme, Stall
from tracelens.schemes.facts import Facts
from tracelens.schemes.responsible import keeps_idle, responsible_owner, subject
from tracelens.schemes.weighing import scheme_gain, uncertain
from tracelens.schemes.wording import cost, gain, ms, percent, places

LIMIT = 240

RECORD_STEPS = "record steps: tracelens profile train.py"

MENTIONED_POINTS = 2.0
"""The fastest scheme is named beside the winner when it is that many percentage points faster."""

_LIMITS: Mapping[Binding, tuple[str, tuple[tuple[str, str], ...]]] = {
    "stream": (
        "GPU-bound",
        (("amp", "bf16"), ("compile", "torch.compile"), ("", "cheaper kernels")),
    ),
    "host": (
        "launch-bound",
        (("cuda_graphs", "CUDA graphs"), ("compile", "torch.compile"), ("", "larger batches")),
    ),
    "loader": (
        "loader-bound",
        (("", "more DataLoader workers"), ("", "cheaper preprocessing"), ("", "cached samples")),
    ),
    "copy": (
        "copy-bound",
        (("pinned_memory", "pinned memory"), ("", "smaller dtypes in the batch"), ("", "decoding on the GPU")),
    ),
}
"""What a limit is called, and what helps: each with the inventory item that says it is done already."""

_COMMUNICATION = (
    "communication-bound",
    (("gradient_accumulation", "gradient accumulation"), ("", "larger gradient buckets"), ("", "a faster link")),
)
"""Where the GPU is busy with collectives that nothing hides, kernels are not what to make cheaper."""


def recommended(scheme: Scheme, gives_up: Mapping[str, Any] | None, facts: Facts, limits: str) -> str:
    """What the scheme gives on this run. It has an estimate: only such schemes are recommended."""
    estimate = scheme.estimate
    if estimate is None:
        raise ValueError(f"{scheme.id} cannot be recommended without an estimate")
    saved_ns = estimate.base_ns - estimate.step_ns
    owner = _responsible(facts)
    if owner is not None and (owner.recoverable_ns or 0) > saved_ns:
        return _bounded(
            _capital(keeps_idle(owner, facts.step_ns)), f"{scheme.id} saves {ms(saved_ns)}: {gain(estimate)}"
        )
    where = places(stall.location for stall in _costly(scheme, facts))
    text = f"{where}: " if where else ""
    text += f"{scheme.id} saves {cost(saved_ns)}: {gain(estimate)}"
    if gives_up is not None and gives_up["points"] >= MENTIONED_POINTS:
        limits = limits or f"{gives_up['fastest']} would be fastest with {percent(gives_up['fastest_gain_percent'])}"
    return _bounded(text, limits)


def nothing(schemes: Sequence[Scheme], facts: Facts) -> str:
    """Why no scheme is recommended."""
    if unrecorded := _unrecorded(facts):
        return unrecorded
    unjudged = _unjudged(facts)
    if unjudged is None and _waits(facts) and not facts.steps_found:
        unjudged = Abstention("steps", "no steps were found, so what each batch does cannot be told", RECORD_STEPS)
    owner = _responsible(facts)
    if owner is not None:
        return _bounded(_capital(keeps_idle(owner, facts.step_ns)), *_beside(unjudged, schemes), "")
    if unjudged is not None:
        return _bounded(f"Could not judge any scheme: {unjudged.missing}", unjudged.hint)
    return _launches_or_gpu(schemes, facts)


def _beside(unjudged: Abstention | None, schemes: Sequence[Scheme]) -> tuple[str, ...]:
    """What to know of the schemes beside an owner that is none of theirs."""
    if unjudged is not None:
        return (unjudged.hint,)
    maybe = uncertain(schemes)
    return (f"{maybe.id} may pay: {gain(maybe.estimate)}",) if maybe is not None and maybe.estimate is not None else ()


def _launches_or_gpu(schemes: Sequence[Scheme], facts: Facts) -> str:
    """Where neither a wait nor a line, the DataLoader or the allocator is what to change."""
    waits = _waits(facts)
    waited = sum(stall.wait_ns for stall in waits)
    if not waits:
        where = "these steps" if facts.steps_found else "this recording (no steps were found in it)"
        text = f"Do nothing: the host never waits for the GPU in {where}"
    elif (maybe := uncertain(schemes)) is not None and maybe.estimate is not None:
        text = f"Do nothing yet: waits last {cost(waited)}, and {maybe.id} may pay: {gain(maybe.estimate)}"
        if not facts.has_run:
            return _bounded(text, "only a run can be measured: tracelens profile train.py")
        return _bounded(text, f"tracelens verify --scheme {maybe.id} measures it", "measure it with tracelens verify")
    else:
        text = f"Do nothing: waits last {cost(waited)} but {_best_attempt(schemes)}"
    return _bounded(text, *_instead(facts))


def _unrecorded(facts: Facts) -> str:
    """What the recording lacks to judge any scheme; "" where it has all that is needed."""
    if facts.unjudged is not None:
        return _bounded(f"Nothing can be judged: {facts.unjudged.missing}", facts.unjudged.hint)
    if not facts.has_gpu:
        return _without_gpu(facts)
    if facts.unknown_waits:
        calls = ", ".join(facts.unknown_waits[:2])
        return _bounded(f"Waits cannot be judged: the host calls {calls}, of a runtime that TraceLens does not know")
    if not facts.waits_recorded and facts.calls_recorded:
        return "Waits cannot be judged: the trace does not say which call launched which GPU work (no correlation ids)."
    if not facts.waits_recorded:
        return "The host's calls were not recorded, so waits cannot be judged: record CPU and CUDA activities together."
    return ""


def _waits(facts: Facts) -> list[Stall]:
    return [stall for stall in facts.stalls if stall.verdict != "window_edge"]


def _without_gpu(facts: Facts) -> str:
    owners = facts.owners
    largest = owners.owners[0] if owners is not None and owners.owners else None
    if owners is None or largest is None or not largest.locations or largest.reason is not None:
        return "No GPU work was recorded, so what a GPU waits for cannot be judged: profile where a GPU is."
    of_step = f"{ms(largest.owned_ns)} of a step's {ms(owners.wall_ns)}"
    return _bounded(f"No GPU work was recorded; on the CPU {subject(largest)} takes {of_step}", "")


def _responsible(facts: Facts) -> Owner | None:
    return responsible_owner(facts.owners, facts.gpu_busy_share)


def _capital(text: str) -> str:
    """With a capital letter, unless it begins with the name of a file or a function."""
    return text[0].upper() + text[1:] if text.startswith("the ") else text


def _best_attempt(schemes: Sequence[Scheme]) -> str:
    timed = [(speed, scheme) for scheme in schemes if (speed := scheme_gain(scheme)) is not None]
    if not timed:
        return "no scheme applies"
    speed, best = max(timed, key=lambda pair: pair[0])
    return f"no scheme pays (best: {best.id} {percent(speed)})"


def _instead(facts: Facts) -> tuple[str, ...]:
    """The limit that binds and what would help instead, the fullest form first."""
    binding = facts.binding or _from_breakdown(facts)
    if binding is None:
        return ()
    name, remedies = _COMMUNICATION if binding == "stream" and _communicates(facts) else _LIMITS[binding]
    done = {item.id for item in facts.inventory if item.present}
    helps = ", ".join(text for item, text in remedies if item not in done)
    busy = f", GPU busy {100 * facts.gpu_busy_share:.0f} %" if facts.gpu_busy_share is not None else ""
    return (f"{name}{busy}: {helps} would help instead", f"{name}: {helps} would help", name)


def _communicates(facts: Facts) -> bool:
    """Exposed collectives take more of the step than computing does."""
    parts = facts.breakdown.known if facts.breakdown is not None else {}
    return parts.get("communication_exposed", 0) > parts.get("compute", 0)


def _from_breakdown(facts: Facts) -> Binding | None:
    """The owner of most of the step, where no bound was computed."""
    if facts.breakdown is None:
        return None
    parts = facts.breakdown.known
    owners: dict[Binding, int] = {
        "stream": parts["compute"] + parts["communication_exposed"],
        "host": parts.get("idle_host", 0) + parts.get("idle_launch", 0),
        "loader": parts.get("idle_dataloader", 0),
        "copy": parts["copy_exposed"],
    }
    return max(owners, key=lambda name: owners[name])


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
        return Abstention("patch", f"the loop cannot be patched: {declined.obstacle}", declined.by_hand)
    return Abstention("replay", "no estimate was made", "run tracelens recommend on the run again")


def _costly(scheme: Scheme, facts: Facts) -> list[Stall]:
    """The Stalls that the scheme acts on, the most costly first."""
    ids = {stall for edit in scheme.edits for stall in edit.stalls}
    own = [stall for stall in facts.stalls if stall.id in ids]
    return sorted(own, key=lambda s: (-(s.exposed_ns or 0), -(s.gpu_idle_ns or 0), -s.wait_ns))


def _bounded(text: str, *additions: str) -> str:
    """The text with the first addition that fits, as one sentence cut at the limit."""
    for addition in additions:
        whole = f"{text}; {addition.rstrip('.')}." if addition else f"{text}."
        if len(whole) <= LIMIT:
            return whole
    return f"{text}." if len(text) < LIMIT else text[: LIMIT - 2] + "…."
