"""The forms that a read of a tensor takes: what each leaves when it is deferred, and what is more than one number."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.patching import assert_same, defer, patch_of, patched_text, script

READS = {
    'print("%.3f" % loss)': "ahead.number(loss)",
    'print("%d %.3f" % (i, loss.detach()))': "ahead.number(loss.detach())",
    'print("%.3f" % loss.data)': "ahead.number(loss.data)",
    'print("%d%% %+6.2e" % (correct.sum(), loss.data))': "ahead.number(correct.sum())",
    'print("%s %5.1f" % ("loss", 100 * correct.float().mean()))': "ahead.number(100 * correct.float().mean())",
    'print("{:.3f}".format(loss))': "ahead.formatted(loss)",
    'print("{0:.3f} {1}".format(loss, i))': "ahead.formatted(loss)",
    'print("{}".format(loss))': "ahead.formatted(loss)",
    'print("{value:.4f}".format(value=loss))': "ahead.formatted(loss)",
    'print("{:.2f}".format(100.0 * correct.sum() / len(y)))': "ahead.formatted(100.0 * correct.sum() / len(y))",
    'print(format(loss, ".3f"))': "ahead.formatted(loss)",
    'print(format(loss.item(), ".3f"))': "ahead.item(loss)",
    "print(round(loss.item(), 3))": "ahead.item(loss)",
    'print(f"{float(loss.detach()):.3f}")': "ahead.number(loss.detach())",
    'print(f"{loss:.3f} {i}")': "ahead.formatted(loss)",
    'print(f"{loss}")': "ahead.formatted(loss)",
    'print(f"{100.0 * correct.sum() / len(y):.2f}")': "ahead.formatted(100.0 * correct.sum() / len(y))",
    "total += correct.cpu().sum()": "ahead.host(correct)",
    "total += float(correct.cpu().sum()) / 5": "ahead.values(correct)",
    "total += loss.cpu().sum().item()": "ahead.values(loss)",
    "total += loss.data.cpu().double().mean(0).item()": "ahead.values(loss)",
    "total += guess.cpu().numpy().sum()": "ahead.numpy(guess)",
    "total += loss.data.cpu().numpy()[()]": "ahead.numpy(loss)",
    "total += loss.view(1).data.cpu().numpy()[0]": "ahead.numpy(loss.view(1))",
    "total += loss.detach().cpu().numpy().reshape(-1)[0]": "ahead.numpy(loss)",
    "total += correct.sum().item() / len(y)": "ahead.item(correct.sum())",
    "total += (guess.cpu().numpy() == y.cpu().numpy()).mean()": "ahead.numpy(y)",
    "total += 1 - (guess.cpu().numpy() == y.cpu().numpy()).astype(float).mean()": "ahead.numpy(guess)",
    "seen.append(guess.cpu().numpy().tolist())": "ahead.numpy(guess)",
    "seen.append(loss.detach().cpu().numpy().item())": "ahead.numpy(loss)",
    "total += x[correct].mean().item()": "ahead.item(x[correct].mean())",
}

READING = """
import numpy as np
total, seen, label = 0.0, [], "none"
for i, (x, y) in enumerate(loader):
    STEP
    guess = model(x).argmax(1)
    correct = guess == y
    {line}  # fires
    label = "loss" if i % 2 else "again"
    seen.append(label)
    loss.detach().mul_(2)
    correct.zero_()
print(float(total), seen)
"""


TO_A_SCALAR = "ignore:Converting a tensor with requires_grad=True to a scalar"
"""The warning of a `%.3f` or `float(…)` of the loss itself, which its number has no need of."""

AS_SOON_AS_POSSIBLE = 1
"""The interval with which the runtime is called, which shows each read by its kind."""


@pytest.mark.slow
@pytest.mark.filterwarnings(TO_A_SCALAR)
@pytest.mark.parametrize("line", READS)
def test_a_read_is_seen_in_whatever_form_it_takes(line: str, tmp_path: Path) -> None:
    text = script(READING.format(line=line))
    helped, plain = (patch_of(tmp_path, text, defer(text, interval)) for interval in (AS_SOON_AS_POSSIBLE, 10))
    assert helped.declined == plain.declined == ()
    assert READS[line] in patched_text(helped)
    for patch in (helped, plain):
        assert assert_same(tmp_path, text, patch).ending == ""


WHOLE = {
    "print(loss)": "the text of the tensor `loss` itself",
    'print("loss", loss.detach())': "the text of the tensor `loss.detach()` itself",
    "seen.append(str(loss))": "the text of the tensor `loss` itself",
    'print("%s" % loss)': "the text of the tensor `loss` itself",
    'print("loss: %r" % loss.data)': "the text of the tensor `loss.data` itself",
    'print(f"{loss!r}")': "the text of the tensor `loss` itself",
    'print("right", correct.float().mean())': "the text of the tensor `correct.float().mean()` itself",
    "kept = x[correct]": "the shape of `x[correct]` depends on values",
    "kept = x[~correct]": "the shape of `x[~correct]` depends on values",
    "kept = x[y == 1]": "the shape of `x[y == 1]` depends on values",
    "kept = x[:, x[0] > 0]": "the shape of `x[:, x[0] > 0]` depends on values",
    "total += len(correct.nonzero())": "the shape of `correct.nonzero()` depends on values",
    "kept = torch.masked_select(x[:, 0], correct)": "the shape of `torch.masked_select(x[:, 0], correct)` depends",
    "kept = torch.unique(y)": "the shape of `torch.unique(y)` depends on values",
}


@pytest.mark.parametrize("line", WHOLE)
def test_what_is_more_than_a_number_is_named(line: str, tmp_path: Path) -> None:
    patch = patch_of(tmp_path, script(READING.format(line=line)))
    assert patch.empty
    assert [WHOLE[line] in one.obstacle for one in patch.declined] == [True]
    assert all(one.by_hand for one in patch.declined)


ODD = {
    "a number of dimensions, formatted": 'print("{}".format(x.detach().sum(0)))',
    "an element too many for a number": 'print("%.3f" % x.sum(0))',
    "a parameter's own format": 'print(f"{scale} {loss:.3f}")',
    "a parameter with a format that it does not know": 'print(f"{scale:.3f} {loss:.3f}")',
    "values of a graph": "total = total + scale.cpu().sum(); seen.append(loss.item())",
    "another order of the elements": "total += x[:, ::2].t().cpu().sum().item() + loss.item()",
    "one that repeats itself": "total += x[:, :1].expand(5, 9).cpu().mean().item() + loss.item()",
    "a key": 'print("%(a).3f" % {"a": loss.item()})',
    "a width from elsewhere": 'print("%*.3f" % (9, loss.item()))',
    "a tuple that is one value": 'pair = (loss.item(), i); print("%.3f %d" % pair)',
    "not a number, as a whole one": 'print("%d %.3f" % (loss * float("nan"), loss))',
}


@pytest.mark.slow
@pytest.mark.filterwarnings(TO_A_SCALAR)
@pytest.mark.parametrize("name", ODD)
def test_odd_values_leave_what_they_left_or_the_same_error(name: str, tmp_path: Path) -> None:
    text = script("scale = nn.Parameter(torch.tensor(0.5))" + READING.format(line=ODD[name]))
    patch = patch_of(tmp_path, text)
    if not patch.empty:
        assert_same(tmp_path, text, patch)


def test_text_of_what_is_no_tensor_is_left_as_it_was(tmp_path: Path) -> None:
    """Nothing changes for values that are kept as they are."""
    line = 'print(f"{label} {loss.item():.3f}", "%s %d" % (label, len(label)), "%d" % len(seen))'
    text = script(READING.format(line=line))
    after = patched_text(patch_of(tmp_path, text, defer(text, AS_SOON_AS_POSSIBLE)))
    assert "ahead.defer(log_loss, label, ahead.item(loss), len(label), len(seen))" in after


READ = """
{before}
kept = []
for i, (x, y) in enumerate(loader):
    STEP
    {line}  # fires
    kept.append(loss.item())  # fires
print(kept)
"""

TEXTS = {
    "another format": ("def format(v, s): return type(v).__name__", "print(format(loss, '.3f'))"),
    "a lambda": ("format = lambda v, s: type(v).__name__", "print(format(loss, '.3f'))"),
    "a class of text": (
        "class T(str):\n    def format(self, v): return type(v).__name__\nt = T('{}')",
        "print(t.format(loss))",
    ),
    "a conversion behind a name": ("t = '{!r}'", "print(t.format(loss))"),
    "an attribute behind a name": ("t = '{0.shape}'", "print(t.format(loss))"),
    "a complex number": ("", "print('%.3f' % torch.complex(loss.detach(), loss.detach()).sum())"),
    "detached before it is summed": ("graphs = []", "graphs.append(loss.detach().cpu().mean()); print(graphs[-1])"),
    "data before it is summed": ("graphs = []", "graphs.append(loss.data.cpu().sum()); print(graphs[-1])"),
    "a box that says where it goes": (
        "class Box:\n    def to(self, d): print('moved')\nbox = Box()",
        "box.to(device); print(loss.item())",
    ),
    "a meter with two owners": (
        "class M:\n    t = 0.0\n    def update(self, v): self.t += v\nm = M(); _all = {}; _all.setdefault('a', m)",
        "_all['a'].update(loss.item()); print(m.t if i % 4 == 2 else '')",
    ),
}


@pytest.mark.parametrize("name", TEXTS)
def test_text_and_objects_of_the_file_are_what_they_were(name: str, tmp_path: Path) -> None:
    before, line = TEXTS[name]
    text = script(READ.format(before=before, line=line)).replace("print(kept)", "print(len(kept))")
    patch = patch_of(tmp_path, text)
    if patch.hunks:
        assert_same(tmp_path, text, patch)
    else:
        assert patch.declined
