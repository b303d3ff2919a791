"""One line of the manifest, and where and how its row is run.

In: the manifest's JSON. Out: frozen values that every stage reads.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

MANY_IMAGES = 60_000
SYNC_STEPS = 210
"""Twenty intervals of ten, after the ten in which nothing is counted."""
COMPARED_IMAGES = 2560


@dataclass(frozen=True)
class Entry:
    """One line of the manifest."""

    name: str
    repository: str
    commit: str
    path: str
    arguments: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
    """Files of the repository that the script imports."""
    images: int = COMPARED_IMAGES
    record_images: int = MANY_IMAGES
    """Enough for a recording of a loop whose steps last three milliseconds."""
    steps: int = 100
    interrupt_at: int = 57
    sync_steps: int = SYNC_STEPS
    """Steps in which waits are counted and memory is watched."""
    timed_s: float = 3.5
    """Of a timed process, from the fork on: the first one or two seconds go into CUDA's start."""
    noisy: str | None = None
    """How two originals were seen to differ on a GPU; they are compared under deterministic algorithms then."""
    cpu: dict[str, str] | None = None
    """Texts to replace for a trial without a GPU; None: nothing needs to be."""
    cpu_arguments: tuple[str, ...] | None = None
    also: tuple[str, ...] = ()
    """Further schemes to patch where every place is assumed to fire."""
    folders: tuple[str, ...] = ()
    """Folders the script expects below its own."""
    edits: dict[str, str] | None = None
    """Texts to replace on every machine, so that many copies can run side by side and without a network."""
    unsafe: bool = False
    """Also patch with --unsafe; what such a version computes is held against other seeds of the original."""
    hand: dict[str, str] | None = None
    """Texts that somebody who knows the script would replace to make it fast; losses and weights stay the same."""

    @staticmethod
    def of(value: dict[str, Any]) -> Entry:
        lists = ("arguments", "beside", "folders", "also", "cpu_arguments")
        return Entry(**{key: tuple(item) if key in lists else item for key, item in value.items()})


@dataclass(frozen=True)
class Setting:
    """Where and how rows are run."""

    sources: Path
    scratch: Path
    results: Path
    gpu: bool
    assume: bool
    """Patch every place as if it had fired, instead of recording first."""
    ends: float
    """time.monotonic() after which nothing new is begun."""
    timeout_s: float = 60.0
    """For one batch of arms."""
    worker: int = 0
