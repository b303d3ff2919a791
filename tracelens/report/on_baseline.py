"""Recorded times on the one step time that a page is about.

In: a Diagnosis, whose waits and parts are as recorded, under the profiler. Out: the same with these times as
shares of the baseline (`steps.best_known_ns`). What was predicted or measured is on the baseline already. JSON keeps
what was recorded, with the baseline beside it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from tracelens.model import Breakdown, Diagnosis, Stall

AnyDiagnosis = TypeVar("AnyDiagnosis", bound=Diagnosis)


def factor(diagnosis: Diagnosis) -> float:
    """The baseline ÷ the recorded step that parts and owners add up to; 1 where one of them is not known."""
    recorded_ns = diagnosis.breakdown.wall_ns if diagnosis.breakdown is not None else diagnosis.owners.wall_ns
    return diagnosis.steps.best_known_ns / recorded_ns if recorded_ns and diagnosis.steps.best_known_ns else 1.0


def on_baseline(diagnosis: AnyDiagnosis) -> AnyDiagnosis:
    """With the recorded times of waits and parts on the baseline; findings are on it."""
    scale = factor(diagnosis)
    return replace(
        diagnosis,
        stalls=tuple(_stall(stall, scale) for stall in diagnosis.stalls),
        breakdown=None if diagnosis.breakdown is None else _breakdown(diagnosis.breakdown, scale),
    )


def _stall(stall: Stall, scale: float) -> Stall:
    idle_ns = None if stall.gpu_idle_ns is None else round(stall.gpu_idle_ns * scale)
    return replace(stall, wait_ns=round(stall.wait_ns * scale), gpu_idle_ns=idle_ns)


def _breakdown(parts: Breakdown, scale: float) -> Breakdown:
    scaled = {part: None if ns is None else round(ns * scale) for part, ns in parts.parts.items()}
    return Breakdown(sum(ns for ns in scaled.values() if ns is not None), scaled)
