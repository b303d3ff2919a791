"""The sentence at the end of a verification.

In: what was measured. Out: an outcome and one sentence that gives the numbers it rests on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tracelens import units
from tracelens.messages import capital, say
from tracelens.model import Estimate, Outcome, Ratio, Verification
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
    middle_ns: tuple[int, int] | None = None
    """The step times of the pair with the middle ratio, which every page shows."""
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
        return say("The patched version failed: {failure}", failure=evidence.failure)
    if evidence.failure is not None:
        return say("Undecided: {failure}", failure=evidence.failure)
    if evidence.tolerance is not None:
        return _tolerance_sentence(evidence, evidence.tolerance, predicted)
    if evidence.difference is not None and not evidence.prints_otherwise:
        return say("Different results: {difference}.", difference=evidence.difference)
    speed = _speed(evidence, predicted)
    if evidence.noise is not None:
        return say(
            "Undecided whether the results are the same: two runs of the original differ already, also under "
            "deterministic algorithms (first at {where}). {speed}",
            where=evidence.noise.where,
            speed=speed,
        )
    return say("{same}. {speed}", same=_same(evidence), speed=speed)


def told_again(trial: Verification, pairs: int) -> str:
    """The sentence of a stored trial whose results are the same and whose ratio is not the one that it was told with;
    of any other, the sentence that it has."""
    if trial.numbers_equal is not True or trial.details.get("unsafe") or trial.outcome == "failed":
        return trial.verdict
    numbers = trial.details.get("numbers")
    deterministic = isinstance(numbers, Mapping) and numbers.get("deterministic_algorithms") is True
    middle = (trial.base_ns, trial.patched_ns) if trial.base_ns and trial.patched_ns else None
    evidence = VerdictEvidence(None, None, None, False, trial.ratio, pairs, deterministic, middle_ns=middle)
    return sentence(evidence, trial.predicted)


def _same(evidence: VerdictEvidence) -> str:
    how = say("Same results, bit for bit")
    if evidence.deterministic:
        how = say("Same results, bit for bit (under deterministic algorithms)")
    if not evidence.prints_otherwise:
        return how
    return say(
        "{same}; the output differs, as an unsafe change may make it ({difference})",
        same=how,
        difference=evidence.difference,
    )


def _tolerance_sentence(evidence: VerdictEvidence, tolerance: SeedTolerance, predicted: Estimate | None) -> str:
    """For a change that was asked for with --unsafe: its losses beside those of other seeds."""
    shown, head = tolerance.shown, say("the results change, as an unsafe change may")
    if evidence.difference:
        where = evidence.difference.where
        head = say("the results change (first at {where}), as an unsafe change may", where=where)
    if tolerance.verdict is None or shown is None:
        return say("Undecided: {what}; is it within seed noise? Unknown: {reason}.", what=head, reason=tolerance.reason)
    low, high, patched = shown.tail
    ends = say(
        "the loss ends at {patched:.4g}, {seeds} seeds of the original at {low:.4g} to {high:.4g}",
        patched=patched,
        seeds=tolerance.seeds,
        low=low,
        high=high,
    )
    if tolerance.verdict == "diverges":
        return say(
            "Different results: the loss diverges: {ends}, and {share:.0f} % of its curve lies outside their band.",
            ends=ends,
            share=100 * shown.outside,
        )
    speed = _speed(evidence, predicted)
    return say("{what}, and stay within seed noise: {ends}. {speed}", what=capital(head), ends=ends, speed=speed)


def _speed(evidence: VerdictEvidence, predicted: Estimate | None) -> str:
    """What was measured of the speed, beside what was predicted."""
    measured = _measured_speed(evidence)
    if predicted is None or evidence.ratio is None or not evidence.ratio.tells:
        return measured
    low, high = predicted.base_ns / predicted.high_ns, predicted.base_ns / predicted.low_ns
    told = {
        "measured": measured,
        "gain": units.signed_percent(100 * (predicted.speedup - 1)),
        "range": units.percent_range(100 * (low - 1), 100 * (high - 1)),
    }
    if low <= 1 / evidence.ratio.value <= high:
        return say("{measured} Predicted: {gain} ({range}); the measurement lies inside the predicted range.", **told)
    return say("{measured} Predicted: {gain} ({range}); the measurement lies outside the predicted range.", **told)


def _measured_speed(evidence: VerdictEvidence) -> str:
    ratio, pairs = evidence.ratio, evidence.pairs
    if ratio is None:
        return say("The speed was not measured: the budget allowed fewer than two interleaved pairs.")
    speed = judge(ratio, pairs)
    if speed == "inconclusive" and not ratio.tells:
        return say(
            "The speed is undecided: {pairs} interleaved pairs scatter too much to name a number; "
            "repeat it on a quiet machine, or with a larger --budget.",
            pairs=pairs,
        )
    speedup = 1 / ratio.value if evidence.middle_ns is None else units.told_speedup(*evidence.middle_ns)
    gain, low, high = (units.signed_percent(100 * (x - 1)) for x in (speedup, 1 / ratio.high, 1 / ratio.low))
    spread = say(
        "{gain}, 95 % interval {low} to {high}, {pairs} interleaved pairs", gain=gain, low=low, high=high, pairs=pairs
    )
    if speed == "inconclusive":
        return say("The speed is undecided: {gain}; a larger --budget or more --steps would narrow it.", gain=spread)
    if speed == "no change":
        least = 100 * POLICY.minimum_gain
        return say("No change of the step time beyond {least:.0f} %: {gain}.", least=least, gain=spread)
    return say("Faster: {gain}.", gain=spread) if speed == "faster" else say("Slower: {gain}.", gain=spread)
