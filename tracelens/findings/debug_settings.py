"""Settings for debugging that make every time in a recording meaningless.

In: a Run. Out: an `Abstention` that names the setting, or None. It comes before everything else that is said: a loop in
which every launch waits for its kernel has no waits of its own.
"""

from __future__ import annotations

from tracelens.messages import say
from tracelens.model import Abstention, Run

LAUNCH_BLOCKING = "CUDA_LAUNCH_BLOCKING"
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
