"""Which CUDA event is recorded, waited for and synchronized, and on which stream: newer CUDA leaves it out of traces.

In: nothing but an installed torch. Out: uses of events while `installed`, each with its time, thread, event and
stream. Apart from `attribution` because it runs in the clean window, whose timings count: a use costs about a
microsecond, and a step makes a handful. Events recorded inside C++ (allocator, NCCL, autograd) are not seen.

From CUDA 12.9 on a trace's `Stream Wait Event` says -1 for the stream and the record it waits for; without the pair
nobody can tell what a copy stream waited for.
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
"""A loop uses a few events per step; more is a loop that polls, and its first uses tell the same story."""
DEFAULT_STREAM = 7
"""CUPTI's number of the legacy default stream in every trace."""
_METHODS = ("record", "wait", "synchronize", "query")
_WITH_STREAM = ("record", "wait")


@dataclass(frozen=True, slots=True)
class EventCall:
    """One use of an event. `stream` is CUPTI's number, None where no stream is named or it cannot be told."""

    start_unix_ns: int
    end_unix_ns: int
    thread: int
    call: str
    event: int
    stream: int | None


class CudaEventLog:
    """Patches on `torch.cuda.Event`; `install` and `remove` are called at step boundaries."""

    def __init__(self) -> None:
        self._rows: list[tuple[int, int, int, str, int, int | None]] = []
        self._patched: list[tuple[str, Any]] = []

    def install(self) -> None:
        """Replace the four methods; torch.cuda.Event as before on any failure."""
        try:
            for name in _METHODS:
                original = vars(torch.cuda.Event)[name]
                self._patched.append((name, original))
                setattr(torch.cuda.Event, name, self._noting(name, original))
        except BaseException:
            self.remove()
            raise

    def remove(self) -> None:
        """Put everything back."""
        while self._patched:
            name, original = self._patched.pop()
            setattr(torch.cuda.Event, name, original)

    def uses(self) -> list[EventCall]:
        """What was noted: pointers turned into small numbers for events, into the trace's numbers for streams."""
        numbers: dict[int, int] = {}
        stream_of = _stream_numbers({row[5] for row in self._rows if row[5] is not None})
        return [
            EventCall(start, end, thread, call, numbers.setdefault(event, len(numbers) + 1), stream_of.get(stream))
            for start, end, thread, call, event, stream in self._rows
            if event  # 0: it was never recorded
        ]

    def _noting(self, call: str, original: Callable[..., Any]) -> Callable[..., Any]:
        rows, clock, native_id = self._rows, time.time_ns, threading.get_native_id
        current_stream = torch.cuda.current_stream

        @functools.wraps(original)
        def with_stream(event: Any, stream: Any = None) -> Any:
            if len(rows) >= MOST_USES:
                return original(event, stream)
            if stream is None:
                stream = current_stream()  # what torch does next itself
            start = clock()
            result = original(event, stream)
            pointer = getattr(stream, "cuda_stream", None)
            rows.append((start, clock(), native_id(), call, event.cuda_event, pointer))
            return result

        @functools.wraps(original)
        def alone(event: Any) -> Any:
            start = clock()
            result = original(event)
            if len(rows) < MOST_USES:
                rows.append((start, clock(), native_id(), call, event.cuda_event, None))
            return result

        chosen = with_stream if call in _WITH_STREAM else alone
        chosen._torchdynamo_disable = True  # type: ignore[attr-defined]  # torch.compile must not trace into it
        return chosen


def _stream_numbers(pointers: set[int]) -> dict[int | None, int | None]:
    """CUPTI's number of each stream, asked of the CUPTI that torch has loaded; unknown ones are left out."""
    found: dict[int | None, int | None] = {}
    ask = _cupti_question()
    for pointer in pointers:
        number = ask(pointer) if ask is not None else None
        if number is None and pointer == 0:
            number = DEFAULT_STREAM
        if number is not None:
            found[pointer] = number
    return found


def _cupti_question() -> Callable[[int], int | None] | None:
    """`cuptiGetStreamIdEx` of the library that is loaded in this process; None where there is none."""
    try:
        library = _loaded("libcupti")
        if library is None:
            return None
        question = library.cuptiGetStreamIdEx
    except (OSError, AttributeError):
        return None
    question.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint8, ctypes.POINTER(ctypes.c_uint32))

    def ask(pointer: int) -> int | None:
        number = ctypes.c_uint32(0)
        failed = question(None, ctypes.c_void_p(pointer), 0, ctypes.byref(number))
        return None if failed else int(number.value)

    return ask


def _loaded(name: str) -> Any:
    """A shared library that this process has mapped already; loading another copy could disturb the profiler."""
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        for line in maps:
            path = line.rstrip("\n").partition("/")[2]
            if path.rpartition("/")[2].startswith(name):
                return ctypes.CDLL("/" + path)
    return None
