"""What the time of a batch is spent on: samples, transforms by class, collating.

In: a fetcher of torch's DataLoader, in a worker or in the training process. Out: `document`, sums over some batches.
Only attributes of the fetcher and `__call__` of the transforms' classes are replaced, for these batches; the dataset,
its samples, their order and the generators are not touched. After an error everything is as before.
"""

from __future__ import annotations

import functools
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import FunctionType
from typing import Any

import torch

from tracelens.capture.inside.user_frames import is_users, stored_path
from tracelens.launch.inside.tracebacks import hide_our_frames

SKIPPED = 1
"""The first batch of a worker imports modules and opens files."""
MOST_BATCHES = 8
MOST_OBJECTS = 200
"""Looked at in search of transforms: a dataset may hold a list of everything."""
MOST_MEMBERS = 32
"""Of one list; what composes transforms has a dozen."""
_MISSING = object()
_INSIDE = ("dataset", "datasets")
"""Attributes by which datasets hold others, as Subset and ConcatDataset do."""


class BatchSplit:
    """Attached to `fetcher` until `MOST_BATCHES` batches are measured, an error passes, or `detach`."""

    def __init__(
        self, fetcher: Any, skipped: int = SKIPPED, report: Callable[[BatchSplit], None] | None = None
    ) -> None:
        """`report` is called with this object after the first measured batch, the second, the fourth, …"""
        self.batches = self.fetch_ns = self.collate_ns = 0
        self.transforms: dict[str, int] = defaultdict(int)
        self._fetcher, self._report, self._skipped = fetcher, report, skipped
        self._fetch, self._collate = fetcher.fetch, fetcher.collate_fn
        self._thread = threading.get_ident()
        self._nested_ns = 0
        """Of the transforms that the one under way has called."""
        self._classes: list[tuple[type, Any, Any]] = []
        self._attached = True
        vars(fetcher).update(fetch=self._fetched, collate_fn=self._collated)

    def detach(self) -> None:
        """Put everything back; may be called again."""
        if not self._attached:
            return
        self._attached = False
        while self._classes:
            kind, previous, replacement = self._classes.pop()
            if vars(kind).get("__call__") is not replacement:
                continue  # the script has replaced it meanwhile
            if previous is _MISSING:
                del kind.__call__
            else:
                kind.__call__ = previous  # type: ignore[method-assign]
        vars(self._fetcher).pop("fetch", None)
        self._fetcher.collate_fn = self._collate

    def document(self, folder: str) -> dict[str, Any]:
        """Sums in ns over the measured batches; paths are relative to `folder` where they lie below it."""
        samples = _sample_code(self._fetcher.dataset)
        return {
            "batches": self.batches,
            "fetch_ns": self.fetch_ns,
            "collate_ns": self.collate_ns,
            "transforms": dict(self.transforms),
            "sample_place": _place(samples, folder),
            "collate_place": _place(self._collate, folder),
        }

    def _fetched(self, index: Any) -> Any:
        if self._skipped:
            self._skipped -= 1
            return self._fetch(index)
        if not self.batches:
            self._time_transforms()
        started = time.perf_counter_ns()
        try:
            batch = self._fetch(index)
        except BaseException as error:
            self.detach()
            hide_our_frames(error)
            raise
        self.fetch_ns += time.perf_counter_ns() - started
        self.batches += 1
        if self.batches >= MOST_BATCHES:
            self.detach()
        if self._report is not None and self.batches & (self.batches - 1) == 0:
            self._report(self)
        return batch

    def _collated(self, samples: Any) -> Any:
        started = time.perf_counter_ns()
        try:
            return self._collate(samples)
        except BaseException as error:
            hide_our_frames(error)
            raise
        finally:
            self.collate_ns += time.perf_counter_ns() - started

    def _time_transforms(self) -> None:
        for kind in dict.fromkeys(type(each) for each in _callables(self._fetcher.dataset)):
            previous = vars(kind).get("__call__", _MISSING)
            replacement = self._timed(_call_of(kind))
            try:
                kind.__call__ = replacement
            except (TypeError, AttributeError):  # a class that cannot be changed stays untimed
                continue
            self._classes.append((kind, previous, replacement))

    def _timed(self, original: Any) -> Any:
        @functools.wraps(original)
        def call(transform: Any, /, *args: Any, **kwargs: Any) -> Any:
            if not self._attached or threading.get_ident() != self._thread:
                return original(transform, *args, **kwargs)
            outside, self._nested_ns = self._nested_ns, 0
            started = time.perf_counter_ns()
            try:
                return original(transform, *args, **kwargs)
            except BaseException as error:
                hide_our_frames(error)
                raise
            finally:
                took = time.perf_counter_ns() - started
                self.transforms[type(transform).__qualname__] += took - self._nested_ns
                self._nested_ns = outside + took

        return call


def merged(documents: Sequence[Mapping[str, Any]], workers: int) -> dict[str, Any] | None:
    """The documents of several `workers` as one, or of the training process (0); None without any measured batch."""
    documents = [document for document in documents if document["batches"]]
    if not documents:
        return None
    transforms: dict[str, int] = defaultdict(int)
    for document in documents:
        for name, ns in document["transforms"].items():
            transforms[name] += ns
    sums = {key: sum(document[key] for document in documents) for key in ("batches", "fetch_ns", "collate_ns")}
    places = {
        key: next((document[key] for document in documents if document.get(key)), None)
        for key in ("sample_place", "collate_place")
    }
    return {**sums, **places, "workers": workers, "transforms": dict(transforms)}


def _callables(dataset: Any) -> Iterable[Any]:
    """The objects that a dataset holds and can call, as transforms are: found in attributes, without running code."""
    seen: set[int] = set()
    pending = deque([dataset])
    while pending and len(seen) < MOST_OBJECTS:
        found = pending.popleft()
        if id(found) in seen:
            continue
        seen.add(id(found))
        if found is not dataset and _call_of(type(found)) is not None and not isinstance(found, torch.jit.ScriptModule):
            yield found
        pending += _held(found)


def _held(holder: Any) -> Iterable[Any]:
    """What an object holds that may be a transform, compose some, or be the dataset behind it."""
    for name, value in (getattr(holder, "__dict__", None) or {}).items():
        if name == "_modules" and isinstance(value, dict):
            yield from list(value.values())[:MOST_MEMBERS]
        elif isinstance(value, (list, tuple)):
            yield from (each for each in value[:MOST_MEMBERS] if _call_of(type(each)) is not None or name in _INSIDE)
        elif name in _INSIDE or _call_of(type(value)) is not None:
            yield value


def _call_of(kind: type) -> FunctionType | None:
    """`__call__` of the instances of a class that is written in Python; None of functions, classes and the rest."""
    if issubclass(kind, type):
        return None
    found = next((vars(base)["__call__"] for base in kind.__mro__ if "__call__" in vars(base)), None)
    return found if isinstance(found, FunctionType) else None


def _sample_code(dataset: Any) -> Any:
    """The project's function that makes a sample; None where a library makes them."""
    for _ in range(MOST_MEMBERS):
        for name in ("__getitems__", "__getitem__", "__iter__"):
            function = getattr(type(dataset), name, None)
            if isinstance(function, FunctionType) and is_users(function.__code__):
                return function
        inner = vars(dataset).get("dataset") if hasattr(dataset, "__dict__") else None
        if inner is None:
            return None
        dataset = inner
    return None


def _place(function: Any, folder: str) -> dict[str, Any] | None:
    code = getattr(function, "__code__", None)
    if code is None or not is_users(code):
        return None
    return {
        "path": stored_path(code.co_filename, folder),
        "line": code.co_firstlineno,
        "function": getattr(function, "__qualname__", code.co_name),
    }
