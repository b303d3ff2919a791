"""Projects that are hardly told apart, or not at all: what an object, a size or a number holds is told by the text.

`self.model(x)` is a call of what the attribute stands for, and gives nothing of the object around it, unless that is
one of its functions. Each script is run with its patch, where there is one.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.limits import LIMITS
from tests.support.patching import assert_same, patch_of, script

TRAINER = """
class Trainer:
    def __init__(self, model, loader):
        self.model, self.loader, self.values = model, loader, []
        SETUP
    def peek(self, x=None):
        return self.values[-1:]
    def train(self):
        for x, y in self.loader:
            optimizer.zero_grad()
            loss = criterion(self.model(x), y)
            loss.backward()
            optimizer.step()
            LOOK
            self.values.append(loss.item())  # fires
        print(self.values)
Trainer(model, loader).train()
"""
WAITS = {
    "a model that is an attribute": TRAINER.replace("SETUP", "pass").replace("LOOK", "pass"),
    "batches that are taken by hand": """
class Logger:
    def __init__(self):
        self.values = []
    def add(self, value):
        self.values.append(value)
class Trainer:
    def __init__(self, model, loader, logger):
        self.model, self.loader, self.logger, self.steps = model, loader, logger, 3
    def train(self):
        batches = iter(self.loader)
        for _ in range(self.steps):
            x, y = next(batches)
            optimizer.zero_grad()
            loss = criterion(self.model(x), y)
            loss.backward()
            optimizer.step()
            self.logger.add(loss.item())  # fires
        print(self.logger.values)
Trainer(model, loader, Logger()).train()
""",
    "the size of a batch": """
class Meter:
    total, count = 0.0, 0
    def update(self, value, n):
        self.total += value * n
        self.count += n
def train(loader):
    meter = Meter()
    for x, y in loader:
        STEP
        meter.update(loss.item(), x.shape[0])  # fires
    print(meter.total / meter.count)
train(loader)
""",
    "the number of an epoch": """
class Log:
    def __init__(self):
        self.values, self.epoch = [], 0
    def add(self, value):
        self.values.append(value)
    def begin(self, epoch):
        self.epoch = epoch
class Trainer:
    def __init__(self, loader):
        self.loader, self.log = loader, Log()
        self.scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    def train(self):
        epoch = self.scheduler.last_epoch + 1
        self.log.begin(epoch)
        for x, y in self.loader:
            STEP
            self.log.add(loss.item())  # fires
        self.scheduler.step()
        print(self.log.values)
Trainer(loader).train()
""",
}
MEETS = {
    "a method under another name": ("self.last = self.peek", "print(self.last())"),
    "a method that a library wraps": ("self.last = torch.no_grad()(self.peek)", "print(self.last(x))"),
    "a function made there": ("self.last = lambda: self.values[-1:]", "print(self.last())"),
    "an object that has the trainer": ("self.last = Peek(self)", "print(self.last())"),
    "a size that the project tells": ("self.last = Peek(self)", "print(self.last.shape[-1:])"),
    "a sum that the project tells": ("self.last = Peek(self)", "print(self.last + 1)"),
}
PEEK = """
class Peek:
    def __init__(self, trainer):
        self.trainer = trainer
    def __call__(self):
        return self.trainer.values[-1:]
    @property
    def shape(self):
        return self.trainer.values
    def __add__(self, number):
        return self.trainer.values[-number:]
"""


@pytest.fixture(params=LIMITS, autouse=True)
def told(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    LIMITS[request.param](monkeypatch)


@pytest.mark.parametrize("name", WAITS)
def test_what_nobody_meets_waits(name: str, tmp_path: Path) -> None:
    text = script(WAITS[name])
    patch = patch_of(tmp_path, text)
    assert [hunk.tier for hunk in patch.hunks] == ["checked"], patch.declined
    assert_same(tmp_path, text, patch)


@pytest.mark.parametrize("name", MEETS)
def test_what_leads_back_to_the_object_is_met(name: str, tmp_path: Path) -> None:
    setup, look = MEETS[name]
    text = script(PEEK + TRAINER.replace("SETUP", setup).replace("LOOK", look))
    patch = patch_of(tmp_path, text)
    if not patch.empty:
        assert_same(tmp_path, text, patch)


OF_ACCELERATE = """
from accelerate import Accelerator
class Trainer(nn.Module):
    def __init__(self, net, loader):
        super().__init__()
        self.accelerator = Accelerator()
        self.net, self.loader = self.accelerator.prepare(net, loader)
    def print(self, text):
        return self.accelerator.print(text)
    def forward(self):
        for x, y in self.loader:
            with self.accelerator.autocast():
                loss = criterion(self.net(x), y)
                self.accelerator.backward(loss)
            self.print(loss.item())  # fires
            optimizer.step()
Trainer(model, loader)()
"""


def test_a_forward_that_trains_is_not_run_by_what_its_own_loop_calls(tmp_path: Path) -> None:
    """Nor does an accelerator that prints change what it has prepared, each of which is what it was."""
    patch = patch_of(tmp_path, script(OF_ACCELERATE))
    assert [hunk.tier for hunk in patch.hunks] == ["checked"], patch.declined


def test_what_writes_lines_between_two_batches_is_still_met(tmp_path: Path) -> None:
    shown = "def shown(loss):\n    print('a batch')\n    return loss\n"
    text = shown + OF_ACCELERATE.replace("backward(loss)", "backward(shown(loss))")
    assert patch_of(tmp_path, script(text)).empty
