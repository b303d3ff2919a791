"""Without a GPU: a loader that works in the training thread is given workers by a patch, at the line that makes it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support import lean
from tracelens import pipeline
from tracelens.capture.supervisor.recording import ProfileOptions, profile
from tracelens.capture.window_plan import WindowPlan
from tracelens.fixing import choice
from tracelens.lever_trials import plan
from tracelens.model import PlannedDiagnosis, Ratio, Speedup, Verification
from tracelens.report import lever_order, next_commands
from tracelens.schemes import rules

pytest.importorskip("torch")
pytestmark = [pytest.mark.programs, pytest.mark.slow]
PLAN = WindowPlan(unprofiled_steps=8, unprofiled_seconds=0.0, clean=6)
SCRIPT = """
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Rows(Dataset):
    def __len__(self):
        return 480

    def __getitem__(self, index):
        time.sleep(0.001)
        return torch.full((4,), float(index))


def main():
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    loader = DataLoader(Rows(), batch_size=8)
    for rows in loader:
        loss = model(rows).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main()
""".lstrip()
MADE = 1 + SCRIPT.splitlines().index("    loader = DataLoader(Rows(), batch_size=8)")


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> PlannedDiagnosis:
    folder = tmp_path_factory.mktemp("loader")
    (folder / "train.py").write_text(SCRIPT)
    wanted = ProfileOptions("script", ("train.py",), out=folder / "run", cwd=folder, plan=PLAN, monitor=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", lean.SITE)
        assert profile(wanted).complete
    examined = pipeline.examine(pipeline.open_inputs((folder / "run",)))
    run = examined.diagnosis.run
    assert run is not None
    four_cores = replace(run, meta={**run.meta, "environment": {"cpu_count": 4}})
    return pipeline.plan(replace(examined, diagnosis=replace(examined.diagnosis, run=four_cores)))


def test_the_numbers_that_have_cores_are_patches_at_the_line_that_makes_the_loader(planned: PlannedDiagnosis) -> None:
    """`fix` said that no patch is made for 8 workers, on a machine of two cores, and named a line of the data set:
    nothing had been replayed, so that no number of workers was known, and none was asked of the recipe."""
    workers = [lever for lever in planned.levers if lever.id.startswith("workers=")]
    assert [(lever.id, lever.command) for lever in workers] == [
        ("workers=2", "fix workers=2"),
        ("workers=4", "fix workers=4"),
    ]
    assert all([place.line for place in lever.locations] == [MADE] for lever in workers)
    assert f"+    loader = DataLoader(Rows(), batch_size=8, num_workers={4}" in planned.patches["workers=4"].diff
    assert planned.recommendation.lever is None, "nobody knows what workers give here: worth a trial, and no answer"


def test_fix_tries_them(planned: PlannedDiagnosis) -> None:
    levers = rules.load().levers
    assert set(choice.possible(planned, plan(planned, levers, ()))) == {"workers=2", "workers=4"}


def test_they_are_the_first_of_what_nobody_tried_and_fix_is_next(planned: PlannedDiagnosis) -> None:
    """The screen named the loader, then put the number of threads first, and `try compile` next."""
    shown = lever_order.first_levers(lever_order.ordered_levers(planned), planned)
    assert shown[0].id == "workers=2"
    assert next_commands.next_command(planned) == "tracelens fix run/"


def test_what_was_tried_without_an_answer_stays_first_and_is_measured_longer(planned: PlannedDiagnosis) -> None:
    ratio = Speedup(1.02, 0.81, 1.31)
    details = {"steps": 100, "budget_s": 120.5}
    unsure = Verification("workers=2", "inconclusive", True, Ratio(1.02, 0.81, 1.31), None, None, None, "", details)
    levers = tuple(
        replace(lever, state="measured", measured=ratio) if lever.id == "workers=2" else lever
        for lever in planned.levers
    )
    tried = replace(planned, levers=levers, verifications=(unsure,))
    shown = lever_order.first_levers(lever_order.ordered_levers(tried), tried)
    assert [lever.id for lever in shown[:1]] == ["workers=2"]
    expected = "tracelens verify run/ --lever workers=2 --steps 200 --budget 241s"
    assert next_commands.next_command(tried) == expected
