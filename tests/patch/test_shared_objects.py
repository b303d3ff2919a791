"""Objects that the loop shares with others (meters, writers, histories, optimizers): each is seen in its order."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.patching import assert_same, defer, patch_of, script

AVERAGES = """
from utils import SampleMeter
import journal
samples = SampleMeter()
for i, (x, y) in enumerate(loader):
    samples.begin()
    STEP
    rate = samples.update(len(x))
    journal.log(step=i, data={{"loss": loss.item(), "rate": rate}})  # fires
last = {{"rate": {held}}}
journal.log(data=last)
"""


@pytest.mark.parametrize("held", ["samples.avg", "samples", "samples.history"])
def test_a_journal_and_a_meter_that_nobody_can_look_into_leave_a_move_unproved(held: str, tmp_path: Path) -> None:
    """A journal that was given the meter could show what it holds when a line is written."""
    patch = patch_of(tmp_path, script(AVERAGES.format(held=held)))
    assert [hunk.tier for hunk in patch.hunks] == ["checked"]
    assert "`journal.log(…)`" in patch.hunks[0].unproved


METER = """
class Meter:
    def __init__(self): self.sum = 0.0
    def update(self, v): self.sum += v
"""

HELD = {
    "a dict that got the meter": METER
    + """
losses, meters = Meter(), {}
meters["loss"] = losses
for i, (x, y) in enumerate(loader):
    STEP
    losses.update(loss.item())  # fires
    if i % 4 == 0:
        print({name: meter.sum for name, meter in meters.items()})
meters = None
""",
    "a model of the file that draws random numbers, and print": """
class Noisy(torch.nn.Module):
    def forward(self, x):
        return x + torch.randn_like(x)
noisy = Noisy()
for i, (x, y) in enumerate(loader):
    x = noisy(x)
    STEP
    print(i, loss.item())  # fires
""",
    "a list that got the meter": METER
    + """
losses, meters = Meter(), []
meters.append(losses)
for i, (x, y) in enumerate(loader):
    STEP
    losses.update(loss.item())  # fires
    if i % 4 == 0:
        print([meter.sum for meter in meters])
meters = None
""",
    "a method that prints in a rare branch": """
class Trainer:
    def evaluate(self, i):
        print("eval", i)
    def fit(self):
        for i, (x, y) in enumerate(loader):
            STEP
            print(i, loss.item())  # fires
            if i % 8 == 7:
                self.evaluate(i)
Trainer().fit()
""",
    "an object that prints in a rare branch": """
class Evaluator:
    def run(self, i):
        print("eval", i)
evaluator = Evaluator()
for i, (x, y) in enumerate(loader):
    STEP
    print(i, loss.item())  # fires
    if i % 8 == 7:
        evaluator.run(i)
""",
    "the screen by another name": """
import sys
out = sys.stdout
for i, (x, y) in enumerate(loader):
    print("step", i)
    STEP
    out.write(f"{loss.item()}\\n")  # fires
out = None
""",
    "a logger of the file that writes to the screen": """
import sys
class Logger:
    def write(self, text):
        sys.stdout.write(text + "\\n")
log = Logger()
for i, (x, y) in enumerate(loader):
    print("step", i)
    STEP
    log.write(f"{loss.item()}")  # fires
""",
    "a step counted by a helper": """
global_step = 0
def tick():
    global global_step
    global_step += 1
def train():
    for x, y in loader:
        STEP
        tick()
        print(global_step, loss.item())  # fires
train()
""",
    "a dict counted up by a helper": """
counts = {"seen": 0}
def augment(x):
    counts["seen"] += len(x)
    return x
for x, y in loader:
    x = augment(x)
    STEP
    print(counts["seen"], loss.item())  # fires
""",
    "a dataset that counts, behind a loader": """
from torch.utils.data import DataLoader
class Data:
    served = 0
    def __len__(self): return 16
    def __getitem__(self, i):
        self.served += 1
        return torch.full((4,), float(i)), 0
data = Data()
batches = DataLoader(data, batch_size=4)
for epoch in range(2):
    for x, y in batches:
        STEP
        print(data.served, loss.item())  # fires
""",
    "settings changed by a helper": """
import argparse
args = argparse.Namespace(step=0)
def warm(args):
    args.step += 1
for x, y in loader:
    warm(args)
    STEP
    print(args.step, loss.item())  # fires
""",
    "a writer that the evaluation shares": """
rows = []
class Writer:
    def add_scalar(self, *row): rows.append(row)
writer = Writer()
def test(step):
    with torch.no_grad():
        writer.add_scalar("test", criterion(model(loader[0][0]), loader[0][1]).item(), step)
def train():
    for i, (x, y) in enumerate(loader):
        STEP
        writer.add_scalar("loss", loss.item(), i)  # fires
        if i % 6 == 5:
            test(i)
train()
""",
}

LR = 'optimizer.param_groups[0]["lr"] = 0.1 / (1 + {})'
STAYS = {
    "a part of a dict": (
        """
stats = {"train": []}
history = stats["train"]
for x, y in loader:
    STEP
    history.append(loss.item())  # fires
    if len(stats["train"]) > 5:
        optimizer.param_groups[0]["lr"] = 0.05
""",
        "`len(stats['train'])` looks at the same list or dict",
    ),
    "two names at once": (
        "losses = history = []\nfor x, y in loader:\n    STEP\n    losses.append(loss.item())  # fires\n    "
        + LR.format("len(history)"),
        "",
    ),
    "an attribute that got the meter": (
        METER
        + """
class Box: pass
meter, box = Meter(), Box()
box.meter = meter
for x, y in loader:
    STEP
    meter.update(loss.item())  # fires
    """
        + LR.format("box.meter.sum"),
        "",
    ),
    "a name for an attribute of self": (
        f"""
class Trainer:
    def __init__(self): self.losses = []
    def report(self): {LR.format("len(self.losses)")}
    def fit(self):
        losses = self.losses
        for x, y in loader:
            STEP
            losses.append(loss.item())  # fires
            self.report()
Trainer().fit()
""",
        "`self.report()` looks at the same list or dict",
    ),
    "a list of the file that a helper sees": (
        f"""
history = []
def adjust(): {LR.format("len(history)")}
def train():
    for x, y in loader:
        STEP
        history.append(loss.item())  # fires
        adjust()
train()
""",
        "`adjust()` looks at the same list or dict",
    ),
    "a name shared by sibling functions": (
        f"""
def outer():
    total = 0.0
    def adjust(): {LR.format("total")}
    def train():
        nonlocal total
        for x, y in loader:
            STEP
            total += loss.item()  # fires
            adjust()
    train()
outer()
""",
        "`adjust()` looks at `total`",
    ),
    "a property": (
        """
class Trainer:
    total = 0.0
    @property
    def stop(self): return self.total > 5
    def fit(self):
        for x, y in loader:
            STEP
            self.total += loss.item()  # fires
            if self.stop:
                break
Trainer().fit()
""",
        "`self.stop` looks at `total` of a `Trainer`",
    ),
    "a generator over the batches that sees self": (
        """
class Trainer:
    total = 0.0
    def batches(self):
        for batch in loader:
            yield batch
            print("so far", self.total)
    def fit(self):
        for x, y in self.batches():
            STEP
            self.total += loss.item()  # fires
Trainer().fit()
""",
        "the loop's iterator looks at `total`",
    ),
    "a generator over the batches that prints": (
        """
def log_every(items, n):
    for i, batch in enumerate(items):
        yield batch
        print("batch", i)
for x, y in log_every(loader, 4):
    STEP
    print(loss.item())  # fires
""",
        "the loop's iterator writes lines of its own",
    ),
    "a dataset that was given the list": (
        """
class Data:
    def __init__(self, history): self.history = history
    def __iter__(self):
        for x, y in loader:
            yield x + len(self.history), y
history = []
data = Data(history)
for x, y in data:
    STEP
    history.append(loss.item())  # fires
""",
        "the loop's iterator looks at the same list or dict between two batches",
    ),
    "a model that prints": (
        """
class Net(nn.Linear):
    def forward(self, x):
        print("forward")
        return super().forward(x)
model = Net(4, 3)
for x, y in loader:
    STEP
    print(loss.item())  # fires
""",
        "",
    ),
    "a meter that draws random numbers": (
        """
class Reservoir:
    def __init__(self): self.kept = []
    def add(self, v):
        if torch.rand(1).item() < 0.5: self.kept.append(v)
kept = Reservoir()
for x, y in loader:
    x = x + torch.randn_like(x)
    STEP
    kept.add(loss.item())  # fires
""",
        "random",
    ),
    "a controller that was given the optimizer": (
        """
class Control:
    def __init__(self, optimizer): self.optimizer = optimizer
    def update(self, v): self.optimizer.param_groups[0]["lr"] = 0.1 / (1 + v)
control = Control(optimizer)
for x, y in loader:
    STEP
    control.update(loss.item())  # fires
""",
        "takes part in the training",
    ),
    "a method that binds a global": (
        """
best = 1e9
class Meter:
    def update(self, v):
        global best
        best = min(best, v)
meter = Meter()
for x, y in loader:
    STEP
    meter.update(loss.item())  # fires
    optimizer.param_groups[0]["lr"] = 0.1 if best > 1.1 else 0.2
""",
        "",
    ),
    "a function that looks at what the loop changes": (
        """
scale = 1.0
def scaled(v): return v * scale
for i, (x, y) in enumerate(loader):
    STEP
    scale = 1.0 + i
    print(scaled(loss.item()))  # fires
""",
        "the loop changes `scale`",
    ),
    "a draw that only one branch makes": (
        """
import random
total = 0.0
for x, y in loader:
    STEP
    total += loss.item()  # fires
    print(random.random() if total > 9 else 0.0)
""",
        "only where a result decides",
    ),
    "a right side that may not be evaluated": (
        """
names, total = ["a"], 0.0
for x, y in loader:
    STEP
    total += loss.item()  # fires
    print(total > 1.5 or names.pop())
""",
        "only where a result decides",
    ),
    "a conversion before the format": (
        'for x, y in loader:\n    STEP\n    print(f"{loss!s:>60} {loss.item()}")  # fires',
        "tensor `loss` itself",
    ),
    "a conversion in a template": (
        'for x, y in loader:\n    STEP\n    print("{!r} {:.3f}".format(loss, loss.item()))  # fires',
        "tensor `loss` itself",
    ),
    "a match statement": (
        """
total = 0.0
for i, (x, y) in enumerate(loader):
    STEP
    match i % 2:
        case 0:
            total += loss.item()  # fires
""",
        "cannot run later",
    ),
}


@pytest.mark.parametrize("name", HELD)
def test_what_a_patched_loop_shares_with_others_is_seen_in_order(name: str, tmp_path: Path) -> None:
    text = script(HELD[name])
    patch = patch_of(tmp_path, text, defer(text, 1000))
    assert patch.declined == ()
    assert patch.hunks
    assert assert_same(tmp_path, text, patch).ending == ""


@pytest.mark.parametrize("name", STAYS)
def test_what_others_would_see_too_late_stays(name: str, tmp_path: Path) -> None:
    body, words = STAYS[name]
    patch = patch_of(tmp_path, script(body))
    assert patch.empty
    assert all(words in one.obstacle and "the file is left" not in one.obstacle for one in patch.declined)
    assert patch.declined


def test_a_bar_around_a_bar_does_not_share_the_settings_that_it_is_given(tmp_path: Path) -> None:
    """`args` decides when the loop ends, which has nothing to do with the text of the bar."""
    text = script(
        """
        import argparse
        from tqdm import tqdm
        args = argparse.Namespace(start=3, steps=20)
        bar = range(args.steps)
        bar = tqdm(bar, initial=args.start)
        for number in bar:
            i = number + args.start
            if i > args.steps:
                break
            x, y = loader[number]
            STEP
            value = loss.item()  # fires
            if args.start > 2:
                bar.set_description(f"{value:.4f}")
        """
    )
    assert not [one for one in patch_of(tmp_path, text).declined if "decides" in one.obstacle]
