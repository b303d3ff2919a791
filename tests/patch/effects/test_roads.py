"""An object is found again by whatever road it comes out of what has it, and so is code that runs without a call."""

from __future__ import annotations

import pytest

from tests.support.implicit_reads import STATE
from tests.support.moves import SURROUNDINGS, Case, asked, two_files
from tests.support.roads import roads

ROADS = {name: (code, reader) for name, code, reader in roads()}


@pytest.mark.parametrize("name", ROADS)
def test_the_reader_is_seen(name: str) -> None:
    code, reader = ROADS[name]
    body = f"STEP\nstate.total += loss.item()  # later\nrows.append({reader} or seen[-1])"
    case = Case(body, f"{STATE}\n{code}", "rows = []", after="print(rows)")
    assert asked(two_files(case, SURROUNDINGS["function"])).tier != "safe"


HARMLESS = {
    "weights of a file": (
        "loaded = torch.load('x.pt')\nother = nn.Linear(2, 2)\nother.load_state_dict(loaded['model'])\n",
        "loaded['epoch'] + 1",
    ),
    "arrays of a file": (
        "x, y = pickle.load(open('x', 'rb'))\nloader = DataLoader(torch.utils.data.TensorDataset(x, y))\n",
        "len(next(iter(loader)))",
    ),
    "tensors of a file": (
        "loader = DataLoader(torch.utils.data.TensorDataset(torch.load('x.pt')))\n",
        "len(next(iter(loader)))",
    ),
    "a number of a file": ("start = torch.load('x.pt')['epoch']\n", "start + 1"),
    "numbers of a file": ("scale = np.load('x.npy')\n", "scale[i] * 2 + len(scale)"),
    "a row of what was in a file": (
        "rows = pickle.load(open('x', 'rb'))\n",
        "np.asarray(rows[0]['a']).astype('float32')[:3].sum() / rows[1].shape[0]",
    ),
    "settings of a text": (
        "import yaml\nconfig = yaml.load(open('x'), Loader=yaml.FullLoader)\n",
        "config['optimizer']['lr'] * 2",
    ),
    "settings of a text, safely": ("import yaml\nconfig = yaml.safe_load(open('x'))\n", "f\"{config['name']}\""),
    "a model of the hub": ("net = torch.hub.load('pytorch/vision', 'resnet18')\n", "net.training"),
    "a data set of arrays that were in a file": (
        "class Clouds(Dataset):\n    def __init__(self):\n        self.points = pickle.load(open('x', 'rb'))\n"
        "        self.labels = np.hstack(pickle.load(open('y', 'rb')))\n"
        "    def __len__(self):\n        return len(self.points)\n"
        "    def __getitem__(self, k):\n        return self.points[k][:3].astype('float32'), self.labels[k]\n",
        "len(next(iter(DataLoader(Clouds()))))",
    ),
    "layers in two lists": ("net = nn.Sequential(nn.ReLU()) + nn.Sequential(nn.ReLU())\n", "net(1)"),
    "keys that are numbers": ("table = {1: 2}\n", "[key for key in table][0]"),
    "keys that are tuples": ("table = {}\ntable[1, 2] = 3\n", "[n for (a, b), n in table.items()][0]"),
    "options as a dict": (
        "@dataclasses.dataclass\nclass Options:\n    rate: float = 0.1\noptions = Options()\n",
        "dataclasses.asdict(options)['rate']",
    ),
    "a named tuple of numbers": (
        "class Row(typing.NamedTuple):\n    n: int\n    m: int\nrow = Row(1, 2)\n",
        "row.n + row[1]",
    ),
    "sorted by a part": ("", "sorted([(1, 2), (0, 3)], key=operator.itemgetter(1))[0][0]"),
    "the best of a table": ("table = {'a': 1}\n", "max(table.items(), key=lambda pair: pair[1])[1]"),
    "a product": ("", "functools.reduce(operator.mul, [1, 2, 3])"),
    "a sum by lambda": ("", "functools.reduce(lambda a, b: a + b, [1, 2, 3])"),
    "an enum": ("class Mode(enum.Enum):\n    A = 1\n", "Mode['A'].value"),
    "an error of the project": (
        "class Odd(Exception):\n    pass\ndef go():\n    try:\n        raise Odd('x')\n    except Odd as error:\n"
        "        return len(str(error))\n",
        "go()",
    ),
}


@pytest.mark.parametrize("name", HARMLESS)
def test_what_reads_nothing_of_it_stays_proved(name: str) -> None:
    code, reader = HARMLESS[name]
    body = f"STEP\nstate.total += loss.item()  # later\nrows.append({reader})"
    case = Case(body, f"{STATE}\nimport typing\n{code}", "rows = []", after="print(rows, state.total)")
    found = asked(two_files(case, SURROUNDINGS["function"]))
    assert found.tier == "safe", found
