"""Facts about the training process that the parent cannot see: rank, DataLoaders, device memory, torch.

In: the live process. Out: plain dictionaries for rank.json. Nothing here creates a CUDA context, synchronizes, or
draws random numbers.
"""

from __future__ import annotations

import os
import platform
import sys
import weakref
from collections import defaultdict, deque
from collections.abc import Mapping
from typing import Any

import torch

from tracelens.capture.inside import anomaly_log, batch_split, loader_places, worker_split
from tracelens.capture.inside.batch_split import BatchSplit
from tracelens.capture.inside.index_clock import IndexClock
from tracelens.capture.inside.user_frames import Place, stored_place
from tracelens.capture.inside.worker_throughput import WorkerThroughput
from tracelens.launch import ranks

MOST_LOADERS = 16
_BATCH_DEPTH = 6
"""Nesting of dictionaries and lists in a batch; deeper structures are not measured."""


def rank_and_world() -> tuple[int, int]:
    """Rank and world size: from torch.distributed, else from the launcher's variables, else 0 of 1."""
    distributed = torch.distributed
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    rank, world = ranks.rank(), ranks.world()
    return rank or 0, 1 if world is None else world


def device_in_use() -> int | None:
    """The current device if this process has a CUDA context there, else the first device where it has one, else None.

    Almost every CUDA call about a device creates a context on it, hundreds of megabytes; these do not.
    """
    if not torch.cuda.is_initialized():
        return None
    has_context = getattr(torch._C, "_cuda_hasPrimaryContext", None)
    current = torch.cuda.current_device()
    if has_context is None or has_context(current):
        return int(current)
    return next((index for index in range(torch.cuda.device_count()) if has_context(index)), None)


class GraphCaptures:
    """Tells whether the current stream is being captured into a CUDA graph: kernels launched then do not run."""

    def __init__(self) -> None:
        self._device: int | None = None

    def capturing(self) -> bool:
        if not torch.cuda.is_initialized():
            return False
        current = torch._C._cuda_getDevice()
        if current != self._device:  # the query below would create a context on a device that has none
            if device_in_use() != current:
                return False
            self._device = current
        return bool(torch._C._cuda_isCurrentStreamCapturing())


def memory() -> dict[str, int] | None:
    """Free, total, peak and reserved bytes of the device in use; None without one."""
    device = device_in_use()
    if device is None:
        return None
    free, total = torch.cuda.mem_get_info(device)
    return {
        "free_bytes": int(free),
        "total_bytes": int(total),
        "peak_bytes": int(torch.cuda.max_memory_allocated(device)),
        "reserved_bytes": int(torch.cuda.memory_reserved(device)),
    }


def process(cwd: str) -> dict[str, Any]:
    """Python, torch, their settings and the device, as this process uses them; paths relative to `cwd`."""
    main = sys.modules.get("__main__")
    return {
        "pid": os.getpid(),
        "host": platform.node(),
        "python": platform.python_version(),
        "script": getattr(main, "__file__", None),
        "torch": str(torch.__version__),
        "cuda": torch.version.cuda,
        "hip": getattr(torch.version, "hip", None),
        "cudnn": torch.backends.cudnn.version() if torch.cuda.is_initialized() else None,
        "cudnn_benchmark": torch.backends.cudnn.benchmark,
        "tf32": _tf32(torch),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "anomaly_detection": anomaly_log.seen(),
        "anomaly_places": anomaly_log.places(cwd),
        "threads": torch.get_num_threads(),
        "compiled": "torch._dynamo" in sys.modules,
        "restart": ranks.number("TORCHELASTIC_RESTART_COUNT") or 0,
        **_device(),
    }


def _tf32(torch: Any) -> bool | None:
    """Whether products and convolutions may both use TensorFloat-32; None where torch refuses to tell."""
    try:
        return bool(torch.backends.cuda.matmul.allow_tf32 and torch.backends.cudnn.allow_tf32)
    except RuntimeError:  # the script has set the precision of each by the newer names
        return None


class LoaderFacts:
    """Describes each DataLoader once, at its first batch, and measures what its workers deliver."""

    def __init__(self) -> None:
        self._seen: dict[tuple[Any, ...], dict[str, Any]] = {}
        self._made: dict[tuple[Any, ...], Place | None] = {}
        """Where each was made."""
        self._throughput = WorkerThroughput()
        self._worker_totals: dict[Any, dict[str, Any]] = {}
        self._workers: dict[int, tuple[Any, ...]] = {}
        """The loader of each worker, by process id."""
        self._folder = ""
        self._iterators: dict[tuple[Any, ...], int] = defaultdict(int)
        """How many of each were made. Of a data set that is made anew each time they count for the first one."""
        self._index = IndexClock()
        self._plain: dict[tuple[Any, ...], tuple[weakref.ref[Any], BatchSplit | None]] = {}
        """The iterators without workers, and what their batches are spent on."""
        self._begun: deque[weakref.ref[Any]] = deque(maxlen=MOST_LOADERS)  # strong references would keep workers alive

    def first_batch(self, iterator: Any, batch: Any) -> None:
        """`iterator` has handed out its first batch."""
        sampler = getattr(iterator, "_index_sampler", None)
        key = (id(iterator._dataset), iterator._num_workers, getattr(sampler, "batch_size", None))
        if not self._begun or iterator is not self._begun[0]():
            self._begun.appendleft(weakref.ref(iterator))
            if key not in self._seen and len(self._seen) < MOST_LOADERS:
                self._seen[key] = {**_loader(iterator), **_batch(batch)}
                self._made[key] = loader_places.of_iterator(iterator)
            self._iterators[self._same_line(iterator) or key] += 1
        if key in self._seen:
            if not iterator._num_workers:
                self._plain[key] = weakref.ref(iterator), None
            self._throughput.began(key, iterator)
            self._workers |= {worker.pid: key for worker in getattr(iterator, "_workers", ())}

    def _same_line(self, iterator: Any) -> tuple[Any, ...] | None:
        """The first loader that was made at the line of this one's: a script may make one for each batch."""
        place = loader_places.of_iterator(iterator)
        return next((key for key, made in self._made.items() if place is not None and made == place), None)

    def measure_throughput(self) -> None:
        """Read the workers' throughput; called at the end of the unprofiled steps, before anything slows the loop."""
        self._worker_totals = self._throughput.so_far()

    def begin_split(self, folder: str) -> None:
        """Split the batches that the training process makes itself from here on; places are relative to `folder`."""
        self._folder = folder
        self._index.install()
        for key, (reference, _) in self._plain.items():
            fetcher = getattr(reference(), "_dataset_fetcher", None)
            if fetcher is not None:
                self._plain[key] = reference, BatchSplit(fetcher, skipped=0)

    def end_split(self) -> None:
        """Split none any more; may be called without `begin_split`."""
        self._index.remove()
        for _, split in reversed(self._plain.values()):
            if split is not None:
                split.detach()

    def live(self) -> list[Any]:
        """The iterators that still exist, the most recently started one first."""
        return [iterator for reference in self._begun if (iterator := reference()) is not None]

    def listed(self, run: str | None = None, cwd: str = "") -> list[dict[str, Any]]:
        """One entry per DataLoader for rank.json; `run` is the folder in which its workers leave what they measured.
        Paths are relative to `cwd`."""
        splits: dict[Any, list[dict[str, Any]]] = defaultdict(list)
        for pid, split in (worker_split.collected(run) if run is not None else {}).items():
            if pid in self._workers:
                splits[self._workers[pid]].append(split)
        workers = {key: len(found) for key, found in splits.items()}
        for key, (_, own) in self._plain.items():
            splits[key] += [own.document(self._folder)] if own is not None else []
        return [
            {
                **facts,
                "made_at": stored_place(place, cwd) if (place := self._made.get(key)) is not None else None,
                "iterators": self._iterators.get(key, 0),
                "index": self._index.document(),
                "supply": self._worker_totals.get(key),
                "split": batch_split.merged(splits[key], workers.get(key, 0)),
            }
            for key, facts in self._seen.items()
        ]


def length(value: Any) -> int | None:
    """`len(value)`; None where it has none or raises.

    Restores the DataLoader's note that its length was asked for: later it would warn the user, who did not ask.
    """
    called = getattr(value, "_IterableDataset_len_called", None)
    try:
        return len(value)
    except Exception:  # noqa: BLE001 -- a `__len__` of the user's may raise anything
        return None
    finally:
        if called is None and getattr(value, "_IterableDataset_len_called", None) is not None:
            value._IterableDataset_len_called = None


def _loader(iterator: Any) -> dict[str, Any]:
    return {
        "kind": type(iterator).__name__,
        "dataset": type(iterator._dataset).__name__,
        "num_workers": int(iterator._num_workers),
        "pin_memory": bool(iterator._pin_memory),
        "batch_size": getattr(getattr(iterator, "_index_sampler", None), "batch_size", None),
        "prefetch_factor": getattr(iterator, "_prefetch_factor", None),
        "persistent_workers": bool(getattr(iterator, "_persistent_workers", False)),
        "batches": length(iterator),
    }


def _batch(batch: Any) -> dict[str, Any]:
    """Bytes of the batch's tensors; None where none was found (only mappings, lists and tuples are searched)."""
    tensors: list[torch.Tensor] = []
    _collect(batch, tensors, _BATCH_DEPTH)
    sizes = [tensor.numel() * tensor.element_size() for tensor in tensors]
    return {
        "batch_bytes": sum(sizes) if sizes else None,
        "batch_tensors": len(tensors),
        "batch_pinned": all(tensor.is_pinned() for tensor in tensors)
        if tensors and torch.cuda.is_initialized()
        else None,
    }


def _collect(value: Any, tensors: list[torch.Tensor], depth: int) -> None:
    if isinstance(value, torch.Tensor):
        tensors.append(value)
    elif depth and isinstance(value, Mapping):
        for part in value.values():
            _collect(part, tensors, depth - 1)
    elif depth and isinstance(value, (list, tuple)):
        for part in value:
            _collect(part, tensors, depth - 1)


def _device() -> dict[str, Any]:
    index = device_in_use()
    if index is None:
        return {"device": "cpu", "device_index": None, "allocator": None}
    return {
        "device": torch.cuda.get_device_name(index),
        "device_index": index,
        "allocator": torch.cuda.get_allocator_backend(),
    }
