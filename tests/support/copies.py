"""Training loops with copies of the batch, and the patches that make them asynchronous."""

from __future__ import annotations

import textwrap
from pathlib import Path

from tests.support.patching import fired, patch_of, patched_text, script
from tracelens.model import Edit, Patch

DATA = """
from torch.utils.data import DataLoader, TensorDataset
data = TensorDataset(torch.randn(50, 4), torch.randint(0, 3, (50,)))
"""


def copies(folder: Path, body: str, *kinds: str, unsafe: bool = False, depth: int = 1) -> tuple[str, Patch]:
    text = script(DATA + textwrap.dedent(body))
    edits = tuple(Edit(k, locations=fired(text), depth=depth) for k in kinds or ("async-copy",))
    return text, patch_of(folder, text, edits, unsafe=unsafe)


def added(text: str, patch: Patch) -> list[str]:
    before = text.splitlines()
    return [line.strip() for line in patched_text(patch).splitlines() if line not in before]


def hidden(folder: Path, making: str) -> tuple[str, Patch]:
    return copies(folder, f"{making}\nfor x, y in loader:\n    x = x.to(device)  # fires\n    STEP\n")


LOADED = """
    loader = DataLoader(data, batch_size=8, num_workers={workers})
    for epoch in range(2):
        for i, (x, y) in enumerate(loader):
            x = x.to(device)  # fires
            y = y.to(device)  # fires
            STEP
            print(i, x.size(0), f"{{loss.item():.6f}}")
"""
