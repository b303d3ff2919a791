"""Learning rates and the other numbers of an optimizer's groups: recorded in each step, and compared."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import torch

from tracelens.verify.compare import numbers
from tracelens.verify.inside.tensor_records import Settings
from tracelens.verify.trial_process import ProcessRecord, TrialProcess


def recorded(change: Callable[[torch.optim.Optimizer, int], None], **options: Any) -> list[dict[str, Any]]:
    """The settings of four steps of SGD, before the second and each later one of which `change` runs."""
    optimizer = torch.optim.SGD([torch.zeros(2)], **{"lr": 0.1, "momentum": 0.9} | options)
    settings = Settings()
    for step in range(1, 5):
        if step > 1:
            change(optimizer, step)
        settings.note(optimizer, step)
    return [entry for entry in settings.read() if entry["name"].endswith((" lr", " momentum"))]


def halved(optimizer: torch.optim.Optimizer, step: int) -> None:
    if step == 3:
        optimizer.param_groups[0]["lr"] *= 0.5


def record(settings: list[dict[str, Any]]) -> ProcessRecord:
    rank = {"rank": 0, "steps": 4, "losses": [], "settings": json.loads(json.dumps(settings)), "state": []}
    return ProcessRecord(TrialProcess("original", "numbers", 4, 0), 1.0, "", "", (rank,))


def test_a_setting_is_kept_with_the_step_of_each_change() -> None:
    assert recorded(halved) == [
        {"name": "optimizer 0 group 0 lr", "changes": [[1, 0.1], [3, 0.05]]},
        {"name": "optimizer 0 group 0 momentum", "changes": [[1, 0.9]]},
    ]


def test_a_learning_rate_that_is_a_tensor_is_read_after_the_last_step() -> None:
    def in_place(optimizer: torch.optim.Optimizer, step: int) -> None:
        if step == 3:
            optimizer.param_groups[0]["lr"].mul_(0.5)

    rate = recorded(in_place, lr=torch.tensor(0.5), momentum=0.0)[0]
    assert rate == {"name": "optimizer 0 group 0 lr", "changes": [[1, 0.5], [3, 0.25]]}


def test_each_optimizer_has_its_own_settings() -> None:
    settings = Settings()
    for step, rate in ((1, 0.1), (2, 0.2)):
        settings.note(torch.optim.SGD([torch.zeros(1)], lr=rate), step)
        settings.note(None, step)
    names = [entry["name"] for entry in settings.read() if entry["name"].endswith(" lr")]
    assert names == ["optimizer 0 group 0 lr", "optimizer 1 group 0 lr"]


def test_a_learning_rate_that_changes_one_step_later_is_a_difference_although_it_ends_equal() -> None:
    def late(optimizer: torch.optim.Optimizer, step: int) -> None:
        if step == 4:
            optimizer.param_groups[0]["lr"] *= 0.5

    difference = numbers.tensor_difference(record(recorded(halved)), record(recorded(late)))
    assert difference is not None
    assert str(difference) == ("optimizer 0 group 0 lr at step 3: 0.05 in the original, 0.1 in the patched version")
    assert difference.part == "setting"


def test_equal_settings_are_no_difference() -> None:
    assert numbers.tensor_difference(record(recorded(halved)), record(recorded(halved))) is None
    assert numbers.compared_counts(record(recorded(halved)))["settings"] == 2
