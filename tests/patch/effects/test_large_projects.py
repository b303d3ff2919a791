"""What an answer costs, and what is not lost by what makes it cheap: layers and lists of modules that are one object.

Costs are counted in calls that the engine follows, not in seconds.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.moves import SURROUNDINGS, Case, asked, one_file
from tracelens.patch.effects import file_effects as module
from tracelens.patch.effects import memory
from tracelens.patch.effects.file_effects import FileEffects, file_effects
from tracelens.patch.effects.places import Span
from tracelens.patch.effects.project import Project

BLOCK = """
class Block{n}(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.width = width
        self.residual = nn.Sequential(nn.Conv2d(width, width, 3), nn.BatchNorm2d(width), nn.ReLU(inplace=True))
        self.shortcut = nn.Sequential()
        if width != 4:
            self.shortcut = nn.Sequential(nn.Conv2d(width, width, 1))

    def forward(self, x):
        x = [self.residual(x), self.shortcut(x)]
        return torch.cat(x, 1)


class Net{n}(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([])
        for width in (4, 8, 16):
            self.layers.append(self._stage(Block{n}, width))
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.zeros_(m.weight)

    def _stage(self, block, width):
        return nn.Sequential(*[block(width) for _ in range(3)])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x.view(x.size(0), -1)


def net{n}():
    return Net{n}()
"""
TRAIN = """import torch
from torch import nn
import nets

def train(model, loader, opt):
    total = 0.0
    for x, y in loader:
        loss = model(x).sum()
        opt.zero_grad()
        loss.backward()
        opt.step()
        total += loss.item()
    last = list(model.children())[-1]
    for name, para in last.named_parameters():
        print(name, para.shape)
    writer.add_scalar("loss", total)
    writer.close()

if __name__ == "__main__":
    import argparse
    from torch.utils.tensorboard import SummaryWriter
    parser = argparse.ArgumentParser()
    parser.add_argument("-net", type=str)
    model = nets.__dict__[parser.parse_args().net]()
    writer = SummaryWriter("runs")
    writer.add_graph(model, torch.ones(1, 3, 32, 32))
    train(model, torch.utils.data.DataLoader([1]), torch.optim.SGD(model.parameters(), 0.1))
"""


def _zoo(folder: Path, nets: int) -> FileEffects:
    """A training script beside a module of networks, one of which it takes by its name."""
    text = "import torch\nfrom torch import nn\n" + "".join(BLOCK.format(n=n) for n in range(nets))
    (folder / "nets.py").write_text(text)
    (folder / "train.py").write_text(TRAIN)
    return file_effects(folder, folder / "train.py", folder / "train.py", TRAIN)


def _calls(monkeypatch: pytest.MonkeyPatch, effects: FileEffects) -> int:
    spent: list[int] = []
    monkeypatch.setattr(memory.Memory, "spend", lambda _: spent.append(1))
    assert effects.reached(7) is not None
    return len(spent)


def test_the_cost_of_a_zoo_of_networks_grows_with_its_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few, many = tmp_path / "few", tmp_path / "many"
    few.mkdir()
    many.mkdir()
    small, large = _calls(monkeypatch, _zoo(few, 5)), _calls(monkeypatch, _zoo(many, 20))
    assert large < 6 * small, (small, large)
    assert large < 10_000, "no part of the model is handed to another as what it computes with"


def test_a_project_that_is_too_large_is_not_begun_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[int] = []
    real = module.analyse

    def counted(*given: object) -> object:
        begun.append(1)
        return real(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(memory, "MAX_CALLS", 3)
    monkeypatch.setattr(module, "analyse", counted)
    path = tmp_path / "train.py"
    _zoo(tmp_path, 1)
    for number in range(5):
        text = f"{TRAIN}\nx = {number}\n"
        assert file_effects(tmp_path, path, path, text).reached(7) is None
    assert len(begun) == 2, (
        "once as usual, once with fewer objects told apart: what is started is too large, whichever loop is asked about"
    )


def test_a_loop_of_a_large_file_is_asked_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[int] = []
    real = module.analyse

    def counted(*given: object) -> object:
        begun.append(1)
        return real(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "analyse", counted)
    small = "def one(xs):\n    for x in xs:\n        print(x)\n"
    large = "def two(xs):\n    for x in xs:\n        " + "; ".join(["print(x, xs)"] * 50) + "\n"
    monkeypatch.setattr(memory, "MAX_CALLS", 40)
    path = tmp_path / "main.py"
    path.write_text(small + large)
    effects = file_effects(tmp_path, path, path, small + large)
    assert (effects.reached(2) is not None, effects.reached(5) is None) == (True, True)
    assert len(begun) == 5, "the loop that is too large is asked again with fewer objects told apart"


ATTRIBUTES = """
class Show:
    def __init__(self, seen):
        self.seen = seen

    def __call__(self, x):
        print(self.seen)
        return x

class Loud(nn.Module):
    def __init__(self, seen):
        super().__init__()
        self.seen = seen

    def forward(self, x):
        print(self.seen)
        return x
"""
HELD = {
    "an attribute of a part": ("net = nn.Sequential(nn.Linear(2, 2))\nnet[0].seen = seen", "print(net[0].seen)"),
    "an attribute of a part, by its name": (
        "net = nn.ModuleDict({'a': nn.Linear(2, 2)})\nnet.a.seen = seen",
        "print(net.a.seen)",
    ),
    "a part of a part": ("net = nn.Sequential(nn.Sequential(Loud(seen)))", "net(torch.ones(1))"),
    "a part that is added later": ("net = nn.Sequential()\nnet.add_module('a', Loud(seen))", "net(torch.ones(1))"),
    "a hook of a layer": (
        "net = nn.Linear(2, 2)\nshow = Show(seen)\nnet.register_forward_hook(lambda *_: print(seen))",
        "nn.Linear(2, 2)(torch.ones(2))\nnet(torch.ones(2))",
    ),
    "a pass over the parts": (
        "net = nn.Sequential(Loud(seen))",
        "for part in net.children():\n    part(torch.ones(1))",
    ),
    "named parts": ("net = nn.Sequential(Loud(seen))", "for _, part in net.named_modules():\n    part(torch.ones(1))"),
    "one of several of a class": ("nets = [Loud([]), Loud(seen)]", "nets[1](torch.ones(1))"),
    "the values of a dict of all names": ("keeper = Show(seen)\nheld = dict(vars(keeper))", "print(held)"),
    "what is stored in settings": (
        "import argparse\nargs = argparse.ArgumentParser().parse_args()\nargs.seen = seen",
        "print(args.seen)",
    ),
    "a default of a parser": (
        "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--show', default=seen)\n"
        "args = parser.parse_args()",
        "print(args.show)",
    ),
    "what is stored under any name of settings": (
        "import argparse\nargs = argparse.ArgumentParser().parse_args()\nfor key in ('a', 'b'):\n"
        "    setattr(args, key, seen)",
        "print(args.a)",
    ),
    "what stands in the dict of settings": (
        "import argparse\nargs = argparse.ArgumentParser().parse_args()\nvars(args)['seen'] = seen",
        "print(args.seen)",
    ),
    "what updates settings": (
        "import argparse\nargs = argparse.ArgumentParser().parse_args()\nargs.__dict__.update({'seen': seen})",
        "print(args.seen)",
    ),
    "a chosen value of a parser": (
        "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--show', choices=[Show(seen)])\n"
        "args = parser.parse_args()",
        "args.show(1)",
    ),
}


@pytest.mark.parametrize("held", HELD)
def test_what_is_one_object_still_shows_what_each_has(held: str) -> None:
    before, shows = HELD[held]
    body = f"STEP\nseen.append(loss.item())  # later\n{shows}"
    answer = asked(
        one_file(Case(code=ATTRIBUTES, before=f"seen = []\n{before}", body=body), next(iter(SURROUNDINGS.values())))
    )
    assert answer.tier == "refused", answer


def test_what_a_function_does_is_told_once_for_all_its_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[int] = []
    real = memory.Memory.reach

    def counted(self: memory.Memory, *given: object, **named: object) -> object:
        searched.append(1)
        return real(self, *given, **named)  # type: ignore[arg-type]

    def searches(calls: int) -> int:
        searched.clear()
        shown = "\n".join("    show(history)" for _ in range(calls))
        text = f"def show(what):\n    print(what, sorted(what))\n\nhistory = [1]\nfor x in [1, 2]:\n{shown}\n"
        path = Path("/project/main.py")
        reached = FileEffects(Project(path.parent, {path: text}), path, path).reached(5)
        assert reached is not None
        for line in range(6, 6 + calls):
            assert "history" in reached.behind(Span(line, 4, line, 17)).seen
        return len(searched)

    monkeypatch.setattr(memory.Memory, "reach", counted)
    assert searches(20) < searches(2) + 20


CLOUD = """
class Rooms{n}(torch.utils.data.Dataset):
    def __init__(self, root, size):
        rows, marks = [], []
        for name in os.listdir(root):
            found = pickle.load(open(os.path.join(root, name), 'rb'))
            rows.append(found['rows'][:].astype('float32'))
            marks.append(found['marks'][:].astype('int64'))
        rows, marks = np.hstack(rows), np.hstack(marks)
        self.low, self.rooms = [], []
        for index in range(len(rows)):
            row = rows[index]
            self.low.append(np.amin(row, axis=0)[:3])
            self.rooms.extend([index] * int(size * row.shape[0]))
        self.rows, self.marks, self.rooms = rows, marks, np.array(self.rooms)

    def __getitem__(self, index):
        points, marks = self.rows[self.rooms[index]], self.marks[self.rooms[index]]
        center = points[np.random.choice(points.shape[0])][:3]
        chosen = np.random.choice(np.where(points[:, 0] >= center[0])[0], 8, replace=False)
        return points[chosen, :] - self.low[self.rooms[index]], marks[chosen]


class Cloud{n}(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.args = args
        self.first = nn.Sequential(nn.Conv2d(6, args.width, 1), nn.ReLU())

    def forward(self, x):
        size, number = x.size(0), x.size(2)
        x = x.view(size, -1, number).to(torch.device('cuda' if self.args.cuda else 'cpu'))
        x = x.view(size * number, -1)[x.topk(k=self.args.k, dim=-1)[1], :]
        return self.first(x.view(size, number, self.args.k, -1).repeat(1, 1, self.args.k, 1)).max(dim=-1)[0]
"""
ROOMS = """import argparse, os, pickle
import numpy as np
import torch
from torch import nn
{classes}

def train(args, model, loader, opt):
    device = torch.device('cuda' if args.cuda else 'cpu')
    for rows, marks in loader:
        rows, marks = rows.to(device), marks.to(device).squeeze()
        out = model(rows.permute(0, 2, 1))
        loss = torch.nn.functional.cross_entropy(out, marks)
        loss.backward()
        opt.step()
        print(loss.item())

parser = argparse.ArgumentParser()
for name in ('width', 'k', 'size'):
    parser.add_argument('--' + name, type=int, default=4)
parser.add_argument('--cuda', action='store_true')
args = parser.parse_args()
{starts}
"""
START = """
model{n} = Cloud{n}(args)
loader{n} = torch.utils.data.DataLoader(Rooms{n}('rooms', args.size))
train(args, model{n}, loader{n}, torch.optim.SGD(model{n}.parameters(), lr=args.k))
"""


def test_settings_and_arrays_of_lists_stay_what_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    def calls(size: int) -> int:
        classes, starts = ("".join(one.format(n=n) for n in range(size)) for one in (CLOUD, START))
        path, text = Path("/project/main.py"), ROOMS.format(classes=classes, starts=starts)
        line = text[: text.index("    for rows, marks")].count("\n") + 1
        spent: list[int] = []
        monkeypatch.setattr(memory.Memory, "spend", lambda _: spent.append(1))
        assert FileEffects(Project(path.parent, {path: text}), path, path).reached(line) is not None
        return len(spent)

    assert calls(12) < 4_000, "an array of a list is no list, and a setting is a number"


def test_a_class_whose_name_comes_to_mean_what_is_made_of_it() -> None:
    code = (
        "class Meter:\n    total = 0.0\n    def update(self, value):\n        self.total += value\n"
        "class Quiet(Meter):\n    pass\nclass Loud(Quiet, Meter):\n    pass\nMeter = Quiet\nQuiet = Loud\n"
    )
    case = Case("STEP\nmeter.update(loss.item())  # later", code, "meter = Meter()")
    assert asked(one_file(case, SURROUNDINGS["function"])).tier == "safe"


WORKERS = """import argparse
import torch
import torch.multiprocessing as mp
import torchvision.models as models

def worker(gpu, world, args):
    args.gpu = gpu
    model = models.__dict__[args.arch]()
    if args.arch.startswith("vgg"):
        model.features = torch.nn.DataParallel(model.features)
    model = model.cuda(args.gpu)
    for x, y in torch.utils.data.DataLoader(args.data):
        print(model(x.cuda(args.gpu)).sum().item())

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--arch")
    args = parser.parse_args()
    world = torch.cuda.device_count()
    mp.spawn(worker, nprocs=world, args=(world, args))
"""


def test_a_spawned_function_gets_each_argument_where_it_belongs() -> None:
    path = Path("/project/main.py")
    effects = FileEffects(Project(path.parent, {path: WORKERS}), path, path)
    reached = effects.reached(1 + WORKERS[: WORKERS.index("    for x, y")].count("\n"))
    assert reached is not None
    (unit,) = reached.units
    held = {name: len(reached.memory.content(unit, name)) for name in ("gpu", "world", "args")}
    assert held == {"gpu": 1, "world": 1, "args": 1}, "the settings are handed to none but `args`"
