"""The page of predicted and measured times: its numbers come from the raw files, and the judging is right by hand."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from accuracy import rows, stats, table
from accuracy.judge import Measured, beyond, judged

ROOT = Path(__file__).parents[1]


def document(**changes: Any) -> dict[str, Any]:
    """One row: base 1,000, one version that was predicted 900 and takes about 880."""
    base = {
        "step_us": 1000.0,
        "recorded_us": 1200.0,
        "error_recorded": 0.001,
        "error_unprofiled": 0.01,
        "idle_share": 0.3,
        "abstention": None,
        "stalls": [{"wait_us": 50.0}, {"wait_us": 200.0}],
    }
    estimate = {"base_us": 1000.0, "step_us": 900.0, "low_us": 860.0, "high_us": 940.0}
    scheme = {
        "version": "v1",
        "edits": [{"kind": "defer-read", "stalls": ["s2"], "interval": 10, "depth": 0}],
        "estimate": estimate,
        "bounds_us": {"host_ns": 700.0, "stream_ns": 850.0, "copy_ns": 0.0, "loader_ns": 0.0},
    }
    return {
        "row": "loop-size",
        "loop": "loop",
        "tuning": False,
        "prediction": {"base": base, "schemes": {"interval-sync": scheme, "event-interval": scheme}},
        "versions": ["v1"],
        "arms": [
            {"version": version, "rep": rep, "block_us": [step, step, 5 * step]}
            for rep in range(3)
            for version, step in (("base", 1000.0 + rep), ("v1", 880.0 + rep))
        ],
    } | changes


def test_a_pair_is_judged_from_the_nearer_end_of_its_interval() -> None:
    (pair,) = judged(document()).pairs
    assert pair.schemes == ("interval-sync", "event-interval")
    assert pair.measured.step == pytest.approx(881, abs=0.01)
    # Three processes, one apart from the next: t = 4.303, standard error 0.577.
    assert pair.measured.high == pytest.approx(881 + 4.303 * 0.577, abs=0.02)
    assert pair.error == pytest.approx(900 / (881 + 4.303 * 0.577) - 1, abs=1e-4)
    assert pair.raw_error == pytest.approx(900 / 881 - 1, abs=1e-4)
    assert pair.gain == pytest.approx(1 - 881 / 1001, abs=1e-4)
    assert pair.measurable
    assert pair.inside
    assert not pair.wrong_sign
    assert not pair.false_promise
    assert pair.simple == {
        "no change": 1000.0,
        "step − summed sync": 1000 - 200 * 0.9,
        "step − idle": 700.0,
        "the bound alone": 850.0,
    }


def test_the_choice_is_judged_by_measured_times() -> None:
    row = judged(document())
    assert row.fastest_regret == 0
    assert row.winner_regret == pytest.approx(1001 / 881 - 1, abs=1e-4)  # nothing was recommended: the base


def slower() -> dict[str, Any]:
    arms = [
        {"version": version, "rep": rep, "block_us": [step + rep]}
        for rep in range(3)
        for version, step in (("base", 1000.0), ("v1", 1100.0))
    ]
    return document(arms=arms)


def test_a_promise_that_made_the_loop_slower_is_counted() -> None:
    (pair,) = judged(slower()).pairs
    assert pair.false_promise
    assert pair.wrong_sign
    assert not pair.inside


def test_what_scatters_is_not_measurable() -> None:
    arms = [
        {"version": version, "rep": rep, "block_us": [step * (1 + 0.1 * rep)]}
        for rep in range(3)
        for version, step in (("base", 1000.0), ("v1", 880.0))
    ]
    (pair,) = judged(document(arms=arms)).pairs
    assert not pair.measurable
    assert pair.error == 0  # anything within so wide an interval is "right": hence two columns


def test_two_processes_are_too_few() -> None:
    arms = [arm for arm in document()["arms"] if arm["rep"] < 2]
    assert not judged(document(arms=arms)).pairs[0].measurable


def test_a_tuned_row_is_judged_by_its_second_prediction_and_a_held_out_row_by_its_first() -> None:
    again = json.loads(json.dumps(document()["prediction"]))
    for scheme in again["schemes"].values():
        scheme["estimate"]["step_us"] = 881.0
    assert judged(document(tuning=True, again=again)).pairs[0].raw_error == pytest.approx(0, abs=1e-4)
    assert judged(document(tuning=False, again=again)).pairs[0].raw_error > 0.02


def test_beyond_is_signed() -> None:
    seen = Measured(100.0, 98.0, 102.0, 3, 0.02)
    assert beyond(99.0, seen) == 0
    assert beyond(49.0, seen) == pytest.approx(-0.5)
    assert beyond(204.0, seen) == pytest.approx(1.0)


def test_statistics_by_hand() -> None:
    assert stats.median([3.0, 1.0, 2.0]) == 2
    assert stats.median([4.0, 1.0, 2.0, 3.0]) == 2.5
    assert stats.quantile([0.0, 1.0, 2.0, 3.0], 0.9) == pytest.approx(2.7)
    assert stats.interval([7.0]) == (7.0, 7.0)
    assert stats.half_width([100.0, 100.0, 100.0]) == 0
    assert stats.center([50.0, 200.0]) == pytest.approx(100)


def test_the_page_is_what_the_raw_files_give() -> None:
    assert table.PAGE.read_text(encoding="utf-8") == table.page(), "run: python tests/accuracy/table.py"


def test_every_prediction_was_written_before_its_patched_runs_and_is_from_a_named_model() -> None:
    found = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(table.RAW.glob("*.json"))]
    assert len({one["loop"] for one in found}) >= 12
    for one in found:
        assert one["tuning"] == (one["loop"] in rows.TUNING)
        assert one["tuning"] or one["prediction"]["model"]
        assert "again" not in one or one["tuning"]
        assert {arm["version"] for arm in one["arms"]} <= {"base", *one["versions"]}


def test_a_third_of_the_loops_is_for_tuning_and_every_row_has_its_script() -> None:
    loops = {row.loop for row in rows.ROWS}
    assert len(rows.TUNING) * 3 == len(loops)
    assert loops >= rows.TUNING
    assert all(row.script.is_file() for row in rows.ROWS)
    assert min(sum(row.loop == loop for row in rows.ROWS) for loop in loops) >= 2


def test_raw_files_stay_small() -> None:
    assert sum(path.stat().st_size for path in table.RAW.rglob("*.json")) < 3_000_000


def test_a_prediction_is_of_the_patch_that_is_written_beside_it(tmp_path: Path) -> None:
    from accuracy import predict

    case = tmp_path / "pageable_copies"
    shutil.copytree(ROOT / "sample_traces" / "pageable_copies", case)
    found = predict.write(case / "run", case / "prediction.json", case / "versions")
    assert json.loads((case / "prediction.json").read_text(encoding="utf-8")) == found
    pinned = found["schemes"]["pinned-copy"]
    assert [edit["kind"] for edit in pinned["edits"]] == ["async-copy"]
    patched = (case / "versions" / pinned["version"] / "train.py").read_text(encoding="utf-8")
    assert "non_blocking=True" in patched
    assert "non_blocking=True" not in (case / "train.py").read_text(encoding="utf-8")
    assert pinned["estimate"]["step_us"] < found["base"]["step_us"]
    assert found["model"] == predict.model()


def test_an_arm_times_blocks_of_steps_in_a_process_of_its_own(tmp_path: Path) -> None:
    """The harness without a GPU: a tiny loop, 20 steps to warm up, 2 blocks of 10."""
    shutil.copy(rows.LOOPS / "mlp.py", tmp_path / "train.py")
    program = f"""
import sys
sys.path[0:0] = [{str(ROOT)!r}, {str(ROOT / "tests")!r}]
import torch, torch.utils.data
from pathlib import Path
from accuracy import arm
words = "--batches 60 --batch-size 4 --features 8 --width 8 --depth 1".split()
wanted = arm.Arm({str(tmp_path)!r}, tuple(words), 20, 2, {str(tmp_path / "out.json")!r})
assert arm.forked(lambda: arm.measure(wanted), 60.0, Path({str(tmp_path / "log")!r}))
"""
    command = [sys.executable, "-W", "ignore", "-c", program]
    subprocess.run(command, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"}, timeout=120)
    seen = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    assert len(seen["block_us"]) == 2
    assert all(0 < value < 1e6 for value in seen["block_us"])
    assert 0 < seen["loader_us"] < sum(seen["block_us"])
