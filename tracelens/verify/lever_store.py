"""try.json of a Run folder: what trials of levers measured.

In: `LeverMeasurement`s. Out: the file, and the measurements again, without the patches that they ran. Entries of levers
that were not tried this time stay, as long as the script is the same and the device too.

    {"schema_version": 1, "base_us", "environment", "sources": {path: sha256},
     "levers": [{"id", "standing", "reason", "speedup", "pairs_us", "numbers", "difference", "seed_band",
                 "memory_bytes_delta", "compiled", "toggles"}],
     "combination": {… "members"} | null}
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

from tracelens import jsonfile, run
from tracelens.errors import InputError
from tracelens.jsonfile import Shape
from tracelens.messages import say
from tracelens.model import LeverNumbers, Speedup
from tracelens.verify.compare import times
from tracelens.verify.lever_trial import LeverMeasurement, LeverTrial, Standing

SCHEMA_VERSION = 1
FILE = "try.json"
_AGAIN = say("remove it and run tracelens try again")
_ENTRY: Shape = {
    "id": str,
    "standing": frozenset(get_args(Standing)),
    "reason": str,
    "speedup": {"speedup": float, "low": float, "high": float},
    "pairs_us": [[float]],
    "numbers": frozenset(get_args(LeverNumbers)),
    "memory_bytes_delta": int,
    "members": [str],
}
"""What readers of an entry rely on."""


@dataclass(frozen=True, slots=True)
class LeverRecord:
    """What try.json holds."""

    levers: tuple[LeverMeasurement, ...] = ()
    combination: LeverMeasurement | None = None
    base_ns: int | None = None
    environment: Mapping[str, Any] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)
    """sha256 of each file of the project that was tried, by its path below the project."""


def merged(old: LeverRecord, new: LeverRecord) -> LeverRecord:
    """The new results, and the old ones of other levers where both are about the same sources on the same device."""
    same = old.sources == new.sources and old.environment.get("device") == new.environment.get("device")
    if not same:
        return new
    reached = {one.trial.id for one in new.levers if one.standing != "not_reached"}
    kept = tuple(one for one in old.levers if one.trial.id not in reached)
    fresh = tuple(one for one in new.levers if one.trial.id in reached)
    return LeverRecord(
        (*kept, *fresh), new.combination or old.combination, new.base_ns or old.base_ns, new.environment, new.sources
    )


def write(folder: Path, record: LeverRecord) -> Path:
    """Replace the file; returns its path."""
    path = folder / FILE
    run.write_json(path, document(record))
    return path


def document(record: LeverRecord) -> dict[str, Any]:
    """The file's content."""
    return {
        "schema_version": SCHEMA_VERSION,
        "base_us": None if record.base_ns is None else record.base_ns / 1000,
        "environment": dict(record.environment),
        "sources": dict(record.sources),
        "levers": [entry(one) for one in record.levers],
        "combination": None if record.combination is None else entry(record.combination),
    }


def entry(one: LeverMeasurement) -> dict[str, Any]:
    """One measurement."""
    speedup = one.speedup
    return {
        "id": one.trial.id,
        "members": list(one.trial.members),
        "standing": one.standing,
        "reason": one.reason,
        "speedup": None if speedup is None else {"speedup": speedup.speedup, "low": speedup.low, "high": speedup.high},
        "pairs_us": [[original / 1000, lever / 1000] for original, lever in one.pairs],
        "numbers": one.numbers,
        "difference": None if one.difference is None else dict(one.difference),
        "seed_band": None if one.seed_band is None else dict(one.seed_band),
        "memory_bytes_delta": one.memory_bytes_delta,
        "compiled": None if one.compiled is None else dict(one.compiled),
        "toggles": [dict(toggle) for toggle in one.toggles],
    }


def read(folder: Path) -> LeverRecord:
    """What was tried on this Run; empty where nothing was. Raises `InputError` for a file that is not ours."""
    path = folder / FILE
    if not path.is_file():
        return LeverRecord()
    value = jsonfile.read(path, missing=_AGAIN, damaged=_AGAIN)
    if value.get("schema_version") != SCHEMA_VERSION:
        raise InputError(
            say("{path} has schema version {value!r}", path=path, value=value.get("schema_version")), hint=_AGAIN
        )
    try:
        jsonfile.check(value.get("levers"), [_ENTRY], "levers")
        return LeverRecord(
            tuple(map(_measurement, value["levers"])),
            _measurement(value["combination"]) if value["combination"] else None,
            None if value["base_us"] is None else round(value["base_us"] * 1000),
            value["environment"],
            value["sources"],
        )
    except KeyError as error:
        raise InputError(
            say("{path} is no trial of levers: {key} is missing", path=path, key=error.args[0]), hint=_AGAIN
        ) from error
    except (TypeError, ValueError) as error:
        raise InputError(say("{path} is no trial of levers: {error}", path=path, error=error), hint=_AGAIN) from error


def unchanged(record: LeverRecord, project: Path) -> bool:
    """Whether every file that was tried is still the same."""
    return bool(record.sources) and record.sources == digests(record.sources, project)


def digests(names: Iterable[str], project: Path) -> dict[str, str]:
    """sha256 of these files below the project, as far as they are there."""
    files = {name: project / name for name in names}
    return {name: run.sha256(path.read_bytes()) for name, path in files.items() if path.is_file()}


def _measurement(stored: Mapping[str, Any]) -> LeverMeasurement:
    pairs = tuple((original * 1000, lever * 1000) for original, lever in stored["pairs_us"])
    return LeverMeasurement(
        trial=LeverTrial(stored["id"], members=tuple(stored["members"])),
        standing=stored["standing"],
        reason=stored["reason"],
        pairs=pairs,
        speedup=_speedup(stored["speedup"], pairs),
        numbers=stored["numbers"],
        difference=stored["difference"],
        seed_band=stored["seed_band"],
        memory_bytes_delta=stored["memory_bytes_delta"],
        compiled=stored["compiled"],
        toggles=tuple(stored["toggles"]),
    )


def _speedup(stored: Mapping[str, float] | None, pairs: Sequence[tuple[float, float]]) -> Speedup | None:
    """The median pair's, also of older files, which have the mean; their interval stays."""
    if stored is None:
        return None
    both = times.median_pair(pairs)
    middle = stored["speedup"] if both is None else both[0] / both[1]
    return Speedup(middle, min(stored["low"], middle), max(stored["high"], middle))
