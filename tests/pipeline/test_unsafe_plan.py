"""What needs --unsafe, from the recording to the screen: offered, predicted, left out with its number, made."""

from __future__ import annotations

import contextlib
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest

from tests.support import lean
from tests.support.builders import Machine
from tests.support.places import ROOT
from tests.support.replaying import TWO, build, more, starved, time_us
from tests.support.run_cases import placed
from tracelens import chosen_patches, pipeline, remedies
from tracelens.cli import main
from tracelens.model import Abstention, Diagnosis, Edit, Estimate, InventoryItem, Location, Stall
from tracelens.replay import estimate, worker_count
from tracelens.schemes import plan, rules

RULES = rules.load()
APPLY_SCHEMA = json.loads((ROOT / "docs" / "apply.schema.json").read_text())

SCRIPT = '''"""Stops at the first loss that is not a number, and prints each."""
import math
import sys

import torch


def train() -> float:
    torch.manual_seed(0)
    model = torch.nn.Linear(16, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    total = 0.0
    for step in range(40):
        loss = model(torch.randn(8, 16)).pow(2).mean() * (math.nan if str(step) in sys.argv else 1)
        loss_value = loss.item()
        if not math.isfinite(loss_value):
            print(f"loss is {loss_value}, stopping")
            sys.exit(1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss_value
        print(f"{step}: {loss_value:.4f}")
    return total


if __name__ == "__main__":
    print(train())
'''
READ_LINE = SCRIPT.splitlines().index("        loss_value = loss.item()") + 1
GUARD_LINE = READ_LINE + 1


def record(project: Path, text: str = SCRIPT, line: int = READ_LINE, steps: int = 12) -> Path:
    """The run of a script on a GPU that never was: 40 kernels in a step, then the read."""
    machine = Machine()

    @contextlib.contextmanager
    def at(number: int) -> Iterator[None]:
        began = machine.now
        yield
        machine.events.frame(f"train.py({number}): train", began, machine.now - began)

    for number in range(steps):
        with machine.step(number):
            for _ in range(40):
                machine.host(25)
                machine.launch("gemm", kernel_us=50)
            with at(line):
                machine.item()
            machine.host(400)
    return placed(project, text, machine.events.write)


def planned(folder: Path, **options: object) -> Diagnosis:
    wanted = pipeline.Options(**options)  # type: ignore[arg-type]
    return pipeline.plan(pipeline.examine(pipeline.open_inputs((folder,)), wanted), wanted)


# ------------------------------------------------------------------------------------------------------ offers


def stall(name: str, kind: str, line: int, **changes: object) -> Stall:
    base = Stall(name, "cudaAny", kind, 1.0, 1_000_000, 500_000, None, "unknown", Location("train.py", line))  # type: ignore[arg-type]
    return replace(base, **changes)  # type: ignore[arg-type]


READ = stall("s1", "d2h", 10)
TEST = stall("s2", "d2h", 11, call="Tensor.__bool__")
WORKERS = InventoryItem("loader_workers", True, "num_workers=2, recorded", 2)


OFFERED = ("thin-logs", "move-guard", "more-workers", "persistent-workers")
"""The kinds that these tests are about; one more kind is no matter of theirs."""


def offered(*facts: object) -> dict[str, list[Edit]]:
    every = plan.offers(RULES, *facts)  # type: ignore[arg-type]
    return {name: [edit for edit in edits if edit.kind in OFFERED] for name, edits in every.items()}


def test_each_scheme_offers_the_unsafe_edits_of_its_rule() -> None:
    found = offered((READ, TEST), (WORKERS,), 10, 8)
    assert {name: [edit.kind for edit in edits] for name, edits in found.items()} == {
        "more-streams": ["more-workers", "persistent-workers"],
        "event-sync": [],
        "interval-sync": ["thin-logs", "move-guard"],
        "event-interval": ["thin-logs", "move-guard"],
        "full-pipeline": ["thin-logs", "move-guard", "more-workers", "persistent-workers"],
        "pinned-copy": ["more-workers", "persistent-workers"],
    }
    thin, moved, hired, _ = found["full-pipeline"]
    assert (thin.stalls, thin.interval) == (("s1",), 10), "a condition is no line of output"
    assert (moved.stalls, moved.interval) == (("s1", "s2"), 10)
    assert hired.workers == 8


def test_what_the_loop_has_or_cannot_use_is_not_offered() -> None:
    kept = InventoryItem("persistent_workers", True, "recorded")
    found = offered((READ,), (WORKERS, kept), 1, None)
    assert [edits for edits in found.values() if edits] == []


# ------------------------------------------------------------------------------------------------------- replay


def waiting(machine: Machine) -> None:
    machine.host(300)
    machine.launch("gemm", 500)
    machine.item()


def test_a_moved_guard_is_replayed_as_a_deferred_read_and_a_thinned_line_as_a_rare_one() -> None:
    made = build(waiting)
    name = next(iter(made.stalls))
    deferred, moved, thinned = (
        time_us(made, Edit(kind, (name,), interval=10))  # type: ignore[arg-type]
        for kind in ("defer-read", "move-guard", "thin-logs")
    )
    assert moved == deferred < time_us(made)
    assert thinned < deferred, "nothing is kept on the GPU for lines that are not written"
    both = (Edit("defer-read", (name,), interval=10), Edit("thin-logs", (name,), interval=10))
    assert time_us(made, *both) == thinned
    assert time_us(made, Edit("thin-logs", (name,), interval=1)) == time_us(made)


def test_workers_that_stay_alive_get_an_abstention_and_no_number() -> None:
    judged = estimate.predict(build(waiting), (Edit("persistent-workers"),))
    assert isinstance(judged, Abstention) and "between two epochs" in judged.missing


def test_as_many_workers_are_asked_for_as_still_pay() -> None:
    """Two workers take 9,000 each way; the GPU needs 815: four, eight, sixteen pay, thirty-two no longer."""
    made = build(starved, calibration=TWO)
    wanted = worker_count.recommended(made)
    assert wanted is not None
    assert time_us(made, more(wanted)) <= time_us(made, more(2 * wanted)) * 1.011
    assert time_us(made, more(wanted)) < 0.9 * time_us(made, more(wanted // 2))
    cores = build(starved, calibration=replace(TWO, loader_cores=5))
    assert worker_count.recommended(cores) == 4, "no core is left for more"


def test_a_loop_that_does_not_wait_for_its_loader_gets_no_more_workers() -> None:
    assert worker_count.recommended(build(waiting, calibration=TWO)) is None
    assert worker_count.recommended(build(starved)) is None, "how many it has is not known"


# ---------------------------------------------------------------------------------------------------- the plan


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return record(tmp_path_factory.mktemp("guarded"))


def test_without_unsafe_nothing_is_made_and_the_guard_is_named(folder: Path) -> None:
    found = planned(folder, count_unsafe=True)
    assert found.recommendation is not None and found.recommendation.scheme is None
    assert all(patch.empty for patch in found.patches.values())
    told = [one for patch in found.patches.values() for one in patch.declined if one.edit == "move-guard"]
    assert told and all("needs --unsafe: the guard looks every 10 batches" in one.obstacle for one in told)
    assert [(hunk.id, hunk.edit, hunk.location.line) for hunk in found.unsafe.hunks] == [
        ("TL601", "move-guard", GUARD_LINE)
    ]


def test_with_unsafe_the_guard_is_moved_and_predicted(folder: Path) -> None:
    found = planned(folder, unsafe=True)
    assert found.recommendation is not None
    name = found.recommendation.scheme
    assert name in ("interval-sync", "event-interval")
    scheme = next(one for one in found.schemes if one.id == name)
    assert [edit.kind for edit in scheme.edits] == ["move-guard"]
    assert isinstance(scheme.estimate, Estimate) and scheme.estimate.speedup > 1.1
    hunks = found.patches[name].hunks
    assert [(hunk.id, hunk.tier) for hunk in hunks] == [("TL601", "unsafe")]
    assert "per step host-blocked" in hunks[0].evidence
    assert found.unsafe is None, "it was asked for"


LOGGED = SCRIPT.replace(
    SCRIPT.partition("        if not math")[1]
    + SCRIPT.partition("        if not math")[2].partition("        optimizer")[0],
    "",
)


def test_a_change_that_buys_nothing_beside_the_rest_is_left_out_with_its_number(tmp_path: Path) -> None:
    """Where reads can be deferred, writing fewer lines predicts no gain; by name it is made all the same."""
    line = next(n for n, text in enumerate(LOGGED.splitlines(), 1) if "print(f" in text)
    text = LOGGED.replace("{loss_value:.4f}", "{loss.item():.4f}").replace("        loss_value = loss.item()\n", "")
    text = text.replace("        total += loss_value\n", "")
    made = record(tmp_path, text, line - 2)
    found, name = planned(made, unsafe=True), "interval-sync"
    patch = found.patches[name]
    assert [hunk.id for hunk in patch.hunks] == ["TL101"]
    told = [one for one in patch.left_alone if one.edit == "thin-logs"]
    assert len(told) == 1 and "it buys nothing here: +0 % beside" in told[0].obstacle
    assert f"--lever {name} --unsafe" in told[0].by_hand
    forced = planned(made, unsafe=True, forced=name)
    assert [hunk.id for hunk in forced.patches[name].hunks] == ["TL501"], "the line is rare: nothing is left to defer"
    choice = remedies.HunkChoice(only=("TL501",))
    by_id = chosen_patches.patch_to_write(found, name, choice, pipeline.Options(unsafe=True))
    assert [hunk.id for hunk in by_id.hunks] == ["TL501"]


# ------------------------------------------------------------------------------------------------- the commands


@pytest.mark.programs
def test_apply_names_what_needs_unsafe_and_makes_it_when_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "400")  # a long temporary path would be wrapped
    made = record(tmp_path)
    assert main(["apply", str(made)]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert f"1 more change needs --unsafe: move-guard at train.py:{GUARD_LINE}" in shown
    (promised,) = re.findall(r"see each with its reason: tracelens (apply .+? --lever \S+ --unsafe --dry-run)", shown)
    assert main(shlex.split(promised)) == 0
    assert "TL601" in capsys.readouterr().out
    assert (tmp_path / "train.py").read_text() == SCRIPT
    assert main(["apply", str(made), "--format", "json", "--dry-run"]) == 0
    document = json.loads(capsys.readouterr().out)
    jsonschema.validate(document, APPLY_SCHEMA)
    assert [hunk["id"] for hunk in document["needs_unsafe"]] == ["TL601"]
    assert f"--lever {document['needs_unsafe'][0]['lever']} --unsafe" in promised
    assert main(["apply", str(made), "--unsafe"]) == 0
    shown = capsys.readouterr().out
    assert "TL601" in shown and "need --unsafe" not in shown and "needs --unsafe" not in shown
    assert "DeferredReads(every=10)" in (tmp_path / "train.py").read_text()
    (tmp_path / "before.py").write_text(SCRIPT)
    for arguments, code in (((), 0), (("13",), 1)):
        patched = ran(tmp_path, "train.py", *arguments)
        assert patched == ran(tmp_path, "before.py", *arguments)
        assert patched[0] == code
    assert main(["revert", str(made)]) == 0
    assert (tmp_path / "train.py").read_text() == SCRIPT
    assert not (tmp_path / "tracelens_runtime.py").exists()


@pytest.mark.programs
def test_apply_thins_the_lines_of_a_recorded_run_and_nothing_else(tmp_path: Path) -> None:
    text = SCRIPT.replace(
        '        print(f"{step}: {loss_value:.4f}")\n', '        print(f"{step}: {loss.item():.4f}")\n'
    )
    line = next(n for n, one in enumerate(text.splitlines(), 1) if "{loss.item():.4f}" in one)
    made = record(tmp_path, text, line)
    assert main(["apply", str(made), "--scheme", "interval-sync", "--unsafe"]) == 0
    (tmp_path / "before.py").write_text(text)
    code, before = ran(tmp_path, "before.py")
    lines = before.splitlines()
    assert ran(tmp_path, "train.py") == (code, "\n".join([*lines[:-1:10], lines[-1]]) + "\n"), "the sum is complete"


def ran(folder: Path, *words: str) -> tuple[int, str]:
    """Exit status and lines of a script."""
    done = subprocess.run(
        [sys.executable, lean.__file__, *words], cwd=folder, capture_output=True, text=True, timeout=120, check=False
    )
    return done.returncode, done.stdout


def without_tags(page: str) -> str:
    """What is read of a page, options with their hyphens in one piece."""
    return re.sub(r"<[^>]+>", "", page)


@pytest.mark.slow
def test_recommending_and_reporting_still_work_with_the_new_kinds(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["recommend", str(folder)]) == 0
    page = tmp_path / "page.html"
    assert main(["report", str(folder), "-o", str(page)]) == 0
    shown = without_tags(page.read_text())
    assert f"1 more change needs --unsafe: move-guard at train.py:{GUARD_LINE}" in shown
    assert "--unsafe --dry-run" in shown
    assert main(["report", str(folder), "--redact", "-o", str(page)]) == 0
    assert "more change needs --unsafe" not in without_tags(page.read_text())
    capsys.readouterr()
    assert main(["rules", "move-guard"]) == 0
    assert "unsafe" in capsys.readouterr().out


@pytest.mark.slow
def test_a_condition_on_a_tensor_is_offered_though_its_scheme_does_not_apply(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The recording says that the value steers the loop: without --unsafe there is nothing to do about it."""
    text = SCRIPT.replace(
        "        loss_value = loss.item()\n        if not math.isfinite(loss_value):", "        if torch.isnan(loss):"
    )
    text = text.replace('            print(f"loss is {loss_value}, stopping")\n', "")
    text = text.replace("        total += loss_value\n", "").replace("{loss_value:.4f}", "x")
    made = record(tmp_path, text, READ_LINE)
    monkeypatch.setattr(plan, "_steers", lambda _: True)
    found = planned(made, count_unsafe=True)
    reasons = {one.id: one.reasons for one in found.schemes}
    assert "decides what the host does next" in reasons["interval-sync"][0]
    assert [hunk.id for hunk in found.unsafe.hunks] == ["TL601"]
    asked = planned(made, unsafe=True)
    assert "ahead.number(torch.isnan(loss))" in asked.patches["interval-sync"].diff
    assert asked.recommendation is not None and asked.recommendation.scheme is not None
