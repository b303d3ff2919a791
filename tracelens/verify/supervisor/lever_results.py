"""From the records of a lever's processes to what is said of it.

In: a lever under trial, and the originals. Out: its standing and its `LeverMeasurement`. Pure: no process is started
here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tracelens.messages import say
from tracelens.model import LeverNumbers, Speedup
from tracelens.verify.compare import lever_numbers, pooled_times, seed_tolerance
from tracelens.verify.compare.numbers import Difference
from tracelens.verify.compare.seed_tolerance import SeedTolerance
from tracelens.verify.lever_trial import LeverMeasurement, LeverTrial, Standing
from tracelens.verify.trial_process import ProcessRecord

NOTHING_MET = {
    "autocast": say("no backward ran in the thread that imports torch"),
    "flag": say("nothing was computed"),
    "compile": say("the loop calls no module with parameters"),
    "channels-last": say("the loop calls no module with parameters"),
    "optimizer-argument": say("no optimizer of torch was constructed"),
    "zero-grad": say("no zero_grad was called"),
    "loader-argument": say("no DataLoader was iterated over"),
    "batch": say("no DataLoader was iterated over"),
}
"""By kind of toggle, why it could not act."""


@dataclass(slots=True)
class LeverUnderTrial:
    """One lever while it is measured."""

    trial: LeverTrial
    record: ProcessRecord | None = None
    """The run whose numbers were compared."""
    standing: Standing = "not_reached"
    reason: str | None = None
    difference: Difference | None = None
    band: SeedTolerance | None = None
    pairs: list[tuple[float, float]] = field(default_factory=list)
    seconds: float | None = None
    """What its last timed process took."""

    @property
    def alive(self) -> bool:
        """It ran, and its numbers are not another training's."""
        return self.standing == "measured" and not (self.band is not None and self.band.verdict == "diverges")

    @property
    def middle(self) -> float:
        """How many times as fast as the original, by the middle of its pairs; 0 where it was not timed."""
        return pooled_times.center(self.pairs) or 0.0


def standing(trial: LeverTrial, record: ProcessRecord) -> tuple[Standing, str | None]:
    """What became of the lever in this process, and why it is not on where it is not."""
    losses = [loss for rank in record.ranks for loss in seed_tolerance.losses_of(rank)]
    toggles = [toggle for rank in record.ranks for toggle in rank.get("toggles", ())]
    reason = _of_state(toggles, "refused")
    if reason is not None:
        return "refused", reason
    unused = _unused(toggles, record)
    if unused is not None:
        return "unused", unused
    if toggles and all(toggle["state"] == "already" for toggle in toggles) and trial.patch is None:
        return "already", _of_state(toggles, "already")
    if trial.patch is not None and not any(rank["loaded"] for rank in record.ranks):
        return "unused", say("no process of this command loads a patched file")
    if not all(map(math.isfinite, losses)):
        return "failed", say(
            "the loss is not finite from step {first_not_finite} on", first_not_finite=_first_not_finite(losses)
        )
    return "measured", None


def _unused(toggles: Sequence[Mapping[str, Any]], record: ProcessRecord) -> str | None:
    for toggle in toggles:
        if toggle["state"] == "unused":
            return str(toggle["detail"] or NOTHING_MET[toggle["kind"]])
        if (toggle["kind"], toggle["state"]) == ("compile", "applied") and not _graphs(record):
            return say("torch.compile made no graph of the modules that the loop calls")
    return None


def _of_state(toggles: Sequence[Mapping[str, Any]], state: str) -> str | None:
    return next((str(toggle["detail"]) for toggle in toggles if toggle["state"] == state), None)


def _graphs(record: ProcessRecord) -> bool:
    """Whether something was compiled, as far as a process says."""
    counts = [rank.get("compiled") for rank in record.ranks]
    return not all(one is not None and one["graphs"] == 0 for one in counts)


def _first_not_finite(losses: Sequence[float]) -> int:
    return next(number for number, loss in enumerate(losses, 1) if not math.isfinite(loss))


def measurement(
    lever: LeverUnderTrial, speedup: Speedup | None, originals: Sequence[ProcessRecord], noise: Difference | None
) -> LeverMeasurement:
    """What is known of a lever."""
    compared = lever.record is not None and lever.standing == "measured"
    return LeverMeasurement(
        trial=lever.trial,
        standing=lever.standing,
        reason=lever.reason,
        pairs=tuple(lever.pairs),
        speedup=speedup if lever.standing == "measured" else None,
        numbers=_numbers(lever, noise) if compared else None,
        difference=None if lever.difference is None else lever.difference.document(),
        seed_band=None if lever.band is None else lever.band.document(),
        memory_bytes_delta=_memory(lever, originals),
        compiled=_compiled(lever, originals),
        toggles=tuple(lever.record.ranks[0].get("toggles", ())) if lever.record is not None else (),
    )


def _numbers(lever: LeverUnderTrial, noise: Difference | None) -> LeverNumbers:
    if lever.trial.another_training:
        return "unknown"
    if lever.difference is None and noise is None:
        return "same"
    return lever_numbers.called(lever.band)


def _memory(lever: LeverUnderTrial, originals: Sequence[ProcessRecord]) -> int | None:
    before = originals[0].peak_bytes if originals else None
    after = lever.record.peak_bytes if lever.record is not None else None
    return None if before is None or after is None else after - before


def _compiled(lever: LeverUnderTrial, originals: Sequence[ProcessRecord]) -> dict[str, Any] | None:
    """Only for a lever that compiles: the seconds before the loop ran compiled, and the steps after which they paid."""
    if lever.record is None or not originals or not any(toggle.kind == "compile" for toggle in lever.trial.toggles):
        return None
    counts = lever.record.ranks[0].get("compiled") or {}
    extra = _seconds_before_steady(lever.record) - _seconds_before_steady(originals[0])
    pair = lever.pairs[0] if lever.pairs else None
    saved = (pair[0] - pair[1]) / 1e9 if pair else 0.0
    return {
        "graphs": counts.get("graphs"),
        "breaks": counts.get("breaks"),
        "seconds": round(max(0.0, extra), 2),
        "pays_after_steps": math.ceil(extra / saved) if saved > 0 and extra > 0 else None,
    }


def _seconds_before_steady(record: ProcessRecord) -> float:
    """Of the first rank, from its first to the end of its warm-up, in excess of as many steady steps."""
    host, warmup = record.ranks[0]["clock"]["host_ns"], max(record.process.warmup, 2)
    timed = record.timed_steps()
    if timed is None or len(host) <= warmup:
        return 0.0
    excess = float((host[warmup - 1] - host[0]) / 1e9 - (warmup - 1) * timed.step_ns / 1e9)
    return max(0.0, excess)


def sources(record: ProcessRecord, project: Path) -> tuple[str, ...]:
    """The files of the project that ran, relative to it."""
    loaded = {Path(path) for rank in record.ranks for path in rank.get("sources", ())}
    return tuple(path.relative_to(project).as_posix() for path in sorted(loaded) if path.is_relative_to(project))


def environment(record: ProcessRecord) -> dict[str, object]:
    """On what it was measured."""
    rank = record.ranks[0]
    return {key: rank.get(key) for key in ("python", "torch", "cuda", "device")} | {
        "processes": len(record.ranks),
        "steps": record.steps,
    }
