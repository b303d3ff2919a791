"""`"%d %f" % (step, total)`: what is shown beside a sum that waits is what it was, also of a model out of a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.patching import assert_same, patch_of, script

LOOP = "total = 0.0\nfor x, y in loader:\n    STEP\n    total += loss.item()  # fires\n    {}print({})\n"
SHOWN = {
    "a weight": ("", "'%s %f' % (model.bias.detach(), total)"),
    "a part of a weight": ("", "'%f %f' % (model.bias[0], total)"),
    "all weights": ("", "'%s %f' % (model.state_dict(), total)"),
    "a gradient": ("", "'%s %f' % (model.bias.grad, total)"),
    "a list that grows": ("loader[0][0].data = loader[0][0] + 1; ", "'%s %f' % (loader[0][0].tolist(), total)"),
    "a rate": ("optimizer.param_groups[0]['lr'] *= 0.9; ", "'%s %f' % (optimizer.param_groups[0]['lr'], total)"),
    "groups": ("optimizer.param_groups[0]['lr'] *= 0.9; ", "'%s %f' % (optimizer.param_groups[0]['lr':], total)"),
}


@pytest.mark.parametrize("name", SHOWN)
def test_what_a_text_shows_is_what_it_was(name: str, tmp_path: Path) -> None:
    text = script(LOOP.format(*SHOWN[name]), batches=13)
    patch = patch_of(tmp_path, text)
    if patch.empty:
        assert patch.declined[0].obstacle
    else:
        assert_same(tmp_path, text, patch)


RESUMED = """
import os


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, x):
        return self.layer(x)


def conv_init(module):
    if isinstance(module, nn.Linear):
        nn.init.normal_(module.weight)


if os.path.exists("state.pt"):
    model = torch.load("state.pt")["net"]
else:
    model = Net()
    model.apply(conv_init)
if torch.cuda.is_available():
    model = nn.DataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def train():
    total, correct, seen = 0.0, 0, 0
    for step, (x, y) in enumerate(loader):
        STEP
        total += loss.item()  # fires
        seen += y.size(0)
        correct += model(x).argmax(1).eq(y).sum().item()  # fires
        print("%d %.4f %.3f%%" % (step, loss.item(), 100. * correct / seen))  # fires
    print(total)


train()
"""


def test_the_loss_of_a_model_out_of_a_file_is_shown_as_a_number(tmp_path: Path) -> None:
    text = script(RESUMED)
    patch = patch_of(tmp_path, text)
    assert patch.hunks, patch.declined
    assert not patch.declined
    assert_same(tmp_path, text, patch)


def test_a_text_needs_no_proof_that_it_is_one(tmp_path: Path) -> None:
    """Nobody knows what the rate is; what it is put into, where it stands, is a text."""
    text = script(
        "import schedules\nlines = []\nfor i, (x, y) in enumerate(loader):\n    STEP\n    lr = schedules.rate(i)\n"
        "    line = 'step {}'.format(i) + ' lr=%.2e' % (lr,) + ' loss=%.2f' % loss.item()  # fires\n"
        "    lines.append(line)\nprint(lines)\n"
    )
    assert [hunk.tier for hunk in patch_of(tmp_path, text).hunks] == ["safe"]
