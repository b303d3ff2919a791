"""Uses of CUDA events are noted with their stream, and everything is put back."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tracelens.capture.inside import cuda_event_log, rank_files

torch = pytest.importorskip("torch")

# ------------------------------------------------------------------------------------------------------ events, reports


class FakeEvent:
    """Stands in for torch.cuda.Event on a machine without a GPU."""

    def __init__(self, pointer: int = 0) -> None:
        self.pointer, self.cuda_event = pointer, 0

    def record(self, stream: Any = None) -> None:
        self.cuda_event = self.pointer

    def wait(self, stream: Any = None) -> None: ...
    def query(self) -> bool:
        return True

    def synchronize(self) -> None: ...


def test_uses_of_events_are_noted_with_their_stream_and_everything_is_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "Event", FakeEvent)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: SimpleNamespace(cuda_stream=0))
    monkeypatch.setattr(cuda_event_log, "_cupti_stream_id", lambda: {0: 7, 99: 20}.get)
    before = dict(vars(FakeEvent))
    log = cuda_event_log.CudaEventLog()
    log.install()
    side = SimpleNamespace(cuda_stream=99)
    first, second, never = FakeEvent(0x1000), FakeEvent(0x2000), FakeEvent()
    first.record()
    first.wait(side)
    second.record(side)
    assert second.query() is True
    second.synchronize()
    second.wait(SimpleNamespace())  # a stream of another kind
    never.query()
    log.remove()
    first.record()
    assert dict(vars(FakeEvent)) == before
    found = [(use.call, use.event, use.stream) for use in log.uses()]
    assert found == [("record", 1, 7), ("wait", 1, 20), ("record", 2, 20), ("query", 2, None),
                     ("synchronize", 2, None), ("wait", 2, None)]  # fmt: skip
    assert all(0 <= time.time_ns() - use.start_unix_ns < 60e9 for use in log.uses())
    assert {use.thread for use in log.uses()} == {threading.get_native_id()}


def test_without_cupti_only_the_default_stream_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_event_log, "_loaded", lambda name: None)
    assert cuda_event_log._stream_numbers({0, 99}) == {0: 7}
    assert cuda_event_log._loaded("libcuptiXX") is None


def test_uses_of_events_go_through_the_run_folder(tmp_path: Path) -> None:
    use = cuda_event_log.EventCall(10, 20, 3, "wait", 1, None)
    rank_files.write_sources(tmp_path / "sources.json", rank_files.Sources(uses=[use]), "/")
    found = json.loads((tmp_path / "sources.json").read_text())["events"]
    assert found == [{"start_unix_ns": 10, "end_unix_ns": 20, "thread": 3, "call": "wait", "event": 1, "stream": None}]
