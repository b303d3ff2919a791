"""Logs calls on `torch.cuda.Event`: which event is recorded, waited for or synchronized, and on which stream.

In: the installed torch. Out: the calls between `install` and `remove`, each with its time, thread, event and stream.
It runs in the clean window, whose timings count, so it must be cheap: a call costs about a microsecond more, and a step
makes a handful. Events recorded inside C++ (allocator, NCCL, autograd) are not seen.

It exists because, from CUDA 12.9 on, a trace's `Stream Wait Event` has -1 for both the stream and the record that it
waits for: from the trace alone one cannot say what a copy stream waited for.
"""

from __future__ import annotations

import ctypes
import functools
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

MOST_USES = 50_000
"""Rows kept. A loop makes a few calls per step; more is a polling loop, whose first calls say the same."""
DEFAULT_STREAM = 7
"""CUPTI's number of the legacy default stream in every trace."""
_METHODS = ("record", "wait", "synchronize", "query")
_WITH_STREAM = ("record", "wait")


@dataclass(frozen=True, slots=True)
class EventCall:
    """One call on an event. `stream` is CUPTI's number, None where the call has no stream or it is unknown."""

    start_unix_ns: int
    end_unix_ns: int
    thread: int
    call: str
    event: int
    stream: int | None


class CudaEventLog:
    """Wraps methods of `torch.cuda.Event` between `install` and `remove`, both called at step boundaries."""

    def __init__(self) -> None:
        self._rows: list[tuple[int, int, int, str, int, int | None]] = []
        self._patched: list[tuple[str, Any]] = []

    def install(self) -> None:
        """Wrap the methods; on any failure all are restored and the error is raised."""
        try:
            for name in _METHODS:
                original = vars(torch.cuda.Event)[name]
                self._patched.append((name, original))
                setattr(torch.cuda.Event, name, self._logging(name, original))
        except BaseException:
            self.remove()
            raise

    def remove(self) -> None:
        """Restore the methods."""
        while self._patched:
            name, original = self._patched.pop()
            setattr(torch.cuda.Event, name, original)

    def uses(self) -> list[EventCall]:
        """The logged calls; events are numbered from 1, streams have the numbers of the trace."""
        numbers: dict[int, int] = {}
        stream_of = _stream_numbers({row[5] for row in self._rows if row[5] is not None})
        return [
            EventCall(start, end, thread, call, numbers.setdefault(event, len(numbers) + 1), stream_of.get(stream))
            for start, end, thread, call, event, stream in self._rows
            if event  # 0: the event was never recorded
        ]

    def _logging(self, call: str, original: Callable[..., Any]) -> Callable[..., Any]:
        rows, clock, native_id = self._rows, time.time_ns, threading.get_native_id
        current_stream = torch.cuda.current_stream

        @functools.wraps(original)
        def with_stream(event: Any, stream: Any = None) -> Any:
            if len(rows) >= MOST_USES:
                return original(event, stream)
            if stream is None:
                stream = current_stream()  # torch's own default
            start = clock()
            result = original(event, stream)
            pointer = getattr(stream, "cuda_stream", None)
            rows.append((start, clock(), native_id(), call, event.cuda_event, pointer))
            return result

        @functools.wraps(original)
        def without_stream(event: Any) -> Any:
            start = clock()
            result = original(event)
            if len(rows) < MOST_USES:
                rows.append((start, clock(), native_id(), call, event.cuda_event, None))
            return result

        wrapper = with_stream if call in _WITH_STREAM else without_stream
        wrapper._torchdynamo_disable = True  # type: ignore[attr-defined]  # torch.compile must not trace into it
        return wrapper


def _stream_numbers(pointers: set[int]) -> dict[int | None, int | None]:
    """CUPTI's number of each stream, by stream pointer; unknown ones are left out."""
    numbers: dict[int | None, int | None] = {}
    stream_id = _cupti_stream_id()
    for pointer in pointers:
        number = stream_id(pointer) if stream_id is not None else None
        if number is None and pointer == 0:
            number = DEFAULT_STREAM
        if number is not None:
            numbers[pointer] = number
    return numbers


def _cupti_stream_id() -> Callable[[int], int | None] | None:
    """`cuptiGetStreamIdEx` of the CUPTI that torch has loaded; None where there is none."""
    try:
        library = _loaded("libcupti")
        if library is None:
            return None
        get_stream_id = library.cuptiGetStreamIdEx
    except (OSError, AttributeError):
        return None
    get_stream_id.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint8, ctypes.POINTER(ctypes.c_uint32))

    def stream_id(pointer: int) -> int | None:
        number = ctypes.c_uint32(0)
        failed = get_stream_id(None, ctypes.c_void_p(pointer), 0, ctypes.byref(number))
        return None if failed else int(number.value)

    return stream_id


def _loaded(name: str) -> Any:
    """The shared library `name…` if this process has it mapped; a second copy could disturb the profiler."""
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        for line in maps:
            path = line.rstrip("\n").partition("/")[2]
            if path.rpartition("/")[2].startswith(name):
                return ctypes.CDLL("/" + path)
    return None
