"""CUDA streams that order nothing but a record of who runs before whom: for scripts on the CPU.

In: a script that makes streams and events. Out: what it left, and for each operation of its training the operations
that have ended for certain when it starts. A patched script keeps every such order, or it has a race that a GPU shows
only now and then.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from tests.support.patching import Outcome, patched_text, run
from tracelens.model import Patch

_BOOKKEEPING = frozenset({"detach", "alias", "cat", "view", "reshape", "as_strided", "_to_copy", "copy_", "stack", "t"})
"""Operations that a patch may add or leave out; those that read a loss are `read`."""
_READ = "_local_scalar_dense"
_KEPT = "clone"
"""What takes a value out of a tensor: for the host at once, and for later."""


@dataclass
class Device:
    """One GPU: operations are numbered as they are issued, sets of them are the bits of an integer."""

    host: int = 0
    """What the host has waited for."""
    names: list[str] = field(default_factory=list)
    before: list[int] = field(default_factory=list)
    streams: list[Stream] = field(default_factory=list)
    current: Stream | None = None

    def issue(self, name: str) -> None:
        stream = self.stream()
        self.before.append(stream.seen | self.host)
        self.names.append(name)
        stream.seen |= self.host | (1 << (len(self.names) - 1))

    def stream(self) -> Stream:
        if self.current is None:
            self.current = Stream(self)
        return self.current

    def synchronize(self, device: object = None) -> None:
        for stream in self.streams:
            self.host |= stream.seen


class Stream:
    def __init__(self, device: Device) -> None:
        self._device, self.seen = device, 0
        self.device = torch.device("cuda", 0)
        device.streams.append(self)

    def synchronize(self) -> None:
        self._device.host |= self.seen

    def wait_stream(self, other: Stream) -> None:
        self.seen |= other.seen | self._device.host

    def wait_event(self, event: Event) -> None:
        self.seen |= event.seen

    def record_event(self, event: Event | None = None) -> Event:
        marked = event if event is not None else Event(self._device)
        marked.record(self)
        return marked

    def query(self) -> bool:
        return self.seen | self._device.host == self._device.host


class Event:
    def __init__(self, device: Device, enable_timing: bool = False) -> None:
        self._device, self.seen = device, 0

    def record(self, stream: Stream | None = None) -> None:
        self.seen = (stream or self._device.stream()).seen | self._device.host

    def wait(self, stream: Stream | None = None) -> None:
        (stream or self._device.stream()).wait_event(self)

    def synchronize(self) -> None:
        self._device.host |= self.seen

    def query(self) -> bool:
        return self.seen | self._device.host == self._device.host


class _Operations(TorchDispatchMode):
    def __init__(self, device: Device) -> None:
        super().__init__()
        self._device = device

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        if name not in _BOOKKEEPING:
            self._device.issue(name)
        if name == _READ:
            self._device.stream().synchronize()
        return func(*args, **(kwargs or {}))


@contextlib.contextmanager
def on_streams() -> Iterator[Device]:
    """Let scripts use the streams and events of this module."""
    device = Device()

    @contextlib.contextmanager
    def stream(chosen: Stream | None) -> Iterator[None]:
        before = device.stream()
        device.current = chosen or before
        yield
        device.current = before

    default = device.stream()
    replaced = {
        "Stream": lambda *_, **__: Stream(device),
        "Event": lambda **given: Event(device, **given),
        "stream": stream,
        "current_stream": lambda *_: device.stream(),
        "default_stream": lambda *_: default,
        "synchronize": device.synchronize,
        "is_available": lambda: True,
    }
    with mock.patch.multiple("torch.cuda", **replaced), _Operations(device):
        yield device


def run_on_streams(folder: Path, text: str) -> tuple[Outcome, Device]:
    with on_streams() as device:
        outcome = run(folder, text)
    return outcome, device


def assert_same_order(folder: Path, text: str, patch: Patch) -> None:
    """The patched script leaves the same, and each operation runs after all those that it ran after before."""
    for one in patch.files:
        if one.path.name == "tracelens_runtime.py":
            (folder / "after").mkdir(exist_ok=True)
            (folder / "after" / one.path.name).write_bytes(one.after)
    before, first = run_on_streams(folder / "before", text)
    after, second = run_on_streams(folder / "after", patched_text(patch))
    assert before.ending == "" and (after.output, after.ending) == (before.output, "")
    assert {name: after.results.get(name) for name in before.results} == before.results
    lost = lost_orders(first, second)
    assert lost == [], f"{len(lost)} orders are lost, the first: {lost[0]}"


def lost_orders(first: Device, second: Device) -> list[tuple[str, str]]:
    """Pairs of operations (earlier, later) that are ordered in the first run and not in the second."""
    one, other = _operations(first), _operations(second)
    assert [name for name, _, _ in one] == [name for name, _, _ in other], "the runs issue other operations"
    return [
        (f"{name} {earlier}", f"{after} {later}")
        for later, (after, _, before) in enumerate(one)
        for earlier, (name, bit, _) in enumerate(one[:later])
        if before & bit and not other[later][2] & other[earlier][1]
    ]


def _operations(device: Device) -> list[tuple[str, int, int]]:
    """Name, own bit and predecessors of each operation. A value that is kept stands for its read, which comes later."""
    ignored = _READ if _KEPT in device.names else ""
    return [
        ("read" if name in (_READ, _KEPT) else name, 1 << number, device.before[number])
        for number, name in enumerate(device.names)
        if name != ignored
    ]
