"""verify.json of a Run folder: one entry per scheme.

In: `Verification` values. Out: the file, and the values again. Entries of schemes not verified this time stay.

    {"schema_version": 1, "entries": [{"scheme", "outcome", "numbers_equal", "ratio", "base_us", "patched_us",
     "predicted", "verdict", "command", "steps", "numbers", "times", "windows", "writes", "environment", "notes", …}]}
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tracelens import run
from tracelens.errors import InputError
from tracelens.model import Estimate, Ratio, Verification

SCHEMA_VERSION = 1
FILE = "verify.json"


def write(folder: Path, verifications: Sequence[Verification]) -> Path:
    """Add or replace the entries of these schemes; returns the file's path."""
    path = folder / FILE
    fresh = {_key(one.scheme): document(one) for one in verifications}
    kept = [entry for entry in _entries(path) if _key(entry.get("scheme")) not in fresh]
    run.write_json(path, {"schema_version": SCHEMA_VERSION, "entries": [*kept, *fresh.values()]})
    return path


def read(folder: Path) -> tuple[Verification, ...]:
    """What was verified of this Run; empty where nothing was. Raises `InputError` for a file that is not ours."""
    path = folder / FILE
    try:
        return tuple(_verification(entry) for entry in _entries(path))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{path} is not a verification: {error!r}", hint="run tracelens verify again") from error


def document(verification: Verification) -> dict[str, Any]:
    """One entry: the verdict's own fields, then the details."""
    head = {
        "scheme": verification.scheme,
        "outcome": verification.outcome,
        "numbers_equal": verification.numbers_equal,
        "ratio": _ratio(verification.ratio),
        "base_us": _us(verification.base_ns),
        "patched_us": _us(verification.patched_ns),
        "predicted": estimate_document(verification.predicted),
        "verdict": verification.verdict,
    }
    return {**head, **{key: value for key, value in verification.details.items() if key not in head}}


def estimate_document(estimate: Estimate | None) -> dict[str, Any] | None:
    """An Estimate in µs, as analysis.json has it."""
    if estimate is None:
        return None
    return {
        "base_us": _us(estimate.base_ns),
        "step_us": _us(estimate.step_ns),
        "low_us": _us(estimate.low_ns),
        "high_us": _us(estimate.high_ns),
        "speedup": estimate.speedup,
        "binding": estimate.binding,
        "basis": estimate.basis,
        "evidence": estimate.evidence,
        "assumptions": list(estimate.assumptions),
    }


def _entries(path: Path) -> list[dict[str, Any]]:
    if not path.is_file():
        return []
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
        version, entries = value["schema_version"], value["entries"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{path} cannot be read: {error!r}", hint="remove it and run tracelens verify again"
        ) from error
    if version != SCHEMA_VERSION or not isinstance(entries, list):
        raise InputError(
            f"{path} has schema version {version!r}, this program reads {SCHEMA_VERSION}",
            hint="read it with the version of TraceLens that wrote it, or verify again",
        )
    return entries


def _verification(entry: Mapping[str, Any]) -> Verification:
    ratio, predicted = entry["ratio"], entry["predicted"]
    return Verification(
        scheme=entry["scheme"],
        outcome=entry["outcome"],
        numbers_equal=entry["numbers_equal"],
        ratio=Ratio(ratio["value"], ratio["low"], ratio["high"]) if ratio else None,
        base_ns=_ns(entry["base_us"]),
        patched_ns=_ns(entry["patched_us"]),
        predicted=_estimate(predicted) if predicted else None,
        verdict=entry["verdict"],
        details=entry,
    )


def _estimate(entry: Mapping[str, Any]) -> Estimate:
    times = {key: round(entry[f"{key}_us"] * 1000) for key in ("base", "step", "low", "high")}
    return Estimate(
        times["base"],
        times["step"],
        times["low"],
        times["high"],
        entry["binding"],
        entry["basis"],
        entry["evidence"],
        tuple(entry["assumptions"]),
    )


def _ratio(ratio: Ratio | None) -> dict[str, float] | None:
    return None if ratio is None else {"value": ratio.value, "low": ratio.low, "high": ratio.high}


def _key(scheme: str | None) -> str:
    return scheme or ""


def _us(ns: int | None) -> float | None:
    return None if ns is None else ns / 1000


def _ns(us: float | None) -> int | None:
    return None if us is None else round(us * 1000)
