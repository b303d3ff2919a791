"""Arguments of DataLoaders, set when an iterator is asked for: a loader of any class, however it was constructed.

In: toggles of kind `loader-argument` and `batch`. Out: each loader that the training process iterates over has them.
torch reads these attributes when it makes the iterator.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.utils.data import BatchSampler, DataLoader

from tracelens.verify.inside.toggles.toggle_record import ToggleRecord

_NO_WORKERS = "the DataLoader has no workers"


def install(record: ToggleRecord) -> None:
    """Change every loader at the first time that it is iterated over."""
    change = _multiplied if record.kind == "batch" else _CHANGES[record.name]
    original = DataLoader.__iter__

    @functools.wraps(original)
    def changed_iter(loader: Any) -> Any:
        done = vars(loader).setdefault("_tracelens_toggles", set())
        if id(record) not in done and getattr(loader, "_iterator", None) is None:
            done.add(id(record))
            change(loader, record)
        return original(loader)

    DataLoader.__iter__ = changed_iter


def _set(loader: Any, name: str, value: Any) -> None:
    """Past the loader's own check, which forbids some attributes once it is constructed."""
    object.__setattr__(loader, name, value)


def _workers(loader: Any, record: ToggleRecord) -> None:
    wanted, now = int(record.value), int(loader.num_workers)
    if now == wanted:
        record.already(f"num_workers is {now} already")
    elif isinstance(loader.dataset, torch.utils.data.IterableDataset):
        record.refused("an IterableDataset decides by itself what each worker yields")
    else:
        _set(loader, "num_workers", wanted)
        if wanted and loader.prefetch_factor is None:
            _set(loader, "prefetch_factor", 2)
        if not wanted:
            _set(loader, "prefetch_factor", None)
            _set(loader, "persistent_workers", False)
            _set(loader, "timeout", 0)
        record.applied(f"num_workers was {now}")


def _prefetch(loader: Any, record: ToggleRecord) -> None:
    if not loader.num_workers:
        record.refused(_NO_WORKERS)
    elif loader.prefetch_factor == record.value:
        record.already(f"prefetch_factor is {record.value} already")
    else:
        record.applied(f"prefetch_factor was {loader.prefetch_factor}")
        _set(loader, "prefetch_factor", int(record.value))


def _persistent(loader: Any, record: ToggleRecord) -> None:
    if not loader.num_workers:
        record.refused(_NO_WORKERS)
    elif loader.persistent_workers:
        record.already("persistent_workers is True already")
    else:
        _set(loader, "persistent_workers", True)
        record.applied()


def _pinned(loader: Any, record: ToggleRecord) -> None:
    if not torch.cuda.is_available():
        record.refused("there is no GPU")
    elif loader.pin_memory:
        record.already("pin_memory is True already")
    else:
        _set(loader, "pin_memory", True)
        record.applied()


def _multiplied(loader: Any, record: ToggleRecord) -> None:
    factor, sampler = int(str(record.value).removesuffix("x")), loader.batch_sampler
    if type(sampler) is not BatchSampler:
        kind = "no batch sampler" if sampler is None else f"a batch sampler of its own ({type(sampler).__name__})"
        record.refused(f"the DataLoader has {kind}")
        return
    size = sampler.batch_size * factor
    try:
        samples = len(loader.sampler)
    except TypeError:  # a data set that does not know its length
        samples = None
    if samples is not None and samples < size:
        record.refused(f"the data set has {samples} samples, fewer than {size}")
        return
    sampler.batch_size = size
    _set(loader, "batch_size", size)
    record.applied(f"{size} samples instead of {size // factor}")


_CHANGES: dict[str, Callable[[Any, ToggleRecord], None]] = {
    "num_workers": _workers,
    "prefetch_factor": _prefetch,
    "persistent_workers": _persistent,
    "pin_memory": _pinned,
}
