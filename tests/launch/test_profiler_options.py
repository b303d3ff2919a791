"""Our profiler sessions write traces; torch makes no Python object per event for them.

That is some 50 us of CPU time per event when a session stops: for the million events that a recording may hold, a
minute in which the training stands still.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
from torch.autograd import profiler as autograd_profiler  # noqa: E402 -- after the check that torch is there

from tracelens.capture.inside.profiler_session import ProfilerSession  # noqa: E402
from tracelens.verify.inside.profiler_window import ProfilerWindow  # noqa: E402

ADDS = 7


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Names of the events of which torch made objects. Warnings are errors: the script's stderr stays its own."""
    names: list[str] = []

    class Counted(autograd_profiler.FunctionEvent):  # type: ignore[misc]
        def __init__(self, *args: object, **kwargs: object) -> None:
            super().__init__(*args, **kwargs)
            names.append(self.name)

    monkeypatch.setattr(autograd_profiler, "FunctionEvent", Counted)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield names


def work() -> None:
    for _ in range(ADDS):
        torch.ones(2).add(1)


def adds_in(path: Path) -> int:
    events = json.loads(path.read_text())["traceEvents"]
    return sum(event.get("name") == "aten::add" for event in events)


def test_torchs_own_session_would_make_them(made: list[str]) -> None:
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as session:
        work()
    assert session.events() is not None and made.count("aten::add") == ADDS


def test_a_recording_makes_none_and_its_trace_is_whole(made: list[str], tmp_path: Path) -> None:
    session = ProfilerSession()
    session.prepare()
    session.start()
    work()
    session.stop()
    counted = session.events()
    assert made == []
    assert counted is not None and counted >= 2 * ADDS
    session.export(tmp_path / "trace.json")
    assert adds_in(tmp_path / "trace.json") == ADDS and made == []


def test_the_window_of_a_trial_makes_none_and_its_trace_is_whole(made: list[str], tmp_path: Path) -> None:
    window = ProfilerWindow(first=2, warmup=1, size=1, path=str(tmp_path / "trace.json"))
    for _ in range(4):
        work()
        window.tick()
    assert window.finish()["trace"] == str(tmp_path / "trace.json")
    assert adds_in(tmp_path / "trace.json") == ADDS and made == []
