"""Which lines switch anomaly detection on, and whether a training ran with it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from tracelens.capture.inside import anomaly_log


@pytest.fixture(autouse=True)
def as_it_was(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(torch, "set_anomaly_enabled", torch.set_anomaly_enabled)
    anomaly_log._places.clear()
    yield
    torch._C.set_anomaly_enabled(False, True)
    anomaly_log._places.clear()


def run_as_script(text: str, folder: Path, name: str = "train.py") -> None:
    anomaly_log.install()
    exec(compile(text, str(folder / name), "exec"), {"torch": torch})


def lines(folder: Path) -> list[tuple[str, int]]:
    return [(row["path"], row["line"]) for row in anomaly_log.places(str(folder))]


def test_the_line_that_sets_it_is_named_and_it_is_on(tmp_path: Path) -> None:
    run_as_script("\ntorch.autograd.set_detect_anomaly(True)\n", tmp_path, "parts/model.py")
    assert anomaly_log.seen() and torch.is_anomaly_enabled()
    assert lines(tmp_path) == [("parts/model.py", 2)]


def test_a_with_around_each_backward_is_seen_although_it_is_off_between_them(tmp_path: Path) -> None:
    run_as_script("for _ in range(3):\n    with torch.autograd.set_detect_anomaly(True):\n        pass\n", tmp_path)
    assert not torch.is_anomaly_enabled()
    assert anomaly_log.seen() and lines(tmp_path) == [("train.py", 2)]


@pytest.mark.filterwarnings("ignore:Anomaly Detection")
def test_what_was_on_once_and_is_off_again_is_not_on(tmp_path: Path) -> None:
    run_as_script("with torch.autograd.detect_anomaly():\n    pass\n", tmp_path)
    assert not anomaly_log.seen()
    run_as_script("torch.autograd.set_detect_anomaly(False)\n", tmp_path)
    assert not anomaly_log.seen() and lines(tmp_path) == [("train.py", 1)]


def test_it_is_wrapped_once_and_what_it_is_given_arrives(tmp_path: Path) -> None:
    anomaly_log.install()
    wrapper = torch.set_anomaly_enabled
    run_as_script("torch.autograd.set_detect_anomaly(True, check_nan=False)\n", tmp_path)
    assert torch.set_anomaly_enabled is wrapper
    assert torch.is_anomaly_enabled() and not torch.is_anomaly_check_nan_enabled()
