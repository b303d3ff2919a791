"""bf16-autocast: which statements go into the block, for which device, and which scripts are left alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.rounding import changed_lines, obstacles, written
from tracelens.model import Edit
from tracelens.patch.recipes import PatchOptions, autocast_blocks, make

HEAD = """\
import torch
from torch import nn

device = torch.device("cuda")
model = nn.Linear(2, 3).to(device)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
BLOCK = "with torch.autocast(device.type, dtype=torch.bfloat16):"


def batch(body: str) -> str:
    lines = "".join(f"    {line}\n" if line else "\n" for line in body.strip("\n").splitlines())
    return f"{HEAD}\n\nfor x, y in loader:\n{lines}"


def loop_after(folder: Path, body: str) -> str:
    patch = written(folder, "bf16-autocast", {"train.py": batch(body)})
    assert obstacles(patch) == []
    text = patch.files[0].after.decode().partition("for x, y in loader:\n")[2]
    return "".join(f"{line[4:]}\n" for line in text.splitlines())


def test_forward_and_loss_go_into_the_block_and_nothing_else(tmp_path: Path) -> None:
    body = """
x, y = x.to(device), y.to(device)
optimizer.zero_grad()
# the forward pass
out = model(x)
loss = criterion(
    out,  # logits
    y,
)
hits += (out.argmax(1) == y).sum()
loss.backward()
optimizer.step()
"""
    expected = f"""
x, y = x.to(device), y.to(device)
optimizer.zero_grad()
# the forward pass
{BLOCK}
    out = model(x)
    loss = criterion(
        out,  # logits
        y,
    )
hits += (out.argmax(1) == y).sum()
loss.backward()
optimizer.step()
"""
    assert loop_after(tmp_path, body) == expected.lstrip("\n")


def test_clearing_gradients_between_forward_and_loss_stays_outside(tmp_path: Path) -> None:
    body = "out = model(x)\noptimizer.zero_grad()\nloss = criterion(out, y)\nloss.backward()\n"
    expected = (
        f"{BLOCK}\n    out = model(x)\noptimizer.zero_grad()\n{BLOCK}\n    loss = criterion(out, y)\nloss.backward()\n"
    )
    assert loop_after(tmp_path, body) == expected


def test_a_branch_of_the_forward_pass_goes_in_as_a_whole_and_texts_stay(tmp_path: Path) -> None:
    branch = 'if mixed:\n    """a\nb"""\n    out = model(x + y)\nelse:\n    out = model(x)\n'
    text = batch(f"{branch}loss = criterion(out, y) / 4\nloss.backward()\n").replace("    b", "b")
    after = written(tmp_path, "bf16-autocast", {"train.py": text}).files[0].after.decode()
    assert f"    {BLOCK}\n        if mixed:\n" in after and "\nb" in after
    assert "        loss = criterion(out, y) / 4\n    loss.backward()" in after


def test_backward_below_a_condition_finds_the_forward_pass_above_it(tmp_path: Path) -> None:
    graded = "with torch.set_grad_enabled(training):\n"
    loss = "loss = criterion(model(x), y)\n"
    after = loop_after(tmp_path, f"{graded}    {loss}    if training:\n        loss.backward()\n")
    assert after.startswith(f"{graded}    {BLOCK}\n        {loss}    if training:\n")


def test_two_losses_of_one_forward_pass_have_it_in_one_block(tmp_path: Path) -> None:
    body = "fake = model(x)\na = criterion(fake.detach(), y)\na.backward()\nb = criterion(fake, y)\nb.backward()\n"
    expected = f"""
{BLOCK}
    fake = model(x)
    a = criterion(fake.detach(), y)
a.backward()
{BLOCK}
    b = criterion(fake, y)
b.backward()
"""
    assert loop_after(tmp_path, body) == expected.lstrip("\n")


@pytest.mark.parametrize(
    ("made", "moved", "said"),
    [
        ('torch.device("cuda" if torch.cuda.is_available() else "cpu")', "x.to(device)", "device.type"),
        ('"cuda" if torch.cuda.is_available() else "cpu"', "x.to(device)", "device"),
        ('"cuda:1"', "x.to(device)", "x.device.type"),
        ("args.device", "x.to(device)", "x.device.type"),
        ("0", "x.cuda()", '"cuda"'),
        ("next(net.parameters()).device", "x.to(device)", "device.type"),
    ],
)
def test_the_device_is_said_as_the_file_can_say_it(made: str, moved: str, said: str, tmp_path: Path) -> None:
    body = f"    x = {moved}\n    loss = net(x).sum()\n    loss.backward()\n"
    text = f"import torch\ndevice = {made}\nfor x in loader:\n{body}"
    patch = written(tmp_path, "bf16-autocast", {"train.py": f"{text}\nnet.train()\n"})
    assert f"+    with torch.autocast({said}, dtype=torch.bfloat16):" in changed_lines(patch)


def test_a_trainer_in_another_file_has_the_block_in_its_method(tmp_path: Path) -> None:
    trainer = """
    import torch
    class Trainer:
        def __init__(self, model, device: torch.device):
            self.model, self.optimizer = model, torch.optim.SGD(model.parameters(), lr=1)
            self.device = torch.device(device)
        def training_step(self, batch):
            return self.model(batch).sum()
        def fit(self, loader):
            for batch in loader:
                loss = self.training_step(batch.to(self.device))
                loss.backward()
                self.optimizer.step()
    """
    files = {"train.py": "from lib.trainer import Trainer\nTrainer(1, 2).fit(3)\n", "lib/trainer.py": trainer}
    patch = written(tmp_path, "bf16-autocast", files)
    assert obstacles(patch) == []
    assert changed_lines(patch)[1] == "+            with torch.autocast(self.device.type, dtype=torch.bfloat16):"


@pytest.mark.parametrize(
    ("body", "obstacle"),
    [
        ("criterion(model(x), y).backward()", "forward and backward stand in one expression"),
        ("out = model(x); loss = out.sum()\nloss.backward()", "its statements share lines with others"),
        ("x.sum().backward()", "which statements before backward are the forward pass cannot be told"),
        (
            "for part in x:\n    loss = model(part).sum()\n    optimizer.zero_grad()\nloss.backward()",
            "the forward pass is inside a block or a function that also goes backward or makes a step",
        ),
        ("loss = model(x).sum()  # tracelens: keep\nloss.backward()", "it is marked `# tracelens: keep`"),
        (
            "with torch.autocast('cuda'):\n    loss = model(x).sum()\nloss.backward()",
            "train.py:11 has a precision of its own",
        ),
        ("loss = model(x.half()).sum()\nloss.backward()", "train.py:11 has a precision of its own"),
        (
            "loss = torch.autograd.grad(model(x).sum(), x)[0].sum()\nloss.backward()",
            "train.py:11 takes gradients in the forward pass",
        ),
        ("accelerator.backward(model(x).sum())", "backward is not called of a loss alone"),
    ],
)
def test_what_cannot_stand_in_a_block_is_declined(body: str, obstacle: str, tmp_path: Path) -> None:
    patch = written(tmp_path, "bf16-autocast", {"train.py": batch(body)})
    assert patch.empty
    assert obstacles(patch) == [obstacle]


def test_a_script_without_backward_is_told_so(tmp_path: Path) -> None:
    patch = written(tmp_path, "bf16-autocast", {"train.py": "import torch\nfit(1)\n"})
    assert patch.empty and obstacles(patch) == ["no file of this project calls backward"]
    assert patch.declined[0].by_hand == autocast_blocks.BY_HAND


@pytest.mark.parametrize(
    ("body", "obstacle"),
    [
        ("loss = nn.BCELoss()(model(x), y)\nloss.backward()", "train.py:11 has a BCELoss"),
        (
            "out = model(x)\nloss = criterion(out, y)\nloss.backward()\nseen = out.detach().cpu().numpy()",
            "line 14 makes an",
        ),
    ],
)
def test_what_would_fail_under_autocast_is_told_before_a_trial(body: str, obstacle: str, tmp_path: Path) -> None:
    patch = written(tmp_path, "bf16-autocast", {"train.py": batch(body)})
    assert patch.empty and obstacles(patch)[0].startswith(obstacle)


def test_where_one_loss_of_a_function_is_not_clear_none_of_it_changes(tmp_path: Path) -> None:
    body = "loss = criterion(model(x), y)\nloss.backward()\ncriterion(model(x), y).backward()\n"
    patch = written(tmp_path, "bf16-autocast", {"train.py": batch(body)})
    assert patch.empty and obstacles(patch) == ["forward and backward stand in one expression"]


@pytest.mark.parametrize(("unit", "newline"), [("  ", "\n"), ("\t", "\n"), ("    ", "\r\n")])
def test_the_block_is_indented_as_the_file_is(unit: str, newline: str, tmp_path: Path) -> None:
    text = batch("if x:\n    pass\nloss = criterion(model(x), y)\nloss.backward()").replace("    ", unit)
    (tmp_path / "train.py").write_bytes(text.replace("\n", newline).encode())
    edit = Edit("bf16-autocast")
    patch = make(tmp_path, tmp_path / "train.py", (edit,), (), PatchOptions(unsafe=True))
    block = f"{unit}{BLOCK}{newline}{unit}{unit}loss = criterion(model(x), y){newline}{unit}loss.backward()"
    assert block in patch.files[0].after.decode()


def test_a_function_that_goes_backward_itself_is_never_inside_the_block(tmp_path: Path) -> None:
    both = "def both(net):\n    net(x).sum().backward()\n    return net(x)\n"
    patch = written(tmp_path, "bf16-autocast", {"train.py": batch(f"{both}loss = both(model).sum()\nloss.backward()")})
    assert patch.empty
    assert "the forward pass is inside a block or a function that also goes backward" in "; ".join(obstacles(patch))


def test_a_setting_for_gpus_does_not_say_on_which_device_the_forward_pass_runs(tmp_path: Path) -> None:
    text = (
        "import torch\nfrom lib import net\nnet.train()\nfor x in loader:\n    loss = net(x[0])\n    loss.backward()\n"
    )
    (tmp_path / "train.py").write_text(text)
    edits = Edit("bf16-autocast"), Edit("tf32")
    patch = make(tmp_path, tmp_path / "train.py", edits, (), PatchOptions(unsafe=True))
    assert [hunk.edit for hunk in patch.hunks] == ["tf32"]
    assert "on which device the forward pass runs" in obstacles(patch)[0]
