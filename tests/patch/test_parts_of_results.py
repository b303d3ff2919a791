"""`accuracy(output, y)[0].item()`: a part of what a function of the project gives, told by that function's text."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.patching import assert_same, patch_of, patched_text, script

ACCURACY = """
    import numpy as np
    def accuracy(output, target, topk=(1,)):
        _, pred = output.topk(max(topk), 1, True, True)
        correct = pred.t().eq(target.view(1, -1).expand_as(pred.t()))
        res = []
        for k in topk:
            RESULT
        return res
    def in_numpy(value):
        return np.asarray(value)
    def in_torch(value):
        return value.sum(0) + np.finfo(float).eps
    losses, hits = [], []
    for i, (x, y) in enumerate(loader):
        optimizer.zero_grad()
        output = model(x)
        loss = criterion(output, y)
        TAKEN
        losses.append(loss.item())  # fires
        hits.append(prec1.item())  # fires
        loss.backward()
        optimizer.step()
    print(sum(losses), sum(hits))
"""
OF_TORCH = "res.append(in_torch(correct[:k].reshape(-1).float()).mul_(100.0 / target.size(0)))"
OF_NUMPY = "res.append(in_numpy(correct[:k].reshape(-1).float().sum(0)))"
FIRST = "prec1 = accuracy(output.data, y)[0]"
BOTH = "prec1, prec2 = accuracy(output.data, y, (1, 2))"


def parts(result: str, taken: str) -> str:
    return script(ACCURACY.replace("RESULT", result).replace("TAKEN", taken))


@pytest.mark.parametrize("taken", [FIRST, BOTH])
def test_where_only_torch_is_at_work_it_needs_no_helper(taken: str, tmp_path: Path) -> None:
    text = parts(OF_TORCH, taken)
    patch = patch_of(tmp_path, text)
    assert [one.path.name for one in patch.files] == ["train.py"]
    assert "prec1.detach().clone()" in patched_text(patch)
    assert_same(tmp_path, text, patch)


@pytest.mark.parametrize("taken", [FIRST, BOTH])
def test_what_a_function_behind_it_makes_an_array_of_is_looked_at_by_a_helper(taken: str, tmp_path: Path) -> None:
    text = parts(OF_NUMPY, taken)
    patch = patch_of(tmp_path, text)
    assert "prec1.detach()" not in patched_text(patch)
    assert_same(tmp_path, text, patch)


def test_a_part_of_what_a_library_gives_is_looked_at_by_a_helper(tmp_path: Path) -> None:
    text = parts(OF_TORCH, "prec1 = np.split(output.detach().numpy(), 5)[0].sum()")
    patch = patch_of(tmp_path, text)
    assert "prec1.detach()" not in patched_text(patch)
    assert_same(tmp_path, text, patch)


OBJECTS = """
    import numpy as np
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(4, 3)
        def forward(self, x, y):
            output = self.inner(x)
            return criterion(output, y), (output.argmax(1) == y).float().mean()
    class Meter:
        def __call__(self, x, y):
            return [0, (x.argmax(1) == y).float().mean()MADE]
    model, meter = Model(), Meter()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses, hits = [], []
    for x, y in loader:
        optimizer.zero_grad()
        loss, right = model(x, y)
        none, right = meter(model.inner(x), y)
        losses.append(loss.item())  # fires
        hits.append(right.item())  # fires
        loss.backward()
        optimizer.step()
    print(sum(losses), sum(hits))
"""


@pytest.mark.parametrize(("made", "plain"), [("", True), (".numpy() * np.ones(1)", False)])
def test_of_an_object_each_function_that_may_be_called_is_asked(made: str, plain: bool, tmp_path: Path) -> None:
    text = script(OBJECTS.replace("MADE", made))
    patch = patch_of(tmp_path, text)
    assert not patch.empty
    assert_same(tmp_path, text, patch)
    assert ("right.detach().clone()" in patched_text(patch)) == plain
