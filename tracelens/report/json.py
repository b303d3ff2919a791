"""A Diagnosis as the JSON contract (docs/analysis.schema.json): what programs read.

In: a Diagnosis. Out: a dict of plain values. Apart from the other reports because these keys are a promise: times
become floats in microseconds, unknown stays null, a measured zero stays 0, nothing is added that the schema lacks.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tracelens.jsonfile import microseconds
from tracelens.messages import say
from tracelens.model import (
    IDLE_PARTS,
    Breakdown,
    Completeness,
    Coverage,
    Diagnosis,
    Finding,
    Goal,
    Lever,
    LeverCombination,
    Measure,
    MedianPair,
    Overlap,
    PlannedDiagnosis,
    Recommendation,
    Scheme,
    SecondOpinion,
    Speedup,
    Stage,
    Stall,
    StepTimes,
    Trace,
    on_baseline,
)
from tracelens.report import issues, next_commands, wording
from tracelens.report.json_owners import location_entry, loops_entry, owners_entry, slow_steps_entry
from tracelens.report.shared_machine import shared_machine

SCHEMA_VERSION = 1
NO_PLAN: Mapping[str, Any] = {
    "measures": [],
    "levers": [],
    "combination": None,
    "schemes": [],
    "recommendation": None,
    "sensitivity": {},
}


def second_opinion_document(opinion: SecondOpinion) -> dict[str, Any]:
    """The key `hta` of `analyze --hta`."""
    return {
        "version": opinion.version,
        "quantities": [
            {"name": one.name, "unit": one.unit, "hta": one.theirs, "tracelens": one.ours, "agrees": one.agrees}
            for one in opinion.quantities
        ],
        "notes": list(opinion.notes),
    }


def document(diagnosis: Diagnosis) -> dict[str, Any]:
    """The whole contract; without a plan `measures`, `schemes` and `sensitivity` are empty, `recommendation` null."""
    return {
        "schema_version": SCHEMA_VERSION,
        "verdict": wording.verdict(diagnosis),
        "headline": diagnosis.headline,
        "headline_kind": diagnosis.headline_kind,
        "baseline": _baseline(diagnosis),
        "machine": _machine(diagnosis),
        "traces": [_trace(trace, diagnosis) for trace in diagnosis.traces],
        "steps": _steps(diagnosis.steps),
        "coverage": _coverage(diagnosis.timeline.coverage),
        "breakdown": _breakdown(diagnosis.breakdown),
        "gpu_busy_share": diagnosis.gpu_busy_share,
        "idle_share": diagnosis.idle_share,
        "syncs": [_stall(stall) for stall in wording.ranked_stalls(diagnosis)],
        "exposed_together_us_per_step": microseconds(diagnosis.exposed_together_ns),
        "owners": owners_entry(diagnosis.owners),
        "loops": loops_entry(diagnosis.owners),
        "slow_steps": slow_steps_entry(diagnosis.owners.slow),
        "overlap": _overlap(diagnosis.overlap),
        "findings": [
            _finding(finding, name)
            for finding, name in zip(diagnosis.findings, issues.fingerprints(diagnosis), strict=True)
        ],
        "abstentions": [
            {"detector": item.detector, "missing": item.missing, "hint": item.hint} for item in diagnosis.abstentions
        ],
        "inventory": [
            {"id": item.id, "present": item.present, "evidence": item.evidence} for item in diagnosis.inventory
        ],
        **(_plan(diagnosis) if isinstance(diagnosis, PlannedDiagnosis) else NO_PLAN),
    }


def _machine(diagnosis: Diagnosis) -> dict[str, Any]:
    """What other programs and limits took of the machine; null: not sampled, or not so."""
    shared = shared_machine(diagnosis)
    return {
        "cores_of_others": shared.cores_of_others,
        "cpu_limit_stopped_share": shared.stopped_share,
        "gpu_busy_before_percent": shared.gpu_busy_before,
    }


def _baseline(diagnosis: Diagnosis) -> dict[str, Any]:
    """The one step time, and how much of it the GPU works; null with the reason where there is none: the length of a
    recording is not that of a step."""
    steps, reason = diagnosis.steps, None
    if steps.source == "none":
        reason = say("no steps were found: times are of the whole recording")
    elif not steps.certain:
        reason = say("a part of the recording is missing, so the steps in it are not known for certain")
    step_ns = steps.best_known_ns if reason is None else None
    busy = on_baseline(diagnosis).gpu_busy_share if reason is None else None
    told = {"step_us": microseconds(step_ns), "source": steps.baseline_source, "reason": reason}
    return {**told, "gpu_busy_share": busy}


def _plan(diagnosis: PlannedDiagnosis) -> dict[str, Any]:
    return {
        "measures": [_measure(measure) for measure in diagnosis.measures],
        "levers": [lever_entry(lever) for lever in diagnosis.levers],
        "combination": _combination(diagnosis.combination),
        "schemes": [_scheme(scheme) for scheme in diagnosis.schemes],
        "recommendation": _recommendation(diagnosis.recommendation, diagnosis),
        "sensitivity": dict(diagnosis.recommendation.sensitivity),
    }


def dumps(diagnosis: Diagnosis) -> str:
    """The contract as text; a number that is not finite is a bug and raises."""
    return json.dumps(document(diagnosis), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def trace_name(trace: Trace, diagnosis: Diagnosis) -> str:
    """A trace's path as documents show it: relative to its Run, else the bare file name; never a home folder."""
    path = Path(trace.path)
    if diagnosis.run is not None and path.is_absolute() == diagnosis.run.path.is_absolute():
        try:
            return path.relative_to(diagnosis.run.path).as_posix()
        except ValueError:
            pass
    return path.name


def _trace(trace: Trace, diagnosis: Diagnosis) -> dict[str, Any]:
    return {
        "path": trace_name(trace, diagnosis),
        "rank": trace.rank,
        "world_size": trace.world_size,
        "device": trace.device,
        "events": len(trace),
        "signals": sorted(trace.signals),
        "dropped": dict(sorted(trace.dropped.items())),
        "completeness": _completeness(trace.completeness),
    }


def _completeness(known: Completeness) -> dict[str, Any]:
    return {
        "complete": not known.reason,
        "reason": known.reason or None,
        "ended_early": known.ended_early,
        "lost_events": known.lost_events,
        "launches": known.launches,
        "unmatched_launches": known.unmatched_launches,
    }


def _coverage(coverage: Coverage) -> dict[str, Any] | None:
    if coverage.whole:
        return None
    span = None if coverage.span_ns is None else [microseconds(instant) for instant in coverage.span_ns]
    return {"complete_steps": coverage.complete_steps, "steps": coverage.steps, "span_us": span}


def _steps(steps: StepTimes) -> dict[str, Any]:
    return {
        "count": steps.count,
        "source": steps.source,
        "median_us": microseconds(steps.median_ns if steps.certain else None),
        "p05_us": microseconds(steps.p05_ns if steps.certain else None),
        "p95_us": microseconds(steps.p95_ns if steps.certain else None),
        "unprofiled_median_us": microseconds(steps.unprofiled_median_ns),
        "unprofiled_mean_us": microseconds(steps.unprofiled_mean_ns),
    }


def _breakdown(breakdown: Breakdown | None) -> dict[str, Any] | None:
    if breakdown is None:
        return None
    return {
        "wall_us": microseconds(breakdown.wall_ns),
        "parts": {part: microseconds(ns) for part, ns in breakdown.parts.items()},
        "profiler_us": {part: microseconds(breakdown.profiler_ns.get(part, 0)) for part in IDLE_PARTS},
    }


def _stall(stall: Stall) -> dict[str, Any]:
    return {
        "api": stall.api,
        "kind": stall.kind,
        "calls_per_step": stall.calls_per_step,
        "wait_us_per_step": microseconds(stall.wait_ns),
        "gpu_idle_us_per_step": microseconds(stall.gpu_idle_ns),
        "profiler_us_per_step": microseconds(stall.profiler_ns),
        "exposed_us_per_step": microseconds(stall.exposed_ns),
        "verdict": stall.verdict,
        "location": location_entry(stall.location),
    }


def _overlap(overlap: Overlap | None) -> dict[str, Any] | None:
    if overlap is None:
        return None
    return {
        "h2d_us_per_step": microseconds(overlap.h2d_ns),
        "h2d_hidden_us_per_step": microseconds(overlap.h2d_hidden_ns),
        "h2d_exposed_us_per_step": microseconds(overlap.h2d_exposed_ns),
        "h2d_blocking_us_per_step": microseconds(overlap.h2d_blocking_ns),
        "streams_used": overlap.streams_used,
        "concurrent_share": overlap.concurrent_share,
    }


def _finding(finding: Finding, fingerprint: str) -> dict[str, Any]:
    return {
        "id": finding.id,
        "title": finding.title,
        "cost_us_per_step": microseconds(finding.cost_ns),
        "share": finding.share,
        "location": location_entry(finding.location),
        "evidence": finding.evidence,
        "fingerprint": fingerprint,
    }


def _measure(measure: Measure) -> dict[str, Any]:
    expected = None
    if measure.gain is not None:
        expected = {"low": measure.gain[0], "high": measure.gain[1], "note": measure.note, "source": measure.source}
    return {
        "id": measure.id,
        "title": measure.title,
        "present": measure.present,
        "evidence": measure.evidence,
        "acts_on_share": measure.share,
        "expected_percent": expected,
    }


def lever_entry(lever: Lever) -> dict[str, Any]:
    """One entry of `levers`, which `try` prints as well."""
    return {
        "id": lever.id,
        "family": lever.family,
        "state": lever.state,
        "rank": lever.rank,
        "predicted": _speedup(lever.predicted),
        "measured": _measured(lever.measured, lever.pair),
        "effect": lever.effect,
        "numbers": lever.numbers,
        "memory_bytes_delta": lever.memory_bytes_delta,
        "locations": [location_entry(location) for location in lever.locations],
        "title": lever.title,
        "text": lever.text,
        "command": lever.command,
        "reason": lever.reason,
    }


def _combination(best: LeverCombination | None) -> dict[str, Any] | None:
    if best is None:
        return None
    return {
        "levers": list(best.levers),
        "measured": _measured(best.measured, best.pair),
        "numbers": best.numbers,
        "memory_bytes_delta": best.memory_bytes_delta,
    }


def _speedup(known: Speedup | None) -> dict[str, float] | None:
    return None if known is None else {"speedup": known.speedup, "low": known.low, "high": known.high}


def _measured(known: Speedup | None, pair: MedianPair | None) -> dict[str, float | None] | None:
    """The gain, and the two step times that it is of: those of the median pair."""
    if known is None:
        return None
    before, after = (pair.before_ns, pair.after_ns) if pair is not None else (None, None)
    times = {"before_us": microseconds(before), "after_us": microseconds(after)}
    return {"speedup": known.speedup, "low": known.low, "high": known.high, **times}


def _scheme(scheme: Scheme) -> dict[str, Any]:
    return {
        "id": scheme.id,
        "title": scheme.title,
        "prior": dict(scheme.prior) if scheme.prior is not None else None,
        "scores": {key: {"score": score.score, "evidence": score.evidence} for key, score in scheme.scores.items()},
        "prior_mean": scheme.prior_mean,
        "prior_total": scheme.prior_total,
        "total": scheme.total,
        "rank": scheme.rank,
        "estimate": scheme.estimate.document() if scheme.estimate else None,
        "applicable": scheme.applicable,
        "same_as": scheme.same_as,
        "reasons": list(scheme.reasons),
    }


def _recommendation(recommendation: Recommendation, diagnosis: PlannedDiagnosis) -> dict[str, Any]:
    return {
        "scheme": recommendation.scheme,
        "lever": recommendation.lever,
        "verdict": recommendation.verdict,
        "measure": recommendation.measure,
        "stages": [_stage(stage, diagnosis) for stage in recommendation.stages],
    }


def _stage(stage: Stage, diagnosis: PlannedDiagnosis) -> dict[str, Any]:
    return {
        "number": stage.number,
        "title": stage.title,
        "schemes": list(stage.schemes),
        "goals": [_goal(goal) for goal in stage.goals],
        "advice": next_commands.advice(stage, diagnosis),
    }


def _goal(goal: Goal) -> dict[str, Any]:
    return {"text": goal.text, "met": goal.met, "evidence": goal.evidence}
