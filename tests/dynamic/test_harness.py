"""The harness of the dynamic corpus, on a small script without a GPU: it must find a wrong patch, and lose nothing."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.support import lean
from tracelens.launch import supervisor

HARNESS = Path(__file__).parent
SCRIPT = """\
import time
import torch
from torch.utils.data import DataLoader

torch.manual_seed(0)
data = [(torch.randn(4), float(n % 3)) for n in range(120)]
model = torch.nn.Linear(4, 1).to("cuda" if torch.cuda.is_available() else "cpu")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(2):
    total = 0.0
    for i, (x, y) in enumerate(DataLoader(data, batch_size=4, shuffle=True, num_workers=1)):
        loss = (model(x)[:, 0] - y.float()).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
        print(f"epoch {epoch} batch {i} loss {loss.item():.6f} at {time.time():.3f}")
    print("epoch", epoch, total)
"""
DRIVER = """\
import json, shutil, sys, tempfile, time
from pathlib import Path
sys.path[:0] = [sys.argv[1], str(Path(sys.argv[1]).parents[1])]
import worker
worker.prepare()
import entry, patches, row
from dataclasses import replace
right = patches.assumed
def planted(root, script, _schemes=(), **_):
    plan = right(root, script)
    patch = plan.patches["event-interval" + patches.CHECKED]
    def spoiled(old, new):
        files = tuple(replace(f, after=f.after.replace(old, new)) if f.path == script else f for f in patch.files)
        assert files != patch.files
        return replace(patch, files=files)
    late = spoiled(b".item(loss)", b".item(loss * 1.0000002)")
    line = b'print("epoch", epoch, total)'
    short = {"short": spoiled(line, b"epoch == 0 and " + line)}
    short["short" + patches.LOSSY] = spoiled(line, b"epoch < 1 and " + line)
    versions = {"right": patch, "late": late, "lr": spoiled(b"lr=0.1", b"lr=0.11")}
    return replace(plan, patches=versions | short)
patches.assumed = planted
place = Path(sys.argv[2])
broken = entry.Entry.of({"name": "broken", "repository": "a/b", "commit": "c", "path": "broken.py"})
small = entry.Entry.of({"name": "small", "repository": "a/b", "commit": "c", "path": "train.py", "interrupt_at": 37})
scratch = Path(tempfile.mkdtemp())  # short: sockets of loader workers lie below it
setting = entry.Setting(place, scratch, place / "results", gpu=False, assume=True, ends=time.monotonic() + 500)
row.Row(small, setting).run()
patches.assumed = right
row.Row(broken, setting).run()
shutil.rmtree(scratch)
"""


def test_a_recording_can_be_forked_in_the_place_of_a_started_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """The harness stands in for `supervisor.run`, by position: a new argument there broke every row on a GPU."""
    monkeypatch.syspath_prepend(str(HARNESS))
    patches = importlib.import_module("patches")
    own = list(inspect.signature(patches._forked).parameters)
    assert [name.lstrip("_") for name in own[3:]] == list(inspect.signature(supervisor.run).parameters)


@pytest.mark.programs
def test_a_wrong_patch_is_found_and_a_right_one_passes(tmp_path: Path) -> None:
    source = tmp_path / "a+b"
    source.mkdir()
    (source / "train.py").write_text(SCRIPT)
    (source / "broken.py").write_text(
        SCRIPT.replace("        total +=", "        if i == 3: raise ValueError(i)\n        total +=")
    )
    environment = dict(os.environ, OMP_NUM_THREADS="1", CUDA_VISIBLE_DEVICES="", PYTHONPATH=lean.SITE)
    words = [sys.executable, "-c", DRIVER, str(HARNESS), str(tmp_path)]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    value = json.loads((tmp_path / "results" / "small.json").read_text())
    assert "failed" not in value, value.get("failed")
    assert value["noise"] is None
    assert value["original"]["stopped"] == "script ended"
    assert (value["original"]["losses"], value["original"]["lines"]) == (60, 62)
    assert value["interrupted"]["ended"] == 130
    assert 35 <= value["interrupted"]["lines"] < 60
    right, late, wrong = (value["versions"][name] for name in ("right", "late", "lr"))
    assert (right["difference"], right["interrupted_difference"], right["revert_exact"]) == (None, None, True)
    assert late["difference"].startswith("output: line 2 of standard output")
    assert wrong["difference"].startswith("loss: backward 2")
    assert wrong["interrupted_difference"].startswith("loss: backward 2")
    short, plain = value["versions"]["short"], value["versions"]["short --checked, plain"]
    assert short["difference"].startswith("output: line 62 of standard output")
    assert (plain["difference"], plain["lines_lost"], "interrupted_difference" in plain) == (None, 1, False)
    assert (source / "train.py").read_text() == SCRIPT
    failing = json.loads((tmp_path / "results" / "broken.json").read_text())
    assert "the original ended with 1" in failing["failed"], "two versions that fail alike are no evidence"


def _table() -> ModuleType:
    """The module by its place: its neighbors have names that other tests use too."""
    spec = importlib.util.spec_from_file_location("dynamic_table", HARNESS / "table.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_made_from_the_recorded_rows_and_no_number_changed() -> None:
    table = _table()
    assert table.page() == (HARNESS.parents[1] / "docs" / "dynamic.md").read_text()
    manifest = {row["name"]: row for row in json.loads((HARNESS / "manifest.json").read_text())["rows"]}
    for folder in table.FOLDERS:
        rows = table.rows_of(table.DATA / folder)
        assert rows, folder
        assert {row["name"] for row in rows} <= manifest.keys()
        for row, name, version in table.compared(rows):
            assert version["difference"] is None, (folder, row["name"], name)
            if name == table.BY_HAND:
                continue
            late = version["interrupted_difference"] if "lines_lost" not in version else None
            assert late in (None, table.NOT_REACHED), (folder, row["name"], name)
            assert version.get("revert_exact", True), (folder, row["name"], name)
            assert version["compared"]["losses"] > 20, (folder, row["name"], name)
            if folder == "h200" and "defer-read" in version["hunks"]:
                left = table.reads_in_each_batch(version)
                assert not left or version["declined"], (row["name"], name)


def test_the_page_would_show_a_changed_number(tmp_path: Path) -> None:
    table = _table()
    row = json.loads((table.DATA / "h200" / "gan.json").read_text())
    row["versions"]["event-interval"]["difference"] = "loss: backward 3: 1 in the original, 2 in the patched version"
    (tmp_path / "h200").mkdir()
    (tmp_path / "h200" / "gan.json").write_text(json.dumps(row))
    page = table.page(tmp_path)
    assert "changed in **1** of 1 patched versions" in page
    assert "**loss: backward 3" in page


def test_an_unsafe_version_stands_apart_and_changes_no_count(tmp_path: Path) -> None:
    table = _table()
    row = json.loads((table.DATA / "h200" / "gan.json").read_text())
    (tmp_path / "h200").mkdir()
    for verdict, share in (("within seed noise", 0.1), ("diverges", 0.6)):
        noise = {"verdict": verdict, "seeds": 3, "curves": [{"outside_share": share}], "reason": None}
        row["versions"]["event-interval --unsafe"] = {
            "hunks": {"thin-logs": 2},
            "difference": "loss: backward 3: 1 in the original, 2 in the patched version",
            "seed_noise": {**noise, "lines": [200, 20], "equal_losses": False},
        }
        (tmp_path / "h200" / "gan.json").write_text(json.dumps(row))
        page = table.page(tmp_path)
        assert "changed in **0** of 1 patched versions" in page
        assert f"| {verdict}, {100 * share:.0f} % of the blocks outside | 200 → 20 |" in page
        assert "| gan | NVIDIA H200 | event-interval --unsafe | 2 thin-logs | differ: loss: backward 3" in page


def _gan(table: ModuleType) -> dict[str, Any]:
    """A recorded row, without its times."""
    row: dict[str, Any] = json.loads((table.DATA / "h200" / "gan.json").read_text())
    row.pop("within", None)
    for one in (row["original"], *row["versions"].values()):
        one.pop("speed_within", None)
    return row


def _loaded(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"dynamic_{name}", HARNESS / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _rounds(table: ModuleType, tmp_path: Path, originals: list[float], patched: list[float]) -> str:
    """The page of one row whose rounds took so long, in ms."""
    times_of = _loaded("times_of")
    row = _gan(table)
    rounds = [{"original": a * 1e6, "event-interval": b * 1e6} for a, b in zip(originals, patched, strict=True)]
    times_of.put(row, rounds)
    (tmp_path / "h200").mkdir(exist_ok=True)
    (tmp_path / "h200" / "gan.json").write_text(json.dumps(row))
    return str(table.page(tmp_path))


def test_no_speed_is_named_where_the_pairs_do_not_decide(tmp_path: Path) -> None:
    table = _table()
    sure = _rounds(table, tmp_path, [10.0, 10.1, 9.9, 10.0, 10.1], [8.0, 8.1, 7.9, 8.1, 8.0])
    assert "| gan | event-interval |  |  | 1.250 (1.2" in sure
    assert "[5] | 10.0 (9.9 to 10.1) | faster |" in sure
    slow = _rounds(table, tmp_path, [10.0, 10.1, 9.9, 10.0, 10.1], [11.0, 11.1, 10.9, 11.1, 11.0])
    assert "| slower |" in slow
    undecided = _rounds(table, tmp_path, [7.0, 13.0, 9.0, 8.0, 10.0], [9.0, 8.0, 13.0, 7.0, 11.0])
    assert "| gan | event-interval |  |  | 0.644 to 1.494 [5] | 9.0 (7.0 to 13.0) | undecided |" in undecided
    wild = _rounds(table, tmp_path, [7.0, 70.0, 9.0], [90.0, 8.0, 13.0])
    assert "| the pairs scatter too much [3] | 9.0 (7.0 to 70.0) | undecided |" in wild


def test_processes_that_host_all_versions_count_once_each_and_are_judged_first(tmp_path: Path) -> None:
    table, times_of = _table(), _loaded("times_of")
    hosted = [
        [{"original": 10.0, "event-interval": 8.0 * luck, "original again": 10.0}] * 4 + [{"original": 10.0}]
        for luck in (1.0, 1.01, 0.99)
    ]
    found = times_of.within([*hosted, hosted[0][:2]])  # two rounds are too few to be a process
    assert found["event-interval"]["processes"] == 3
    assert (round(found["event-interval"]["value"], 3), found["original again"]["value"]) == (1.25, 1.0)
    assert found["original again"]["low"] == found["original again"]["high"] == 1.0
    row = _gan(table)
    row["versions"]["event-interval"]["speed_within"] = found["event-interval"]
    row["original"]["speed_within"] = found["original again"]
    (tmp_path / "h200").mkdir()
    (tmp_path / "h200" / "gan.json").write_text(json.dumps(row))
    page = table.page(tmp_path)
    assert "| gan | event-interval | 1.250 (1.219 to 1.282) [3] | 1.000 (1.000 to 1.000) |" in page
    assert "| faster |" in page


HOSTED = """\
import sys
sys.path[:0] = [sys.argv[1], str(__import__("pathlib").Path(sys.argv[1]).parents[1])]
import json
from pathlib import Path
import within
within.TURN_SECONDS, within.WARM_STEPS, within.SETTLE_STEPS, within.FEWEST = 0.05, 8, 4, 10
scripts = {name: Path(sys.argv[2], name, "train.py") for name in ("original", "slow", "original again", *sys.argv[3:])}
print("FOUND" + json.dumps(within.alternate(scripts, 0.0)))
"""
ENDLESS = SCRIPT.replace("range(120)", "range(4000)").replace("total +=", "time.sleep(0.002); total +=")


def _hosted(folder: Path, scripts: dict[str, str]) -> dict[str, Any]:
    for name, text in scripts.items():
        (folder / name).mkdir()
        (folder / name / "train.py").write_text(text)
    words = [sys.executable, "-c", HOSTED, str(HARNESS), str(folder), *list(scripts)[3:]]
    environment = dict(os.environ, OMP_NUM_THREADS="1", CUDA_VISIBLE_DEVICES="", PYTHONPATH=lean.SITE)
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False, timeout=100)
    found = [line for line in done.stdout.splitlines() if "FOUND" in line]
    assert found, done.stderr[-2000:]
    value: dict[str, Any] = json.loads(found[0].partition("FOUND")[2])
    return value


@pytest.mark.programs
def test_versions_take_turns_inside_one_process_and_a_slow_one_is_seen(tmp_path: Path) -> None:
    slow = ENDLESS.replace("sleep(0.002)", "sleep(0.08)")
    found = _hosted(tmp_path, {"original": ENDLESS, "slow": slow, "original again": ENDLESS})
    assert found["ended"] == {} and len(found["rounds"]) >= 3, found
    assert found["timed_steps"] % 10 == 0
    speeds = _loaded("times_of").within([found["rounds"]] * 2)
    assert speeds["slow"]["value"] < 0.75, "78 ms more per step"
    assert speeds["original again"]["value"] > speeds["slow"]["value"] + 0.1


@pytest.mark.programs
def test_a_version_that_ends_or_fails_is_said(tmp_path: Path) -> None:
    broken = ENDLESS.replace("time.sleep(0.002)", "1 / (3 - i)")
    scripts = {"original": ENDLESS, "slow": SCRIPT.replace("120", "24"), "original again": ENDLESS, "broken": broken}
    found = _hosted(tmp_path, scripts)
    assert found["ended"]["slow"] == "the script ended"
    assert found["ended"]["broken"].startswith("ZeroDivisionError")
