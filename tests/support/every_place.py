"""Loops on a GPU, patched without a recording: each place as if it waited once in every step."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from pathlib import Path

from tests.support.patching import script
from tracelens.edit_kinds import SAFE_EDITS, EditKind
from tracelens.model import Patch
from tracelens.patch.every_place import patch_script
from tracelens.patch.recipes import PatchOptions

ON_GPU = """
total = 0.0
for i, (x, y) in enumerate(loader):
    x, y = x.to(device), y.to(device)
    optimizer.zero_grad()
    out = model(x)
    loss = criterion(out, y)
    {before}
    {after}
    loss.backward()
    optimizer.step()
print(total)
"""


def every_place(folder: Path, body: str) -> Patch:
    path = folder / "train.py"
    path.write_text(script(body).replace('"cpu"', '"cuda"'))
    return patch_script(path, folder, dict.fromkeys(SAFE_EDITS, 10), PatchOptions())


def every_place_of(folder: Path, files: Mapping[str, str], kinds: Mapping[EditKind, int], name: str) -> Patch:
    """The patch of one of several files, with what is only checked."""
    for shown, text in files.items():
        path = folder / shown
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text).lstrip())
    return patch_script(folder / name, folder, kinds, PatchOptions(checked=True))
