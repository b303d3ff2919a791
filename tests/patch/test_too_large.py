"""Patches of projects that are too large to be followed: what the file itself shows of a result is never shown wrong.

The limits of the engine are lowered, so that it gives up each of these scripts at once. Each is run with its patch.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.average_meters import METERS
from tests.support.patching import assert_same, patch_of, patched_text, script
from tracelens.patch.effects import memory

IMAGENET = """
def train(loader, model, criterion, optimizer):
    losses, others = Average(), Average("other")
    progress = Progress([losses, others])
    for i, (x, y) in enumerate(loader):
        STEP
        losses.update(loss.item(), x.size(0))  # fires
        others.update(i)
        if i % 4 == 0:
            progress.display(i)
train(loader, model, criterion, optimizer)
"""
MEAN_BELOW = """
def train(loader, net, optim):
    main_loss = Average()
    for i, (x, y) in enumerate(loader):
        optim.zero_grad()
        loss = criterion(net(x), y)
        log_loss = loss.clone().detach_()
        main_loss.update(log_loss.item(), x.size(0))  # fires
        loss.backward()
        optim.step()
        msg = "[iter {}], [loss {:0.6f}]"
        msg = msg.format(i + 1, main_loss.mean)
        print(msg)
        metrics = {"loss": main_loss.mean}
        history.append(metrics)
history = []
train(loader, model, optimizer)
"""
SMALL = {
    "whether a name that waits has a value": """
def train():
    best = None
    for i, (x, y) in enumerate(loader):
        if best is not None:
            print(i)
        STEP
        best = loss.item()  # fires
    print(best)
train()
""",
    "an object that holds it shows it": IMAGENET,
    "its mean is shown below": MEAN_BELOW,
    "early stopping by its mean": """
def train():
    losses = Average()
    for i, (x, y) in enumerate(loader):
        STEP
        losses.update(loss.item())  # fires
        if stops(losses, i):
            print("stopped", i)
            break
def stops(meter, i):
    return i > 2 and meter.mean < 1.2
train()
""",
    "a learning rate that follows it": """
def set_rate():
    for group in optimizer.param_groups:
        group["lr"] = 0.1 / (1 + losses.value)
def train():
    for x, y in loader:
        STEP
        losses.update(loss.item())  # fires
        set_rate()
losses = Average()
train()
""",
    "a scheduler that is handed its value": """
def train():
    losses = Average()
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0, threshold=0.5)
    for x, y in loader:
        STEP
        losses.update(loss.item())  # fires
        plateau.step(losses.value)
train()
""",
    "lines that a function of the file writes": """
def report(step):
    print("step", step)
def show(value):
    print("loss %.6f" % value)
def train():
    for step, (x, y) in enumerate(loader):
        STEP
        show(loss.item())  # fires
        report(step)
train()
""",
    "lines of a method": """
class Trainer:
    def __init__(self):
        self.step, self.seen = 0, []
    def note(self, value):
        self.seen.append((self.step, value))
    def tell(self):
        print(self.step, self.seen[-1:])
    def run(self):
        for x, y in loader:
            STEP
            self.note(loss.item())  # fires
            self.step += 1
            if self.step % 3 == 0:
                self.tell()
Trainer().run()
""",
    "a method of the same object looks at an attribute": """
class Trainer:
    def __init__(self):
        self.losses, self.best = Average(), 1e9
    def keep(self):
        if self.losses.value < self.best:
            self.best = self.losses.value
            print("best %.6f" % self.best)
    def run(self):
        for x, y in loader:
            STEP
            self.losses.update(loss.item())  # fires
            self.keep()
Trainer().run()
""",
    "a part of a dict under another name": """
def train():
    meters = {"loss": Average(), "other": Average("other")}
    shown = [meters["loss"]]
    for i, (x, y) in enumerate(loader):
        STEP
        meter = meters["loss"]
        meter.update(loss.item())  # fires
        print(i, *shown)
train()
""",
    "a file that is read in the same batch": """
import tempfile
path = tempfile.mktemp()
def write(value):
    with open(path, "a") as file:
        file.write("%.6f\\n" % value)
def last():
    with open(path) as file:
        return file.read().split()[-1]
def train():
    values = []
    for x, y in loader:
        STEP
        write(loss.item())  # fires
        values.append(last())
    print(values)
train()
""",
    "a function of the file that reads a counter": """
history, step = [], 0
def record(value):
    history.append((step, value))
def train():
    global step
    for x, y in loader:
        STEP
        record(loss.item())  # fires
        step += 1
train()
""",
    "a closure shows it": """
def train():
    losses = Average()
    def show(i):
        print(i, losses)
    for i, (x, y) in enumerate(loader):
        STEP
        losses.update(loss.item())  # fires
        show(i)
train()
""",
    "the loop's own generator shows it": """
def batches(meter):
    for i, batch in enumerate(loader):
        yield batch
        print(i, meter)
def train():
    losses = Average()
    for x, y in batches(losses):
        STEP
        losses.update(loss.item())  # fires
train()
""",
    "a caller's object holds it": """
def train(losses, progress):
    for i, (x, y) in enumerate(loader):
        STEP
        losses.update(loss.item())  # fires
        progress.display(i)
def main():
    losses = Average()
    progress = Progress([losses])
    train(losses, progress)
main()
""",
    "it is added to what holds it": """
def train():
    losses, meters = Average(), []
    meters.append(losses)
    progress = Progress(meters)
    for i, (x, y) in enumerate(loader):
        STEP
        losses.update(loss.item())  # fires
        progress.display(i)
train()
""",
    "a function changes its argument": """
def note(meter, value):
    meter.update(value)
def train():
    losses = Average()
    for i, (x, y) in enumerate(loader):
        STEP
        note(losses, loss.item())  # fires
        if losses.mean > 1.0:
            print(i, "high")
train()
""",
}


@pytest.fixture
def gives_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "MAX_EFFECTS", 1)


@pytest.mark.usefixtures("gives_up")
@pytest.mark.parametrize("name", SMALL)
def test_a_patch_without_an_analysis_shows_what_the_script_shows(name: str, tmp_path: Path) -> None:
    text = script(METERS + SMALL[name])
    patch = patch_of(tmp_path, text)
    if not patch.empty:
        assert_same(tmp_path, text, patch)


@pytest.mark.usefixtures("gives_up")
def test_who_shows_what_waits_comes_after_it(tmp_path: Path) -> None:
    """`progress` was made with `losses`: as with an analysis, what waits is read before it is shown."""
    text = script(METERS + IMAGENET.replace("        others.update(i)\n", ""))
    patch = patch_of(tmp_path, text)
    assert [hunk.tier for hunk in patch.hunks] == ["checked"]
    assert_same(tmp_path, text, patch)
    lines = [line.strip() for line in patched_text(patch).splitlines()]
    assert lines[lines.index("progress.display(i)") - 1] == "pending_losses.clear()"


STILL_MADE = {
    "a sum": "def train():\n    total = 0.0\n    for x, y in loader:\n        STEP\n"
    "        total += loss.item()  # fires\n    print(total)\ntrain()\n",
    "a meter": "def train():\n    losses = Average()\n    for x, y in loader:\n        STEP\n"
    "        losses.update(loss.item(), x.size(0))  # fires\n    print(losses)\ntrain()\n",
    "one of two meters": "def train():\n    losses, others = Average(), Average('other')\n"
    "    for i, (x, y) in enumerate(loader):\n        others.update(i)\n        STEP\n"
    "        losses.update(loss.item(), x.size(0))  # fires\n    print(losses, others)\ntrain()\n",
    "a meter that may be none": "def train(losses):\n    for x, y in loader:\n        STEP\n"
    "        if losses is not None:\n            losses.update(loss.item())  # fires\n    print(losses)\n"
    "train(Average())\n",
    "a list": "def train():\n    values = []\n    for x, y in loader:\n        STEP\n"
    "        values.append(loss.item())  # fires\n    print(values)\ntrain()\n",
    "a line": "def train(epoch):\n    for i, (x, y) in enumerate(loader):\n        STEP\n"
    "        print('epoch %d batch %d: %.6f' % (epoch, i, loss.item()))  # fires\ntrain(1)\n",
    "a method's sum": "class Trainer:\n    def __init__(self):\n        self.total = 0.0\n    def run(self):\n"
    "        for x, y in loader:\n            STEP\n            self.total += loss.item()  # fires\n"
    "        print(self.total)\nTrainer().run()\n",
}


@pytest.mark.usefixtures("gives_up")
@pytest.mark.parametrize("name", STILL_MADE)
def test_a_result_that_the_batch_does_not_look_at_still_waits(name: str, tmp_path: Path) -> None:
    text = script(METERS + STILL_MADE[name])
    patch = patch_of(tmp_path, text)
    assert [hunk.tier for hunk in patch.hunks] == ["checked"]
    assert_same(tmp_path, text, patch)
