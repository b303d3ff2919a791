"""Whether two recordings may be compared at all: same machine, same size, same batch, same PyTorch.

In: Diagnoses of both sides. Out: one line per difference that makes a ratio of step times meaningless. What one side
does not know is no difference.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from tracelens.messages import joined, say
from tracelens.model import Diagnosis


def obstacles(starts: Sequence[Diagnosis], base: int, despite: Collection[str] = ()) -> tuple[str, ...]:
    """The differences between the first `base` Diagnoses and the rest, but for those named in `despite`."""
    differences = []
    for name, (title, read) in FIELDS.items():
        values = [_shown(read(start)) for start in starts]
        before, after = (sorted({v for v in side if v is not None}) for side in (values[:base], values[base:]))
        if name not in despite and before and after and before != after:
            differences.append(
                say(
                    "{title}: {before} against {after}",
                    title=title,
                    before=joined(", ", before),
                    after=joined(", ", after),
                )
            )
    return tuple(differences)


def _shown(value: Any) -> str | None:
    return None if value is None else str(value)


def _device(diagnosis: Diagnosis) -> str | None:
    return diagnosis.timeline.trace.device


def _world(diagnosis: Diagnosis) -> int:
    return diagnosis.timeline.trace.world_size or 1


def _torch(diagnosis: Diagnosis) -> str | None:
    """Major and minor: a patch release is meant to change no speed."""
    version = _environment(diagnosis).get("torch")
    return ".".join(version.split("+")[0].split(".")[:2]) if isinstance(version, str) else None


def _batch(diagnosis: Diagnosis) -> str | None:
    """Samples and bytes of a batch, as far as the recording noted them."""
    if diagnosis.run is None:
        return None
    loaders = [loader for rank in diagnosis.run.recordings for loader in rank.meta.get("loaders") or ()]
    sizes = {(loader.get("batch_size"), loader.get("batch_bytes")) for loader in loaders}
    known = sorted(
        say("{size} samples, {weight} bytes", size=size, weight=weight)
        for size, weight in sizes
        if size is not None or weight is not None
    )
    return "; ".join(known) or None


def _environment(diagnosis: Diagnosis) -> Mapping[str, Any]:
    environment = diagnosis.run.meta.get("environment") if diagnosis.run else None
    return environment if isinstance(environment, Mapping) else {}


FIELDS: Mapping[str, tuple[str, Callable[[Diagnosis], Any]]] = {
    "device": ("device", _device),
    "world-size": (say("world size"), _world),
    "torch": ("torch", _torch),
    "batch": ("batch", _batch),
}
"""Per name for `--despite`, how it is called and where it is read."""
