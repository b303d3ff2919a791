"""Training loops over a generator that prints meters, as many reference scripts have them."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.support.patching import Outcome, assert_same, script
from tracelens.model import Patch

METERS = """
from collections import defaultdict

class Value:
    def __init__(self, window=20, fmt=None):
        self.values, self.total, self.count = [], 0.0, 0
        self.fmt = fmt or "{last:.5f} ({mean:.6f})"
        self.window = window
    def update(self, value, n=1):
        self.values = [*self.values, value][-self.window:]
        self.total += value * n
        self.count += n
    @property
    def mean(self):
        return self.total / self.count
    def __str__(self):
        return self.fmt.format(last=self.values[-1], mean=self.mean)

class Meters:
    def __init__(self, delimiter="  "):
        self.meters = defaultdict(Value)
        self.delimiter = delimiter
    def update(self, **values):
        for name, value in values.items():
            if isinstance(value, torch.Tensor):
                value = value.item()
            self.meters[name].update(value)
    def __getattr__(self, name):
        if name in self.__dict__.get("meters", {}):
            return self.meters[name]
        raise AttributeError("'{}' has no '{}'".format(type(self).__name__, name))
    def __str__(self):
        return self.delimiter.join(f"{name}: {meter}" for name, meter in self.meters.items())
    def add_meter(self, name, meter):
        self.meters[name] = meter
    def log_every(self, iterable, print_freq, header=None):
        i = 0
        if not header:
            header = ""
        passes = Value(fmt="{mean:.4f}")
        message = self.delimiter.join([header, "[{0}/{1}]", "{meters}", "passes {passes}"])
        for obj in iterable:
            passes.update(1)
            yield obj
            passes.update(2)
            CONDITION
                left = passes.mean * (len(iterable) - i)
                print(message.format(i, len(iterable), meters=str(self), passes=str(passes)), int(left))
            i += 1
        print("{} done".format(header))
"""
MODULO = "if i % print_freq == 0:"
OR_LAST = "if i % print_freq == 0 or i == len(iterable) - 1:"
LOOP = """
def train(epoch, print_freq, limit=10 ** 6):
    logger = Meters(delimiter=" | ")
    logger.add_meter("rate", Value(window=1, fmt="{last:.3f}"))
    for step, (x, y) in enumerate(logger.log_every(loader, print_freq, f"epoch {epoch}")):
        STEP
        right = (model(x).argmax(1) == y).sum()
        logger.update(loss=loss.item(), rate=optimizer.param_groups[0]["lr"])  # fires
        logger.meters["right"].update(right.item() / len(y), n=len(y))  # fires
        if step > limit:
            break
    print("average", logger)
    return {name: meter.mean for name, meter in logger.meters.items()}
results = [train(0, FREQ), train(1, FREQ, 14)]
"""
REPLACEABLE = {
    "start": "        i = 0\n",
    "update": "            i += 1\n",
    "after": "            passes.update(2)\n",
    "before": "            passes.update(1)\n",
    "tail": '        print("{} done".format(header))\n',
    "head": '            header = ""\n',
    "loop": "        for obj in iterable:\n",
    "made": "        self.delimiter = delimiter\n",
}


def meters(condition: str = OR_LAST, **replaced: str) -> str:
    text = METERS.replace("CONDITION", condition)
    for old, new in replaced.items():
        text = text.replace(REPLACEABLE[old], new)
        assert new in text
    return text


def logged(classes: str, loop: str = LOOP, every: str = "5") -> str:
    return script(classes + loop.replace("FREQ", every))


def compare(folder: Path, text: str, patch: Patch, helper: str | None = None) -> Outcome:
    """`assert_same`, with a module of the project beside both versions."""
    for name in ("before", "after") if helper is not None else ():
        (folder / name).mkdir(exist_ok=True)
        (folder / name / "meters.py").write_text(helper or "")
    sys.modules.pop("meters", None)
    try:
        return assert_same(folder, text, patch)
    finally:
        sys.modules.pop("meters", None)


SEEN_TOO_OFTEN = {
    "prints its meters in each pass": (meters(after="            print(self)\n"), "in each pass"),
    "keeps its meters under another name": (
        meters(head='            header = ""\n        mine = self.meters\n', after="            print(len(mine))\n"),
        "in each pass",
    ),
    "hands its meters to something that prints": (
        meters(head='            header = ""\n        passes.values.append(self.meters)\n'),
        "in each pass",
    ),
    "prints its meters at the end": (meters(tail="        print(header, self)\n"), "at its end"),
    "prints in the branch that is taken otherwise": (
        meters(MODULO.replace("if", "if i < 0:\n                pass\n            elif")),
        "`else`",
    ),
    "prints by chance": (meters("if torch.rand(1) < 0.5:"), "more than the batch's number"),
    "prints when a meter says so": (meters("if self.meters:"), "in each pass"),
    "prints in one of two ways": (meters("if i % print_freq == 0 or header == str(i):"), "more than"),
    "changes its interval": (meters(head='            header = ""\n        print_freq += 1\n'), "more than"),
    "asks for its length before": (
        meters("if i == last:", head='            header = ""\n        last = len(iterable) - 1\n'),
        "more than",
    ),
    "counts by twos": (meters(update="            i += 2\n"), "does not count"),
    "counts only some passes": (meters(update="            if obj:\n                i += 1\n"), "does not count"),
    "counts again": (meters(update="            i += 1\n        i = 0\n"), "does not count"),
    "leaves passes out": (meters(after="            if i == 3:\n                continue\n"), "in the middle"),
    "has two yields": (meters(tail="        yield from ()\n"), "`yield`"),
    "runs over something else": (meters(loop="        for obj in iter(iterable):\n"), "runs over something else"),
    "gives itself away": (meters(made="        self.delimiter = delimiter\n        ALL.append(self)\n"), "hands"),
    "counts in a name of the file": (meters(start="        global i\n        i = 0\n"), "names of the whole file"),
    "has a function of its own": (
        meters(head='            header = ""\n        show = lambda: print(self)\n', after="            show()\n"),
        "function of its own",
    ),
    "is another one": (meters() + "Meters.log_every = Meters.log_every\n", "replaced"),
    "is there twice": (
        meters() + "class Other(Meters):\n    def log_every(self, *a):\n        pass\n",
        "more than once",
    ),
}
