"""Objects that a statement keeps beside a value: lists, dicts and tensors that other code changes later."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.patching import assert_same, patch_of, script

KEEPER = """
class Log:
    def __init__(self):
        self.rows = []
    def update(self, value, more):
        self.rows.append((value, more))
log = Log()
"""
KEPT = {
    "a dict that the epoch changes": (
        KEEPER,
        "meta = {'run': 1, 'epoch': 0}",
        "meta['epoch'] = epoch",
        "log.update(loss.item(), meta)  # fires",
        "print(log.rows[0], log.rows[-1])",
    ),
    "a list that grows after the loop": (
        KEEPER,
        "tags = ['x']",
        "",
        "log.update(loss.item(), tags)  # fires",
        "tags.append('late')\nprint(log.rows[-1])",
    ),
    "a list in a tuple": (
        "",
        "tags = ['x']\nhistory = []",
        "tags.append(epoch)",
        "history.append((loss.item(), (1, tags)))  # fires",
        "tags.append('late')\nprint(history[0], history[-1])",
    ),
    "a tensor that the epoch changes": (
        "",
        "buffer = torch.zeros(2)\nhistory = {'loss': [], 'buffer': []}",
        "buffer += 1",
        "history['loss'].append(loss.item())  # fires\nhistory['buffer'].append(buffer)",
        "print(history['buffer'][0], history['buffer'][-1])",
    ),
    "a rate that is a tensor": (
        "",
        "lr = torch.tensor(0.05)\nsecond = torch.optim.SGD(model.parameters(), lr=lr)\nrows = []",
        "lr.mul_(0.5)",
        "lr.mul_(0.9)\nrows.append((loss.item(), second.param_groups[0]['lr']))  # fires",
        "print(rows)",
    ),
    "a part of a batch that is filled": (
        "",
        "rows = []",
        "",
        "rows.append((loss.item(), x[0]))  # fires\nx.fill_(7)",
        "print(rows[0], rows[-1])",
    ),
}
SCRIPT = (
    "{code}{before}\nfor epoch in range(2):\n{epoch}\n    for x, y in loader:\n        x = x.clone()\n{loop}\n{after}\n"
)


def _indented(text: str, indent: str) -> str:
    return "\n".join(f"{indent}{line}" for line in text.splitlines())


@pytest.mark.parametrize("surroundings", ["script", "function"])
@pytest.mark.parametrize("name", KEPT)
def test_who_keeps_an_object_keeps_the_object(name: str, surroundings: str, tmp_path: Path) -> None:
    code, before, epoch, loop, after = KEPT[name]
    body = SCRIPT.format(
        code="", before=before, epoch=_indented(epoch, "    "), loop=_indented(f"STEP\n{loop}", " " * 8), after=after
    )
    if surroundings == "function":
        body = f"def main():\n{_indented(body, '    ')}\nmain()\n"
    text = script(code + body, batches=7)
    patch = patch_of(tmp_path, text, checked=False)
    if patch.files:
        assert assert_same(tmp_path, text, patch).ending == ""
