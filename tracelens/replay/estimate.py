"""What a set of Edits would buy: a step time with its 80 % range, what limits it then, and what was assumed.

In: a Tape, Edits. Out: an Estimate, or an Abstention where the trace does not carry the question. All Edits of the
set are applied in one replay. The range joins three sources: which steps happened to be recorded (resampled), the
constants that the trace does not show (drawn from their ranges), and what replays of this kind were off by.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from tracelens.model import Abstention, Edit, Estimate
from tracelens.replay import before, bounds, workers
from tracelens.replay.edits import Change
from tracelens.replay.items import Tape, single
from tracelens.replay.program import compile_program
from tracelens.replay.steady import step_time
from tracelens.replay.tape import SAMPLING
from tracelens.units import ms

ANSWERS = 256
"""What was asked of a Tape is asked again: by several schemes, by reports, by a plan with other options."""
LOW, HIGH = 0.1, 0.9
MODEL_SHARE = 0.02
"""80 % half-width where the GPU sets the pace: step-time errors of 0.1-0.8 % on three H200 transformer rows, and of
1.9 % on a language model that the GPU bound (+2.4 % predicted, +0.5 % measured): idle moments that an Edit takes away
seem to come back as slower kernels."""
HOST_MODEL_SHARE = 0.05
"""The same where host, loader or copies do: identical host-bound loops differed by 3-20 % between processes there."""
MODEL_GAIN_SHARE = 0.1
"""… and that share of the change itself: what moves most is known least."""
UNANCHORED_SHARE = 0.03
"""Added where no unprofiled step time was recorded: the profiler's cost then hides in the host times."""


@dataclass(frozen=True, slots=True)
class _Outcome:
    """New step time ÷ old, at the middle and per draw."""

    ratio: float
    draws: tuple[float, ...]


def of(tape: Tape, edits: tuple[Edit, ...]) -> Estimate | Abstention:
    """Step time after all `edits` together."""
    if edits and tape.unresolved_waits:
        return Abstention(
            "replay",
            f"{tape.unresolved_waits} waits between GPU streams per step do not say what they wait for",
            "record with a CUDA version whose traces name the stream of an event, or on one stream",
        )
    if any(edit.kind == "more-workers" for edit in edits) and tape.loader.workers is None:
        missing = "how many workers the DataLoader has is not known"
        return Abstention("replay", missing, "record with tracelens profile, which notes it")
    if edits and all(edit.kind == "persistent-workers" for edit in edits):
        missing = "what workers that stay alive save lies between two epochs, where no step was recorded"
        return Abstention("replay", missing, "time two epochs with it and without it")
    return _replayed(tape, tuple(replace(edit, locations=()) for edit in edits))


@lru_cache(maxsize=ANSWERS)
def _replayed(tape: Tape, edits: tuple[Edit, ...]) -> Estimate:
    """Edits without their places in the source, which say nothing to the replay."""
    outcome = _outcome(tape, edits)
    base = tape.base_ns
    binding = bounds.of(tape, edits).binding
    model = MODEL_SHARE if binding == "stream" else HOST_MODEL_SHARE
    model += MODEL_GAIN_SHARE * abs(1 - outcome.ratio)
    drift = UNANCHORED_SHARE if tape.errors.anchor is None else max(0.0, abs(tape.errors.anchor) - SAMPLING)
    model += drift
    low, high = _quantile(outcome.draws, LOW), _quantile(outcome.draws, HIGH)
    below = _joined(max(0.0, outcome.ratio - low), model)
    above = _joined(max(0.0, high - outcome.ratio), model)
    return Estimate(
        base_ns=base,
        step_ns=round(base * outcome.ratio),
        low_ns=round(base * (outcome.ratio - below)),
        high_ns=round(base * (outcome.ratio + above)),
        binding=binding,
        basis="profiled" if tape.unprofiled_ns is None else "unprofiled",
        evidence="replayed",
        assumptions=_assumptions(tape, edits),
    )


def _outcome(tape: Tape, edits: tuple[Edit, ...]) -> _Outcome:
    change = Change(tape, edits)
    after = step_time(compile_program(change.program(tape.calibration), tape.overhead.row_ns))
    drawn = (
        step_time(compile_program(change.program(draw.costs), draw.row_ns), draw.order) / draw.step_ns
        for draw in before.draws(tape)
    )
    return _Outcome(after / before.step_ns(tape), tuple(drawn))


def _joined(*halves: float) -> float:
    """Independent sources add up like the sides of a right angle."""
    return float(sum(half * half for half in halves) ** 0.5)


def _quantile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def _assumptions(tape: Tape, edits: tuple[Edit, ...]) -> tuple[str, ...]:
    costs, kinds = tape.calibration, {edit.kind for edit in edits}
    said = list(tape.notes)
    if tape.unprofiled_ns is None:
        said.append("no unprofiled step time: host times contain the profiler's cost")
    elif tape.overhead.fitted:
        said.append(f"the profiler cost the host {tape.overhead.row_ns / 1e3:.1f} µs per recorded row (fitted)")
    if "async-copy" in kinds:
        said.append(f"copies from pinned memory run at {costs.pinned_bytes_per_us / 1e3:.0f} GB/s")
        if tape.loader.workers == 0:
            rate = costs.pin_main_bytes_per_us / 1e3
            said.append(f"without workers the main thread pins each batch, at {rate:.0f} GB/s")
        else:
            took = costs.loader_get_ns / 1e3
            said.append(f"a pin thread prepares each batch; the main thread then spends {took:.0f} µs in the loader")
    if "prefetch" in kinds:
        said.append("the next batch is asked for before this batch's work is launched")
    if "thin-logs" in kinds:
        said.append("a line that is not written saves its read; what formatting and writing it cost is not counted")
    if "more-workers" in kinds:
        said.append(_of_workers(tape, edits))
    elif tape.loader.period_ns is not None:
        said.append("the loader's workers set the pace and do not get faster")
    elif edits and tape.loader.workers and any(item.kind == "loader" for step in tape.steps for item in single(step)):
        said.append(_of_present_workers(tape))
    return tuple(said)


def _of_present_workers(tape: Tape) -> str:
    least = workers.least_step_ns(tape)
    if not least:
        return "the loop never waited for its workers, so how much faster they could deliver is not known"
    return (
        f"{tape.loader.workers} workers deliver a step's batches every {ms(least)} at best, by the CPU time they took"
    )


def _of_workers(tape: Tape, edits: tuple[Edit, ...]) -> str:
    more = workers.hired(tape, edits).loader
    if more.period_ns is None or more.workers == tape.loader.workers:
        return "the loop does not wait for its workers: more of them bring nothing"
    used = workers.useful(tape, more.workers or 0)
    return f"{used} workers, each as fast as now, deliver a step's batches every {more.period_ns / 1e6:.1f} ms"
