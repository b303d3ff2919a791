"""When the tracer of CUDA may leave the process, and what the environment holds meanwhile. Without a GPU."""

from __future__ import annotations

import os

import pytest

torch = pytest.importorskip("torch")

from tracelens.capture.inside import cupti_detach, process_facts  # noqa: E402 -- needs torch


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> list[str | None]:
    """A GPU in use, CUDA 13, nothing set; returns what the variable was at each call into CUDA."""
    seen: list[str | None] = []
    monkeypatch.setattr(process_facts, "device_in_use", lambda: 0)
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(cupti_detach, "_graphs", [])
    monkeypatch.setattr(cupti_detach, "_make_cuda_calls", lambda: seen.append(os.environ.get(cupti_detach.VARIABLE)))
    for name in (cupti_detach.VARIABLE, "CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH", "DISABLE_CUPTI_LAZY_REINIT"):
        monkeypatch.delenv(name, raising=False)
    return seen


def ended(*, wanted: bool = True) -> tuple[str | None, list[str]]:
    """The variable as a session stops, and the notes."""
    notes: list[str] = []
    with cupti_detach.detaching(wanted=wanted, notes=notes):
        inside = os.environ.get(cupti_detach.VARIABLE)
    return inside, notes


def test_the_variable_is_there_until_cuda_was_called_and_no_longer(machine: list[str | None]) -> None:
    assert ended() == ("1", [])
    assert machine == ["1"]
    assert cupti_detach.VARIABLE not in os.environ


def test_a_session_that_fails_leaves_no_variable_behind(machine: list[str | None]) -> None:
    with pytest.raises(OSError, match="full"), cupti_detach.detaching(wanted=True, notes=[]):
        raise OSError("full")
    assert cupti_detach.VARIABLE not in os.environ
    assert machine == []


def test_a_process_that_ends_anyway_or_has_no_gpu_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ended(wanted=False) == (None, [])
    monkeypatch.setattr(torch.version, "cuda", None)  # ROCm has another tracer
    assert ended() == (None, [])
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(process_facts, "device_in_use", lambda: None)
    assert ended() == (None, [])


@pytest.mark.parametrize("name", ["CUDA_INJECTION64_PATH", "DISABLE_CUPTI_LAZY_REINIT", "TEARDOWN_CUPTI"])
def test_what_somebody_else_has_set_stays_and_is_said(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "0")
    inside, notes = ended()
    assert inside == ("0" if name == cupti_detach.VARIABLE else None)
    assert notes == [f"{cupti_detach.ATTACHED}{name} is set"]
    assert os.environ[name] == "0"


def test_who_wants_it_gone_is_not_told_that_it_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(cupti_detach.VARIABLE, "1")
    assert ended() == ("1", [])
    assert os.environ[cupti_detach.VARIABLE] == "1"


@pytest.mark.parametrize(("cuda", "may"), [("12.4", False), ("11.8", False), ("12.6", True), ("13", True)])
def test_only_where_the_library_can_do_without_it(monkeypatch: pytest.MonkeyPatch, cuda: str, may: bool) -> None:
    monkeypatch.setattr(torch.version, "cuda", cuda)
    inside, notes = ended()
    assert (inside == "1") is may
    assert bool(notes) is not may


def test_graphs_that_python_captures_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    class Graph:
        def capture_begin(self, pool: int) -> int:
            return pool

    monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
    cupti_detach.watch_graphs()
    cupti_detach.watch_graphs()
    assert ended()[0] == "1"
    assert Graph().capture_begin(7) == 7
    assert cupti_detach._graphs == [True]  # watched once
    assert ended() == (None, [f"{cupti_detach.ATTACHED}CUDA graphs were captured"])


@pytest.mark.slow
def test_graphs_that_were_there_before_us_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    class Graph:
        pass

    monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
    assert cupti_detach.obstacle() is None
    kept = Graph()
    assert cupti_detach.obstacle() == "CUDA graphs were captured"
    del kept
    assert cupti_detach.obstacle() is None


def test_graphs_that_a_library_launches_are_noticed_in_a_recorded_step() -> None:
    cupti_detach.note_graph_launches(["aten::mm", "cudaLaunchKernel"])
    assert cupti_detach.obstacle() is None
    cupti_detach.note_graph_launches(["aten::mm", "cudaGraphLaunch"])
    assert cupti_detach.obstacle() is not None
