"""Torch's own reports of synchronizations become marks, and the script sees nothing of it."""

from __future__ import annotations

import sys
import warnings

import pytest

from tracelens.capture.inside.attribution import REPORTED, Attribution
from tracelens.capture.inside.sync_debug_mode import SyncDebugMode

torch = pytest.importorskip("torch")


class FakeMode:
    """torch.cuda's debug mode without a GPU; a change warns, as torch's does."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, mode: int = 0) -> None:
        self.mode = mode
        monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
        monkeypatch.setattr(torch.cuda, "get_sync_debug_mode", lambda: self.mode)
        monkeypatch.setattr(torch.cuda, "set_sync_debug_mode", self.set)

    def set(self, mode: int) -> None:
        self.mode = mode
        if mode:
            warnings.warn("Synchronization debug mode is a prototype feature", stacklevel=2)


def test_torchs_reports_are_heard_and_nothing_of_it_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    mode = FakeMode(monkeypatch)
    heard: list[int] = []
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("default")
        debug = SyncDebugMode(lambda: heard.append(1))

        def own() -> None:
            warnings.warn("the script's own", stacklevel=2)

        def repeat() -> None:
            own()  # one place: by default it is shown once

        repeat()
        filters = list(warnings.filters)
        debug.install()
        assert mode.mode == 1
        warnings.warn("called a synchronizing CUDA operation", stacklevel=2)
        repeat()
        warnings.warn("another", stacklevel=2)
        debug.remove()
        repeat()
        assert (mode.mode, list(warnings.filters)) == (0, filters)
    assert heard == [1]
    assert [str(one.message) for one in shown] == ["the script's own", "another"]


def test_reports_are_no_errors_where_the_script_makes_warnings_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    FakeMode(monkeypatch)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        heard: list[int] = []
        debug = SyncDebugMode(lambda: heard.append(1))
        debug.install()
        warnings.warn("called a synchronizing CUDA operation", stacklevel=2)
        debug.remove()
        with pytest.raises(UserWarning):
            warnings.warn("called a synchronizing CUDA operation", stacklevel=2)
    assert heard == [1]


def test_a_mode_that_the_script_has_set_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    mode = FakeMode(monkeypatch, mode=2)
    debug = SyncDebugMode(lambda: None)
    debug.install()
    debug.remove()
    assert mode.mode == 2


def test_a_report_becomes_a_short_mark_that_overlaps_no_other() -> None:
    attribution = Attribution()
    attribution.install()
    try:
        torch.ones(1).item()
        attribution._reported()
        here = sys._getframe().f_lineno - 1
    finally:
        attribution.remove()
    read, report = attribution.marks[-2:]
    assert (report.call, report.place[1]) == (REPORTED, here)
    assert read.end_unix_ns <= report.start_unix_ns <= report.end_unix_ns
