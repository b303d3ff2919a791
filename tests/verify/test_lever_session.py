"""The order of a trial of levers, with processes whose times are given: what is measured again, combined, and kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tracelens.errors import Inconclusive
from tracelens.model import FilePatch, Patch, Toggle
from tracelens.verify import lever_store, lever_trial
from tracelens.verify.compare import pooled_times
from tracelens.verify.lever_store import LeverRecord
from tracelens.verify.lever_trial import LeverRequest, LeverTrial, check_budget, steps_for, together
from tracelens.verify.request import script_command
from tracelens.verify.supervisor import lever_session, processes
from tracelens.verify.supervisor.lever_session import LeverSession, LeverSessionResult
from tracelens.verify.supervisor.processes import ProcessFailed
from tracelens.verify.supervisor.working_copy import WorkingCopy
from tracelens.verify.trial_process import ProcessRecord, TrialProcess

MS = 1_000_000
BASE_MS = 10.0
SPEED = {"fast": 2.0, "slow": 0.5, "small": 1.1, "hidden": 1.0, "clash": 1.0}
"""By lever how much faster the imagined loop is with it; "hidden" helps only beside "fast", and "clash" hurts there."""


class Machine:
    """Runs processes by multiplying; `now` is its clock."""

    def __init__(self, losses: Callable[[frozenset[str], int], list[float]] | None = None) -> None:
        self.now = 0.0
        self.started: list[str] = []
        self.losses = losses or (lambda _, shift: [float(step + shift) for step in range(40)])
        self.stop_after: int | None = None
        self.beside: dict[frozenset[str], float] = {}
        """By levers how much faster they are together besides."""
        self.seconds: dict[str, float] = {}
        """By lever what a process with it takes; the very first one of all is "cold"."""

    def run(self, process: TrialProcess, *_: Any) -> ProcessRecord:
        names = frozenset(toggle.name for toggle in process.toggles)
        self.started.append("+".join(sorted(names)) or process.version)
        if self.stop_after is not None and len(self.started) > self.stop_after:
            raise KeyboardInterrupt
        seconds = max([self.seconds.get(name, 10.0) for name in names], default=10.0)
        seconds = self.seconds.get("cold", seconds) if len(self.started) == 1 else seconds
        self.now += seconds
        if "crash" in names:
            said = "Traceback:\n  train.py, line 3\nRuntimeError: CUDA out of memory"
            raise ProcessFailed(f"the crash version ended with exit code 1 before step 40:\n{said}")
        step_ns = BASE_MS * MS
        for name in names:
            step_ns /= SPEED.get(name, 1.0)
        if {"fast", "hidden"} <= names:
            step_ns /= 1.5
        if {"half", "other"} <= names:
            step_ns /= 1.3
        if {"fast", "clash"} <= names:
            step_ns /= 0.3
        for beside, factor in self.beside.items():
            step_ns /= factor if beside <= names else 1.0
        return ProcessRecord(process, seconds, "", "", (self._rank(process, names, round(step_ns)),))

    def _rank(self, process: TrialProcess, names: frozenset[str], step_ns: int) -> dict[str, Any]:
        losses = self.losses(names, process.seed_shift)
        described = [
            {"name": f"backward {n}", "dtype": "float32", "shape": [], "sha256": repr(x), "first": [x]}
            for n, x in enumerate(losses, 1)
        ]
        state = "already" if "done" in names else "refused" if "not here" in names else "applied"
        return {
            "rank": 0,
            "steps": process.steps,
            "stopped": "steps",
            "state": [],
            "losses": described,
            "loaded": [],
            "sources": [],
            "peak_bytes": 100 + 7 * len(names),
            "clock": {
                "warmup": 10,
                "block": 10,
                "cuda_blocks": [],
                "host_ns": [step_ns * n for n in range(1, process.steps + 1)],
            },
            "toggles": [
                {"kind": "flag", "name": name, "value": None, "state": state, "detail": f"{state} because"}
                for name in names
            ],
        }


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine()
    monkeypatch.setattr(processes, "run", made.run)
    monkeypatch.setattr(lever_session.time, "monotonic", lambda: made.now)
    return made


def lever(name: str, **changes: Any) -> LeverTrial:
    return replace(LeverTrial(name, (Toggle("flag", name),)), **changes)


def tried(tmp_path: Path, *levers: LeverTrial, budget_s: float = 10_000.0) -> LeverSessionResult:
    request = LeverRequest(script_command("train.py"), tmp_path, tmp_path, budget_s, step_ns=round(BASE_MS * MS))
    session = LeverSession(request, levers, WorkingCopy(tmp_path, tmp_path, tmp_path))
    session.run()
    return session.result()


def by_id(result: LeverSessionResult) -> dict[str, lever_trial.LeverMeasurement]:
    return {one.trial.id: one for one in result.levers}


def test_each_lever_is_measured_once_and_only_the_promising_again(machine: Machine, tmp_path: Path) -> None:
    found = by_id(tried(tmp_path, lever("fast"), lever("slow"), lever("none")))
    assert found["fast"].speedup is not None
    assert found["fast"].speedup.speedup == pytest.approx(2)
    assert found["fast"].speedup.low == pytest.approx(2), "three equal pairs have no spread"
    assert len(found["fast"].pairs) >= 3
    assert len(found["slow"].pairs) == 1, "slower than 0.95 at once"
    assert len(found["none"].pairs) == 2, "no gain after two pairs"
    assert found["fast"].numbers == "same"
    assert found["fast"].memory_bytes_delta == 7


def test_the_combination_is_measured_and_may_hold_what_gains_nothing_alone(machine: Machine, tmp_path: Path) -> None:
    result = tried(tmp_path, lever("hidden"), lever("small"), lever("fast"), lever("slow"))
    best = result.combination
    assert best is not None and best.speedup is not None
    assert best.trial.members == ("fast", "small", "hidden")
    assert best.speedup.speedup == pytest.approx(2.0 * 1.1 * 1.5)
    assert "fast+slow" not in machine.started


def test_all_that_is_not_slower_alone_is_tried_together_before_more_rounds(machine: Machine, tmp_path: Path) -> None:
    result = tried(tmp_path, lever("small"), lever("fast"), lever("slow"), budget_s=165.0)
    assert result.combination is not None and result.combination.trial.id == "fast+small"
    assert [len(one.pairs) for one in result.levers] == [1, 1, 1], "the time was spent on what matters most"


def test_second_pairs_come_before_a_single_one_of_all_together_that_would_have_no_range(
    machine: Machine, tmp_path: Path
) -> None:
    """After three originals and the first round 30 s are left: a timed original and one process of each lever, or two
    of both together, which is a single pair without a range."""
    found = by_id(tried(tmp_path, lever("small"), lever("fast"), budget_s=111.0))
    assert found["fast"].speedup is not None and found["small"].speedup is not None
    assert "fast+small" not in machine.started


def test_one_pair_together_is_worth_more_than_further_rounds_of_each(machine: Machine, tmp_path: Path) -> None:
    """60 s are left: all together once, and one more round, from which it has its range."""
    tried(tmp_path, lever("small"), lever("fast"), budget_s=141.0)
    assert "fast+small" in machine.started


def test_more_rounds_are_those_of_the_fastest_where_not_all_fit(machine: Machine, tmp_path: Path) -> None:
    machine.seconds = {"small": 40.0}
    found = by_id(tried(tmp_path, lever("fast"), lever("small"), budget_s=171.0))
    assert (len(found["fast"].pairs), len(found["small"].pairs)) == (3, 1)


def test_where_not_everything_goes_well_together_the_best_is_built_up(machine: Machine, tmp_path: Path) -> None:
    best = tried(tmp_path, lever("clash"), lever("small"), lever("fast")).combination
    assert best is not None and best.trial.members == ("fast", "small")
    assert "clash+fast+small" in machine.started


@pytest.mark.parametrize(("largest", "joined"), [("fast", True), ("small", False)])
def test_beside_what_takes_half_of_a_step_a_slower_pair_says_little(
    largest: str, joined: bool, machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`compile` came out at 0.75 beside a `gc.collect()` of 120 ms; what was left without that call was 8 ms, and 5.5
    compiled."""
    monkeypatch.setitem(SPEED, "rest", 0.75)
    monkeypatch.setattr(machine, "beside", {frozenset({"fast", "rest"}): 2.0})
    result = tried(tmp_path, lever(largest), lever("rest"), lever("slow"))
    assert result.combination is not None
    assert result.combination.trial.members == (("fast", "rest") if joined else ())
    assert not any("slow" in name and "+" in name for name in machine.started)


def test_what_no_lever_shows_alone_may_show_together(machine: Machine, tmp_path: Path) -> None:
    """Alone none is faster beyond doubt; a pair of them is."""
    best = tried(tmp_path, lever("half"), lever("other")).combination
    assert best is not None and best.trial.members == ("half", "other")


def test_a_lever_that_gains_alone_is_its_own_combination(machine: Machine, tmp_path: Path) -> None:
    best = tried(tmp_path, lever("fast"), lever("slow")).combination
    assert best is not None and best.trial.id == "fast"
    assert tried(tmp_path, lever("slow")).combination is None


def test_crashes_and_what_is_on_already_are_rows_with_their_reason(machine: Machine, tmp_path: Path) -> None:
    found = by_id(tried(tmp_path, lever("crash"), lever("done"), lever("not here"), lever("fast")))
    assert (found["crash"].standing, found["crash"].speedup) == ("failed", None)
    what = "the crash version ended with exit code 1 before step 40: RuntimeError: CUDA out of memory"
    assert found["crash"].reason == what
    assert (found["done"].standing, found["done"].reason) == ("already", "already because")
    assert (found["not here"].standing, found["not here"].reason) == ("refused", "refused because")
    assert found["fast"].standing == "measured"


def test_other_numbers_are_held_against_other_seeds(machine: Machine, tmp_path: Path) -> None:
    def losses(names: frozenset[str], shift: int) -> list[float]:
        off = 0.5 if "near" in names else 50.0 if "fast" in names else float("nan") if "diverges" in names else 0.0
        return [10 + shift + off + 0.01 * step for step in range(40)]

    machine.losses = losses
    result = tried(tmp_path, lever("near"), lever("fast"), lever("diverges"))
    found = by_id(result)
    assert found["near"].numbers == "inside_seed_band"
    assert found["fast"].numbers == "outside_seed_band"
    assert found["near"].difference is not None and found["near"].difference["where"] == "backward 1"
    assert (found["diverges"].standing, found["diverges"].reason) == ("failed", "the loss is not finite from step 1 on")
    assert result.combination is None, "what is outside the band is not recommended, however fast"


def test_a_larger_batch_is_timed_per_sample_and_its_losses_are_not_compared(machine: Machine, tmp_path: Path) -> None:
    found = by_id(tried(tmp_path, lever("fast", factor=2, another_training=True)))
    assert found["fast"].speedup is not None
    assert found["fast"].speedup.speedup == pytest.approx(4)
    assert found["fast"].numbers == "unknown"


def test_what_the_budget_does_not_reach_is_left_and_what_was_measured_stays(machine: Machine, tmp_path: Path) -> None:
    found = by_id(tried(tmp_path, lever("fast"), lever("small"), lever("hidden"), budget_s=90.0))
    assert found["fast"].standing == "measured"
    assert found["hidden"].standing == "not_reached"


def test_a_cold_first_process_says_nothing_about_what_the_others_take(machine: Machine, tmp_path: Path) -> None:
    machine.seconds = {"cold": 60.0}
    found = by_id(tried(tmp_path, lever("fast"), lever("small"), budget_s=270.0))
    assert len(found["fast"].pairs) >= 3


def test_rounds_of_a_lever_that_takes_long_are_counted_as_long(machine: Machine, tmp_path: Path) -> None:
    """Two originals and a timed one, two of the lever: 110 s. Another pair takes 50, of which 35 are left."""
    machine.seconds = {"fast": 40.0}
    assert len(by_id(tried(tmp_path, lever("fast"), budget_s=145.0))["fast"].pairs) == 1


def test_what_compiles_comes_last_because_it_takes_long(machine: Machine, tmp_path: Path) -> None:
    compiling = LeverTrial("fast", (Toggle("compile", "fast"),))
    tried(tmp_path, compiling, lever("small"))
    assert machine.started.index("small") < machine.started.index("fast")


def test_levers_that_were_not_tried_together_for_lack_of_time_are_named(machine: Machine, tmp_path: Path) -> None:
    """Two originals, a timed one and two of each lever: 150 s; one pair together would take 90. Two more rounds: 80."""
    machine.seconds = {"small": 40.0}
    result = tried(tmp_path, lever("fast"), lever("small"), lever("slow"), budget_s=239.0)
    assert result.combination is not None and result.combination.trial.id == "fast"
    assert result.apart == ("small",)
    assert tried(tmp_path, lever("fast"), lever("small")).apart == ()


def test_ctrl_c_keeps_what_was_measured(machine: Machine, tmp_path: Path) -> None:
    machine.stop_after = 5
    result = tried(tmp_path, lever("fast"), lever("small"))
    assert result.interrupted
    assert [one.standing for one in result.levers] == ["measured", "not_reached"]


def test_a_budget_for_less_than_one_pair_is_told_before_anything_runs(machine: Machine, tmp_path: Path) -> None:
    request = LeverRequest(script_command("train.py"), tmp_path, tmp_path, 30.0, step_ns=10 * MS)
    with pytest.raises(Inconclusive) as caught:
        check_budget(request, 1)
    assert caught.value.message == "30 s are too short to measure this (about 50 s are needed for one lever)"
    assert caught.value.hint == "give --budget 1m"
    assert machine.started == []


@pytest.mark.parametrize(("step_ms", "steps"), [(1, 1000), (10, 210), (20, 110), (100, 40), (1000, 40)])
def test_a_process_makes_steps_for_two_seconds(step_ms: int, steps: int) -> None:
    assert steps_for(step_ms * MS) == steps


def test_levers_that_exclude_each_other_are_not_combined(tmp_path: Path) -> None:
    assert together(lever("workers=2"), lever("workers=4")) == "one excludes the other"
    assert together(lever("bf16"), lever("fp16")) == "one excludes the other"
    file = FilePatch(tmp_path / "train.py", b"", b"x")
    patch = Patch(tmp_path, (file,), (), (), "")
    assert together(lever("line=a:1", patch=patch), lever("line=a:2", patch=patch)) == "both change train.py"
    both = together(lever("bf16"), lever("line=a:1", patch=patch))
    assert not isinstance(both, str)
    assert (both.id, both.patch) == ("bf16+line=a:1", patch)


def test_few_pairs_share_a_spread_and_three_have_their_own() -> None:
    noisy = [(100.0, 100.0), (100.0, 110.0), (100.0, 90.0)]
    found = pooled_times.speedups({"noisy": noisy, "one": [(100.0, 50.0)], "none": []})
    assert found["one"] is not None and found["noisy"] is not None
    assert found["one"].low < 2 < found["one"].high
    assert found["none"] is None
    assert pooled_times.speedups({"one": [(100.0, 50.0)]})["one"] is None, "nothing to pool"
    assert pooled_times.center([(100.0, 50.0), (100.0, 200.0)]) == pytest.approx(1)


def test_what_was_measured_can_be_read_back_and_old_results_stay(machine: Machine, tmp_path: Path) -> None:
    result = tried(tmp_path, lever("fast"), lever("slow"))
    sources = {"train.py": "1"}
    first = LeverRecord(result.levers, result.combination, result.base_ns, result.environment, sources)
    lever_store.write(tmp_path, first)
    stored = lever_store.read(tmp_path)
    assert [(one.trial.id, one.speedup, one.numbers) for one in stored.levers] == [
        (one.trial.id, one.speedup, one.numbers) for one in first.levers
    ]
    again = replace(first, levers=(replace(first.levers[1], standing="failed", reason="new", speedup=None),))
    assert [(one.trial.id, one.standing) for one in lever_store.merged(stored, again).levers] == [
        ("fast", "measured"),
        ("slow", "failed"),
    ]
    changed = replace(again, sources={"train.py": "2"})
    assert len(lever_store.merged(stored, changed).levers) == 1, "results of another script are dropped"
