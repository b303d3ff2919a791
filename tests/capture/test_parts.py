"""The parts of the agent by themselves: the plan, the guess at what is left, patches that leave no trace, samples."""

from __future__ import annotations

import gzip
import json
import math
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tracelens.capture import environment, hardware_monitor
from tracelens.capture.inside import rank_files
from tracelens.capture.inside.loop_bounds import iterations
from tracelens.capture.inside.stack_sampler import StackSampler
from tracelens.capture.inside.user_frames import innermost, is_users, shown
from tracelens.capture.window_plan import WindowPlan

torch = pytest.importorskip("torch")


# ------------------------------------------------------------------------------------------------------- plan


def test_the_unprofiled_window_needs_steps_and_seconds_and_ends() -> None:
    plan = WindowPlan(
        unprofiled_steps=20, unprofiled_seconds=2.0, unprofiled_most_steps=100, unprofiled_most_seconds=30.0
    )
    assert not plan.unprofiled_enough(19, 10.0)
    assert not plan.unprofiled_enough(20, 1.9)
    assert plan.unprofiled_enough(20, 2.0)
    assert plan.unprofiled_enough(100, 0.1)
    assert plan.unprofiled_enough(4, 30.0)
    assert not plan.unprofiled_enough(3, 30.0)


def test_no_step_goes_by_unseen_with_which_the_unprofiled_window_closes() -> None:
    plan = WindowPlan(
        unprofiled_steps=20, unprofiled_seconds=2.0, unprofiled_most_steps=100, unprofiled_most_seconds=30.0
    )
    assert plan.unseen(1, 0.001) == 18  # the twentieth is seen
    assert plan.unseen(19, 0.019) == 0
    assert plan.unseen(20, 0.02) == 64
    assert plan.unseen(90, 0.09) == 9
    assert plan.unseen(20, 1.0) == 5  # a quarter of a second
    assert plan.unseen(20, 20.0) == 0
    assert plan.unseen(100, 0.1) == 0
    assert plan.in_step().unseen(10, 0.01) == 29


@pytest.mark.parametrize("remaining", [1, 2, 3, 4, 5, 8, 12, 20, 30, 39, 40, 41, 60, 1000])
def test_a_fitted_plan_fits(remaining: int) -> None:
    plan = WindowPlan().fitted(remaining)
    least = plan.settle + plan.unprofiled_steps + plan.warmup + plan.clean + plan.attributed
    assert least <= remaining
    assert plan.clean >= 1
    assert plan.shrunk == (remaining < 40)
    assert plan.settle + plan.unprofiled_most_steps + plan.warmup + plan.clean + plan.attributed <= max(
        remaining, least
    )


def test_a_loop_of_unknown_length_is_not_waited_for() -> None:
    plan = WindowPlan().with_unknown_length()
    assert plan.unprofiled_enough(150, 0.1)
    assert not plan.unprofiled_enough(149, 0.1)
    total = plan.settle + plan.unprofiled_most_steps + plan.warmup + plan.clean + plan.attributed
    assert total < 200


def test_a_plan_survives_json_and_ignores_what_it_does_not_know() -> None:
    plan = WindowPlan(clean=7).in_step()
    again = WindowPlan.from_config(json.loads(json.dumps({**plan.as_dict(), "other": 1})))
    assert again.clean == 7
    assert plan.most_window_seconds == math.inf


def test_ranks_that_step_together_decide_by_counts_alone() -> None:
    plan = WindowPlan(unprofiled_steps=20).in_step()
    assert not plan.unprofiled_enough(39, 1e9)
    assert plan.unprofiled_enough(40, 0.0)


# -------------------------------------------------------------------------------------------- what is left


def left() -> int | None:
    return iterations(sys._getframe(1))


def test_loops_over_ranges_and_sequences_say_what_is_left() -> None:
    settings = SimpleNamespace(epochs=3)
    batches = ["a", "b", "c", "d"]
    seen = []
    for _epoch in range(settings.epochs):
        for _number, _ in enumerate(batches, start=1):
            seen.append(left())
    assert seen == list(range(11, -1, -1))


def test_a_loop_through_a_function_counts_the_loops_around_it() -> None:
    def one_epoch(batches: list[int]) -> list[int | None]:
        found = []
        for _number, _ in enumerate(batches):
            found.append(left())
        return found

    epochs = []
    for _epoch in range(2):
        epochs.append(one_epoch([1, 2]))
    assert epochs == [[3, 2], [1, 0]]


def test_a_while_loop_without_a_counter_and_a_generator_are_unknown() -> None:
    pending = ["a", "b"]
    while pending:
        pending.pop()
        assert left() is None
    for _ in (number for number in range(3)):
        assert left() is None


# ------------------------------------------------------------------------------------------------ attribution


def snapshot() -> dict[str, dict[str, Any]]:
    return {
        "Tensor": dict(vars(torch.Tensor)),
        "torch": dict(vars(torch)),
        "cuda": dict(vars(torch.cuda)),
        "Event": dict(vars(torch.cuda.Event)),
        "Stream": dict(vars(torch.cuda.Stream)),
    }


def test_patches_note_the_line_and_leave_torch_as_it_was() -> None:
    from tracelens.capture.inside.attribution import Attribution

    before = snapshot()
    attribution = Attribution()
    attribution.install()
    try:
        value = torch.ones(1)
        here = sys._getframe().f_lineno
        assert value
        assert float(value) == 1.0
        text = f"{value.sum()}"
        number = torch.ones(3)[value.long()].tolist()
    finally:
        attribution.remove()
    value.item()
    assert snapshot() == before
    assert text.startswith("1")
    assert number == [1.0]
    calls = {(mark.call, mark.place[1] - here) for mark in attribution.marks}
    assert {("Tensor.__bool__", 1), ("Tensor.__float__", 2), ("Tensor.__format__", 3), ("Tensor.tolist", 4)} <= calls
    assert {mark.place[0] for mark in attribution.marks} == {__file__}
    assert {mark.place[2] for mark in attribution.marks} == {
        test_patches_note_the_line_and_leave_torch_as_it_was.__name__
    }
    assert all(mark.thread == threading.get_native_id() for mark in attribution.marks)
    assert all(0 <= time.time_ns() - mark.end_unix_ns < 60e9 for mark in attribution.marks)


def test_an_error_inside_a_marked_call_is_the_users_own() -> None:
    from tracelens.capture.inside.attribution import Attribution

    attribution = Attribution()
    attribution.install()
    try:
        with pytest.raises(RuntimeError, match="Tensor with 2 elements"):
            torch.ones(2).item()
        assert torch.ones(1).item() == 1.0
    finally:
        attribution.remove()
    assert [mark.call for mark in attribution.marks] == ["Tensor.item", "Tensor.item"]


# ------------------------------------------------------------------------------------------- frames and samples


def test_library_code_is_not_the_users() -> None:
    assert is_users(left.__code__)
    assert not is_users(json.dumps.__code__)
    assert not is_users(torch.nn.Linear.forward.__code__)
    assert not is_users(WindowPlan.fitted.__code__)
    place = innermost(sys._getframe())
    assert place is not None
    assert place[0] == __file__
    assert shown("/a/b/c.py", "/a") == os.path.join("b", "c.py")
    assert shown("/ab/c.py", "/a") == "/ab/c.py"


def test_the_sampler_sees_the_line_that_waits() -> None:
    sampler = StackSampler(threading.get_ident())
    sampler.start()
    deadline = time.monotonic() + 20
    here = sys._getframe().f_lineno
    while len(sampler.samples) <= 40 and time.monotonic() < deadline:  # a busy machine may not let it look as often
        time.sleep(0.2)
    sampler.stop()
    waiting = [place for _, place in sampler.samples if place[1] == here + 2]
    assert len(waiting) > 0.8 * len(sampler.samples) > 30


# --------------------------------------------------------------------------------------- files and surroundings


def test_restarts_get_folders_of_their_own(tmp_path: Path) -> None:
    assert [rank_files.claim_folder(tmp_path, rank).name for rank in (0, 1, 0, 0)] == [
        "rank0",
        "rank1",
        "rank0.2",
        "rank0.3",
    ]


def test_compression_is_complete_and_replaces_the_file(tmp_path: Path) -> None:
    plain = tmp_path / rank_files.trace_name(3, 'node 7"x')
    assert plain.name.startswith("rank3_node_7_x_")
    assert plain.name.endswith(".pt.trace.json")
    content = json.dumps({"traceEvents": list(range(400_000))}).encode()
    plain.write_bytes(content)
    packed = rank_files.compress(plain)
    assert [path.name for path in tmp_path.iterdir()] == [plain.name + ".gz"]
    assert gzip.decompress(packed.read_bytes()) == content


def test_secrets_stay_out_and_git_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_LOGS", "dynamo")
    monkeypatch.setenv("NCCL_AUTH_TOKEN", "hidden")
    described = environment.describe({"driver": None, "gpus": None, "gpu_memory_bytes": None})
    assert described["variables"]["TORCH_LOGS"] == "dynamo"
    assert "hidden" not in json.dumps(described)
    assert environment.git(tmp_path) is None
    for words in (
        ["init", "-q"],
        ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "a"],
    ):
        subprocess.run(["git", "-C", str(tmp_path), *words], check=True)
    found = environment.git(tmp_path)
    assert found is not None
    assert len(found["revision"]) == 40
    assert found["dirty"] is False


class FakeNvml:
    """Two devices, of which one answers nothing but its memory (as MIG does)."""

    NVML_TEMPERATURE_GPU = 0
    NVML_CLOCK_SM = 1

    class NVMLError(Exception):
        pass

    def nvmlInit(self) -> None: ...
    def nvmlShutdown(self) -> None: ...

    def nvmlDeviceGetCount(self) -> int:
        return 2

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        return index

    def nvmlDeviceGetMemoryInfo(self, handle: int) -> Any:
        return SimpleNamespace(used=5, total=10)

    def nvmlDeviceGetUtilizationRates(self, handle: int) -> Any:
        return self._unless_mig(handle, SimpleNamespace(gpu=0, memory=3))

    def nvmlDeviceGetPowerUsage(self, handle: int) -> Any:
        return self._unless_mig(handle, 250_000)

    def nvmlDeviceGetTemperature(self, handle: int, kind: int) -> Any:
        return self._unless_mig(handle, 40)

    def nvmlDeviceGetClockInfo(self, handle: int, kind: int) -> Any:
        return self._unless_mig(handle, 1980)

    def nvmlDeviceGetName(self, handle: int) -> bytes:
        return b"H200"

    def nvmlSystemGetDriverVersion(self) -> str:
        return "580.1"

    def _unless_mig(self, handle: int, value: Any) -> Any:
        if handle == 1:
            raise self.NVMLError
        return value


def test_what_a_device_does_not_tell_is_null_and_a_zero_is_a_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml())
    gpus = hardware_monitor._GpuSampler()
    first, second = gpus.sample() or ()
    assert (first["utilization"], first["power_w"], first["memory_used"]) == (0, 250.0, 5)
    assert (second["utilization"], second["power_w"], second["memory_used"]) == (None, None, 5)
    assert hardware_monitor.describe_gpus() == {
        "driver": "580.1",
        "gpus": ["H200", "H200"],
        "gpu_memory_bytes": [10, 10],
    }


def test_without_nvml_there_is_no_gpu_and_no_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert hardware_monitor._GpuSampler().sample() is None
    assert hardware_monitor.describe_gpus() == {"driver": None, "gpus": None, "gpu_memory_bytes": None}
