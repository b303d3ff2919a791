"""Many short kernels: the host cannot issue them as fast as the GPU runs them."""

from __future__ import annotations

import numpy as np

from tracelens.findings import kept_steps
from tracelens.findings.analyzed_rank import AnalyzedRank
from tracelens.findings.detector import Detector, no_calls, no_gpu
from tracelens.findings.signal_dependencies import unknown_waits
from tracelens.messages import say
from tracelens.model import ISSUING_KINDS, WORK_PARTS, Abstention, Finding
from tracelens.trace.tables import among
from tracelens.units import ms

ID = "launch_bound"
LEAST_SHARE = 0.20
"""Some idle time between launches is normal. From a fifth of the step on the host sets the pace."""
FEWEST_LAUNCHES = 50
"""Per step. Fewer launches than this cannot be what makes the host slow."""
LONGEST_MEDIAN_KERNEL_NS = 30_000
"""Issuing one kernel from Python takes 5-20 µs: kernels longer than this are issued faster than they run."""
MOST_BUSY = 0.8
"""A GPU that is busier than this hardly waits for launches."""


def _detect(rank: AnalyzedRank) -> tuple[Finding, ...] | Abstention:
    """The cost is the idle time owned by the host and by launch latency, where launches are many and kernels short."""
    if "gpu" not in rank.signals or rank.breakdown is None:
        return no_gpu(ID)
    if not rank.calls_recorded:
        return no_calls(ID, rank)
    if rank.timeline.unknown_waits:
        return unknown_waits(rank.timeline.unknown_waits, ID)
    kept = kept_steps.select(rank.timeline)
    ops, launches = rank.timeline.tables.ops, kept.launches(rank.timeline.tables.calls)
    kernels = among(ops["kind"], "kernel") & kept.holds(ops["step"])
    if not kernels.any():
        return ()
    median_ns = float(np.median((ops["end_ns"] - ops["start_ns"])[kernels]))
    parts = rank.baseline.parts(rank.breakdown).known
    idle_ns = parts["idle_host"] + parts["idle_launch"]
    cost_ns = _issuing_ns(rank) or idle_ns
    idle_share = rank.share(idle_ns)
    slow_host = idle_share >= LEAST_SHARE and _busy_share(rank) <= MOST_BUSY and _other_cause(rank) is None
    if not slow_host or launches < FEWEST_LAUNCHES or median_ns > LONGEST_MEDIAN_KERNEL_NS:
        return ()
    text = say(
        "{launches:.0f} launches per step of kernels that run {median:.1f} µs in the middle; "
        "the GPU idles {time} per step because the next launch is not there yet; {profiler}",
        launches=launches,
        median=median_ns / 1e3,
        time=ms(cost_ns),
        profiler=_profiler_share(rank),
    )
    return (rank.finding(ID, say("The host cannot issue kernels as fast as they run"), cost_ns, text),)


def _issuing_ns(rank: AnalyzedRank) -> int:
    """What issuing work owns of the idle time, without the lines of Python between: as the headline has it."""
    owners = rank.owners.owners if rank.owners is not None else ()
    return sum(rank.baseline.owned(owner) for owner in owners if owner.kind in ISSUING_KINDS)


def _profiler_share(rank: AnalyzedRank) -> str:
    """How much of that time the profiler caused itself, as far as it is known."""
    unprofiled_ns, profiled_ns = rank.steps.unprofiled_median_ns, rank.steps.median_ns
    if unprofiled_ns is None:
        return say("how much of it the profiler made is not known")
    without, profiled = ms(unprofiled_ns), ms(profiled_ns)
    return say(
        "the step takes {without} without the profiler and {profiled} with it", without=without, profiled=profiled
    )


def _busy_share(rank: AnalyzedRank) -> float:
    parts = rank.breakdown.known if rank.breakdown is not None else {}
    return rank.share(rank.baseline.worked(sum(parts[name] for name in WORK_PARTS if name in parts)))


def _other_cause(rank: AnalyzedRank) -> str | None:
    """Why launching is not judged: a line, the DataLoader or the allocator fills the gaps."""
    filler = rank.owners.gap_filler() if rank.owners is not None else None
    if filler is None:
        return None
    what = say("the DataLoader") if filler.kind == "dataloader" else filler.callee or filler.kind
    if filler.locations:
        return say("{what} at {where} fills the time between the launches", what=what, where=filler.locations[0])
    return say("{what} fills the time between the launches", what=what)


DETECTOR = Detector(
    id=ID, passed=say("The host launches kernels faster than they run"), detect=_detect, not_applicable=_other_cause
)
