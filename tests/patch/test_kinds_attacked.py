"""Values that a second attack took for tensors, for numbers without dimensions, or for constants: none is any more."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.patching import assert_same, patch_of, patched_text, script

pytestmark = pytest.mark.slow

LOOPS = {
    "a text of a format": (
        "seen = []\nfor x, y in loader:\n    STEP\n"
        "    seen.append(float('%.4f' % loss.detach()))  # fires\nprint(seen)\n"
    ),
    "a bound of another shape": (
        "floor = torch.tensor([0.5])\nseen = []\nfor x, y in loader:\n    STEP\n"
        "    seen.append(loss.detach().clamp(min=floor).item())  # fires\nprint(seen)\n"
    ),
    "a loss told its reduction by position": (
        "criterion = nn.HuberLoss('none')\nseen = []\nfor x, y in loader:\n    STEP\n"
        "    seen.append(criterion(model(x)[:1, :1], y[:1, :1] if y.dim() > 1 else model(x)[:1, :1]).item())  # fires\n"
        "print(seen)\n"
    ),
    "a library whose function has a tensor's name": (
        "import numpy as np\ndef train():\n    seen = []\n    for x, y in loader:\n        STEP\n"
        "        err = np.abs(x.numpy() - 0.5)\n        n = np.size(err)\n"
        "        seen.append(np.mean(err).item())  # fires\n"
        "        seen.append(loss.item() / n)  # fires\n    print(seen)\ntrain()\n"
    ),
    "the absolute value of a tensor": (
        "seen = []\nfor x, y in loader:\n    STEP\n    gap = abs(loss - model.bias[0])\n"
        "    seen.append((loss.item(), gap.item()))  # fires\nprint(seen)\n"
    ),
    "the smaller one of two tensors as a number": (
        "seen = []\nfor x, y in loader:\n    STEP\n    least = min(model.bias[0].detach(), model.bias[1].detach())\n"
        "    seen.append((loss.item(), float(least)))  # fires\nprint(seen)\n"
    ),
    "a parameter that is called shape": (
        "model.shape = nn.Parameter(torch.ones(2))\noptimizer.add_param_group({'params': [model.shape]})\nseen = []\n"
        "for x, y in loader:\n    optimizer.zero_grad()\n    loss = criterion(model(x), y) + model.shape.sum()\n"
        "    loss.backward()\n    optimizer.step()\n"
        "    seen.append((loss.item(), model.shape[0].item()))  # fires\nprint(seen)\n"
    ),
    "a loss for each sample by vmap": (
        "each = torch.vmap(nn.MSELoss())\nseen = []\nfor x, y in loader:\n    STEP\n"
        "    seen.append(each(model(x)[:1], model(x)[:1] * 0).item())  # fires\nprint(seen)\n"
    ),
    "a loss that gets a dimension in place": (
        "seen = []\nfor x, y in loader:\n    STEP\n    loss = loss.detach()\n    loss.unsqueeze_(0)\n"
        "    seen.append(loss.item())  # fires\nprint(seen)\n"
    ),
    "a tensor that a function writes to": (
        "kept = torch.zeros(())\nseen = []\nfor x, y in loader:\n    STEP\n"
        "    torch.sum(x[:, :1], dim=0, out=kept)\n    seen.append(kept.item())  # fires\nprint(seen)\n"
    ),
}


@pytest.mark.parametrize("name", LOOPS)
def test_what_is_not_known_for_certain_is_read_by_itself_or_stays(name: str, tmp_path: Path) -> None:
    text = script(LOOPS[name])
    patch = patch_of(tmp_path, text)
    if not patch.empty:
        assert_same(tmp_path, text, patch)


def test_a_loss_that_is_made_under_another_name_is_no_proof_of_a_mean(tmp_path: Path) -> None:
    text = script(
        "from functools import partial\nLOSSES = {'mse': partial(nn.MSELoss, reduction='none')}\n"
        "criterion = LOSSES['mse']()\nseen = []\nfor x, y in loader:\n    STEP\n"
        "    seen.append(criterion(model(x)[:1, :1], model(x)[:1, :1] * 0).item())  # fires\nprint(seen)\n"
    )
    patch = patch_of(tmp_path, text)
    if not patch.empty:
        assert_same(tmp_path, text, patch)


def assert_what_is_proved_is_the_same(folder: Path, text: str) -> None:
    patch = patch_of(folder, text, checked=False)
    if not patch.empty:
        assert_same(folder, text, patch)


LEARNS = "import numpy as np\nweights = np.linspace(0.5, 1.0, 23)\nlearn = False\nseen = []\n"
BATCH = "for step, (x, y) in enumerate(loader):\n    STEP\n    weight = weights[step]\n"
READ = "    seen.append(weight.item())  # fires\n"
USES_THAT_MAY_NOT_RUN = {
    "below a flag": f"    if learn:\n        weight.backward()\n{READ}",
    "in a loop of no rounds": f"    for _ in range(0):\n        weight.backward()\n{READ}",
    "below another condition than the read": f"    if learn:\n        weight.detach()\n    if not learn:\n    {READ}",
    "in one of several cases": f"    match step:\n        case -1:\n            weight.backward()\n{READ}",
    "in a handler": f"    try:\n        pass\n    except ValueError:\n        weight.backward()\n{READ}",
    "where an exception ends": (
        f"    from contextlib import suppress\n    with suppress(AttributeError):\n        weight.backward()\n{READ}"
    ),
    "behind a jump": f"{READ}    if step >= 0:\n        continue\n    weight.backward()\n",
    "behind an end of the loop": (
        f"{READ}    if step == 2:\n        break\n    if step < 5:\n        continue\n    weight.detach()\n"
    ),
    "of another value of the name": f"{READ}    weight = loss\n    weight.detach()\n",
    "of an earlier value of the name": f"    weight = loss\n    weight.detach()\n    weight = weights[step]\n{READ}",
    "of a name of an inner scope": "    loss.backward\n    seen += [loss.item() for loss in weights]  # fires\n",
}


@pytest.mark.parametrize("name", USES_THAT_MAY_NOT_RUN)
def test_a_use_that_may_not_run_with_the_read_is_no_proof_of_a_tensor(name: str, tmp_path: Path) -> None:
    text = script(LEARNS + BATCH + USES_THAT_MAY_NOT_RUN[name] + "print(seen)\n")
    assert_what_is_proved_is_the_same(tmp_path, text)


def test_a_use_whose_error_the_caller_takes_is_no_proof_of_a_tensor(tmp_path: Path) -> None:
    go = f"def go(all, step):\n    for _ in range(1):\n        weight = all[at]\n    {READ}        weight.backward()\n"
    text = script(
        LEARNS + go + "for step, (x, y) in enumerate(loader):\n    STEP\n    try:\n        go(weights, step)\n"
        "    except AttributeError:\n        pass\nprint(seen)\n"
    )
    assert_what_is_proved_is_the_same(tmp_path, text)


MEASURED = (
    "seen = []\nfor x, y in loader:\n    STEP\n"
    "    seen.append(measure(model(x)[:1], y[:1]).item())  # fires\nprint(seen)\n"
)
TURN = "def turn(one):\n    one.reduction = 'none'\n"
REDUCTIONS_TOLD_ELSEWHERE = {
    "by apply of a list of modules": TURN + "nn.ModuleList([measure]).apply(turn)\n",
    "by its own apply": TURN + "measure.apply(turn)\n",
    "by apply of a module that has it": (
        "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.measure = measure\n"
        + TURN
        + "Net().apply(turn)\n"
    ),
    "by a part that is looked up": (
        "net = nn.Module()\nnet.part = measure\nnet.get_submodule('part').reduction = 'none'\n"
    ),
    "by the dict of its attributes": "vars(measure)['reduction'] = 'none'\n",
    "by a method of that dict": "vars(measure).update(reduction='none')\n",
    "by `__dict__`": "measure.__dict__.update(reduction='none')\n",
    "by its constructor": "measure.__init__(reduction='none')\n",
    "by the constructor of its class": "nn.CrossEntropyLoss.__init__(measure, reduction='none')\n",
    "by the constructor of a subclass": (
        "class Own(nn.CrossEntropyLoss):\n    def __init__(self):\n        super().__init__(reduction='none')\n"
        "measure = Own()\n"
    ),
    "by its state": "measure.__setstate__({'reduction': 'none'})\n",
    "by a hook of all modules": (
        "from torch.nn.modules.module import register_module_forward_hook\n"
        "handle = register_module_forward_hook(lambda part, given, out: out.reshape(1) if part is measure else out)\n"
    ),
    "by a hook before all modules": (
        "from torch.nn.modules.module import register_module_forward_pre_hook\n"
        "def turn(part, given):\n    measure.reduction = 'none'\n"
        "handle = register_module_forward_pre_hook(turn)\n"
    ),
    "by setattr with a pair": "setattr(measure, *('reduction', 'none'))\n",
    "by a partial of setattr": "from functools import partial\npartial(setattr, measure)('reduction', 'none')\n",
    "by setattr as a value": "list(map(setattr, [measure], ['reduction'], ['none']))\n",
    "by a partial of the class under the same name": (
        "from functools import partial\nMSELoss = partial(nn.CrossEntropyLoss, reduction='none')\n"
        "CrossEntropyLoss = MSELoss\nmeasure = CrossEntropyLoss()\n"
    ),
    "by words of the command line": "measure = nn.CrossEntropyLoss(**{'reduction': 'none'})\n",
}


@pytest.mark.parametrize("name", REDUCTIONS_TOLD_ELSEWHERE)
def test_a_reduction_that_is_told_elsewhere_is_no_proof_of_a_mean(name: str, tmp_path: Path) -> None:
    ends = "handle.remove()\n" if "handle" in REDUCTIONS_TOLD_ELSEWHERE[name] else ""
    text = script("measure = nn.CrossEntropyLoss()\n" + REDUCTIONS_TOLD_ELSEWHERE[name] + MEASURED + ends)
    assert_what_is_proved_is_the_same(tmp_path, text)


NAMED = (
    "def main():\n    seen = []\n    for x, y in loader:\n        STEP\n"
    "        seen.append(loss.item())  # fires\n    print(CALL)\n"
)
BUILTINS = "(__builtins__ if isinstance(__builtins__, dict) else vars(__builtins__))"
SEES_NAMES = {
    "under another name": ("look = locals\n", "sorted(look())"),
    "in a dict": ("tools = {'look': locals}\n", "sorted(tools['look']())"),
    "as an attribute": ("class Tools:\n    look = locals\n", "sorted(Tools.look())"),
    "vars under another name": ("look = vars\n", "sorted(look())"),
    "dir under another name": ("look = dir\n", "look()"),
    "eval under another name": ("look = eval\n", "sorted(look('locals()'))"),
    "among all builtins": ("", f"sorted({BUILTINS}['locals']())"),
    "of a library's module": ("", "sorted(torch.builtins.locals())"),
    "through a list": ("", "sorted([one() for one in [locals]][0])"),
}


@pytest.mark.parametrize("name", SEES_NAMES)
def test_what_sees_every_name_does_so_under_any_name(name: str, tmp_path: Path) -> None:
    before, call = SEES_NAMES[name]
    text = script(before + NAMED.replace("CALL", call) + "main()\n")
    assert_what_is_proved_is_the_same(tmp_path, text)


def test_a_variable_with_the_name_of_a_builtin_is_none(tmp_path: Path) -> None:
    text = script(
        "def main(dir, vars=()):\n    seen = []\n    for x, y in loader:\n        STEP\n"
        "        seen.append(loss.item())  # fires\n    print(seen, dir, vars, [dir for dir in 'ab'])\nmain('out')\n"
    )
    (hunk,) = patch_of(tmp_path, text).hunks
    assert hunk.tier == "safe"


NORM = "    optimizer.step()\n    seen.append(engine.norm().item())  # fires\nprint(seen)\n"
LIKE_TENSORS = {
    "an engine that takes the loss back": (
        "import deepspeed\nengine, _, _, _ = deepspeed.initialize(model=model)\nseen = []\nfor x, y in loader:\n"
        "    loss = criterion(model(x), y)\n    engine.backward(loss)\n" + NORM
    ),
    "an engine with a function of a tensor's name": (
        "import deepspeed\nengine, _, _, _ = deepspeed.initialize(model=model)\nseen = []\nfor x, y in loader:\n"
        "    STEP\n    engine.softmax(x)\n" + NORM
    ),
    "an engine with a member of a tensor's name": (
        "import deepspeed\nengine, _, _, _ = deepspeed.initialize(model=model)\nseen = []\nfor x, y in loader:\n"
        "    STEP\n    engine.detach\n" + NORM
    ),
    "a tensor of another library": (
        "import tinygrad\nengine = tinygrad.Tensor([1.0])\nseen = []\nfor x, y in loader:\n"
        "    STEP\n    engine.backward()\n" + NORM
    ),
}


@pytest.mark.parametrize("name", LIKE_TENSORS)
def test_what_only_looks_like_a_tensor_is_none(name: str, tmp_path: Path) -> None:
    patch = patch_of(tmp_path, script(LIKE_TENSORS[name]), checked=False)
    assert patch.empty or "norm().detach()" not in patched_text(patch)


def test_what_a_use_tells_for_certain_is_a_tensor(tmp_path: Path) -> None:
    text = (
        "import deepspeed\nengine, _, _, _ = deepspeed.initialize(model=model)\nseen = []\nfor x, y in loader:\n"
        "    loss = engine(x, y)\n    optimizer.zero_grad()\n    loss.backward()\n    optimizer.step()\n"
        "    seen.append(loss.item())  # fires\nprint(seen)\n"
    )
    patch = patch_of(tmp_path, script(text), checked=False)
    assert "loss.detach()" in patched_text(patch)
    assert [hunk.tier for hunk in patch.hunks] == ["safe"]
