"""What a verification measured, as rows of words: outcome, times, predicted beside measured, before beside after.

In: a Verification. Out: (what, value, remark) rows, the same in text and HTML. What was not measured has no row.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tracelens.messages import say
from tracelens.model import OUTCOMES, Verification
from tracelens.report.formatting import gain, milliseconds, percent
from tracelens.units import step_ms

MIB = 1 << 20
SAME = {True: say("equal"), False: say("different"), None: say("could not be compared")}
WINDOW = (
    ("syncs_per_step", say("synchronizations per step"), "number"),
    ("sync_wait_us_per_step", say("time in synchronizations per step"), "us"),
    ("blocking_copies_per_step", say("blocking copies per step"), "number"),
    ("copy_wait_us_per_step", say("time in blocking copies per step"), "us"),
    ("host_wait_us_per_step", say("host wait per step, with the DataLoader"), "us"),
    ("gpu_busy_us_per_step", say("GPU works per step"), "us"),
    ("gpu_busy_share", say("GPU busy, under the profiler"), "share"),
    ("cpu_busy_share", say("Python thread busy"), "share"),
    ("streams_used", say("streams used"), "number"),
    ("h2d_us_per_step", say("copies to the GPU per step"), "us"),
    ("h2d_hidden_us_per_step", say("of them hidden under compute"), "us"),
    ("peak_memory_bytes", say("peak memory"), "bytes"),
    ("memory_slope_bytes", say("memory growth per step"), "bytes"),
)
"""Quantities of the recorded windows, in the order in which the seeds' test lists name them."""
REMARK = {
    "cpu_busy_share": say("CPU time; most waits spin, so waiting counts as busy"),
    "host_wait_us_per_step": say("with num_workers=0 the DataLoader works in this thread"),
}
"""What a reader of two rows would otherwise take for a contradiction."""


OUTCOME = {**OUTCOMES, "inconclusive": say("undecided"), "different numbers": say("different results")}
"""As a reader is told it, where the word of verify.json is another one."""


def rows(trial: Verification) -> tuple[tuple[str, str, str], ...]:
    """Everything that was measured of one change."""
    return (*_verdict(trial), *_windows(trial), *((say("note"), note, "") for note in _notes(trial)))


def _notes(trial: Verification) -> tuple[str, ...]:
    """What the verification says about itself: what it could not compare, or measured elsewhere."""
    notes = trial.details.get("notes")
    return tuple(note for note in notes if isinstance(note, str)) if isinstance(notes, list | tuple) else ()


def _verdict(trial: Verification) -> Iterator[tuple[str, str, str]]:
    yield say("outcome"), OUTCOME[trial.outcome], ""
    yield say("losses, weights and output"), SAME[trial.numbers_equal], ""
    if trial.base_ns is not None and trial.patched_ns is not None:
        before, after = (step_ms(ns, trial.base_ns) for ns in (trial.base_ns, trial.patched_ns))
        yield say("step before → after"), f"{before} → {after} ms", ""
    if trial.ratio is not None and not trial.ratio.tells:
        yield say("gain, measured"), say("undecided"), say("the pairs scatter too much to name a number")
    elif trial.ratio is not None and trial.speedup is not None:
        interval = say("95 % interval {low} to {high}", low=gain(1 / trial.ratio.high), high=gain(1 / trial.ratio.low))
        yield say("gain, measured"), gain(trial.speedup), interval
    if trial.predicted is not None:
        low, high = trial.predicted.base_ns / trial.predicted.high_ns, trial.predicted.base_ns / trial.predicted.low_ns
        spread = say("80 % range {low} to {high}", low=gain(low), high=gain(high))
        yield say("gain, predicted"), gain(trial.predicted.speedup), spread


def _windows(trial: Verification) -> Iterator[tuple[str, str, str]]:
    before, after = trial.window("before"), trial.window("after")
    for key, name, unit in WINDOW:
        if key == "gpu_busy_share" and after.get("gpu_busy_us_per_step") is not None:
            continue  # of a step that the profiler stretched: how much of the measured one it is, the first screen says
        a, b = _said(before.get(key), unit), _said(after.get(key), unit)
        if a is not None and b is not None:
            memory = before.get("memory_of") if unit == "bytes" else None
            remark = say("{device} memory", device=memory) if memory else ""
            yield name, f"{a} → {b}", remark or REMARK.get(key, "")


def _said(value: Any, unit: str) -> str | None:
    if not isinstance(value, int | float):
        return None
    if unit == "us":
        return milliseconds(value * 1000)
    if unit == "share":
        return percent(value)
    return f"{value / MIB:.1f} MiB" if unit == "bytes" else f"{value:.3g}"
