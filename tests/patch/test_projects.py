"""Projects of several files: what a loop in one file meets in the others, which its own imports may not lead to."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path

import pytest

from tests.support.patching import FIRES, Outcome, run
from tracelens.model import Edit, Location, Patch, Stall
from tracelens.patch.recipes import PatchOptions, make

MAIN = """
import torch
from torch import nn
{imports}
from engine import train

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = {model}
optimizer = {optimizer}(model.parameters(), lr=0.1)
loader = {loader}
total = train(model, {criterion}, optimizer, loader, device)
print(total)
"""

ENGINE = """
def train(model, criterion, optimizer, loader, device):
    total = 0.0
    for step, (x, y) in enumerate(loader):
        optimizer.zero_grad()
        loss = criterion(model(x.to(device)), y.to(device))
        loss.backward()
        optimizer.step()
        total += loss.item()  # fires
        print(step, loss.item())  # fires
    return total
"""

TRAINER = """
class Trainer{base}:
    def __init__(self, model, criterion, optimizer):
        {init}
        self.total = 0.0

    def train(self, loader, device):
        for step, (x, y) in enumerate(loader):
            self.optimizer.zero_grad()
            loss = self.criterion(self.model(x.to(device)), y.to(device))
            loss.backward()
            self.optimizer.step()
            self.total += loss.item()  # fires
            print(step, loss.item())  # fires
        return self.total


def train(model, criterion, optimizer, loader, device):
    return Trainer(model, criterion, optimizer).train(loader, device)
"""

KEPT = "self.model, self.criterion, self.optimizer = model, criterion, optimizer"

LOUD_MODEL = """
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, x):
        print("shape", tuple(x.shape))
        return self.layer(x)
"""

LOUD_LOSS = """
from torch import nn


class Loss(nn.Module):
    def forward(self, output, target):
        print("loss of", len(target))
        return nn.functional.cross_entropy(output, target)
"""

LOUD_DATA = """
import torch


class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 46

    def __getitem__(self, index):
        print("item", index)
        return torch.ones(4) * index, torch.tensor(index % 3)
"""

LOUD_OPTIMIZER = """
import torch


class Own(torch.optim.SGD):
    def step(self, closure=None):
        print("step")
        return super().step(closure)
"""


def main(imports: str = "", **parts: str) -> str:
    usual = {
        "model": "nn.Linear(4, 3).to(device)",
        "optimizer": "torch.optim.SGD",
        "loader": "[(torch.randn(5, 4), torch.randint(0, 3, (5,))) for _ in range(23)]",
        "criterion": "nn.CrossEntropyLoss()",
    }
    return MAIN.format(imports=imports, **(usual | parts))


def project(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text).lstrip())
    return folder


def patched(root: Path) -> Patch:
    """The patch of a project in which each line that ends in `# fires` is a read of every batch."""
    found = [
        Location(path.relative_to(root).as_posix(), number)
        for path in sorted(root.rglob("*.py"))
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if line.rstrip().endswith(FIRES)
    ]
    return make(root, root / "main.py", (Edit("defer-read", locations=tuple(found), interval=10),), (), PatchOptions())


def outcome(root: Path) -> Outcome:
    """What the project's main.py leaves, run in this process with modules of its own."""
    before = set(sys.modules)
    sys.path.insert(0, str(root))
    try:
        return run(root, (root / "main.py").read_text())
    finally:
        sys.path.remove(str(root))
        for name in set(sys.modules) - before:
            if (getattr(sys.modules[name], "__file__", None) or "").startswith(str(root)):
                del sys.modules[name]


def same(tmp_path: Path, files: dict[str, str]) -> Patch:
    """Both versions of a project run; whatever the patch is, they must leave the same."""
    root = project(tmp_path / "before", files)
    patch = patched(root)
    project(tmp_path / "after", files)
    for one in patch.files:
        (tmp_path / "after" / one.path.relative_to(root)).write_bytes(one.after)
    before, after = outcome(root), outcome(tmp_path / "after")
    assert not before.ending, before.ending
    assert after == before
    return patch


def obstacles(patch: Patch) -> str:
    return "\n".join(f"{one.location}: {one.obstacle}" for one in patch.declined)


@pytest.mark.slow
@pytest.mark.parametrize(
    "files",
    [
        {"main.py": main(), "engine.py": ENGINE},
        {"main.py": main(), "engine.py": TRAINER.format(base="", init=KEPT)},
        {
            "main.py": main(),
            "engine.py": "from base import Base\n\n"
            + TRAINER.format(base="(Base)", init=f"super().__init__()\n        {KEPT}"),
            "base.py": "class Base:\n    def __init__(self):\n        self.epoch = 0\n",
        },
        {
            "main.py": main(),
            "engine.py": "from base import Base\n\n"
            + TRAINER.format(base="(Base)", init="super().__init__(model, criterion, optimizer)"),
            "base.py": f"class Base:\n    def __init__(self, model, criterion, optimizer):\n        {KEPT}\n",
        },
        {
            "main.py": main(),
            "engine.py": "from base import Base\n\n"
            + TRAINER.format(base="(Base)", init="super().__init__(model, criterion, optimizer)"),
            "base/__init__.py": "from .trainer import *\n",
            "base/trainer.py": f"class Base:\n    def __init__(self, model, criterion, optimizer):\n        {KEPT}\n",
        },
    ],
    ids=["function", "class", "base-elsewhere", "stored-elsewhere", "stored-in-a-package"],
)  # fmt: skip
def test_a_loop_in_another_file_is_patched(tmp_path: Path, files: dict[str, str]) -> None:
    patch = same(tmp_path, files)
    assert {one.path.name for one in patch.files} == {"engine.py", "tracelens_runtime.py"}, obstacles(patch)
    assert not patch.declined


@pytest.mark.parametrize("engine", [ENGINE, TRAINER.format(base="", init=KEPT)], ids=["function", "class"])
@pytest.mark.parametrize("own_import", [False, True], ids=["handed", "imported"])
@pytest.mark.parametrize(
    ("name", "text", "parts"),
    [
        ("net", LOUD_MODEL, {"model": "net.Net().to(device)"}),
        ("losses", LOUD_LOSS, {"criterion": "losses.Loss()"}),
        ("data", LOUD_DATA, {"loader": "torch.utils.data.DataLoader(data.Data(), batch_size=2)"}),
        ("own", LOUD_OPTIMIZER, {"optimizer": "own.Own"}),
    ],
)
def test_lines_that_a_handed_object_writes_keep_their_place(
    tmp_path: Path, engine: str, own_import: bool, name: str, text: str, parts: dict[str, str]
) -> None:
    start = f"import {name}\n" if own_import else ""
    files = {"main.py": main(f"import {name}", **parts), "engine.py": start + engine, f"{name}.py": text}
    patch = same(tmp_path, files)
    assert "write" in obstacles(patch) or "the iterator uses" in obstacles(patch), obstacles(patch)


def test_a_log_format_of_the_main_script_that_names_the_function(tmp_path: Path) -> None:
    set_up = "import logging, sys\n"
    set_up += "logging.basicConfig(level=20, stream=sys.stdout, force=True, format='%(funcName)s %(message)s')"
    engine = "import logging\n\nlog = logging.getLogger('it')\n\n" + ENGINE.replace(
        "print(step,", "log.info('%d %f', step,"
    )
    patch = same(tmp_path, {"main.py": main(set_up), "engine.py": engine})
    assert "the log names the line and function" in obstacles(patch), obstacles(patch)


TRACKED = """
from tracking import Tracker, Writer


class Trainer:
    def __init__(self, model, criterion, optimizer):
        self.model, self.criterion, self.optimizer = model, criterion, optimizer
        self.writer = Writer()
        self.tracker = Tracker("loss", *["more"], writer=self.writer)

    def train(self, loader, device):
        for step, (x, y) in enumerate(loader):
            self.optimizer.zero_grad()
            loss = self.criterion(self.model(x.to(device)), y.to(device))
            loss.backward()
            self.optimizer.step()
            self.writer.set_step(step)
            self.tracker.update("loss", loss.item())  # fires
        return self.writer.rows


def train(model, criterion, optimizer, loader, device):
    return Trainer(model, criterion, optimizer).train(loader, device)
"""

TRACKING = """
class Writer:
    def __init__(self):
        self.step, self.rows = 0, []

    def set_step(self, step):
        self.step = step

    def add_scalar(self, name, value):
        self.rows.append((self.step, name, value))


class Tracker:
    def __init__(self, *names, writer=None):
        self.names, self.writer, self.sums = names, writer, {}

    def update(self, name, value):
        self.writer.add_scalar(name, value)
        self.sums[name] = self.sums.get(name, 0.0) + value
"""
SET_UP = """        self.writer = Writer()
        self.tracker = Tracker("loss", *["more"], writer=self.writer)
"""


def test_a_meter_that_was_given_the_writer_is_deferred_with_it(tmp_path: Path) -> None:
    patch = same(tmp_path, {"main.py": main(), "engine.py": TRACKED, "tracking.py": TRACKING})
    assert not patch.declined
    removed = [line for line in patch.diff.splitlines() if line.startswith("-")]
    assert any("self.writer.set_step(step)" in line for line in removed), (
        "the step is set in its place, the value later"
    )


def test_a_base_class_elsewhere_that_gave_the_meter_the_writer(tmp_path: Path) -> None:
    base = "from tracking import Tracker, Writer\n\n\nclass Base:\n    def __init__(self):\n" + SET_UP
    engine = TRACKED.replace("class Trainer:", "class Trainer(Base):").replace(SET_UP, "        super().__init__()\n")
    engine = engine.replace("from tracking import Tracker, Writer", "from base import Base")
    files = {"main.py": main(), "engine.py": engine, "base.py": base, "tracking.py": TRACKING}
    assert not same(tmp_path, files).declined


def test_a_writer_whose_step_takes_the_time_keeps_its_place_and_with_it_the_meter(tmp_path: Path) -> None:
    timed = TRACKING.replace("self.step = step\n", "self.step, self.at = step, time.time() - self.at\n")
    timed = "import time\n\n" + timed.replace(
        "self.step, self.rows = 0, []", "self.step, self.rows, self.at = 0, [], 0.0"
    )
    patch = same(tmp_path, {"main.py": main(), "engine.py": TRACKED, "tracking.py": timed})
    assert "`self.writer.set_step(step)` changes `step`" in obstacles(patch)


def test_a_logger_that_only_keeps_the_model_for_the_end_is_no_reason(tmp_path: Path) -> None:
    keeps = "class Log:\n    def __init__(self, model):\n        self.model = model\n        self.rows = []\n"
    keeps += "    def add(self, value):\n        self.rows.append(value)\n"
    engine = "from keeping import Log\n" + ENGINE.replace("total = 0.0", "total = 0.0\n    log = Log(model)")
    engine = engine.replace("print(step, loss.item())", "log.add(loss.item())")
    assert not same(tmp_path, {"main.py": main(), "engine.py": engine, "keeping.py": keeps}).declined


def test_a_logger_that_looks_at_the_optimizer_is_called_in_its_place(tmp_path: Path) -> None:
    looks = (
        "class Log:\n    def __init__(self, optimizer):\n        self.optimizer = optimizer\n        self.rows = []\n"
    )
    looks += "    def add(self, value):\n        self.rows.append((value, self.optimizer.param_groups[0]['lr']))\n"
    engine = "from looking import Log\n" + ENGINE.replace("total = 0.0", "total = 0.0\n    log = Log(optimizer)")
    engine = engine.replace("print(step, loss.item())", "log.add(loss.item())").replace(
        "return total", "return log.rows"
    )
    engine = engine.replace("optimizer.step()", "optimizer.step()\n        optimizer.param_groups[0]['lr'] *= 0.9")
    patch = same(tmp_path, {"main.py": main(), "engine.py": engine, "looking.py": looks})
    assert patch.declined


OWN_BAR = """
import time


class Bar:
    def __init__(self, text, max):
        self.started, self.suffix = time.time(), ""

    @property
    def elapsed_td(self):
        return 0 * (time.time() - self.started)

    def next(self):
        print(self.suffix)
"""


@pytest.mark.parametrize("library", [False, True])
def test_the_time_that_a_progress_bar_shows_is_that_of_its_batch(tmp_path: Path, library: bool) -> None:
    engine = "from bar import Bar\n" + ENGINE.replace("total = 0.0", "total = 0.0\n    bar = Bar('it', max=23)")
    shown = "bar.suffix = '{} {} {:.3f}'.format(step, bar.elapsed_td, loss.item())  # fires\n        bar.next()"
    engine = engine.replace("print(step, loss.item())  # fires", shown)
    files = {"main.py": main(), "engine.py": engine}
    patch = patched(project(tmp_path, files)) if library else same(tmp_path, files | {"bar.py": OWN_BAR})
    told = patch.hunks[0].unproved if library else obstacles(patch)  # a library's: the time of the line that shows it
    assert "`bar.elapsed_td`" in told and "clock" in told


def test_a_copy_in_a_helper_is_told_what_to_do_with_a_copy(tmp_path: Path) -> None:
    helper = "def fetch(loader, device):\n    return next(loader).to(device)  # fires\n"
    root = project(tmp_path, {"main.py": helper + "\nfor _ in range(9):\n    fetch(iter([]), 'cuda')\n"})
    place = (Location("main.py", 2),)
    patch = make(
        root,
        root / "main.py",
        (Edit("async-copy", locations=place), Edit("prefetch", locations=place)),
        (),
        PatchOptions(),
    )
    assert {one.by_hand for one in patch.declined} == {"copy with non_blocking=True there, from pinned memory"}


TOP_K = """
def top_k(output, target, k):
    order = output.topk(k, dim=1)[1]
    correct = 0
    for i in range(k):
        correct += (order[:, i] == target).sum().item()  # fires
    return correct / len(target)
"""


@pytest.mark.parametrize(("calls", "patched_too"), [(3.3, False), (40.0, True), (1.0, True)])
def test_a_short_loop_within_each_batch_is_not_said_to_be_read_rarely(
    tmp_path: Path, calls: float, patched_too: bool
) -> None:
    root = project(tmp_path, {"main.py": TOP_K})
    stall = Stall("s1", "cudaStreamSynchronize", "d2h", calls, 9, 9, None, "unknown", Location("main.py", 5))
    patch = make(root, root / "main.py", (Edit("defer-read", stalls=("s1",), interval=10),), (stall,), PatchOptions())
    assert bool(patch.files) == patched_too
    assert ("makes 3.3 rounds in each batch" in obstacles(patch)) != patched_too


QUIET_MODEL = """
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, x):
        out = {}
        out.update(y=self.layer(x))
        return out["y"]


class Evaluator:
    def update(self, y):
        print("evaluated", y)
"""


def test_a_dict_in_a_model_is_not_taken_for_an_evaluator_that_prints(tmp_path: Path) -> None:
    files = {"main.py": main("import net", model="net.Net().to(device)"), "engine.py": ENGINE, "net.py": QUIET_MODEL}
    assert not same(tmp_path, files).declined


def test_what_a_meter_was_only_told_is_read_as_before(tmp_path: Path) -> None:
    counts = (
        "class Count:\n    def __init__(self, args, classes, log):\n        self.args, self.classes = args, classes\n"
    )
    counts += "        self.log, self.sum = log, 0.0\n    def update(self, value):\n"
    counts += "        self.sum += value / self.classes / self.args.parts\n        self.log.append(self.sum)\n"
    engine = "from types import SimpleNamespace\nfrom counts import Count\n" + ENGINE.replace(
        "total = 0.0",
        "total, classes, rows, args = 0.0, 3, [], SimpleNamespace(parts=2, print_freq=4)\n"
        "    first, second = Count(args, classes, rows), Count(args, classes, rows)",
    )
    engine = engine.replace("print(step, loss.item())", "first.update(loss.item())")
    engine = engine.replace(
        "optimizer.step()",
        "optimizer.step()\n        if step % args.print_freq == 0:\n            second.update(classes)",
    )
    engine = engine.replace("return total", "return rows")
    patch = same(tmp_path, {"main.py": main(), "engine.py": engine, "counts.py": counts})
    assert not patch.declined, obstacles(patch)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("cost = cost.view(3, -1).cpu()", "`cost.view(3, -1).cpu()` is used on the host in the same batch"),
        ("chosen = cost[mask].view(-1)", "the shape of `cost[mask]` depends on values"),
        ("others = cost[~same].view(3, -1)", "the shape of `cost[~same]` depends on values"),
    ],
)
def test_what_a_helper_waits_for_is_said(tmp_path: Path, line: str, why: str) -> None:
    text = "def match(cost, target):\n    pos = target > 0\n    mask = pos.unsqueeze(1).expand_as(cost)\n"
    text += f"    {line}  # fires\n"
    assert why in obstacles(patched(project(tmp_path, {"main.py": text})))


def test_a_meter_and_its_writer_that_are_handed_to_the_loop(tmp_path: Path) -> None:
    engine = "def train(model, criterion, optimizer, loader, device, meter, writer):" + ENGINE.partition("device):")[2]
    engine = engine.replace("total += loss.item()", "meter.update('loss', loss.item())")
    engine = engine.replace("print(step, loss.item())  # fires", "pass").replace("total = 0.0\n", "total = 0.0\n")
    engine = engine.replace("optimizer.step()", "optimizer.step()\n        writer.set_step(step)")
    start = "from tracking import Tracker, Writer\nwriter = Writer()\nmeter = Tracker('loss', writer=writer)"
    text = (
        main(start)
        .replace("loader, device)", "loader, device, meter, writer)")
        .replace("print(total)", "print(writer.rows)")
    )
    assert not same(tmp_path, {"main.py": text, "engine.py": engine, "tracking.py": TRACKING}).declined


CURRICULUM = """
import torch


class Data(torch.utils.data.Dataset):
    def __init__(self, losses):
        self.losses = losses

    def __len__(self):
        return 46

    def __getitem__(self, index):
        return torch.ones(4) * (index + len(self.losses)), torch.tensor(index % 3)
"""


def test_a_data_set_that_was_given_the_losses_looks_at_them(tmp_path: Path) -> None:
    engine = "def train(model, criterion, optimizer, loader, device, losses):" + ENGINE.partition("device):")[2]
    engine = engine.replace("print(step, loss.item())", "losses.append(loss.item())")
    start = "from data import Data\nlosses = []"
    text = main(start, loader="torch.utils.data.DataLoader(Data(losses), batch_size=2)")
    files = {"main.py": text.replace("loader, device)", "loader, device, losses)"), "engine.py": engine}
    patch = same(tmp_path, files | {"data.py": CURRICULUM})
    assert "the loop's iterator looks at the same list or dict between two batches" in obstacles(patch)
