"""`pin_memory=torch.cuda.is_available()` begins to use CUDA where the loader is made: who may notice is asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.every_place import every_place_of
from tracelens.model import Hunk

TRAIN = """\
import os
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
{imports}
data = TensorDataset(torch.randn(80, 4), torch.randn(80, 2))
{before}
loader = DataLoader(data, 8)
{after}
model = nn.Linear(4, 2).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def train():
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


train()
"""
IN_MAIN = """\
import os
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def train(device):
    model = nn.Linear(4, 2).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in DataLoader(TensorDataset(torch.randn(80, 4), torch.randn(80, 2)), 8):
        x, y = x.to(device), y.to(device)
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def main(device):
    train(device)


if __name__ == "__main__":
    {start}
"""
METHOD = """\
class Other:
    def __init__(self):
        torch.cuda.is_available()
        super().__init__()


class Feed:
    def __init__(self):
        self.loader = DataLoader(TensorDataset(torch.randn(80, 4), torch.randn(80, 2)), 8)

    def train(self, device):"""
CHOSEN = "device = torch.device('cuda' if torch.cuda.is_available() else 'cpu')"
AFTER = {
    "a key": "os.environ['CUDA_VISIBLE_DEVICES'] = '1'",
    "a default": "os.environ.setdefault('CUDA_VISIBLE_DEVICES', '1')",
    "several": "os.environ.update({'A': '1', 'CUDA_VISIBLE_DEVICES': '1'})",
    "by their names": "os.environ.update(CUDA_VISIBLE_DEVICES='1')",
    "any": "for k, v in config.items():\n    os.environ[k] = v",
    "all of a dict": "os.environ.update(config)",
    "putenv": "os.putenv('CUDA_VISIBLE_DEVICES', '1')",
    "another name": "env = os.environ\nenv['CUDA_VISIBLE_DEVICES'] = '1'",
    "none": "del os.environ['CUDA_VISIBLE_DEVICES']",
    "a file": "import dotenv\ndotenv.load_dotenv('.env')",
    "a process": "import multiprocessing as mp\nmp.Process(target=train).start()",
    "a process of torch": "from torch.multiprocessing import Process\nProcess(target=train).start()",
    "a class of processes": "from multiprocessing import Process\nclass Worker(Process):\n    pass",
    "a context": "import torch.multiprocessing as mp\nmp.get_context('fork').Process(target=train).start()",
    "a pool": "from multiprocessing import Pool\nwith Pool(2) as pool:\n    pool.map(train, range(2))",
    "an executor": "from concurrent.futures import ProcessPoolExecutor\nProcessPoolExecutor().submit(train)",
    "fork": "if os.fork() == 0:\n    train()",
    "forked by torch": "import torch.multiprocessing as mp\nmp.start_processes(train, start_method='fork')",
}
HARMLESS = {
    "nothing": "",
    "a key of others": "os.environ['TOKENIZERS_PARALLELISM'] = 'false'",
    "defaults of others": "os.environ.setdefault('MASTER_PORT', '1')\nos.environ.update({'A': '1'}, B='2')",
    "a look": "print(os.environ['CUDA_VISIBLE_DEVICES'], os.environ.get('CUDA_VISIBLE_DEVICES'), os.getenv('A'))",
    "new processes": "import torch.multiprocessing as mp\nmp.spawn(train)\nmp.get_context('spawn')",
    "a command": "import subprocess\nsubprocess.run(['ls'])",
}
BEFORE = {
    "asked": "torch.cuda.is_available()",
    "the device": CHOSEN,
    "a part of a condition": "good = torch.cuda.is_available() and bool(data)",
    "a condition": "if torch.cuda.is_available():\n    print('GPU')",
    "a module": "net = nn.Linear(1, 1).cuda()",
    "a tensor": "one = torch.ones(1).to('cuda:0')",
}
PERHAPS = {
    "below a condition": "if data:\n    torch.cuda.is_available()",
    "behind another": "good = bool(data) and torch.cuda.is_available()",
    "in a function": "def good():\n    return torch.cuda.is_available()",
    "in a function without a name": "good = lambda: torch.cuda.is_available()",
    "the driver's tool": "torch.cuda.device_count()",
}


def pinning(folder: Path, files: dict[str, str]) -> Hunk:
    patch = every_place_of(folder, files, {"async-copy": 1}, "train.py")
    return next(one for one in patch.hunks if "pinned" in one.reason)


def text(after: str = "", before: str = "", imports: str = "") -> str:
    return TRAIN.format(imports=imports, before=before, after=f"{after}\ndevice = 'cuda' if config else 'cpu'")


@pytest.mark.parametrize("how", AFTER)
def test_what_comes_behind_the_question(how: str, tmp_path: Path) -> None:
    hunk = pinning(tmp_path, {"train.py": text(AFTER[how])})
    assert (hunk.tier, "train.py:" in hunk.unproved) == ("checked", True)


@pytest.mark.parametrize("how", AFTER)
def test_what_another_file_does(how: str, tmp_path: Path) -> None:
    lines = AFTER[how].replace("\n", "\n    ")
    other = f"import os\n\n\ndef select(train, config):\n    {lines}\n"
    assert (
        "gpu.py:"
        in pinning(tmp_path, {"train.py": text("gpu.select()", imports="import gpu"), "gpu.py": other}).unproved
    )


@pytest.mark.parametrize("how", HARMLESS)
def test_what_notices_nothing(how: str, tmp_path: Path) -> None:
    assert pinning(tmp_path, {"train.py": text(HARMLESS[how])}).tier == "safe"


@pytest.mark.parametrize("how", BEFORE)
def test_the_file_asks_before(how: str, tmp_path: Path) -> None:
    assert pinning(tmp_path, {"train.py": text(AFTER["fork"], BEFORE[how])}).tier == "safe"


@pytest.mark.parametrize("how", PERHAPS)
def test_the_file_may_ask_before(how: str, tmp_path: Path) -> None:
    assert pinning(tmp_path, {"train.py": text(AFTER["fork"], PERHAPS[how])}).tier == "checked"


@pytest.mark.parametrize("how", ["a key", "a default", "all of a dict"])
def test_the_gpu_is_chosen_before(how: str, tmp_path: Path) -> None:
    assert pinning(tmp_path, {"train.py": text(before=AFTER[how])}).tier == "safe"


@pytest.mark.parametrize(
    ("start", "tier"),
    [
        ("os.environ['CUDA_VISIBLE_DEVICES'] = '1'\n    main('cuda')", "safe"),
        ("device = 'cuda' if torch.cuda.is_available() else 'cpu'\n    main(device)\n    os.fork()", "safe"),
        ("main('cpu')\n    os.environ['CUDA_VISIBLE_DEVICES'] = '1'\n    main('cuda')", "checked"),
        ("import atexit\n    atexit.register(main)\n    os.environ['CUDA_VISIBLE_DEVICES'] = '1'", "checked"),
    ],
)
def test_what_is_done_before_the_function_is_called(start: str, tier: str, tmp_path: Path) -> None:
    assert pinning(tmp_path, {"train.py": IN_MAIN.format(start=start)}).tier == tier


def test_a_method_may_be_called_from_anywhere(tmp_path: Path) -> None:
    script = IN_MAIN.format(start="Feed().train('cpu')\n    os.fork()")
    before, _, body = script.partition("def train(device):")
    body, end, rest = body.partition("\n\n\ndef main")
    script = (
        before + METHOD + body.replace("\n", "\n    ") + end + rest.replace("train(device)", "Feed().train(device)")
    )
    script = script.replace("DataLoader(TensorDataset(torch.randn(80, 4), torch.randn(80, 2)), 8):", "self.loader:")
    assert pinning(tmp_path, {"train.py": script}).tier == "checked"


def test_a_lever_of_its_own_asks_the_same(tmp_path: Path) -> None:
    for before, tier in (("", "checked"), (CHOSEN, "safe")):
        files = {"train.py": text(AFTER["a key"], before)}
        hunks = every_place_of(tmp_path, files, {"loader-pinning": 1}, "train.py").hunks
        assert [one.tier for one in hunks] == [tier]
