"""What is only likely declines nothing: sums that may be lists, tensors that may be functions, batches of objects."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.moves import SURROUNDINGS, Case, asked, one_file, two_files

APPENDS = "losses.append(loss.item())  # later"
LIKELY = {
    "a number that may be a list": Case(
        f"STEP\n{APPENDS}\ntotal += (1,)",
        before="losses = []\ntotal = losses if len(model.layer.bias) > 5 else 0",
    ),
    "a tensor that may be a function": Case(
        f"STEP\n{APPENDS}\nfound.squeeze()",
        code="losses = []\ndef look(x):\n    losses.append(0.0)\n    return x\n",
        before="found = torch.some_function(torch.ones(1), look)",
    ),
    "an array that a function of a library may change": Case(
        "STEP\nlog.show(loss.item())  # later\nskimage.color.some_function(kept)",
        code="import skimage.color\nclass Log:\n    def __init__(self, rows):\n        self.rows = rows\n"
        "    def show(self, v):\n        print(v, *self.rows)\n",
        before="kept = [0.0]\nlog = Log(kept)",
    ),
}


@pytest.mark.parametrize("write", [one_file, two_files])
@pytest.mark.parametrize("name", LIKELY)
def test_what_is_only_likely_is_no_obstacle_and_no_proof(
    name: str, write: Callable[[Case, Callable[[str], str]], dict[str, str]]
) -> None:
    for around in SURROUNDINGS.values():
        answer = asked(write(LIKELY[name], around))
        assert answer.tier == "checked", answer


ITEMS = """
class Log:
    def cuda(self):
        losses.append(0.0)
losses = []
class Images(Dataset):
    def __init__(self):
        self.log = Log()
    def __getitem__(self, i):
        return self.log, i
    def __len__(self):
        return 8
"""


@pytest.mark.parametrize(
    ("loader", "tier"),
    [
        ("DataLoader(Images())", "safe"),
        ("DataLoader(Images(), batch_size=4, shuffle=True)", "safe"),
        ("tracelens_runtime.prefetch(DataLoader(Images()), torch.device('cuda'), depth=1)", "safe"),
        ("DataLoader(Images(), collate_fn=list)", "checked"),
        ("DataLoader(Images(), batch_size=None)", "checked"),
        ("DataLoader(Images(), **{'batch_size': 2})", "checked"),
        ("Images()", "checked"),
    ],
)
def test_torch_puts_batches_together_of_tensors_alone(loader: str, tier: str) -> None:
    for around in SURROUNDINGS.values():
        answer = asked(one_file(Case(f"STEP\n{APPENDS}\nx.cuda()", code=ITEMS, over=loader), around))
        assert answer.tier == tier, answer
