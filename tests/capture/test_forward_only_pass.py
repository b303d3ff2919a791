"""A pass that only reads, before the training: the training is what is recorded; where it cannot be, the pass stays."""

from __future__ import annotations

import json
import subprocess
import sys
from types import SimpleNamespace

import pytest

from tests.support import lean
from tests.support.places import ROOT
from tracelens import run
from tracelens.capture.window_plan import WindowPlan

torch = pytest.importorskip("torch")

from tracelens.capture.inside import forward_only_pass  # noqa: E402 -- needs torch
from tracelens.capture.inside.forward_only_pass import ForwardOnlyPass  # noqa: E402
from tracelens.capture.inside.recording_data import RecordingData  # noqa: E402
from tracelens.launch.inside.steps import StepRule  # noqa: E402

pytestmark = pytest.mark.programs

SCRIPT = """
import json, sys, torch
from pathlib import Path
from torch.utils.data import DataLoader, TensorDataset
from tracelens.capture.inside.profile_api import Recording
from tracelens.capture.window_plan import WindowPlan

data = TensorDataset(torch.randn(800, 8))
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def read(batches):
    for _at, (rows,) in zip(range(batches), DataLoader(data, batch_size=8)):
        rows.mean()


def train(steps):
    for _at, (rows,) in zip(range(steps), DataLoader(data, batch_size=8)):
        model(rows).sum().backward()
        optimizer.step()


for name, batches, steps in json.loads(sys.argv[1]):
    plan = WindowPlan(
        unprofiled_steps=6, unprofiled_seconds=0.0, unprofiled_most_steps=6, clean=3, time_window_seconds=0
    )
    Path(name).mkdir()
    with Recording(Path(name), plan, 10, monitor=False, quiet=True):
        read(batches)
        train(steps)
"""
CASES = {"replaced": (60, 60), "half recorded": (20, 60), "too short": (60, 2), "alone": (60, 0)}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, run.Run]:
    folder = tmp_path_factory.mktemp("passes")
    (folder / "train.py").write_text(SCRIPT)
    wanted = json.dumps([(name, *sizes) for name, sizes in CASES.items()])
    environment = {"PYTHONPATH": f"{lean.SITE}:{ROOT}", "PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1"}
    subprocess.run([sys.executable, "train.py", wanted], cwd=folder, env=environment, check=True)
    return {name: run.read(folder / name) for name in CASES}


def told(recording: run.Run) -> tuple[bool, str, str]:
    (only,) = recording.recordings
    assert only.trace_path is not None
    assert only.trace_path.is_file()
    return recording.complete, only.meta["step_source"], " | ".join(only.meta["notes"])


def test_a_training_takes_the_place_of_a_pass_that_was_recorded(recorded: dict[str, run.Run]) -> None:
    complete, source, notes = told(recorded["replaced"])
    assert (complete, source) == (True, "optimizer")
    assert "their recording was replaced" in notes
    (only,) = recorded["replaced"].recordings
    assert only.meta["steps_seen"] == 3 + 6 + 3 + 3 + 2  # none of the batches that were read
    assert only.meta["window"]["first_step"] == 60 - 8 + 1 + 12 + 1  # those count as steps from the ninth one on
    assert "provisional" not in only.meta["window"]


def test_a_training_that_begins_within_the_window_of_a_pass_is_recorded_instead(recorded: dict[str, run.Run]) -> None:
    complete, source, _notes = told(recorded["half recorded"])
    assert (complete, source) == (True, "optimizer")


def test_a_training_too_short_to_record_is_named_beside_the_pass(recorded: dict[str, run.Run]) -> None:
    complete, source, notes = told(recorded["too short"])
    assert (complete, source) == (True, "dataloader")
    assert forward_only_pass.ONLY_READS in notes
    assert "a training came after that, and nothing of it was recorded" in notes


def test_an_evaluation_is_called_so(recorded: dict[str, run.Run]) -> None:
    complete, source, notes = told(recorded["alone"])
    assert (complete, source, notes) == (True, "dataloader", forward_only_pass.ONLY_READS)


@pytest.mark.parametrize("optimizer_made", [True, False])
def test_a_script_that_shall_stop_goes_on_to_its_training(
    monkeypatch: pytest.MonkeyPatch, optimizer_made: bool
) -> None:
    monkeypatch.setattr(forward_only_pass.hooks, "rule", StepRule)
    monkeypatch.setattr(
        forward_only_pass, "existing_optimizers", SimpleNamespace(any_below=lambda _base: optimizer_made)
    )
    gathered = RecordingData(WindowPlan(), source="dataloader")
    assert ForwardOnlyPass().is_one(gathered, stops=True) == optimizer_made
    assert ("without --stop-after-window" in gathered.notes[0]) != optimizer_made
