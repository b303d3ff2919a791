"""Values of which the kind has to be proved: bound anywhere, of the project's own classes, of several shapes or types.

Each case in several surroundings: what the loop uses is defined beside it, and the loop stands in the script, in a
function and in a method; and in another file.
"""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from tests.support.patching import assert_same, patch_of, patched_text, script

BAG = """
class Bag:
    device = "cpu"
    def __init__(self):
        self.total = torch.zeros(())
        self.last = None
    def add(self, value):
        self.last = value
        self.total += value.detach()
    def backward(self):
        self.last.backward()
    def log(self, text):
        self.text = text
    def sum(self):
        return self.total
bag = Bag()
"""
NETWORK = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 1)
    def forward(self, x):
        out = self.layer(x)
        if x.sum() > 0:
            return out, out.detach() > 0
        return out, out.detach()
net = Net()
"""
DEFINED: dict[str, tuple[str, str]] = {
    "a sum of its own class that goes backward": (
        BAG,
        "optimizer.zero_grad()\nbag.add(criterion(model(x), y))\nbag.backward()\nlog.append(bag.sum().item())  # fires",
    ),
    "a sum of its own class with a log": (
        BAG,
        "STEP\nbag.add(loss)\nbag.log(f'{step}')\nlog.append(bag.sum().item())  # fires",
    ),
    "a sum of its own class with a device": (
        BAG,
        "STEP\nbag.add(loss.to(bag.device))\nlog.append(bag.sum().item())  # fires",
    ),
    "a mean of its own class that it changes in place": (
        BAG.replace("self.total += value.detach()", "self.total.mul_(0.9).add_(value.detach())"),
        "STEP\nbag.add(loss)\nlog.append(bag.sum().item())  # fires",
    ),
    "a hook that gives the loss another shape": (
        "own = nn.CrossEntropyLoss()\nown.register_forward_hook(lambda module, given, out: out.reshape(1))",
        "STEP\nmiss = own(model(x), y)\nmiss.backward()\nlog.append(miss.item())  # fires",
    ),
    "types by a table": (
        "tables = {0: torch.ones(4).long(), 1: torch.rand(4)}",
        "STEP\npart = tables[step % 2].to(device)\nlog.append(part.detach().sum().item())  # fires",
    ),
    "types by a table of functions": (
        'class Table:\n    scores = {"right": lambda o, y: o > 0, "mean": lambda o, y: o.abs()}',
        'STEP\nvalue = Table.scores["right" if step % 2 else "mean"](model(x), y)\n'
        "log.append(value.detach().sum().item())  # fires",
    ),
    "types by functions of a tuple": (
        "def pick(x):\n    return x[:, 0] > 0\ndef other(x):\n    return x[:, 0]\n"
        "class Table:\n    functions = (pick, other)",
        "STEP\nvalue = Table.functions[step % 2](x)\nlog.append(value.detach().sum().item())  # fires",
    ),
    "types by a forward": (
        NETWORK,
        "STEP\nout, extra = net(x)\nlog.append(extra.detach().sum().item())  # fires",
    ),
    "types of batches": (
        "def weights(i):\n    return torch.ones(4) * 0.5 if i % 3 else torch.ones(4).long()\n"
        "batches = [weights(i) for i in range(23)]",
        "STEP\nweight = batches[step]\nseen = loss * weight.size(0)\nlog.append(weight.sum().item())  # fires",
    ),
    "an average that is a tensor": (
        "start = nn.functional.mse_loss(torch.ones(3), torch.zeros(3)).detach()",
        "if step == 0:\n    mean = start\nSTEP\nmean = 0.9 * mean + 0.1 * loss.detach()\n"
        "log.append(mean.item())  # fires",
    ),
    "a criterion that is a function at times": (
        "own = nn.CrossEntropyLoss()\ndef own(out, y):\n    return nn.functional.cross_entropy(out, y).reshape(1)",
        "STEP\nmiss = own(model(x), y)\nmiss.backward()\nlog.append(miss.item())  # fires",
    ),
    "a loss that a with block binds": (
        "class Losses:\n    def __enter__(self):\n        return nn.CrossEntropyLoss(reduction='none')\n"
        "    def __exit__(self, *_):\n        pass\nown = nn.CrossEntropyLoss()\nwith Losses() as own:\n    pass",
        "STEP\nmiss = own(model(x[:1]), y[:1])\nmiss.backward()\nlog.append(miss.item())  # fires",
    ),
    "a reduction that is set": (
        'own = nn.CrossEntropyLoss()\nfor name in ("reduction",):\n    setattr(own, name, "none")',
        "STEP\nmiss = own(model(x[:1]), y[:1])\nmiss.backward()\nlog.append(miss.item())  # fires",
    ),
}
IN_SCRIPT = "log = []\nfor step, (x, y) in enumerate(loader):\n{loop}\nprint(log)\n"
IN_FUNCTION = "def main():\n{body}\nmain()\n"
IN_METHOD = "class Trainer:\n    def fit(self):\n{body}\nTrainer().fit()\n"
SURROUNDINGS = ("script", "function", "method", "file")


def _written(name: str, surroundings: str) -> tuple[str, str]:
    """The script, and the file beside it."""
    defined, loop = DEFINED[name]
    body = IN_SCRIPT.format(loop=textwrap.indent(loop, "    "))
    if surroundings == "method":
        body = IN_METHOD.format(body=textwrap.indent(body, " " * 8))
    elif surroundings != "script":
        body = IN_FUNCTION.format(body=textwrap.indent(body, " " * 4))
    if surroundings == "file":
        return script(f"from losses import *\n{body}"), f"import torch\nfrom torch import nn\n{defined}"
    return script(f"{defined}\n{body}"), ""


@pytest.mark.parametrize("surroundings", SURROUNDINGS)
@pytest.mark.parametrize("name", DEFINED)
def test_what_is_not_proved_is_read_as_it_is(name: str, surroundings: str, tmp_path: Path) -> None:
    text, beside = _written(name, surroundings)
    _same(text, beside, tmp_path)


def _same(text: str, beside: str, folder: Path) -> str:
    """The patched text, after both versions have left the same."""
    for place in (folder, folder / "before", folder / "after"):
        place.mkdir(exist_ok=True)
        (place / "losses.py").write_text(beside)
    patch = patch_of(folder, text, checked=False)
    if not patch.files:
        return text
    assert assert_same(folder, text, patch).ending == ""
    return patched_text(patch)


HARDER = 'own = nn.CrossEntropyLoss(reduction="none")'
BOUND = {
    "global of a function": f"def harder():\n    global own\n    {HARDER}\nown = nn.CrossEntropyLoss()\nLOOP",
    "nonlocal of an inner function": (
        f"def main():\n    own = nn.CrossEntropyLoss()\n    def harder():\n        nonlocal own\n        {HARDER}\n"
        "    LOOP\nmain()"
    ),
    "an attribute that a method sets": (
        f"class Trainer:\n    def __init__(self):\n        self.own = nn.CrossEntropyLoss()\n"
        f"    def harder(self):\n        self.{HARDER}\n    def fit(self):\n        LOOP\nTrainer().fit()"
    ),
    "a name that a loop binds": (
        "def harder():\n    pass\ndef main():\n    LOOP\n"
        'for own in (nn.CrossEntropyLoss(), nn.CrossEntropyLoss(reduction="none")):\n    main()'
    ),
    "a name of the module that setattr binds": (
        "import sys\ndef harder():\n    setattr(sys.modules[__name__], 'own', nn.CrossEntropyLoss(reduction='none'))\n"
        "own = nn.CrossEntropyLoss()\nLOOP"
    ),
    "globals": (
        "def harder():\n    globals()['own'] = nn.CrossEntropyLoss(reduction='none')\nown = nn.CrossEntropyLoss()\nLOOP"
    ),
    "another file": "import losses\nfrom losses import harder\ndef own(out, y):\n    return losses.own(out, y)\nLOOP",
    "an argument": (
        "def harder():\n    pass\ndef main(own):\n    LOOP\n"
        "main(nn.CrossEntropyLoss())\nmain(own=nn.CrossEntropyLoss(reduction='none'))"
    ),
    "a default": (
        "def harder():\n    pass\ndef main(own=nn.CrossEntropyLoss(reduction='none')):\n    LOOP\n"
        "main(nn.CrossEntropyLoss())\nmain()"
    ),
}
LOOP = """
log = []
for step, (x, y) in enumerate(loader):
    optimizer.zero_grad()
    loss = OWN(model(x[:1]), y[:1])
    loss.backward()
    optimizer.step()
    log.append(loss.item())  # fires
    if step == 5:
        HARDER()
print(log)
"""
LATER = "import torch\nfrom torch import nn\nown = nn.CrossEntropyLoss()\ndef harder():\n    global own\n    " + HARDER


@pytest.mark.parametrize("name", BOUND)
def test_a_criterion_that_is_bound_again_elsewhere(name: str, tmp_path: Path) -> None:
    of_self = "self." if "attribute" in name else ""
    loop = LOOP.replace("OWN", f"{of_self}own").replace("HARDER", f"{of_self}harder")
    lines = []
    for line in BOUND[name].splitlines():
        indent = line[: len(line) - len(line.lstrip())]
        lines.append(textwrap.indent(loop, indent) if line.strip() == "LOOP" else line)
    _same(script("\n".join(lines)), LATER, tmp_path)


def test_a_loss_that_a_function_makes_bound_again_by_another(tmp_path: Path) -> None:
    text = script(
        "def squeeze():\n    global loss\n    if step > 4:\n        loss = loss.reshape(1)\nlog = []\n"
        "for step, (x, y) in enumerate(loader):\n    STEP\n    squeeze()\n"
        "    log.append(loss.item())  # fires\nprint(log)\n"
    )
    _same(text, "", tmp_path)


PROVED = {
    "a criterion that is handed over": "def main(own):\n    LOOP\nmain(nn.CrossEntropyLoss())",
    "a criterion that the object has": (
        "class Trainer:\n    def __init__(self, own):\n        self.own = own\n    def fit(self):\n        LOOP\n"
        "Trainer(nn.CrossEntropyLoss()).fit()"
    ),
    "a function of another file": "from losses import own\ndef main():\n    LOOP\nmain()",
    "a function of the file": (
        "def own(out, y, scale=2.0):\n    miss = nn.functional.cross_entropy(out, y)\n    return miss * scale\nLOOP"
    ),
}
OWN_FILE = "from torch import nn\ndef own(out, y):\n    return nn.functional.cross_entropy(out, y) / 2\n"


@pytest.mark.parametrize("name", PROVED)
def test_what_is_proved_is_read_in_one_stack(name: str, tmp_path: Path) -> None:
    of_self = "self." if "object" in name else ""
    loop = LOOP.replace("OWN", f"{of_self}own").partition("    if step")[0] + "print(log)\n"
    loop = loop.replace("loss.item()", "loss.item() + loss.item()")  # a value that is used once is read by itself
    lines = []
    for line in PROVED[name].splitlines():
        indent = line[: len(line) - len(line.lstrip())]
        lines.append(textwrap.indent(loop, indent) if line.strip() == "LOOP" else line)
    assert "torch.stack(pending_losses).tolist()" in _same(script("\n".join(lines)), OWN_FILE, tmp_path)


FACTORS = {
    "a weight that a function gives": "weight = annealed(step)\nloss = criterion(model(x), y) * weight",
    "a weight of an array": "weight = np.interp(step, [0, 20], [0.1, 1.0])\nloss = criterion(model(x), y) * weight",
    "a weight of a generator": "weight = next(weights)\nloss = weight * criterion(model(x), y)",
    "a part that is a number at times": (
        "weight = penalty(step)\nloss = criterion(model(x), y) + weight\n"
        "if isinstance(weight, torch.Tensor) and weight.requires_grad:\n    weight.backward(retain_graph=True)"
    ),
    "a length": "weight = y.ne(0).sum() if step % 2 else len(y)\nloss = criterion(model(x), y) / weight",
}
FACTOR = """
import numpy as np
weights = (0.1 * i for i in range(100))
def annealed(step):
    return min(1.0, step / 10)
def penalty(step):
    return 0.0 if step % 3 else model.weight.pow(2).mean()
def main():
    history = {{"weight": 0.0, "loss": 0.0}}
    for step, (x, y) in enumerate(loader):
        optimizer.zero_grad()
{lines}
        loss.backward()
        optimizer.step()
        history["loss"] += loss.item()  # fires
        history["weight"] += float(weight)  # fires
    print(history)
main()
"""


@pytest.mark.filterwarnings("ignore:Converting a tensor")
@pytest.mark.parametrize("checked", [False, True])
@pytest.mark.parametrize("name", FACTORS)
def test_a_factor_of_a_loss_need_not_be_a_tensor(name: str, checked: bool, tmp_path: Path) -> None:
    text = script(FACTOR.format(lines=textwrap.indent(FACTORS[name], " " * 8)).replace("weights = (", "_weights = ("))
    text = text.replace("next(weights)", "next(_weights)")
    patch = patch_of(tmp_path, text, checked=checked)
    if patch.files:
        assert assert_same(tmp_path, text, patch).ending == ""
