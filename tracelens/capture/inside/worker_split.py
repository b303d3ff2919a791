"""Asks a DataLoader's workers what they spend their batches on.

In: `install` in the training process, or in a spawned worker, before the workers begin. Out: per worker a small file in
the Run folder, which `collected` reads in the training process and removes. Batches are measured at the beginning of a
worker's life, eight of them at most, and none once the recording is over.
"""

from __future__ import annotations

import functools
import json
import multiprocessing
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from tracelens.capture.inside.batch_split import BatchSplit

_PREFIX = ".worker-"


def install(config: Mapping[str, Any]) -> None:
    """Let workers that begin from here on measure their first batches; `config` has `run` and `cwd`."""
    from torch.utils.data._utils import worker

    original = worker._worker_loop

    # The same name in the same module: a spawned worker looks it up there, and finds its own.
    @functools.wraps(original)
    def _worker_loop(*args: Any, **kwargs: Any) -> None:
        with suppress(Exception):  # whatever fails here, the worker works
            _measure(config)
        original(*args, **kwargs)

    worker._worker_loop = _worker_loop


def collected(run: str) -> dict[int, dict[str, Any]]:
    """By process id what the workers of this process wrote, which is removed."""
    found = {}
    for path in Path(run).glob(f"{_PREFIX}{os.getpid()}-*.json"):
        with suppress(OSError, ValueError):
            document = json.loads(path.read_text(encoding="utf-8"))
            found[int(document["pid"])] = document
        with suppress(OSError):
            path.unlink()
    return found


def _measure(config: Mapping[str, Any]) -> None:
    """In a worker: split the batches of the fetchers that it makes."""
    from torch.utils.data.dataloader import _DatasetKind

    parent = multiprocessing.parent_process()
    if parent is None or _is_over(config):
        return
    path = Path(config["run"]) / f"{_PREFIX}{parent.pid}-{os.getpid()}.json"
    create = _DatasetKind.create_fetcher

    def report(split: BatchSplit) -> None:
        if _is_over(config):
            split.detach()
            return
        with suppress(OSError):  # a folder that cannot be written is reported when the trace is saved
            _write(path, {"pid": os.getpid(), **split.document(str(config["cwd"]))})

    def create_fetcher(*args: Any, **kwargs: Any) -> Any:
        fetcher = create(*args, **kwargs)
        _DatasetKind.create_fetcher = staticmethod(create)  # a worker's first epoch is enough
        with suppress(Exception):
            BatchSplit(fetcher, report=report)
        return fetcher

    _DatasetKind.create_fetcher = staticmethod(create_fetcher)


def _is_over(config: Mapping[str, Any]) -> bool:
    """Whether a rank has saved its recording."""
    return any(Path(config["run"]).glob("rank*/rank.json"))


def _write(path: Path, document: Mapping[str, Any]) -> None:
    """Whole or not at all: the training process may read at any time."""
    part = path.with_suffix(".part")
    part.write_text(json.dumps(document), encoding="utf-8")
    part.replace(path)
