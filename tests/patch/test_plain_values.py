"""Values that wait in lines of plain PyTorch: each comes back with its own shape and type."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.patching import assert_same, defer, patch_of, patched_text, script

LOSSES = {
    "hidden words": 'nn.MSELoss(**{"reduction": "none"})',
    "by its place": 'nn.MSELoss(None, None, "none")',
    "of a function": 'lambda a, b: F.mse_loss(a, b, None, None, "none")',
    "an attribute": "nn.MSELoss()\nown.reduction = 'none'",
    "setattr": "nn.MSELoss()\nsetattr(own, 'reduction', 'none')",
}
ONE_VALUE = """
import torch.nn.functional as F
head = nn.Linear(4, 1)
own = {made}
values = []
for i, (x, y) in enumerate(loader):
    STEP
    miss = own(head(x[:1]), x[:1, :1])
    miss.backward()
    values.append(miss.item())  # fires
print(values)
"""


@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_that_keeps_its_dimensions_gives_a_number(name: str, tmp_path: Path) -> None:
    text = script(ONE_VALUE.format(made=LOSSES[name]))
    patch = patch_of(tmp_path, text, defer(text, 10))
    assert "tracelens_runtime" not in patched_text(patch)
    assert assert_same(tmp_path, text, patch).ending == ""


TYPES = {
    "what a function is told": "count = measure(hits, i > 5)",
    "a choice": "count = hits.sum() if i < 5 else hits.float().mean()",
    "a tensor of numbers": "count = torch.as_tensor([i, i / 2][i % 2])",
    "a function with branches": "count = measure(hits, x[0, 0] > 0)",
    "a method of what a function gives": "count = measure(hits, x[0, 0] > 0).cpu()",
    "a type by name": "count = hits.sum().to(torch.long if i < 5 else torch.float)",
}
TWO_TYPES = """
def measure(hits, soft):
    if soft:
        return hits.float().mean()
    return hits.sum()
for i, (x, y) in enumerate(loader):
    STEP
    hits = model(x).argmax(1) == y
    {line}
    print(count.item())  # fires
"""


@pytest.mark.parametrize("name", TYPES)
def test_a_count_stays_a_count_beside_a_mean(name: str, tmp_path: Path) -> None:
    text = script(TWO_TYPES.format(line=TYPES[name]))
    patch = patch_of(tmp_path, text, defer(text, 10))
    if patch.hunks:
        assert assert_same(tmp_path, text, patch).ending == ""


STARS = ["rows.append([loss.item(), *rates])", 'rows.append({"loss": loss.item(), "t": (*rates,)})']


@pytest.mark.parametrize("line", STARS)
def test_what_a_star_takes_apart_is_copied_where_it_stands(line: str, tmp_path: Path) -> None:
    text = script(
        "rates, rows = [0.1, 0.2], []\nfor i, (x, y) in enumerate(loader):\n    STEP\n"
        f"    rates[0] *= 0.9\n    {line}  # fires\nprint(rows)\n"
    )
    patch = patch_of(tmp_path, text)
    if patch.hunks:
        assert assert_same(tmp_path, text, patch).ending == ""


def test_a_star_of_what_stays_the_same_is_no_obstacle(tmp_path: Path) -> None:
    text = script(
        "rates, rows = [0.1, 0.2], []\nfor i, (x, y) in enumerate(loader):\n    STEP\n"
        '    rows.append({"loss": loss.item(), "t": (*rates,)})  # fires\nprint(rows)\n'
    )
    patch = patch_of(tmp_path, text)
    assert "(*rates,)" in patched_text(patch)
    assert assert_same(tmp_path, text, patch).ending == ""


ARRAYS = {
    "a function": "def reduced(value):\n    return value.detach().cpu().numpy()\n",
    "a name in a function": "def reduced(value):\n    out = value.detach().cpu().numpy()\n    return out + 1\n",
    "a method": "class Ranks:\n    def reduced(self, value):\n        return value.detach().cpu().numpy() / 2\n"
    "ranks = Ranks()\nreduced = ranks.reduced\n",
}


@pytest.mark.parametrize("name", ARRAYS)
def test_an_array_that_takes_the_name_of_the_loss(name: str, tmp_path: Path) -> None:
    called = "ranks.reduced" if name == "a method" else "reduced"
    text = script(
        f"{ARRAYS[name]}total = 0.0\nfor i, (x, y) in enumerate(loader):\n    STEP\n"
        f"    loss = {called}(loss)\n    total += loss.item()  # fires\nprint(total)\n"
    )
    patch = patch_of(tmp_path, text, defer(text, 10))
    if patch.hunks:
        assert assert_same(tmp_path, text, patch).ending == ""


SHAPES = {
    "a loss without targets": "miss = found(x)\n    (loss + 0 * miss.sum())",
    "a value that is reshaped": "miss = loss.detach().clone()\n    if i % 3 == 0:\n        miss = miss.reshape(1)",
}


@pytest.mark.parametrize("name", SHAPES)
def test_a_value_with_dimensions_in_some_batches(name: str, tmp_path: Path) -> None:
    text = script(
        "def found(x):\n    if x[0, 0] > 0:\n        return torch.zeros(1)\n    return x.pow(2).mean()\n"
        "values = []\nfor i, (x, y) in enumerate(loader):\n    STEP\n"
        f"    {SHAPES[name]}\n    values.append(miss.item())  # fires\nprint(values)\n"
    )
    patch = patch_of(tmp_path, text, defer(text, 10))
    assert patch.hunks
    assert assert_same(tmp_path, text, patch).ending == ""


def test_a_loss_with_dimensions_in_some_batches(tmp_path: Path) -> None:
    text = script(
        "def focal(out, y):\n    return out.sum() * 0 + torch.tensor([0.5])\nvalues = []\n"
        "for i, (x, y) in enumerate(loader):\n    optimizer.zero_grad()\n    out = model(x)\n"
        "    loss = focal(out, y) if i % 2 else criterion(out, y)\n    loss.backward()\n    optimizer.step()\n"
        "    values.append(loss.item())  # fires\nprint(values)\n"
    )
    patch = patch_of(tmp_path, text, defer(text, 10))
    assert "values.append(loss_value.item())" in patched_text(patch)
    assert "if pending_losses:" not in patched_text(patch)
    assert assert_same(tmp_path, text, patch).ending == ""


SHORT = {
    "a sum": ("total += loss.item()  # fires", "for loss_value in pending_losses:\n    total += loss_value.item()\n"),
    "two sums": (
        "total += loss.item()  # fires\n    total += 2 * loss.item()  # fires",
        "for loss_value in [value.item() for value in pending_losses]:\n"
        "    total += loss_value\n    total += 2 * loss_value\n",
    ),
}


@pytest.mark.parametrize("name", SHORT)
def test_values_of_unknown_shape_are_read_without_asking_for_any(name: str, tmp_path: Path) -> None:
    body, written = SHORT[name]
    text = script(
        "def halved(out, y):\n    return criterion(out, y).reshape(y.shape[:0]) / 2\ntotal = 0.0\n"
        "for x, y in loader:\n    optimizer.zero_grad()\n    loss = halved(model(x), y)\n    loss.backward()\n"
        f"    optimizer.step()\n    {body}\nprint(total)\n"
    )
    patch = patch_of(tmp_path, text, defer(text, 10))
    assert written in patched_text(patch).replace("  # fires", "")
    assert assert_same(tmp_path, text, patch).ending == ""


AS_ARRAYS = {
    "a list": "losses.append(loss.detach().cpu().numpy())",
    "a list, beside its number": "losses.append((loss.detach().cpu().numpy(), loss.item()))",
    "a sum": "total += loss.data.cpu().numpy()",
    "a sum of what it is computed to": "total = total + 2 * loss.cpu().detach().numpy()",
}


@pytest.mark.parametrize("name", AS_ARRAYS)
def test_an_array_of_a_loss_waits_without_a_helper(name: str, tmp_path: Path) -> None:
    text = script(
        f"def train():\n    losses, total = [], 0.0\n    for x, y in loader:\n        STEP\n"
        f"        {AS_ARRAYS[name]}  # fires\n    print(losses, total, [type(one) for one in losses], type(total))\n"
        "    return total\ntrain()\n"
    )
    patch = patch_of(tmp_path, text, defer(text, 10))
    assert [one.path.name for one in patch.files] == ["train.py"], patch.declined
    assert assert_same(tmp_path, text, patch).ending == ""


CHANGED_ARRAYS = {
    "a quotient in place": ("losses.append(loss.detach().cpu().numpy())", "loss /= 4"),
    "a method of its data": ("losses.append(loss.detach().cpu().numpy())", "loss.data.mul_(0.5)"),
    "a method": ("losses.append(loss.data.cpu().numpy())", "loss.detach().zero_()"),
    "by another name": ("losses.append(loss.detach().cpu().numpy())", "other = loss.detach()\n        other *= 2"),
    "by a function": ("losses.append(loss.detach().cpu().numpy())", "halve(loss)"),
    "without a device": ("losses.append(loss.detach().numpy())", "loss.data.mul_(0.5)"),
    "under a name": ("value = loss.detach().cpu().numpy()\n        losses.append(value)", "loss.data /= 4"),
    "a sum of all": ("sums += loss.detach()\n        losses.append(sums.cpu().numpy())", "pass"),
}


@pytest.mark.parametrize("name", CHANGED_ARRAYS)
def test_an_array_has_what_becomes_of_the_tensor_on_the_host(name: str, tmp_path: Path) -> None:
    """There the two have one memory, also where a copy of the tensor would wait."""
    read, change = CHANGED_ARRAYS[name]
    text = script(
        "def halve(value):\n    value.data.mul_(0.5)\ndef train():\n    losses, sums = [], torch.zeros(())\n"
        "    for x, y in loader:\n        optimizer.zero_grad()\n        loss = criterion(model(x), y)\n"
        f"        {read}\n        {change}\n"
        "        loss.backward()\n        optimizer.step()\n    print(losses)\n    return losses\n"
        "train()\n"
    )
    text = "\n".join(f"{line}  # fires" if ".numpy()" in line else line for line in text.splitlines()) + "\n"
    patch = patch_of(tmp_path, text, defer(text, 10))
    for made in (patch, patch_of(tmp_path, text, defer(text, 10), checked=True)):
        assert len(made.files) != 1
        if made.files:
            assert assert_same(tmp_path, text, made).ending == ""


def test_an_array_of_many_numbers_waits_with_a_helper(tmp_path: Path) -> None:
    text = script(
        "seen = []\nfor x, y in loader:\n    STEP\n    seen.append(model(x).detach().cpu().numpy())  # fires\n"
    )
    patch = patch_of(tmp_path, text, defer(text, 10))
    assert len(patch.files) == 2
    assert assert_same(tmp_path, text, patch).ending == ""


CHANGES = {
    "a step": "other.step()",
    "a function": "wipe()",
    "a method": "keeper.decay()",
    "another name": "parts[0][0] = 0.5 * parts[0][0]",
    "a function of torch": "torch._foreach_mul_(parts, 0.5)",
    "an argument of torch": "torch.mul(scale.detach(), 0.5, out=parts[0])",
}
BEFORE_AND_AFTER = """
scale = torch.ones(1)
parts = [scale]
class Keeper:
    def __init__(self, held):
        self.held = held
    def decay(self):
        self.held.mul_(0.9)
keeper = Keeper(scale)
def wipe():
    scale.fill_(scale[0] * 0.8)
rate = torch.ones((), requires_grad=True)
other = torch.optim.SGD([rate], lr=0.1)
def main():
    rows = []
    for i, (x, y) in enumerate(loader):
        optimizer.zero_grad()
        other.zero_grad()
        loss = criterion(model(x), y) * rate * scale.sum()
        rows.append(VALUE.item())  # fires
        loss.backward()
        CHANGE
        optimizer.step()
        rows.append(loss.item())  # fires
    print(rows)
main()
"""


@pytest.mark.parametrize("checked", [False, True])
@pytest.mark.parametrize("value", ["rate", "scale", "(scale * 2)"])
@pytest.mark.parametrize("name", CHANGES)
def test_a_value_is_taken_where_the_script_reads_it(name: str, value: str, checked: bool, tmp_path: Path) -> None:
    text = script(BEFORE_AND_AFTER.replace("VALUE", value).replace("CHANGE", CHANGES[name]))
    patch = patch_of(tmp_path, text, defer(text, 10), checked=checked)
    assert patch.hunks
    assert "tracelens_runtime" not in patched_text(patch)
    assert assert_same(tmp_path, text, patch).ending == ""


@pytest.mark.parametrize("body", ["total += loss.item()  # fires", "losses.append(loss.item())  # fires"])
def test_torch_may_have_another_name(body: str, tmp_path: Path) -> None:
    """`import torch as th`: values are read one by one, for which no name of torch is needed."""
    begins = "total, losses = 0.0, []\nfor step, (x, y) in enumerate(loader):\n    STEP\n"
    text = script(f"{begins}    {body}\nprint(total, losses)")
    text = text.replace("import torch\n", "import torch as th\n").replace("torch.", "th.")
    patch = patch_of(tmp_path, text)
    assert [one.path.name for one in patch.files] == ["train.py"]
    assert "torch.stack" not in patched_text(patch)
    assert_same(tmp_path, text, patch)
