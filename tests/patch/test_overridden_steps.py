"""Steps of a class and of the one above it: who calls which cannot be told, and that is all that is said."""

from __future__ import annotations

from pathlib import Path

from tracelens.patch.every_place import patch_files
from tracelens.patch.recipes import PatchOptions

STEPS = """
import torch
from torch.nn import functional as F

class Plain(torch.nn.Module):
    def update(self, minibatches, unlabeled=None):
        loss = F.cross_entropy(self.network(minibatches[0]), minibatches[1])
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return {'loss': loss.item()}


class Penalized(Plain):
    def update(self, minibatches, unlabeled=None):
        objective = 0
        penalty = 0
        for i in range(len(minibatches)):
            objective += F.cross_entropy(self.network(minibatches[i]), minibatches[i])
        if len(minibatches) > 1:
            penalty = torch.nan_to_num(self.mmd(objective))
        else:
            penalty = torch.tensor(0)
        self.optimizer.zero_grad()
        (objective + penalty).backward()
        self.optimizer.step()
        if torch.is_tensor(penalty):
            penalty = penalty.item()
        return {'loss': objective.item(), 'penalty': penalty}
"""


def test_a_value_that_is_asked_for_in_one_of_them_is_declined(tmp_path: Path) -> None:
    script = tmp_path / "algorithms.py"
    script.write_text(STEPS)
    patch = patch_files([script], tmp_path, {"defer-read": 10}, PatchOptions())
    assert patch.hunks == ()
    assert len(patch.declined) == 3
