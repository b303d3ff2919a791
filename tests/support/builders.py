"""Known-answer traces: a builder that writes Chrome events, and a small machine that runs a loop and records itself.

In: calls such as `machine.launch(...)`. Out: the dict (or file) that torch.profiler would write. All times are
microseconds from the trace's zero, so that the expected number of a test can be worked out in the head.

    machine = Machine()                       # host and GPU clocks at 0
    for number in range(4):
        with machine.step(number):
            machine.copy("h2d", "pageable", copy_us=50, nbytes=1 << 20)
            machine.launch("gemm", kernel_us=300)
            machine.host(100)                 # Python between two calls
            machine.synchronize()             # waits for the device, then returns after RETURN_US
    trace = machine.trace()                   # a tracelens Trace;  machine.events.write(path) for a file

`Events` alone (no clocks) places every row by hand.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tracelens.model import Trace

BASE_NS = 1_767_225_600_000_000_000
"""Unix time of every built trace's zero: 2026-01-01, a round number on purpose."""
MAIN, AUTOGRAD, GPU, STREAM = 100, 101, 0, 7

ISSUE_US = 5
"""Length of an API call that does not wait."""
LATENCY_US = 7
"""From the start of a launch call to the start of its kernel on an idle stream."""
KERNEL_GAP_US = 1
"""Between two queued kernels of one stream."""
RETURN_US = 3
"""From the end of the awaited work to the return of the synchronize call."""


@dataclass
class Events:
    """Rows of a trace, placed by hand. Correlation ids are handed out in order, from 1."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    top: dict[str, Any] = field(default_factory=dict)
    next_correlation: int = 1

    def add(self, category: str, name: str, at: float, dur: float, **row: Any) -> dict[str, Any]:
        """Any complete event; `pid`, `tid` and `args` may be given."""
        event = {"ph": "X", "cat": category, "name": name, "pid": MAIN, "tid": MAIN, "ts": at, "dur": dur, **row}
        self.rows.append(event)
        return event

    def step(self, number: int, at: float, dur: float) -> None:
        self.add("user_annotation", f"ProfilerStep#{number}", at, dur)

    def annotation(self, name: str, at: float, dur: float, thread: int = MAIN) -> None:
        self.add("user_annotation", name, at, dur, tid=thread)

    def loader(self, at: float, dur: float) -> None:
        """The main thread inside the DataLoader's `__next__`."""
        self.annotation("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", at, dur)

    def frame(self, name: str, at: float, dur: float, thread: int = MAIN) -> None:
        """A Python frame, named as Kineto does: `train.py(12): main`."""
        self.add("python_function", name, at, dur, tid=thread)

    def call(self, api: str, at: float, dur: float, thread: int = MAIN) -> int:
        """A CUDA (or HIP) API call; returns its correlation id."""
        correlation = self.next_correlation
        self.next_correlation += 1
        self.add("cuda_runtime", api, at, dur, tid=thread, args={"correlation": correlation})
        return correlation

    def kernel(
        self, correlation: int, name: str, at: float, dur: float, stream: int = STREAM, device: int = GPU
    ) -> None:
        args = {"correlation": correlation, "stream": stream, "device": device}
        self.add("kernel", name, at, dur, pid=device, tid=stream, args=args)

    def copied(
        self,
        correlation: int,
        name: str,
        at: float,
        dur: float,
        *,
        nbytes: int = 0,
        stream: int = STREAM,
        device: int = GPU,
    ) -> None:
        """A copy on the GPU; `name` as Kineto writes it, e.g. `Memcpy HtoD (Pageable -> Device)`."""
        args = {"correlation": correlation, "stream": stream, "device": device, "bytes": nbytes}
        self.add("gpu_memcpy", name, at, dur, pid=device, tid=stream, args=args)

    def sync_row(self, correlation: int, kind: str, at: float, dur: float, *, stream: int = -1, **args: Any) -> None:
        """A `cuda_sync` row: `Stream Sync`, `Context Sync`, `Event Sync` or `Stream Wait Event`."""
        fields = {"cuda_sync_kind": kind, "correlation": correlation, "stream": stream, "device": GPU, **args}
        self.add("cuda_sync", kind, at, dur, pid=GPU, tid=stream, args=fields)

    def document(self) -> dict[str, Any]:
        head = {
            "schemaVersion": 1,
            "deviceProperties": [{"id": 0, "name": "NVIDIA H200", "totalGlobalMem": 150109880320}],
            "baseTimeNanoseconds": BASE_NS,
        }
        return {**head, **self.top, "traceEvents": list(self.rows)}

    def write(self, path: Path) -> Path:
        """Write `.json` or `.json.gz`, laid out as Kineto does: one event per few lines."""
        text = json.dumps(self.document(), indent=1).encode()
        path.write_bytes(gzip.compress(text, 1) if path.suffix == ".gz" else text)
        return path

    def trace(self) -> Trace:
        """Load what `write` would write."""
        from tracelens.trace import chrome

        with tempfile.TemporaryDirectory() as folder:
            return chrome.load(self.write(Path(folder) / "built.pt.trace.json"))


@dataclass
class Machine:
    """A host thread and GPU streams with clocks; every method advances them and records what a profiler would see."""

    events: Events = field(default_factory=Events)
    now: float = 0.0
    stream_end: dict[int, float] = field(default_factory=dict)
    sync_rows: bool = True
    """Write `cuda_sync` rows beside the synchronize calls."""

    @contextlib.contextmanager
    def step(self, number: int) -> Iterator[None]:
        """A `ProfilerStep#number` around the block."""
        began = self.now
        yield
        self.events.step(number, began, self.now - began)

    def host(self, us: float) -> None:
        """Host work without an API call."""
        self.now += us

    def load_batch(self, us: float) -> None:
        self.events.loader(self.now, us)
        self.now += us

    def launch(self, name: str, kernel_us: float, *, stream: int = STREAM, thread: int = MAIN) -> None:
        correlation = self.events.call("cudaLaunchKernel", self.now, ISSUE_US, thread)
        start = self._enqueue(stream, kernel_us)
        self.events.kernel(correlation, name, start, kernel_us, stream=stream)
        self.now += ISSUE_US

    def copy(self, direction: str, memory: str, copy_us: float, *, nbytes: int = 0, stream: int = STREAM) -> None:
        """`direction` h2d or d2h; `memory` pageable (the call blocks until the copy is done) or pinned."""
        host = memory.capitalize()
        name = f"Memcpy HtoD ({host} -> Device)" if direction == "h2d" else f"Memcpy DtoH (Device -> {host})"
        start = self._enqueue(stream, copy_us)
        length = ISSUE_US if memory == "pinned" else start + copy_us + RETURN_US - self.now
        correlation = self.events.call("cudaMemcpyAsync", self.now, length)
        self.events.copied(correlation, name, start, copy_us, nbytes=nbytes, stream=stream)
        self.now += length

    def memset(self, fill_us: float, *, nbytes: int = 0, stream: int = STREAM) -> None:
        """`tensor.zero_()` of a contiguous tensor: asynchronous, a fill of the GPU's memory."""
        correlation = self.events.call("cudaMemsetAsync", self.now, ISSUE_US)
        args = {"correlation": correlation, "stream": stream, "device": GPU, "bytes": nbytes}
        start = self._enqueue(stream, fill_us)
        self.events.add("gpu_memset", "Memset (Device)", start, fill_us, pid=GPU, tid=stream, args=args)
        self.now += ISSUE_US

    def item(self, *, stream: int = STREAM) -> None:
        """`.item()` of today's torch: a pinned D2H copy of 4 bytes (1 us), then a stream synchronize."""
        self.copy("d2h", "pinned", 1, nbytes=4, stream=stream)
        self.stream_synchronize(stream)

    def synchronize(self) -> None:
        """`torch.cuda.synchronize()`."""
        self._wait("cudaDeviceSynchronize", max(self.stream_end.values(), default=0.0), "Context Sync", -1)

    def stream_synchronize(self, stream: int = STREAM, thread: int = MAIN) -> None:
        self._wait("cudaStreamSynchronize", self.stream_end.get(stream, 0.0), "Stream Sync", stream, thread)

    @contextlib.contextmanager
    def operation(self, name: str, sequence: int | None = None, thread: int = MAIN) -> Iterator[None]:
        """A framework operation around the block, with the sequence number that autograd gives it."""
        began = self.now
        yield
        args = {} if sequence is None else {"Sequence number": sequence}
        self.events.add("cpu_op", name, began, self.now - began, tid=thread, args=args)

    def node(self, name: str, sequence: int | None = None) -> contextlib.AbstractContextManager[None]:
        """Autograd evaluates a node around the block, on its own thread."""
        return self.operation(f"autograd::engine::evaluate_function: {name}", sequence, AUTOGRAD)

    def record_event(self) -> float:
        """Record an event on the default stream; returns the time at which it will have completed."""
        self.events.call("cudaEventRecordWithFlags", self.now, ISSUE_US)
        self.now += ISSUE_US
        return self.stream_end.get(STREAM, 0.0)

    def event_synchronize(self, completed: float) -> None:
        self._wait("cudaEventSynchronize", completed, "Event Sync", -1)

    def trace(self) -> Trace:
        return self.events.trace()

    def _enqueue(self, stream: int, length: float) -> float:
        start = max(self.now + LATENCY_US, self.stream_end.get(stream, float("-inf")) + KERNEL_GAP_US)
        self.stream_end[stream] = start + length
        return start

    def _wait(self, api: str, completed: float, kind: str, stream: int, thread: int = MAIN) -> None:
        length = max(ISSUE_US, completed + RETURN_US - self.now)
        correlation = self.events.call(api, self.now, length, thread)
        if self.sync_rows:
            self.events.sync_row(correlation, kind, self.now, length, stream=stream)
        self.now += length


def loop(steps: int = 3, *, first: int = 0) -> Events:
    """The simplest training: each step copies a batch, computes, and reads a value."""
    machine = Machine()
    for number in range(first, first + steps):
        with machine.step(number):
            machine.copy("h2d", "pageable", 20, nbytes=4096)
            machine.launch("gemm", 100)
            machine.item()
    return machine.events
