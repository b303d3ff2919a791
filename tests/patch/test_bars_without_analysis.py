"""Loops over a bar in projects that are given up: what comes out of the bar is what it goes through, not the bar."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.limits import give_up
from tests.support.patching import patch_of, script
from tracelens.patch.effects.file_effects import file_effects

SCHEDULED = """
from tqdm import tqdm
class Rate:
    def __init__(self, base):
        self.base = base
    def __call__(self, optimizer, step):
        for group in optimizer.param_groups:
            group["lr"] = self.base / (1 + step)
class Net(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner
    def forward(self, *inputs):
        return self.inner(*inputs)
class Trainer:
    def __init__(self):
        self.scheduler = Rate(0.1)
        self.model = Net(model)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
    def train(self):
        total = 0.0
        bar = MAKES
        for i, (x, y) in enumerate(bar):
            self.scheduler(self.optimizer, i)
            self.optimizer.zero_grad()
            loss = criterion(self.model(x), y)
            loss.backward()
            self.optimizer.step()
            total += loss.item()  # fires
            bar.set_description("loss %.3f" % (total / (i + 1)))
            AFTER
Trainer().train()
"""


@pytest.fixture(autouse=True)
def gives_up(monkeypatch: pytest.MonkeyPatch) -> None:
    give_up(monkeypatch)


def _script(makes: str, after: str = "pass") -> str:
    return script(SCHEDULED.replace("MAKES", makes).replace("AFTER", after))


def _aliases(makes: str, body: str, folder: Path) -> frozenset[str]:
    head = f"from tqdm import tqdm\ndef train(loader, kept):\n    {makes}\n"
    text = f"{head}    for i, x in enumerate(bar):\n        {body}\n"
    path = folder / "train.py"
    path.write_text(text)
    holders = file_effects(folder, path, path, text).holders(4)
    assert holders is not None
    return holders.aliases({"bar"})


@pytest.mark.parametrize(
    ("makes", "body", "found"),
    [
        ("bar = tqdm(loader, desc='train')", "out = [x]", {"bar"}),
        ("bar = tqdm(loader)", "out = [bar]", {"bar", "out"}),
        ("bar = loader", "out = [x]", {"bar", "x", "out"}),
        ("bar = tqdm(loader); bar = kept[0]", "out = [x]", {"bar", "x", "out"}),
        ("bar = tqdm(loader); kept.append(bar)", "out = [x]", {"bar", "kept"}),
    ],
)
def test_no_variable_of_the_loop_holds_the_bar_unless_it_is_given_it(
    makes: str, body: str, found: set[str], tmp_path: Path
) -> None:
    assert _aliases(makes, body, tmp_path) == found


def test_what_comes_out_of_a_bar_is_not_the_bar(tmp_path: Path) -> None:
    patch = patch_of(tmp_path, _script("tqdm(loader)"))
    assert [hunk.tier for hunk in patch.hunks] == ["checked"]
    assert [one.obstacle for one in patch.declined] == []


@pytest.mark.parametrize(
    ("makes", "after"),
    [
        ("tqdm(loader)", "self.scheduler.base = total"),
        ("tqdm(loader)", "other = bar\n            self.scheduler.base = len(str(other))"),
    ],
)
def test_what_the_loop_does_with_its_results_is_an_obstacle_still(makes: str, after: str, tmp_path: Path) -> None:
    assert patch_of(tmp_path, _script(makes, after)).empty
