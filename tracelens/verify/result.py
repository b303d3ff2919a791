"""From everything that was measured of one change to its `Verification` and its entry in verify.json.

In: `Measured`. Out: `Verification`. Pure: no process is started here.
"""

from __future__ import annotations

import statistics
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

from tracelens.model import Estimate, Ratio, Verification
from tracelens.verify import numbers, output, store, times, verdict
from tracelens.verify.arms import ArmRecord
from tracelens.verify.band import Band
from tracelens.verify.numbers import Difference
from tracelens.verify.policy import POLICY
from tracelens.verify.recorded import Window
from tracelens.verify.request import Change, Request

SHOWN_TOUCHED = 3


@dataclass(frozen=True, slots=True)
class Measured:
    """What is known of one change at the end."""

    request: Request
    change: Change
    originals: tuple[ArmRecord, ...]
    """The runs of the original whose numbers were compared."""
    record: ArmRecord | None
    """The patched run whose numbers were compared."""
    noise: Difference | None
    plain_noise: Difference | None
    difference: Difference | None
    failure: str | None
    broken: bool
    timed: tuple[tuple[ArmRecord, ArmRecord], ...]
    pairs: tuple[tuple[float, float], ...]
    windows: tuple[Window | None, Window | None]
    mask: output.Mask | None
    refused: tuple[str, ...]
    touched: tuple[str, ...]
    seconds: float
    band: Band | None = None
    poisoned: bool = False


def of(measured: Measured) -> Verification:
    """The verification of one change."""
    ratio = times.ratio_of(measured.pairs)
    base, patched = _shown(measured, ratio)
    predicted = _predicted(measured)
    evidence = verdict.Evidence(
        noise=measured.noise,
        difference=measured.difference,
        failure=measured.failure,
        broken=measured.broken,
        ratio=ratio,
        pairs=len(measured.pairs),
        deterministic=measured.plain_noise is not None,
        band=measured.band,
        unsafe=bool(measured.change.unsafe),
    )
    return Verification(
        scheme=measured.change.scheme,
        outcome=verdict.outcome_of(evidence),
        numbers_equal=verdict.numbers_equal(evidence),
        ratio=ratio,
        base_ns=base,
        patched_ns=patched,
        predicted=predicted,
        verdict=verdict.sentence(evidence, predicted),
        details=_details(measured, ratio),
    )


def _predicted(measured: Measured) -> Estimate | None:
    """What was predicted, unless it was predicted for another device than this one: that grades nobody."""
    return measured.change.predicted if _elsewhere(measured) is None else None


def _elsewhere(measured: Measured) -> str | None:
    """The device of this measurement, where it is not the recorded one."""
    wanted, found = measured.request.device, measured.originals[0].ranks[0].get("device")
    return found if wanted is not None and isinstance(found, str) and found != wanted else None


def _shown(measured: Measured, ratio: Ratio | None) -> tuple[int | None, int | None]:
    """Step times before and after that agree with the ratio: the median original, and that times the ratio.

    The ratio is of pairs, because the machine drifts; the two medians would put another ratio beside it. Too few pairs
    for a ratio are no measurement: they stay in `times`.
    """
    base = _median([pair[0] for pair in measured.pairs])
    if base is None or ratio is None:
        return None, None
    return base, round(base * ratio.value)


def _details(measured: Measured, ratio: Ratio | None) -> dict[str, Any]:
    request, first = measured.request, measured.originals[0]
    before, after = measured.windows
    return {
        "command": {"kind": request.command.kind, "words": list(request.command.words)},
        "steps": first.steps,
        "warmup_steps": first.arm.warmup,
        "seed": request.seed,
        "interval": measured.change.interval,
        "budget_s": request.budget_s,
        "took_s": round(measured.seconds, 1),
        "numbers": _numbers(measured),
        "unsafe": list(measured.change.unsafe),
        "seed_noise": None if measured.band is None else measured.band.document(),
        "times": _times(measured),
        "prediction": _prediction(measured, ratio),
        "windows": {"before": _window(before), "after": _window(after)},
        "writes": {
            "redirected": list(first.written),
            "refused": list(measured.refused),
            "changed_meanwhile": list(measured.touched),
        },
        "environment": _environment(first),
        "policy": asdict(POLICY),
        "notes": _notes(measured),
    }


def _numbers(measured: Measured) -> dict[str, Any]:
    mask = measured.mask
    return {
        "noise_floor": "equal" if measured.plain_noise is None else "different",
        "noise": None if measured.plain_noise is None else measured.plain_noise.document(),
        "deterministic_algorithms": measured.plain_noise is not None,
        "noise_deterministic": None if measured.noise is None else measured.noise.document(),
        "compared": numbers.compared(measured.originals[0]),
        "output_compared": mask is not None and mask.comparable,
        "masked_columns": len(mask.columns) if mask is not None else 0,
        "masked_lines": len(mask.lines) if mask is not None else 0,
        "compared_with_freed_memory_overwritten": measured.poisoned,
        "repeats_compared": len(measured.timed) if measured.plain_noise is None else 0,
        "first_difference": None if measured.difference is None else measured.difference.document(),
    }


def _times(measured: Measured) -> dict[str, Any]:
    runs = [
        {"round": number, "version": version, **_run(record)}
        for number, pair in enumerate(measured.timed, 1)
        for version, record in zip(("original", "patched"), pair, strict=True)
    ]
    clocks = sorted({run["clock"] for run in runs if run["clock"]})
    return {
        "clock": clocks[0] if len(clocks) == 1 else None,
        "method": times.METHOD,
        "pairs": [{"original_us": a / 1000, "patched_us": b / 1000, "ratio": b / a} for a, b in measured.pairs],
        "runs": runs,
    }


def _run(record: ArmRecord) -> dict[str, Any]:
    stretch = record.stretch()
    host = record.ranks[0]["clock"]["host_ns"]
    return {
        "clock": stretch.clock if stretch else None,
        "steps": record.steps,
        "seconds": round(record.seconds, 2),
        "mean_us": round(stretch.mean_ns / 1000, 3) if stretch else None,
        "step_us": round(stretch.step_ns / 1000, 3) if stretch else None,
        "blocks_us": [round(ns / 1000, 3) for ns in stretch.blocks_ns] if stretch else [],
        "host_us": [round((b - a) / 1000, 1) for a, b in pairwise(host)],
    }


def _prediction(measured: Measured, ratio: Ratio | None) -> dict[str, Any] | None:
    predicted = _predicted(measured)
    if predicted is None:
        return None
    _, step = _shown(measured, ratio)
    return {
        "predicted": store.estimate_document(predicted),
        "predicted_speedup": predicted.speedup,
        "measured_speedup": None if ratio is None else 1 / ratio.value,
        "measured_us": None if step is None else step / 1000,
    }


def _window(window: Window | None) -> dict[str, Any] | None:
    return None if window is None else window.document()


def _environment(record: ArmRecord) -> dict[str, Any]:
    rank = record.ranks[0]
    keys = ("python", "torch", "cuda", "device", "kernel_fence")
    return {key: rank.get(key) for key in keys} | {"processes": len(record.ranks)}


def _notes(measured: Measured) -> list[str]:
    notes = []
    found = _elsewhere(measured)
    if found is not None:
        notes.append(f"measured on {found}, recorded on {measured.request.device}: predictions are not held against it")
    if measured.mask is not None and not measured.mask.comparable:
        notes.append("two originals print different numbers of lines: standard output was not compared")
    if measured.refused:
        notes.append("the script went on without the files it was refused; see writes.refused")
    if measured.touched:
        notes.append(_meanwhile(measured.touched))
    before, after = measured.windows
    if before is not None and before.reason:
        notes.append(f"recorded window of the original: {before.reason}")
    if after is not None and after.reason and (before is None or after.reason != before.reason):
        notes.append(f"recorded window of the patched version: {after.reason}")
    return list(dict.fromkeys(notes))


def _median(values: list[float]) -> int | None:
    return round(statistics.median(values)) if values else None


def _meanwhile(touched: tuple[str, ...]) -> str:
    """Whose work it was cannot be told: an editor's, another run's, or a program's that the script starts."""
    names = ", ".join(touched[:SHOWN_TOUCHED]) + (" and more" if len(touched) > SHOWN_TOUCHED else "")
    return (
        f"files of the project changed while verify ran ({names}): TraceLens and the script's Python write only into "
        "the copy, but a program that the script starts can set mode and times of a large file, which is a link there"
    )
