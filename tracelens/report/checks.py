"""What was looked for and how it ended: no symptom is in two groups.

In: a Diagnosis. Out: `Checks` for the template.
"""

from __future__ import annotations

from dataclasses import dataclass

from tracelens.model import Diagnosis
from tracelens.report.words import plain

PASSED = {
    "sync_stall": "No wait for the GPU costs step time",
    "blocking_copy": "No copy to the GPU blocks the host",
    "overlap_gap": "Copies hide under compute",
    "idle_gpu": "The GPU has work nearly all the time",
    "dataloader_wait": "The DataLoader keeps up",
    "launch_bound": "The host launches kernels faster than they run",
    "alloc_in_loop": "No driver allocation inside the loop",
    "exposed_communication": "Communication hides under compute",
}
"""What it means that a symptom was looked for and not found."""


@dataclass(frozen=True, slots=True)
class Checks:
    passed: tuple[tuple[str, str], ...]
    """(id, sentence)."""
    not_applicable: tuple[tuple[str, str], ...]
    """(id, why)."""


def of(diagnosis: Diagnosis) -> Checks:
    """Findings and abstentions are on the Diagnosis; this is the rest."""
    found = {finding.id for finding in diagnosis.findings}
    unjudged = {item.detector for item in diagnosis.abstentions}
    rest = [name for name in diagnosis.checked if name not in found and name not in unjudged]
    pointless = {name: why for name in rest if (why := _pointless(name, diagnosis))}
    passed = tuple((name, PASSED.get(name, plain(name))) for name in rest if name not in pointless)
    return Checks(passed, tuple(pointless.items()))


def _pointless(name: str, diagnosis: Diagnosis) -> str | None:
    """Why a symptom cannot occur in this recording; None where it can."""
    if name == "exposed_communication" and "collectives" not in diagnosis.timeline.trace.signals:
        return "the recording has no collectives"
    if name in ("overlap_gap", "blocking_copy") and diagnosis.overlap is not None and not diagnosis.overlap.h2d_ns:
        return "nothing is copied to the GPU in these steps"
    return None
