"""The step time of the unchanged script, as the newest measurement has it.

In: the trials of a Run. Out: ns per step. Every page has one step time that its percentages are about; older
measurements contribute ratios, not times.
"""

from __future__ import annotations

from collections.abc import Sequence

from tracelens.model import Verification


def measured_ns(trials: Sequence[Verification], device: str | None) -> int | None:
    """Of the original in the last trial on this device; None where none was timed there."""
    here = (trial for trial in trials if None in (device, trial.device) or trial.device == device)
    timed = [trial.base_ns for trial in here if trial.base_ns and trial.ratio is not None]
    return timed[-1] if timed else None
