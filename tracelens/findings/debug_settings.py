"""Settings for debugging that make every time in a recording meaningless.

In: a Run. Out: an `Abstention` that names the setting, or None. It comes before everything else that is said: a loop in
which every launch waits for its kernel has no waits of its own.
"""

from __future__ import annotations

from collections.abc import Mapping

from tracelens.messages import say
from tracelens.model import Abstention, Location, Run

LAUNCH_BLOCKING = "CUDA_LAUNCH_BLOCKING"
_LEVERS = {"launch-blocking": "launch-blocking", "anomaly-detection": "anomaly-off"}
"""By what was on, the lever that ends it."""
_AGAIN = say("switch it off, then record again: tracelens profile SCRIPT")


def unjudged(run: Run | None) -> Abstention | None:
    """Why no time of this Run means anything; None where no such setting was on, or nothing is known of it."""
    if run is None:
        return None
    value = (run.variables or {}).get(LAUNCH_BLOCKING)
    if value not in (None, "", "0"):
        told = say(
            "{setting} was set, so every launch waits for its kernel and no time means anything",
            setting=f"{LAUNCH_BLOCKING}={value}",
        )
        return Abstention("launch-blocking", told, _AGAIN)
    if run.environment.get("anomaly_detection") is True:
        told = say("torch.autograd's anomaly detection was on, which checks each gradient, so no time means anything")
        return Abstention("anomaly-detection", told, _AGAIN)
    return None


def lever(run: Run | None) -> str | None:
    """The lever that ends such a setting: the one that comes before all others, because without it the owners of a
    step mean nothing."""
    found = unjudged(run)
    return _LEVERS[found.detector] if found is not None else None


def places(run: Run | None) -> tuple[Location, ...]:
    """The lines that switched anomaly detection on, as far as the recording names them."""
    known = run.environment.get("anomaly_places") if run is not None else None
    rows = [row for row in known if isinstance(row, Mapping)] if isinstance(known, list) else []
    return tuple(Location(str(row["path"]), int(row["line"])) for row in rows if {"path", "line"} <= row.keys())
