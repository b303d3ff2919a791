"""Notes which lines of the user's code switch torch's anomaly detection on, so that a patch can change them.

In: the installed torch, whose `set_detect_anomaly` and `detect_anomaly` both call `torch.set_anomaly_enabled`. Out:
those lines, and whether the training ran with it. Installed when torch has just been imported: scripts set it before
they make a step.
"""

from __future__ import annotations

import functools
import sys
from collections import Counter
from typing import Any

import torch

from tracelens.capture.inside import user_frames
from tracelens.capture.inside.user_frames import Place, stored_path
from tracelens.launch.inside import dynamo_skip, torch_registries

_places: Counter[Place] = Counter()
MOST_PLACES = 8


def install() -> None:
    """Note each call from here on; does nothing the second time."""
    original = torch.set_anomaly_enabled
    if hasattr(original, "__wrapped__"):
        return
    empty = torch_registries.empty_caches()

    @functools.wraps(original)
    def set_anomaly_enabled(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        if torch.is_anomaly_enabled():
            place = user_frames.innermost(sys._getframe(1))
            if place is not None and (place in _places or len(_places) < MOST_PLACES):
                _places[place] += 1
        return result

    dynamo_skip.transparent(set_anomaly_enabled, original)
    torch_registries.register_replacement(original, set_anomaly_enabled)
    torch.set_anomaly_enabled = set_anomaly_enabled
    torch_registries.clear_caches(empty)


def seen() -> bool:
    """Whether it is on, or was switched on by one line again and again: for a part of each step."""
    return torch.is_anomaly_enabled() or any(count > 1 for count in _places.values())


def places(folder: str) -> list[dict[str, Any]]:
    """The lines, in the order in which they were reached; paths relative to `folder` where they lie below it."""
    found = {(stored_path(path, folder), line): None for path, line, _ in _places}
    return [{"path": path, "line": line} for path, line in found]
