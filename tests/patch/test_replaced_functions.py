"""Functions of torch that a script replaces: nothing is patched beside them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.patching import defer, fired, patch_of, script
from tracelens.model import Edit

REPLACED = {
    "import torch\ntorch.cuda.synchronize = lambda: None": "torch.cuda.synchronize",
    "from torch import cuda\ncuda.synchronize = f": "torch.cuda.synchronize",
    "import torch.cuda as c\nc.Event = f": "torch.cuda.Event",
    "import torch\nsetattr(torch.Tensor, 'item', f)": "torch.Tensor.item",
    "from unittest import mock\nimport torch\nmock.patch('torch.stack', f).start()": "torch.stack",
    "import torch\ntorch.Tensor.item: object = f": "torch.Tensor.item",
}
KEPT = [
    "import torch\ntorch.backends.cudnn.benchmark = flag",
    "import torch\ntorch._dynamo.config.suppress_errors = flag",
    "import torch\ntorch.nn.Linear.reset_parameters = f",
    "import torch\ntorch.cuda.amp._enabled = flag",
    "import torch\nkept = torch.cuda.synchronize",
]


LOOP = """
total = 0.0
for x, y in loader:
    STEP
    torch.cuda.synchronize()  # waits
    total += loss.item()  # fires
print(total)
"""


def obstacles(folder: Path, text: str) -> set[str]:
    waits = Edit("interval-sync", locations=fired(text, "# waits"), interval=10)
    patch = patch_of(folder, text, (*defer(text), waits))
    return {one.obstacle for one in patch.declined} if patch.empty else set()


@pytest.mark.parametrize("text", REPLACED)
def test_it_is_known_by_every_name(text: str, tmp_path: Path) -> None:
    said = f"train.py replaces `{REPLACED[text]}`, and nobody knows what it does then"
    assert obstacles(tmp_path, script("def f(*args):\n    return 0\n" + text + LOOP)) == {said}


@pytest.mark.parametrize("text", KEPT)
def test_settings_and_other_names_are_no_replacement(text: str, tmp_path: Path) -> None:
    found = obstacles(tmp_path, script("def f(*args):\n    return 0\nflag = len(loader) > 1\n" + text + LOOP))
    assert not any("replaces" in one for one in found)


@pytest.mark.parametrize("here", [True, False])
def test_nothing_is_patched_beside_it(here: bool, tmp_path: Path) -> None:
    line = "torch.cuda.synchronize = lambda: None\n"
    (tmp_path / "setup_torch.py").write_text(f"import torch\n{line}")
    text = script((line if here else "import setup_torch\n") + LOOP)
    where = "train.py" if here else "setup_torch.py"
    assert obstacles(tmp_path, text) == {
        f"{where} replaces `torch.cuda.synchronize`, and nobody knows what it does then"
    }


@pytest.mark.parametrize(("first", "declined"), [("import pytest", False), ("import sys", True)])
def test_what_a_test_of_the_project_replaces_is_not_replaced_in_a_training(
    first: str, declined: bool, tmp_path: Path
) -> None:
    (tmp_path / "test_train.py").write_text(f"{first}\nimport torch\nimport train\ntorch.stack = train.f\n")
    found = obstacles(tmp_path, script(LOOP))
    assert any("replaces `torch.stack`" in one for one in found) is declined
