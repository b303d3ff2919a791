"""What becomes of the step with the best lever: one value, so that headline, strip, card and numbers show the same.

In: a PlannedDiagnosis. Out: `BestLever`, or None where no lever gains for certain.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from tracelens.messages import say
from tracelens.model import (
    Diagnosis,
    DrawnStep,
    IllustratedDiagnosis,
    Lever,
    PlannedDiagnosis,
    Verification,
    counting,
    on_baseline,
)
from tracelens.report import lever_names

OTHER_PACE = 0.02
"""Of a step: two processes that differ by less run at one pace."""


@dataclass(frozen=True, slots=True)
class BestLever:
    """The step then, on the baseline (ns); `busy_share` is the GPU's part of it, 0 to 1, None where nobody knows."""

    lever: str
    name: str
    base_ns: int
    step_ns: int
    low_ns: int
    high_ns: int
    evidence: str
    """measured, or predicted."""
    busy_share: float | None
    trial: Verification | None

    @property
    def speedup(self) -> float:
        return self.base_ns / self.step_ns

    @property
    def same_results(self) -> bool:
        return self.trial is not None and self.trial.numbers_equal is True


def outcome(diagnosis: PlannedDiagnosis) -> BestLever | None:
    """Of what is recommended: a change of the loop, else a lever that gains."""
    found = _recommended(diagnosis)
    return None if found is None else _busy_as_drawn(diagnosis, found)


def _recommended(diagnosis: PlannedDiagnosis) -> BestLever | None:
    scheme = diagnosis.recommended
    if scheme is not None and scheme.estimate is not None:
        trial = _trial(diagnosis, scheme.id) if scheme.estimate.evidence == "measured" else None
        scale = diagnosis.steps.best_known_ns / max(scheme.estimate.base_ns, 1)  # a prediction may start from a mean
        found = (scheme.estimate.step_ns, scheme.estimate.low_ns, scheme.estimate.high_ns)
        times = (round(found[0] * scale), round(found[1] * scale), round(found[2] * scale))
        return _outcome(diagnosis, scheme.id, times, "measured" if trial else "predicted", trial)
    lever = next((one for one in diagnosis.levers if one.id == diagnosis.recommendation.lever), None)
    return _of_lever(diagnosis, lever) if lever is not None else None


def measured_by(diagnosis: PlannedDiagnosis, trial: Verification) -> BestLever | None:
    """What one trial measured, on its own originals; None where it measured no times."""
    base_ns, ratio = trial.base_ns, trial.ratio
    if not base_ns or not trial.patched_ns or ratio is None:
        return None
    named = trial.scheme or say("your change")
    low, high = round(base_ns * ratio.low), round(base_ns * ratio.high)
    busy, name = _busy(diagnosis, trial.patched_ns, trial), _name(diagnosis, named)
    return BestLever(named, name, base_ns, trial.patched_ns, low, high, "measured", busy, trial)


def _of_lever(diagnosis: PlannedDiagnosis, lever: Lever) -> BestLever | None:
    known, base_ns = lever.known, diagnosis.steps.best_known_ns
    if known is None or not known.excludes_zero:
        return None
    step, low, high = (round(base_ns / ratio) for ratio in (known.speedup, known.high, known.low))
    found = _outcome(diagnosis, lever.id, (step, low, high), lever.state, None)
    return found if lever.state == "predicted" else replace(found, busy_share=None)  # it may change the GPU's work


def _outcome(
    diagnosis: PlannedDiagnosis,
    lever: str,
    times: tuple[int, int, int],
    evidence: str,
    trial: Verification | None,
) -> BestLever:
    base_ns = diagnosis.steps.best_known_ns
    step_ns, low_ns, high_ns = times
    return BestLever(
        lever,
        _name(diagnosis, lever),
        base_ns,
        step_ns,
        low_ns,
        high_ns,
        evidence,
        _busy(diagnosis, step_ns, trial),
        trial,
    )


def _busy(diagnosis: PlannedDiagnosis, step_ns: float, trial: Verification | None) -> float | None:
    """Predicted: the same work of the GPU in a shorter step. Measured: the work that the changed version was recorded
    with, else nobody knows."""
    if trial is None:
        share, base_ns = on_baseline(diagnosis).gpu_busy_share, diagnosis.steps.best_known_ns
        return None if share is None else min(1.0, share * base_ns / step_ns)
    worked_ns = recorded_work_ns(trial)
    return None if worked_ns is None else min(1.0, worked_ns / step_ns)


def recorded_work_ns(trial: Verification) -> float | None:
    """How long the GPU works in a step of the changed version, in a recording of it; None where there is none. Work
    that does not fit into the measured step was recorded at another pace, and tells nothing of its parts."""
    worked_us = trial.window("after").get("gpu_busy_us_per_step")
    if not isinstance(worked_us, int | float) or trial.patched_ns is None:
        return None
    return 1000.0 * worked_us if 1000.0 * worked_us <= (1 + OTHER_PACE) * trial.patched_ns else None


def kernel_ns(diagnosis: Diagnosis) -> float | None:
    """How long the GPU computes and communicates in a step, on the baseline; None without a GPU."""
    if diagnosis.breakdown is None or "gpu" not in diagnosis.timeline.trace.signals:
        return None
    parts = on_baseline(diagnosis).breakdown
    known = parts.known if parts is not None else {}
    return known.get("compute", 0) + known.get("communication_exposed", 0)


def exposed_copies_ns(trial: Verification) -> float | None:
    """Of the changed version, how long a step's copies to the GPU run beside no other work; None: nobody knows."""
    facts = trial.window("after")
    copied, hidden = facts.get("h2d_us_per_step"), facts.get("h2d_hidden_us_per_step")
    if not isinstance(copied, int | float) or not isinstance(hidden, int | float):
        return None
    return 1000.0 * max(copied - hidden, 0.0)


def _busy_as_drawn(diagnosis: PlannedDiagnosis, then: BestLever) -> BestLever:
    """With the copies of the step that was predicted, which a change of copies changes; its kernels are the same."""
    steps = diagnosis.drawn if isinstance(diagnosis, IllustratedDiagnosis) else ()
    drawn = next((step for step in steps if step.scheme == then.lever), None)
    kernels_ns = kernel_ns(diagnosis)
    if drawn is None or kernels_ns is None or then.trial is not None or then.busy_share is None:
        return then
    return replace(then, busy_share=min(1.0, (kernels_ns + drawn_copies_ns(drawn)) / max(then.step_ns, 1)))


def drawn_copies_ns(drawn: DrawnStep) -> int:
    """How long the GPU copies in a predicted step and does nothing else."""
    on_gpu = [bar for bar in drawn.bars if bar.lane != "host"]
    worked = union_ns((bar.start_ns, bar.end_ns) for bar in on_gpu if not bar.name.startswith("Memcpy"))
    return union_ns((bar.start_ns, bar.end_ns) for bar in on_gpu) - worked


def union_ns(spans: Iterable[tuple[int, int]]) -> int:
    """How long at least one of the spans lasts."""
    total, reached = 0, 0
    for start, end in sorted(spans):
        total += max(0, end - max(start, reached))
        reached = max(reached, end)
    return total


def _trial(diagnosis: PlannedDiagnosis, scheme: str) -> Verification | None:
    return counting(diagnosis.verifications, scheme)


def _name(diagnosis: PlannedDiagnosis, lever_id: str) -> str:
    lever = next((one for one in diagnosis.levers if one.id == lever_id), None)
    return lever_id if lever is None else lever_names.name(lever, diagnosis)
