"""What a detector is, and the rule that every detector's result passes through.

A detector is one module of this package. The module holds the detector's thresholds with their reasons, what it means
that nothing was found, when the symptom cannot occur at all, and the detection itself. To add one: its module, its
entry in `DETECTORS` (findings/__init__.py) and its text in rules/findings/<id>.yaml.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tracelens.findings import incomplete_recording
from tracelens.findings.analyzed_rank import AnalyzedRank
from tracelens.messages import say
from tracelens.model import Abstention, Finding, InapplicableCheck, PassedCheck

NEGLIGIBLE_SHARE = 0.01
"""Below 1 % of the step a cost is within the variation between two runs of the same loop."""

Result = tuple[Finding, ...] | Abstention | InapplicableCheck | PassedCheck


def _always_applicable(_: AnalyzedRank) -> str | None:
    return None


@dataclass(frozen=True, slots=True)
class Detector:
    """One symptom: how it is found, and what the report says where it is not."""

    id: str
    """The id of its Findings; rules/findings/<id>.yaml holds its text."""
    passed: str
    """What it means that the symptom was looked for and not found."""
    detect: Callable[[AnalyzedRank], tuple[Finding, ...] | Abstention]
    """The Findings, none if the symptom is absent; an Abstention where the recording cannot tell."""
    not_applicable: Callable[[AnalyzedRank], str | None] = _always_applicable
    """Why the symptom cannot occur in this recording; None where it can. Asked only where nothing was found."""

    def run(self, rank: AnalyzedRank) -> Result:
        """The detector's result, without the Findings that cost less than `NEGLIGIBLE_SHARE` of the step."""
        detected = incomplete_recording.unjudged(self.id, rank.timeline.coverage) or self.detect(rank)
        if isinstance(detected, Abstention):
            return detected
        least_ns = NEGLIGIBLE_SHARE * rank.steps.best_known_ns
        findings = tuple(finding for finding in detected if finding.cost_ns >= least_ns)
        if findings:
            return findings
        reason = self.not_applicable(rank)
        return PassedCheck(self.id, self.passed) if reason is None else InapplicableCheck(self.id, reason)


def no_gpu(detector: str) -> Abstention:
    return Abstention(
        detector, say("no GPU work was recorded"), say("profile on a machine with a GPU, with CUDA activities on")
    )


def no_calls(detector: str, rank: AnalyzedRank) -> Abstention:
    """Why the host's calls say nothing of the GPU: they are not there, or nothing ties them to GPU work."""
    if "runtime" in rank.signals:
        return Abstention(
            detector,
            say("the trace does not say which call launched which GPU work: it has no correlation ids"),
            say("record CPU and CUDA activities together: tracelens profile"),
        )
    return Abstention(
        detector,
        say("the host's CUDA calls were not recorded"),
        say("record CPU and CUDA activities together: tracelens profile"),
    )


def without_copies(rank: AnalyzedRank) -> str | None:
    """Why a symptom of copies to the GPU cannot occur: there are none."""
    nothing_copied = rank.overlap is not None and not rank.overlap.h2d_ns
    return say("nothing is copied to the GPU in these steps") if nothing_copied else None
