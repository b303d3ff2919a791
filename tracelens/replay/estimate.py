"""What a set of Edits would buy: a step time with its 80 % range, what limits it then, and the assumptions.

In: a ReplayTrace, Edits. Out: an Estimate, or an Abstention where the trace cannot answer. All Edits of the set are
applied in one replay. The range combines three independent sources: which steps happened to be recorded (resampled, and
each left out once), the constants that the trace does not show (drawn from their ranges), and the measured error of
replays of this kind. A step that alone gives most of the gain is left out of it (`step_gains`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from tracelens.edit_kinds import NotReplayed, replay_rule
from tracelens.messages import say, say_count
from tracelens.model import Abstention, Edit, Estimate
from tracelens.replay import baseline, bounds, loader_workers, step_gains
from tracelens.replay.edits import PreparedEdits
from tracelens.replay.preconditions import unresolved_waits
from tracelens.replay.program import compile_program
from tracelens.replay.replay_trace import ReplayTrace, editable_host_ops
from tracelens.replay.steady_state import step_time
from tracelens.replay.step_gains import StepGains
from tracelens.replay.trace_builder import SAMPLING
from tracelens.units import ms

ANSWERS = 256
"""Cached answers: several schemes, reports and plans with other options ask the same of one ReplayTrace."""
LOW, HIGH = 0.1, 0.9
MODEL_SHARE = 0.02
"""80 % half-width where the GPU sets the pace: step-time errors of 0.1-0.8 % on three H200 transformer rows, and of
1.9 % on a language model that the GPU bound (+2.4 % predicted, +0.5 % measured): idle moments that an Edit takes away
seem to come back as slower kernels."""
HOST_MODEL_SHARE = 0.05
"""The same where host, loader or copies do: identical host-bound loops differed by 3-20 % between processes there."""
MODEL_GAIN_SHARE = 0.1
"""… and that share of the change itself: what moves most is known least."""
UNANCHORED_SHARE = 0.03
"""Added where no unprofiled step time was recorded: the profiler's cost then hides in the host times."""


@dataclass(frozen=True, slots=True)
class _StepRatio:
    """New step time ÷ old, at the middle, per draw, and by how much it changes without one of the steps."""

    ratio: float
    draws: tuple[float, ...]
    left_out: tuple[float, ...]
    lone_step: int | None = None
    """The step that is not counted."""
    lone: str | None = None
    """The same in a sentence."""


def predict(trace: ReplayTrace, edits: tuple[Edit, ...]) -> Estimate | Abstention:
    """Step time after all `edits` together."""
    if edits and trace.unresolved_waits:
        return Abstention("replay", _unresolved(trace), _UNRESOLVED_HINT)
    unknown = _unpredictable(edits)
    if unknown is not None:
        return Abstention("replay", unknown.missing, unknown.hint)
    if any(replay_rule(edit.kind) == "more-workers" for edit in edits) and trace.loader.workers is None:
        missing = say("how many workers the DataLoader has is not known")
        return Abstention("replay", missing, say("record with tracelens profile, which notes it"))
    return _replayed(trace, _without_places(edits))


_UNRESOLVED_HINT = say("record with a CUDA version whose traces name the stream of an event, or on one stream")


def _unresolved(trace: ReplayTrace) -> str:
    return unresolved_waits(trace.unresolved_waits)


def _unpredictable(edits: Sequence[Edit]) -> NotReplayed | None:
    """The first Edit that the replay knows no rule for; one that changes no step counts only where it is alone."""
    rules = [replay_rule(edit.kind) for edit in edits]
    alone = all(isinstance(rule, NotReplayed) for rule in rules)
    return next((rule for rule in rules if isinstance(rule, NotReplayed) and (rule.changes_steps or alone)), None)


def predict_shortened(trace: ReplayTrace, shortened: ReplayTrace) -> Estimate | Abstention:
    """Step time of the loop as `shortened` has it: the same steps, in which the host has less to do."""
    if trace.unresolved_waits:
        return Abstention("replay", _unresolved(trace), _UNRESOLVED_HINT)
    return _estimate(trace, shortened, (), _robust_outcome(trace, shortened, ()))


def told_apart(trace: ReplayTrace, edits: tuple[Edit, ...], others: tuple[Edit, ...]) -> bool | None:
    """Whether the step times after two sets of Edits differ: their 80 % range, replayed with the same samples, excludes
    zero. None where one of them cannot be replayed."""
    if isinstance(predict(trace, edits), Abstention) or isinstance(predict(trace, others), Abstention):
        return None
    one, other = _edited(trace, _without_places(edits)), _edited(trace, _without_places(others))
    if isinstance(one, Abstention) or isinstance(other, Abstention):
        return None
    if one.lone_step != other.lone_step:  # draws can be compared where they are of the same steps
        lone_step = other.lone_step if one.lone_step is None else one.lone_step
        kept = _without_step(trace, lone_step or 0)
        one, other = (_outcome(kept, kept, _without_places(chosen))[0] for chosen in (edits, others))
    draws = [mine - theirs for mine, theirs in zip(one.draws, other.draws, strict=True)]
    middle = one.ratio - other.ratio
    model = MODEL_SHARE + MODEL_GAIN_SHARE * abs(middle)
    below = _in_quadrature(max(0.0, middle - _quantile(draws, LOW)), model)
    above = _in_quadrature(max(0.0, _quantile(draws, HIGH) - middle), model)
    return middle - below > 0 or middle + above < 0


def _without_places(edits: tuple[Edit, ...]) -> tuple[Edit, ...]:
    """Places in the source and the order of Edits say nothing to the replay: equal questions share their answer."""
    return tuple(sorted((replace(edit, locations=()) for edit in edits), key=lambda edit: (edit.kind, edit.stalls)))


@lru_cache(maxsize=ANSWERS)
def _replayed(trace: ReplayTrace, edits: tuple[Edit, ...]) -> Estimate | Abstention:
    return _estimate(trace, trace, edits, _edited(trace, edits))


@lru_cache(maxsize=ANSWERS)
def _edited(trace: ReplayTrace, edits: tuple[Edit, ...]) -> _StepRatio | Abstention:
    return _robust_outcome(trace, trace, edits)


def _estimate(
    trace: ReplayTrace, changed: ReplayTrace, edits: tuple[Edit, ...], outcome: _StepRatio | Abstention
) -> Estimate | Abstention:
    """Of `changed` with the Edits, against the unchanged `trace`."""
    if isinstance(outcome, Abstention):
        return outcome
    base = trace.base_ns
    binding = bounds.step_bounds(changed, edits).binding
    model = MODEL_SHARE if binding == "stream" else HOST_MODEL_SHARE
    model += MODEL_GAIN_SHARE * abs(1 - outcome.ratio)
    drift = UNANCHORED_SHARE if trace.errors.anchor is None else max(0.0, abs(trace.errors.anchor) - SAMPLING)
    model += drift
    low = min(_quantile(outcome.draws, LOW), outcome.ratio + min(outcome.left_out, default=0.0))
    high = max(_quantile(outcome.draws, HIGH), outcome.ratio + max(outcome.left_out, default=0.0))
    below = _in_quadrature(max(0.0, outcome.ratio - low), model)
    above = _in_quadrature(max(0.0, high - outcome.ratio), model)
    return Estimate(
        base_ns=base,
        step_ns=round(base * outcome.ratio),
        low_ns=round(base * (outcome.ratio - below)),
        high_ns=round(base * (outcome.ratio + above)),
        binding=binding,
        basis="profiled" if trace.unprofiled_ns is None else "unprofiled",
        evidence="replayed",
        assumptions=(*_assumptions(trace, edits), *((outcome.lone,) if outcome.lone else ())),
    )


def _robust_outcome(trace: ReplayTrace, changed: ReplayTrace, edits: tuple[Edit, ...]) -> _StepRatio | Abstention:
    """Without the step that would make the gain by itself; an Abstention where too few are left to say anything."""
    outcome, gains = _outcome(trace, changed, edits)
    lone = gains.lone_step()
    if lone is None:
        return outcome
    count, share = len(trace.steps), round(100 * gains.share(lone))
    why = say(
        "step {lone} of the {count} recorded ones alone would give {share} % of the gain",
        lone=lone + 1,
        count=count,
        share=share,
    )
    if count - 1 < step_gains.FEWEST_STEPS:
        return Abstention(
            "replay", say("{why}: the others are too few to say", why=why), say("record more steps: --steps 20")
        )
    kept, changed_kept = (_without_step(steps, lone) for steps in (trace, changed))
    outcome, _ = _outcome(kept, kept if changed is trace else changed_kept, edits)
    return replace(outcome, lone_step=lone, lone=say("{why}: it is left out", why=why))


@lru_cache(maxsize=ANSWERS)
def _without_step(trace: ReplayTrace, left_out: int) -> ReplayTrace:
    """One value for all questions, so that its baseline is replayed once."""
    return replace(trace, steps=tuple(step for place, step in enumerate(trace.steps) if place != left_out))


def _outcome(trace: ReplayTrace, changed: ReplayTrace, edits: tuple[Edit, ...]) -> tuple[_StepRatio, StepGains]:
    change = PreparedEdits(changed, edits)
    compiled = compile_program(change.program(trace.calibration), trace.overhead.row_ns)
    drawn = tuple(_drawn(change, sample) for sample in baseline.samples(trace))
    gains = StepGains(baseline.step_times_ns(trace), step_gains.step_times(compiled))
    return _StepRatio(step_time(compiled) / baseline.step_ns(trace), drawn, gains.leave_one_out()), gains


def _drawn(change: PreparedEdits, sample: baseline.MonteCarloSample) -> float:
    """New step time ÷ old in one sample. Only the steps that it drew are rewritten and compiled: two of three."""
    program = change.program(sample.costs, repeated=frozenset(sample.order))
    return step_time(compile_program(program, sample.row_ns), sample.order) / sample.step_ns


def _in_quadrature(*halves: float) -> float:
    """Independent sources of error add in quadrature."""
    return float(sum(half * half for half in halves) ** 0.5)


def _quantile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def _assumptions(trace: ReplayTrace, edits: tuple[Edit, ...]) -> tuple[str, ...]:
    costs, rules = trace.calibration, {replay_rule(edit.kind) for edit in edits}
    assumptions = list(trace.notes)
    if trace.unprofiled_ns is None:
        assumptions.append(say("no unprofiled step time: host times contain the profiler's cost"))
    elif trace.overhead.fitted:
        assumptions.append(
            say("the profiler cost the host {cost:.1f} µs per recorded row (fitted)", cost=trace.overhead.row_ns / 1e3)
        )
    if "pinned-copy" in rules:
        assumptions.append(
            say("copies from pinned memory run at {rate:.0f} GB/s", rate=costs.pinned_bytes_per_us / 1e3)
        )
        if trace.loader.workers == 0:
            rate = costs.pin_main_bytes_per_us / 1e3
            assumptions.append(say("without workers the main thread pins each batch, at {rate:.0f} GB/s", rate=rate))
        else:
            took = costs.loader_get_ns / 1e3
            assumptions.append(
                say(
                    "a pin thread prepares each batch; the main thread then spends {took:.0f} µs in the loader",
                    took=took,
                )
            )
    if "copy-ahead" in rules:
        assumptions.append(say("the next batch is asked for before this batch's work is launched"))
    if "read-every-n" in rules:
        assumptions.append(
            say("a line that is not written saves its read; what formatting and writing it cost is not counted")
        )
    if "more-workers" in rules:
        assumptions.append(_more_workers_assumption(trace, edits))
    elif trace.loader.period_ns is not None:
        assumptions.append(say("the loader's workers set the pace and do not get faster"))
    elif (
        edits
        and trace.loader.workers
        and any(op.kind == "loader" for step in trace.steps for op in editable_host_ops(step))
    ):
        assumptions.append(_present_workers_assumption(trace))
    return tuple(assumptions)


def _present_workers_assumption(trace: ReplayTrace) -> str:
    least = loader_workers.least_step_ns(trace)
    if not least:
        return say("the loop never waited for its workers, so how much faster they could deliver is not known")
    return say_count(
        "{count} worker delivers a step's batches every {time} at best, by the CPU time it took",
        "{count} workers deliver a step's batches every {time} at best, by the CPU time they took",
        trace.loader.workers or 0,
        time=ms(least),
    )


def _more_workers_assumption(trace: ReplayTrace, edits: tuple[Edit, ...]) -> str:
    more = loader_workers.with_more_workers(trace, edits).loader
    if more.period_ns is None or more.workers == trace.loader.workers:
        return say("the loop does not wait for its workers: more of them bring nothing")
    used = loader_workers.workers_with_a_core(trace, more.workers or 0)
    return say_count(
        "{count} worker, as fast as now, delivers a step's batches every {time:.1f} ms",
        "{count} workers, each as fast as now, deliver a step's batches every {time:.1f} ms",
        used,
        time=more.period_ns / 1e6,
    )
