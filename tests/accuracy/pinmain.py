"""Why does pinning in the training thread cost a real loop more than the copy? One loop, with and without it.

In: nothing. Out: `measured()`: step time, time in the loader and page faults per step of the slow_loader loop with
`pin_memory` off and on, each as it is, with one thread for CPU operations, and with memory kept by the C library.
"""

from __future__ import annotations

import ctypes
import json
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.accuracy import arm as arms
from tests.accuracy import rows
from tests.accuracy.stats import median

ARGUMENTS = "--batch-size 64 --image 128"
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_KEPT_BYTES = 1 << 30


def measured() -> dict[str, Any]:
    """About 40 s, in processes of its own."""
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for pinned in (False, True):
            place = _version(Path(folder), pinned)
            for name, prepare in (("as it is", _nothing), ("one thread", _one_thread), ("memory kept", _keep_memory)):
                for rep in range(2):
                    key = f"{'pinned' if pinned else 'pageable'}, {name}, {rep}"
                    found[key] = _run(place, prepare, place / f"{name} {rep}.json")
    return found


def _version(folder: Path, pinned: bool) -> Path:
    place = folder / ("pinned" if pinned else "pageable")
    place.mkdir()
    shutil.copy(rows.LOOPS / "images.py", place)
    source = (rows.LOOPS / "slow_loader.py").read_text(encoding="utf-8")
    if pinned:
        source = source.replace("shuffle=True)", "shuffle=True, pin_memory=True)")
        source = source.replace("images.to(device)", "images.to(device, non_blocking=True)")
        source = source.replace("labels.to(device)", "labels.to(device, non_blocking=True)")
    (place / "train.py").write_text(source, encoding="utf-8")
    return place


def _run(place: Path, prepare: Callable[[], None], out: Path) -> dict[str, Any]:
    wanted = arms.Arm(str(place), tuple(ARGUMENTS.split()), 30, 7, str(out))

    def work() -> None:
        prepare()
        arms.measure(wanted)

    if not arms.forked(work, 60.0, place / "log"):
        return {"failed": (place / "log").read_text(encoding="utf-8")[-500:]}
    seen = json.loads(out.read_text(encoding="utf-8"))
    return {"step_us": median(seen["block_us"])} | {key: seen[key] for key in ("loader_us", "page_faults", "block_us")}


def _nothing() -> None:
    pass


def _one_thread() -> None:
    import torch

    torch.set_num_threads(1)


def _keep_memory() -> None:
    library = ctypes.CDLL(None)
    library.mallopt(_TRIM_THRESHOLD, _KEPT_BYTES)
    library.mallopt(_MMAP_THRESHOLD, _KEPT_BYTES)
