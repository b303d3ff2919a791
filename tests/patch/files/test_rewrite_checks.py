"""What a rewritten file must pass: it compiles, keeps its comments, and means what it says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.parsed_scripts import parsed
from tests.support.patching import patch_of, script
from tracelens.patch.files.rewrite_checks import rewrite_mistake

BEFORE = "import torch\ndef f(x):\n    # why\n    return x\n"


@pytest.mark.parametrize(
    ("after", "wrong"),
    [
        (BEFORE.replace("return x", "return len(x)"), None),
        (BEFORE.replace("return x", "return torch.stack(x)"), None),
        (BEFORE.replace("    # why\n", ""), "a comment would be lost: # why"),
        (BEFORE.replace("return x", "return (x"), "the patched file does not parse as Python 3, line 4"),
        (BEFORE.replace("return x", "break"), "the patched file does not compile: 'break' outside loop"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(after: str, wrong: str | None, tmp_path: Path) -> None:
    said = rewrite_mistake(parsed(tmp_path, BEFORE), after.encode())
    assert (said or "").startswith(wrong or "") and (said is None) == (wrong is None)


OWN = {
    "a variable": "    len = 3\n",
    "a function": "    def len(): pass\n",
    "another import": "    from math import ceil as len\n",
    "a loop's": "    for len in x: pass\n",
    "caught": "    try: pass\n    except OSError as len: pass\n",
    "in a pattern of names": "    len, other = x\n",
}


@pytest.mark.parametrize("name", OWN)
def test_a_name_that_is_something_else_in_the_file_is_not_written(name: str, tmp_path: Path) -> None:
    before = BEFORE.replace("    # why\n", OWN[name])
    source = parsed(tmp_path, before)
    said = "the file has a `len` of its own, and the change needs Python's or torch's"
    assert rewrite_mistake(source, before.replace("return x", "return len(x)").encode()) == said
    assert rewrite_mistake(source, before.replace("return x", "return sum(x)").encode()) is None


def test_a_name_of_a_module_that_hands_over_all_its_names_counts(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text("def zip(x): return x\n")
    source = parsed(tmp_path, "from own import *\n" + BEFORE)
    assert "a `zip` of its own" in (rewrite_mistake(source, source.data.replace(b"return x", b"return zip(x)")) or "")
    assert rewrite_mistake(source, source.data.replace(b"return x", b"return len(x)")) is None


SHADOWED = (
    "def train():\n    {}\n    seen = []\n    for i, (x, y) in enumerate(loader):\n        STEP\n"
    "        seen.append(loss.item() + 1 / loss.item())  # fires\n    return seen\ntrain()\n"
)
"""What is used twice is read by `torch.stack`."""


def test_a_loop_beside_such_a_name_keeps_its_meaning(tmp_path: Path) -> None:
    assert not patch_of(tmp_path, script(SHADOWED.format("torch = loader"))).hunks
    assert patch_of(tmp_path, script(SHADOWED.format("len = 5"))).hunks
