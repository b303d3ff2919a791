"""compile-modules and channels-last: which modules a loop calls, where their line goes, and what is left alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.rounding import changed_lines, obstacles, written

NET = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)

    def forward(self, x):
        return self.conv(x).mean()


"""
LOOP = "for x in loader:\n    loss = model(x)\n    loss.backward()\n"
ORDER = "memory_format=torch.channels_last"


@pytest.mark.parametrize(
    ("made", "choice", "line"),
    [
        ("Net()", "", "model.compile()"),
        ("Net()", "default", "model.compile()"),
        ("Net()", "reduce-overhead", 'model.compile(mode="reduce-overhead")'),
        ("nn.DataParallel(Net())", "", "model.compile()"),
        ("nn.Sequential(nn.Linear(1, 2))", "", "model.forward = torch.compile(model.forward)"),
        (
            "nn.Sequential(nn.Linear(1, 2)).to(device)",
            "max-autotune",
            'model.forward = torch.compile(model.forward, mode="max-autotune")',
        ),
    ],
)
def test_a_module_is_compiled_in_place_and_one_of_torchs_own_by_its_forward(
    made: str, choice: str, line: str, tmp_path: Path
) -> None:
    patch = written(tmp_path, "compile-modules", {"train.py": f"{NET}model = {made}\n# train\n{LOOP}"}, choice)
    assert obstacles(patch) == [] and [hunk.tier for hunk in patch.hunks] == ["unsafe"]
    assert f"model = {made}\n{line}\n# train\nfor x in" in patch.files[0].after.decode()


def test_a_module_is_followed_through_arguments_to_the_loop_over_epochs(tmp_path: Path) -> None:
    loop = "    for x in loader:\n        loss = net(x)\n        loss.backward()\n"
    main = "def main(args):\n    model = Net()\n    for epoch in range(3):\n        train(loader=[], net=model)\n\n\n"
    files = {"train.py": f"from engine import train\n{NET}{main}main(1)\n"}
    files["engine.py"] = f"def train(net, loader):\n    net.train()\n{loop}"
    patch = written(tmp_path, "compile-modules", files)
    assert obstacles(patch) == []
    assert changed_lines(patch) == ["+    model.compile()"]
    assert "    model.compile()\n    for epoch" in patch.files[0].after.decode()


@pytest.mark.parametrize(
    ("made", "where"),
    [
        ("model = Net()\n", "model = Net()\n"),
        ("if a:\n    model = Net()\nelse:\n    model = Net(1)\n", "    model = Net(1)\n"),
        ("model = Net()\nif ddp:\n    model = nn.DataParallel(model)\n", "    model = nn.DataParallel(model)\n"),
    ],
)
def test_below_the_last_statement_that_makes_it_where_no_loop_is_around(made: str, where: str, tmp_path: Path) -> None:
    indented = "".join(f"    {line}\n" for line in made.splitlines())
    text = f"{NET}def train(net):\n    net.train()\n    loss = net(1)\n    loss.backward()\n\n\n"
    script = f'{text}if __name__ == "__main__":\n{indented}    print(1)\n    train(model)\n'
    patch = written(tmp_path, "compile-modules", {"train.py": script})
    assert obstacles(patch) == []
    assert f"    {where}    model.compile()\n    print(1)\n" in patch.files[0].after.decode()


def test_a_module_of_an_object_is_changed_where_it_is_stored(tmp_path: Path) -> None:
    trainer = """
    import torch
    class Trainer:
        def __init__(self, net, device):
            self.net = net.to(device)
            self.optimizer = torch.optim.SGD(self.net.parameters())
        def loss(self, x):
            return self.net(x).sum()
        def fit(self, loader):
            for x in loader:
                loss = self.loss(x.cuda())
                loss.backward()
    """
    files = {"train.py": f"from trainer import Trainer\n{NET}Trainer(Net(), 0).fit([])\n", "trainer.py": trainer}
    compiled = written(tmp_path, "compile-modules", files)
    assert changed_lines(compiled) == ["+        self.net.compile()"]
    ordered = written(tmp_path, "channels-last", files)
    assert changed_lines(ordered) == [
        f"+        self.net.to({ORDER})",
        f"+        x = x.contiguous({ORDER})",
    ]


@pytest.mark.parametrize(
    ("body", "obstacle"),
    [
        (f"model = torch.compile(Net())\n{LOOP}", "train.py:14 compiles something already"),
        (f"model = Net()\nmodel.compile()\n{LOOP}", "train.py:15 compiles something already"),
        (
            "net = {}\nfor x in loader:\n    loss = net['a'](x)\n    loss.backward()\n",
            "which statements before backward",
        ),
        (
            "def train(model):\n    model.train()\n    loss = model(1)\n    loss.backward()\n",
            "who calls `train` cannot",
        ),
        (f"torch.autograd.grad(1, 2, create_graph=True)\n{LOOP}", "train.py:14 takes gradients of gradients"),
        (f"model = Net()  # tracelens: keep\n{LOOP}", "it is marked `# tracelens: keep`"),
        (
            f"model = Net()\n{LOOP.replace('model(x)', 'model.loss(x)')}",
            "the loop calls `model.loss`, which compiling the module leaves as it is",
        ),
        ("fit(1)\n", "no module that a loop calls was found"),
        (
            "".join(f"m{n} = Net()\n" for n in range(9))
            + f"for x in loader:\n    loss = {' + '.join(f'm{n}(x)' for n in range(9))}\n    loss.backward()\n",
            "the loop calls more than 8 modules, one by one",
        ),
    ],
)
def test_what_cannot_be_compiled_in_one_line_is_declined(body: str, obstacle: str, tmp_path: Path) -> None:
    patch = written(tmp_path, "compile-modules", {"train.py": f"{NET}{body}"})
    assert patch.empty
    assert obstacles(patch)[0].startswith(obstacle)


@pytest.mark.parametrize(
    ("copy", "call", "after"),
    [
        ("x = x.to(device)", "model(x)", f"+    x = x.to(device, {ORDER})"),
        ("x, y = x.cuda(), y.cuda()", "model(x)", f"+    x, y = x.cuda({ORDER}), y.cuda()"),
        ("x = x.to(device, non_blocking=True)", "model(x)", f"+    x = x.to(device, non_blocking=True, {ORDER})"),
        ("pass", "model(x.to(device))", f"+    loss = model(x.to(device, {ORDER})).mean()"),
        ("pass", "model(x)", f"+    x = x.contiguous({ORDER})"),
    ],
)
def test_images_are_converted_with_their_copy(copy: str, call: str, after: str, tmp_path: Path) -> None:
    loop = f"for x, y in loader:\n    {copy}\n    loss = {call}.mean()\n    loss.backward()\n"
    patch = written(tmp_path, "channels-last", {"train.py": f"{NET}model = Net()\n{loop}"})
    assert obstacles(patch) == []
    added = [line for line in changed_lines(patch) if line.startswith("+")]
    assert added == [f"+model.to({ORDER})", after]


@pytest.mark.parametrize(
    ("body", "obstacle"),
    [
        (f"model = nn.Linear(1, 2)\n{LOOP}", "no module of the loop is known to be for images"),
        (f"model = Net()\n{LOOP.replace('model(x)', 'model(x, x)')}", "line 16 gives the model more than one batch"),
        (f"model = Net()\n{LOOP.replace('model(x)', 'model(x[0])')}", "line 16 gives the model a value without a name"),
        (f"model = Net().to({ORDER})\n{LOOP}", "the project has channels-last order already"),
    ],
)
def test_what_may_be_no_batch_of_images_is_declined(body: str, obstacle: str, tmp_path: Path) -> None:
    patch = written(tmp_path, "channels-last", {"train.py": f"{NET}{body}"})
    assert patch.empty
    assert obstacles(patch)[0].startswith(obstacle)


def test_what_is_bound_after_the_training_is_not_where_it_is_compiled(tmp_path: Path) -> None:
    loop = "    for x in range(2):\n        loss = net(x)\n        loss.backward()\n"
    train = f"def train(net):\n    net.train()\n{loop}    return net\n"
    script = f"{NET}{train}model = Net()\nmodel = model.cuda()\nmodel = train(model)\nprint(model)\n"
    patch = written(tmp_path, "compile-modules", {"train.py": script})
    assert "model = model.cuda()\nmodel.compile()\nmodel = train(model)\n" in patch.files[0].after.decode()


@pytest.mark.parametrize("main", ["", 'if __name__ == "__main__":\n    '])
def test_a_global_is_changed_where_it_is_made_also_below_the_function_that_uses_it(main: str, tmp_path: Path) -> None:
    train = "def train():\n    for x in range(2):\n        loss = model(x)\n        loss.backward()\n\n\n"
    script = f"{NET}{train}{main}model = Net()\n{' ' * 4 if main else ''}train()\n"
    patch = written(tmp_path, "compile-modules", {"train.py": script})
    indent = "    " if main else ""
    assert f"model = Net()\n{indent}model.compile()\n{indent}train()\n" in patch.files[0].after.decode()


def test_a_module_of_the_function_around_is_changed_there(tmp_path: Path) -> None:
    inner = (
        "    def step(x):\n        loss = model(x)\n        loss.backward()\n    for x in range(3):\n        step(x)\n"
    )
    patch = written(tmp_path, "compile-modules", {"train.py": f"{NET}def main():\n    model = Net()\n{inner}main()\n"})
    assert "    model = Net()\n    model.compile()\n    def step" in patch.files[0].after.decode()


def test_a_module_that_two_loops_call_is_compiled_once_above_the_first(tmp_path: Path) -> None:
    patch = written(tmp_path, "compile-modules", {"train.py": f"{NET}model = Net()\nprint(1)\n{LOOP}\n{LOOP}"})
    assert changed_lines(patch) == ["+model.compile()"]
    assert "print(1)\nmodel.compile()\nfor x in" in patch.files[0].after.decode()
