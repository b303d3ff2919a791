"""verify.json of a Run folder: one entry per scheme.

In: `Verification` values. Out: the file, and the values again. Entries of schemes not verified this time stay. Until
decision 33 `patched_us` was the original's time multiplied by a mean ratio, which nobody measured: what older files say
of the speed is told again, from the pairs that they hold.

    {"schema_version": 1, "entries": [{"scheme", "outcome", "numbers_equal", "ratio", "base_us", "patched_us",
     "predicted", "verdict", "command", "steps", "numbers", "times", "windows", "writes", "environment", "notes", …}]}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

from tracelens import jsonfile, run
from tracelens.errors import InputError
from tracelens.jsonfile import Shape, microseconds
from tracelens.messages import say
from tracelens.model import Binding, Estimate, Outcome, Ratio, Verification
from tracelens.verify import verdict
from tracelens.verify.compare import times

SCHEMA_VERSION = 1
FILE = "verify.json"
_AGAIN = say("remove it and run tracelens verify again")
_US = {f"{name}_us": float for name in ("base", "step", "low", "high")}
_ENTRY: Shape = {
    "scheme": str,
    "outcome": frozenset(get_args(Outcome)),
    "numbers_equal": bool,
    "ratio": {"value": float, "low": float, "high": float},
    "base_us": float,
    "patched_us": float,
    "predicted": {**_US, "binding": frozenset(get_args(Binding)), "assumptions": [str]},
    "verdict": str,
    "interval": int,
    "windows": {"before": {}, "after": {}},
}
"""What readers of an entry rely on."""


def write(folder: Path, verifications: Sequence[Verification]) -> Path:
    """Add or replace the entries of these schemes; returns the file's path."""
    path = folder / FILE
    fresh = {_key(each.scheme): document(each) for each in verifications}
    kept = [entry for entry in _entries(path) if _key(entry.get("scheme")) not in fresh]
    run.write_json(path, {"schema_version": SCHEMA_VERSION, "entries": [*kept, *fresh.values()]})
    return path


def read(folder: Path) -> tuple[Verification, ...]:
    """What was verified of this Run; empty where nothing was. Raises `InputError` for a file that is not ours."""
    path = folder / FILE
    return tuple(_verification(entry) for entry in _entries(path))


def document(verification: Verification) -> dict[str, Any]:
    """One entry: the verdict's own fields, then the details."""
    head = {
        "scheme": verification.scheme,
        "outcome": verification.outcome,
        "numbers_equal": verification.numbers_equal,
        "ratio": _ratio(verification.ratio),
        "base_us": microseconds(verification.base_ns),
        "patched_us": microseconds(verification.patched_ns),
        "predicted": estimate_document(verification.predicted),
        "verdict": verification.verdict,
    }
    return {**head, **{key: value for key, value in verification.details.items() if key not in head}}


def estimate_document(estimate: Estimate | None) -> dict[str, Any] | None:
    """An Estimate as analysis.json has it, with its assumptions."""
    return None if estimate is None else {**estimate.document(), "assumptions": list(estimate.assumptions)}


def _entries(path: Path) -> list[dict[str, Any]]:
    if not path.is_file():
        return []
    value = jsonfile.read(path, missing=_AGAIN, damaged=_AGAIN)
    version = value.get("schema_version")
    if version != SCHEMA_VERSION:
        raise InputError(
            say(
                "{path} has schema version {version!r}, this program reads {schema_version}",
                path=path,
                version=version,
                schema_version=SCHEMA_VERSION,
            ),
            hint=say("read it with the version of TraceLens that wrote it, or verify again"),
        )
    entries: list[dict[str, Any]] = value.get("entries") or []
    try:
        jsonfile.check(entries, [_ENTRY], "entries")
        for entry in entries:
            _verification(entry)
    except KeyError as error:
        raise InputError(
            say("{path} is not a verification: {key} is missing", path=path, key=error.args[0]), hint=_AGAIN
        ) from error
    except (TypeError, ValueError) as error:
        raise InputError(say("{path} is not a verification: {error}", path=path, error=error), hint=_AGAIN) from error
    return entries


def _verification(entry: Mapping[str, Any]) -> Verification:
    ratio, predicted = entry["ratio"], entry["predicted"]
    divisors = [*(ratio or {}).values(), *(predicted[name] for name in _US if predicted)]
    if any(number <= 0 for number in divisors):
        raise ValueError(f"a time or ratio of {entry['scheme']} is not above 0")
    found = Verification(
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
    return _of_pairs(found)


def _of_pairs(stored: Verification) -> Verification:
    """The entry with the step times of its median pair; the sentence of one that is shown as measured follows."""
    pairs = stored.pairs_ns
    middle = times.median_pair(pairs)
    if stored.ratio is None or middle is None:
        return stored
    base_ns, patched_ns = map(round, middle)
    if (base_ns, patched_ns) == (stored.base_ns, stored.patched_ns):
        return stored
    value = middle[1] / middle[0]
    ratio = Ratio(value, min(stored.ratio.low, value), max(stored.ratio.high, value))
    told = replace(stored, base_ns=base_ns, patched_ns=patched_ns, ratio=ratio)
    return replace(told, verdict=verdict.told_again(told, len(pairs)))


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


def _ns(us: float | None) -> int | None:
    return None if us is None else round(us * 1000)
