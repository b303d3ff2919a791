"""From everything that was measured of one change to its `Verification` and its entry in verify.json.

In: `VersionMeasurements`. Out: `Verification`. Pure: no process is started here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import Any

from tracelens.messages import joined, say
from tracelens.model import Estimate, Ratio, Verification
from tracelens.verify import equality, store, verdict
from tracelens.verify.compare import numbers, printed_output, times
from tracelens.verify.compare.numbers import Difference
from tracelens.verify.compare.seed_tolerance import SeedTolerance
from tracelens.verify.compare.window_statistics import WindowStatistics
from tracelens.verify.policy import POLICY
from tracelens.verify.request import PatchedVersion, VerificationRequest, sufficient_budget
from tracelens.verify.trial_process import ProcessRecord

SHOWN_TOUCHED = 3


@dataclass(frozen=True, slots=True)
class VersionMeasurements:
    """What is known of one change at the end."""

    request: VerificationRequest
    change: PatchedVersion
    originals: tuple[ProcessRecord, ...]
    """The runs of the original whose numbers were compared."""
    record: ProcessRecord | None
    """The patched run whose numbers were compared."""
    noise: Difference | None
    plain_noise: Difference | None
    difference: Difference | None
    failure: str | None
    broken: bool
    timed: tuple[tuple[ProcessRecord, ProcessRecord], ...]
    pairs: tuple[tuple[float, float], ...]
    windows: tuple[WindowStatistics | None, WindowStatistics | None]
    mask: printed_output.Mask | None
    refused: tuple[str, ...]
    touched: tuple[str, ...]
    seconds: float
    needed_s: float = 0.0
    """What a statement about speed takes altogether, as far as it is known."""
    tolerance: SeedTolerance | None = None
    freed_memory_filled: bool = False
    sources: Mapping[str, str] = field(default_factory=dict)
    """sha256 of each source of the project that ran, but for the patched ones, by its path below the project."""
    date: str = ""
    """When it ended, UTC, as ISO 8601 writes it."""


def build_verification(measured: VersionMeasurements) -> Verification:
    """The verification of one version."""
    ratio = times.ratio_of(measured.pairs)
    base, patched = _shown(measured, ratio)
    predicted = _predicted(measured)
    evidence = verdict.VerdictEvidence(
        noise=measured.noise,
        difference=measured.difference,
        failure=measured.failure,
        broken=measured.broken,
        ratio=ratio,
        pairs=len(measured.pairs),
        deterministic=measured.plain_noise is not None,
        tolerance=measured.tolerance,
        middle_ns=None if base is None or patched is None else (base, patched),
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


def _predicted(measured: VersionMeasurements) -> Estimate | None:
    """What was predicted, unless it was predicted for another device than this one."""
    return measured.change.predicted if _elsewhere(measured) is None else None


def _elsewhere(measured: VersionMeasurements) -> str | None:
    """The device of this measurement, where it is not the recorded one."""
    recorded, present = measured.request.device, measured.originals[0].ranks[0].get("device")
    return present if recorded is not None and isinstance(present, str) and present != recorded else None


def _shown(measured: VersionMeasurements, ratio: Ratio | None) -> tuple[int | None, int | None]:
    """The step times of the median pair, before and after: what was measured, and what the ratio is of.

    The machine drifts, so the medians of both sides would put another ratio beside it. Too few pairs for a ratio are no
    measurement: they stay in `times`.
    """
    middle = times.median_pair(measured.pairs)
    return (None, None) if middle is None or ratio is None else (round(middle[0]), round(middle[1]))


def _details(measured: VersionMeasurements, ratio: Ratio | None) -> dict[str, Any]:
    request, first = measured.request, measured.originals[0]
    before, after = measured.windows
    return {
        "command": {"kind": request.command.kind, "words": list(request.command.words)},
        "date": measured.date,
        "patch": equality.patch_document(measured.change.patch),
        "sources": dict(measured.sources),
        "steps": first.steps,
        "warmup_steps": first.process.warmup,
        "seed": request.seed,
        "interval": measured.change.interval,
        "budget_s": request.budget_s,
        "took_s": round(measured.seconds, 1),
        "needed_s": sufficient_budget(measured.needed_s),
        "numbers": _numbers(measured),
        "unsafe": list(measured.change.unsafe),
        "seed_noise": None if measured.tolerance is None else measured.tolerance.document(),
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


def _numbers(measured: VersionMeasurements) -> dict[str, Any]:
    mask = measured.mask
    return {
        "noise_floor": "equal" if measured.plain_noise is None else "different",
        "noise": None if measured.plain_noise is None else measured.plain_noise.document(),
        "deterministic_algorithms": measured.plain_noise is not None,
        "noise_deterministic": None if measured.noise is None else measured.noise.document(),
        "compared": numbers.compared_counts(measured.originals[0]),
        "output_compared": mask is not None and mask.comparable,
        "masked_columns": len(mask.columns) if mask is not None else 0,
        "masked_lines": len(mask.lines) if mask is not None else 0,
        "compared_with_freed_memory_overwritten": measured.freed_memory_filled,
        "repeats_compared": len(measured.timed) if measured.plain_noise is None else 0,
        "first_difference": None if measured.difference is None else measured.difference.document(),
    }


def _times(measured: VersionMeasurements) -> dict[str, Any]:
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


def _run(record: ProcessRecord) -> dict[str, Any]:
    timed = record.timed_steps()
    host = record.ranks[0]["clock"]["host_ns"]
    return {
        "clock": timed.clock if timed else None,
        "steps": record.steps,
        "seconds": round(record.seconds, 2),
        "mean_us": round(timed.mean_ns / 1000, 3) if timed else None,
        "step_us": round(timed.step_ns / 1000, 3) if timed else None,
        "blocks_us": [round(ns / 1000, 3) for ns in timed.blocks_ns] if timed else [],
        "host_us": [round((b - a) / 1000, 1) for a, b in pairwise(host)],
    }


def _prediction(measured: VersionMeasurements, ratio: Ratio | None) -> dict[str, Any] | None:
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


def _window(window: WindowStatistics | None) -> dict[str, Any] | None:
    return None if window is None else window.document()


def _environment(record: ProcessRecord) -> dict[str, Any]:
    rank = record.ranks[0]
    keys = ("python", "torch", "cuda", "device", "kernel_fence")
    return {key: rank.get(key) for key in keys} | {"processes": len(record.ranks)}


def _notes(measured: VersionMeasurements) -> list[str]:
    notes: list[str] = []
    device = _elsewhere(measured)
    if device is not None:
        notes.append(
            say(
                "measured on {device}, recorded on {recorded}: predictions are not held against it",
                device=device,
                recorded=measured.request.device,
            )
        )
    if measured.mask is not None and not measured.mask.comparable:
        notes.append(say("two originals print different numbers of lines: standard output was not compared"))
    if measured.refused:
        notes.append(say("the script went on without the files it was refused; see writes.refused"))
    if measured.touched:
        notes.append(_meanwhile(measured.touched))
    before, after = measured.windows
    if before is not None and before.reason:
        notes.append(say("recorded window of the original: {reason}", reason=before.reason))
    if after is not None and after.reason and (before is None or after.reason != before.reason):
        notes.append(say("recorded window of the patched version: {reason}", reason=after.reason))
    return list(dict.fromkeys(notes))


def _meanwhile(touched: tuple[str, ...]) -> str:
    """The note about files that changed meanwhile; an editor, another run or a child program may have written them."""
    names = joined(", ", touched[:SHOWN_TOUCHED])
    if len(touched) > SHOWN_TOUCHED:
        names = say("{names} and more", names=names)
    return say(
        "files of the project changed while verify ran ({names}): TraceLens and the script's Python "
        "write only into the copy, but a program that the script starts can set mode and times of a "
        "large file, which is a link there",
        names=names,
    )
