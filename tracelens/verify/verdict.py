"""The sentence at the end of a verification.

In: what was measured. Out: an outcome and one sentence that gives the numbers it rests on.
"""

from __future__ import annotations

from dataclasses import dataclass

from tracelens import units
from tracelens.model import Estimate, Outcome, Ratio
from tracelens.verify.compare.numbers import Difference
from tracelens.verify.compare.seed_tolerance import SeedTolerance
from tracelens.verify.compare.times import judge
from tracelens.verify.policy import POLICY


@dataclass(frozen=True, slots=True)
class VerdictEvidence:
    """What the verdict on one version rests on."""

    noise: Difference | None
    """How two runs of the original differ, even under deterministic algorithms."""
    difference: Difference | None
    failure: str | None
    """Why the patched version could not be measured."""
    broken: bool
    """The patched version ended with an error where the original runs."""
    ratio: Ratio | None
    pairs: int
    deterministic: bool
    tolerance: SeedTolerance | None = None
    """For a change that alters numbers on purpose: its losses compared with those of other seeds."""
    unsafe: bool = False
    """The change was asked for with --unsafe: what it prints may differ."""

    @property
    def prints_otherwise(self) -> bool:
        """The only difference is in the output, and the change was asked for with --unsafe."""
        return self.unsafe and self.difference is not None and self.difference.part == "output"


def outcome_of(evidence: VerdictEvidence) -> Outcome:
    """Numbers first: a faster script that computes something else is not faster."""
    if evidence.broken:
        return "failed"
    if evidence.tolerance is not None:
        return _outcome_by_tolerance(evidence, evidence.tolerance)
    if evidence.difference is not None and not evidence.prints_otherwise:
        return "different numbers"
    if evidence.noise is not None or evidence.failure is not None:
        return "inconclusive"
    return judge(evidence.ratio, evidence.pairs)


def numbers_equal(evidence: VerdictEvidence) -> bool | None:
    """True, False, or None where it is unknown; a version that failed has no numbers."""
    if evidence.broken:
        return None
    if evidence.difference is not None and not evidence.prints_otherwise:
        return False
    return None if evidence.noise is not None or evidence.failure is not None else True


def _outcome_by_tolerance(evidence: VerdictEvidence, tolerance: SeedTolerance) -> Outcome:
    if tolerance.verdict == "diverges":
        return "different numbers"
    return "inconclusive" if tolerance.verdict is None else judge(evidence.ratio, evidence.pairs)


def sentence(evidence: VerdictEvidence, predicted: Estimate | None) -> str:
    """One sentence for people."""
    if evidence.broken:
        return f"The patched version failed: {evidence.failure}"
    if evidence.failure is not None:
        return f"Undecided: {evidence.failure}"
    if evidence.tolerance is not None:
        return _tolerance_sentence(evidence, evidence.tolerance, predicted)
    if evidence.difference is not None and not evidence.prints_otherwise:
        return f"Different results: {evidence.difference}."
    speed = _speed(evidence) + _prediction(evidence, predicted)
    if evidence.noise is not None:
        return (
            "Undecided whether the results are the same: two runs of the original differ already, also under "
            f"deterministic algorithms (first at {evidence.noise.where}). {speed}"
        )
    how = "Same results, bit for bit" + (" (under deterministic algorithms)" if evidence.deterministic else "")
    if evidence.prints_otherwise:
        how += f"; the output differs, as an unsafe change may make it ({evidence.difference})"
    return f"{how}. {speed}"


def _tolerance_sentence(evidence: VerdictEvidence, tolerance: SeedTolerance, predicted: Estimate | None) -> str:
    """For a change that was asked for with --unsafe: its losses beside those of other seeds."""
    shown, where = tolerance.shown, f" (first at {evidence.difference.where})" if evidence.difference else ""
    head = f"The results change{where}, as an unsafe change may"
    if tolerance.verdict is None or shown is None:
        return f"Undecided: {head[0].lower()}{head[1:]}; is it within seed noise? Unknown: {tolerance.reason}."
    low, high, patched = shown.tail
    ends = f"the loss ends at {patched:.4g}, {tolerance.seeds} seeds of the original at {low:.4g} to {high:.4g}"
    if tolerance.verdict == "diverges":
        share = f"{100 * shown.outside:.0f} % of its curve lies outside their band"
        return f"Different results: the loss diverges: {ends}, and {share}."
    speed = _speed(evidence) + _prediction(evidence, predicted)
    return f"{head}, and stay within seed noise: {ends}. {speed}"


def _speed(evidence: VerdictEvidence) -> str:
    ratio = evidence.ratio
    if ratio is None:
        return "The speed was not measured: the budget allowed fewer than two interleaved pairs."
    gain, low, high = (_percent(x) for x in (ratio.value, ratio.high, ratio.low))
    speed = judge(ratio, evidence.pairs)
    interval = f"95 % interval {low} to {high}, {evidence.pairs} interleaved pairs"
    if speed == "inconclusive" and not ratio.tells:
        return (
            f"The speed is undecided: {evidence.pairs} interleaved pairs scatter too much to name a number; "
            "repeat it on a quiet machine, or with a larger --budget."
        )
    if speed == "inconclusive":
        return f"The speed is undecided: {gain}, {interval}; a larger --budget or more --steps would narrow it."
    if speed == "no change":
        return f"No change of the step time beyond {100 * POLICY.minimum_gain:.0f} %: {gain}, {interval}."
    return f"{speed.capitalize()}: {gain}, {interval}."


def _prediction(evidence: VerdictEvidence, predicted: Estimate | None) -> str:
    ratio = evidence.ratio
    if predicted is None or ratio is None or not ratio.tells:
        return ""
    low, high = predicted.base_ns / predicted.high_ns, predicted.base_ns / predicted.low_ns
    measured = 1 / ratio.value
    fits = "inside" if low <= measured <= high else "outside"
    span = units.percent_range(100 * (low - 1), 100 * (high - 1))
    return (
        f" Predicted: {units.signed_percent(100 * (predicted.speedup - 1))} ({span}); "
        f"the measurement lies {fits} the predicted range."
    )


def _percent(ratio: float) -> str:
    """A time ratio as a gain of speed."""
    return units.signed_percent(100 * (1 / ratio - 1))
