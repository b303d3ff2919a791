"""Values that a second attack took for tensors, for numbers without dimensions, or for constants: none is any more."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.patching import assert_same, patch_of, script

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
