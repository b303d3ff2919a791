"""Budgets for CI: is a run within what the user allows?

In: a Diagnosis, budgets, what all waits together cost. Out: one `BudgetResult` per budget. A value that was not
measured is neither within nor above a budget.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from tracelens.messages import say
from tracelens.model import Diagnosis, Stall, on_baseline

WAITING = ("device", "stream", "event", "d2h")
"""Kinds of wait that the budget on synchronizations counts: each makes the host wait for the GPU."""


@dataclass(frozen=True, slots=True)
class Budgets:
    """The most that is allowed; None is no limit."""

    syncs_per_step: float | None = None
    exposed_ms: float | None = None
    idle_share: float | None = None
    step_ms: float | None = None


@dataclass(frozen=True, slots=True)
class BudgetResult:
    """`within` is None where the value was not measured."""

    name: str
    value: float | None
    limit: float
    unit: str

    @property
    def within(self) -> bool | None:
        return None if self.value is None else self.value <= self.limit

    @property
    def said(self) -> str:
        """`2 synchronizations per step, at most 1`."""
        limit = f"{self.limit:g}{self.unit}"
        if self.value is None:
            return say("{budget}: not measured, at most {limit}", budget=self.name, limit=limit)
        value = f"{self.value:.3g}{self.unit}"
        return say("{budget}: {value}, at most {limit}", budget=self.name, value=value, limit=limit)


def judge_budgets(
    diagnosis: Diagnosis, limits: Budgets, exposed_ns: int | None, allowed: Collection[str] = ()
) -> tuple[BudgetResult, ...]:
    """Every limit that was set, in the order of the options; `allowed` are ids of waits that are not counted."""
    steps = diagnosis.steps
    found = steps.source != "none"  # else the whole recording stands for a step
    step_ns = (steps.best_known_ns if steps.certain else steps.unprofiled_median_ns) if found else None
    waits = [stall for stall in diagnosis.stalls if stall.id not in allowed]
    counted = [s for s in waits if s.kind in WAITING and s.verdict != "window_edge"]
    values = (
        (say("synchronizations per step"), _counted(diagnosis, counted) if found else None, limits.syncs_per_step, ""),
        (
            say("time that waits cost per step"),
            _exposed_ms(exposed_ns, waits) if found else None,
            limits.exposed_ms,
            " ms",
        ),
        (say("idle share of the GPU"), on_baseline(diagnosis).idle_share, limits.idle_share, ""),
        (say("step time"), None if step_ns is None else step_ns / 1e6, limits.step_ms, " ms"),
    )
    return tuple(BudgetResult(name, value, limit, unit) for name, value, limit, unit in values if limit is not None)


def _exposed_ms(exposed_ns: int | None, waits: Collection[Stall]) -> float | None:
    """With the calls for memory during which the GPU idles. The replay takes them for work of the host, so that they
    are not in what it says of all waits."""
    idle = [stall.gpu_idle_ns for stall in waits if stall.kind == "alloc" and stall.verdict != "window_edge"]
    if exposed_ns is None or None in idle:
        return None
    return (exposed_ns + sum(ns or 0 for ns in idle)) / 1e6


def _counted(diagnosis: Diagnosis, waits: Collection[Stall]) -> float | None:
    """None where the trace holds no calls of the host, or none that can be told to wait: none found would then be no
    measurement."""
    picture = diagnosis.timeline
    untied = diagnosis.breakdown is not None and diagnosis.breakdown.parts["idle_sync"] is None
    if "runtime" not in picture.trace.signals or untied or picture.unknown_waits or not picture.coverage.judged:
        return None
    return sum(stall.calls_per_step for stall in waits)
