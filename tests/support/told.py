"""What people are told of a recording, computed from the JSON and the trace by themselves."""

from __future__ import annotations

from typing import Any

from tracelens.model import Stall, Timeline

WORK = ("compute", "communication_exposed", "copy_exposed")


def told_parts(document: dict[str, Any]) -> dict[str, float]:
    """The parts of a step of the baseline (µs): work as recorded, idle time without the profiler's, scaled to fill the
    rest."""
    parts, base_us = document["breakdown"]["parts"], document["baseline"]["step_us"]
    taken = document["breakdown"]["profiler_us"]
    work_us = sum(parts[part] for part in WORK)
    idle_us = sum(us or 0 for part, us in parts.items() if part not in WORK)
    if document["baseline"]["source"] == "recorded":
        return {part: (us or 0) * base_us / (work_us + idle_us) for part, us in parts.items()}
    if work_us >= base_us:
        return {part: us * base_us / work_us if part in WORK else 0.0 for part, us in parts.items()}
    scale = (base_us - work_us) / (idle_us - sum(taken.values()))
    return {part: us if part in WORK else ((us or 0) - taken[part]) * scale for part, us in parts.items()}


def told_busy(document: dict[str, Any]) -> float:
    """The GPU's share of a step of the baseline, 0 to 1."""
    told = told_parts(document)
    return sum(told[part] for part in WORK) / sum(told.values())


def idle_factor(document: dict[str, Any]) -> float:
    """What a recorded idle moment becomes that is not the profiler's."""
    recorded, told, taken = document["breakdown"]["parts"], told_parts(document), document["breakdown"]["profiler_us"]
    part = max((part for part in recorded if part not in WORK), key=lambda part: recorded[part] or 0)
    return told[part] / (recorded[part] - taken[part]) if recorded[part] else 1.0


def told_wait_ns(stall: Stall, timeline: Timeline, scale: float) -> float:
    """How long a wait blocks the host: moment for moment, as long as recorded where the GPU works. One GPU is there."""
    ops, waits = timeline.tables.ops, timeline.tables.waits
    work = sorted(zip(ops["start_ns"].tolist(), ops["end_ns"].tolist(), strict=True))
    worked = 0
    for row in stall.waits:
        reached = int(waits["start_ns"][row])
        end = reached + int(waits["wait_ns"][row])
        for first, last in work:
            if last > reached and first < end:
                worked += min(last, end) - max(first, reached)
                reached = min(last, end)
    beside_ns = worked / int(timeline.tables.steps["kept"].sum())
    return beside_ns + scale * (stall.wait_ns - beside_ns - stall.profiler_inside_ns)
