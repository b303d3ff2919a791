"""What a reviewer sees first: no constants in queues, lines as wide as the file, imports in their place."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.patching import assert_same, patch_of, patched_text, script
from tracelens.patch.code.line_length import line_limit
from tracelens.patch.code.source import parse

LOADER = "batches = torch.utils.data.DataLoader(loader, batch_size=None)\n"


def waiting(patched: str) -> str:
    """The line that keeps the values of a batch."""
    return next(line.strip() for line in patched.splitlines() if ".append((" in line or "ahead.defer(" in line)


def test_the_length_of_a_loader_is_kept_as_it_is_in_its_batch(tmp_path: Path) -> None:
    """Its data set may grow meanwhile, and its sampler count."""
    text = script(
        LOADER + "def main():\n    for i, (x, y) in enumerate(batches):\n        STEP\n"
        "        print(i, len(batches), loss.item())  # fires\nmain()\n"
    )
    patch = patch_of(tmp_path, text)
    assert waiting(patched_text(patch)) == "pending_losses.append((i, len(batches), loss.detach().clone()))"
    assert_same(tmp_path, text, patch)


@pytest.mark.parametrize(
    ("before", "shown", "inside"),
    [
        ("class Count:\n    n = 0\n    def __len__(self): return self.n\nseen = Count()\n", "len(seen)", "seen.n = i"),
        ("seen = []\n", "len(seen)", "seen.append(i)"),
        ("scale = 1\ndef grow():\n    global scale\n    scale += 1\n", "scale", "grow()"),
    ],
)
def test_what_the_loop_changes_is_kept_as_it_is_in_its_batch(
    before: str, shown: str, inside: str, tmp_path: Path
) -> None:
    text = script(
        f"{before}def main():\n    for i, (x, y) in enumerate(loader):\n        STEP\n        {inside}\n"
        f"        print(i, {shown}, loss.item())  # fires\nmain()\n"
    )
    patch = patch_of(tmp_path, text)
    if not patch.empty:
        assert_same(tmp_path, text, patch)


def test_the_epoch_is_read_where_it_is_shown(tmp_path: Path) -> None:
    text = script(
        "def main(epoch):\n    for x, y in loader:\n        STEP\n        print(epoch, loss.item())  # fires\nmain(3)\n"
    )
    patch = patch_of(tmp_path, text)
    assert "pending_losses.append(loss.detach().clone())" in patched_text(patch)
    assert_same(tmp_path, text, patch)


@pytest.mark.parametrize(
    ("line", "config", "limit"),
    [
        ("x = 1", "", 79),
        ("x = " + "1" * 84, "", 88),
        ("x = " + "1" * 200, "", 100),
        ("x = 1", "[tool.ruff]\nline-length = 120\n", 120),
    ],
)
def test_lines_are_as_long_as_the_project_has_them(line: str, config: str, limit: int, tmp_path: Path) -> None:
    if config:
        (tmp_path / "pyproject.toml").write_text(config)
    assert line_limit(parse(tmp_path / "a.py", "a.py", f"{line}\n".encode())) == limit


def test_what_waits_is_broken_where_it_is_too_long(tmp_path: Path) -> None:
    text = script(
        "def main():\n    for batch_number, (x, y) in enumerate(loader):\n        STEP\n"
        "        right = (model(x).argmax(1) == y).sum()\n"
        "        print(batch_number, loss.item(), right.item())  # fires\nmain()\n"
    )
    patch = patch_of(tmp_path, text)
    lines = patched_text(patch).splitlines()
    kept = lines[next(number for number, line in enumerate(lines) if ".append(" in line) :][:3]
    assert [line.strip() for line in kept] == [
        "pending_losses.append(",
        "(batch_number, loss.detach().clone(), right.detach().clone())",
        ")",
    ]
    assert_same(tmp_path, text, patch)


@pytest.mark.parametrize(
    ("imports", "place"),
    [
        ("import alpha\nimport zeta\nfrom beta import f\n", "import alpha\nimport tracelens_runtime\nimport zeta\n"),
        ("from beta import f\n", "import tracelens_runtime\nfrom beta import f\n"),
        ("import zeta\nimport alpha\n", "import zeta\nimport alpha\nimport tracelens_runtime\n"),
    ],
)
def test_the_helpers_are_imported_where_sorted_imports_have_them(imports: str, place: str, tmp_path: Path) -> None:
    for name in ("alpha", "beta", "zeta"):
        (tmp_path / f"{name}.py").write_text("def f(): pass\n")
    text = script(
        "def main():\n    for x, y in loader:\n        STEP\n        try:\n            print(loss.item())  # fires\n"
        "        except OSError:\n            pass\nmain()\n"
    ).replace("from torch import nn\n", f"from torch import nn\n\n{imports}")
    assert place in patched_text(patch_of(tmp_path, text))


def test_names_that_a_star_of_the_project_brings_are_known(tmp_path: Path) -> None:
    """`np.log` computes, whoever has imported NumPy."""
    (tmp_path / "helpers.py").write_text("import numpy as np\n")
    text = script(
        "psnr = []\nfor x, y in loader:\n    STEP\n    psnr.append(-10.0 * np.log(loss.item()))  # fires\nprint(psnr)\n"
    ).replace("from torch import nn\n", "from torch import nn\nfrom helpers import *\n")
    patch = patch_of(tmp_path, text)
    assert not patch.empty
    (tmp_path / "before").mkdir()
    (tmp_path / "after").mkdir()
    for side in ("before", "after"):
        (tmp_path / side / "helpers.py").write_text("import numpy as np\n")
    assert_same(tmp_path, text, patch)


def test_the_number_of_a_loss_is_kept_whatever_becomes_of_the_loss(tmp_path: Path) -> None:
    """`loss.backward()` does not change what `{:.3f}` shows: it was declined as a tensor that the loop changes."""
    text = script(
        "class Bar:\n    def __init__(self): self.text = ''\n    def set_description(self, text): self.text = text\n"
        "bar = Bar()\ntotal = 0.0\nfor x, y in loader:\n    STEP\n    total += loss.item()  # fires\n"
        "    bar.set_description('{:.5f} {:.5f}'.format(loss, total))\nprint(bar.text, total)\n"
    )
    patch = patch_of(tmp_path, text)
    assert not patch.empty
    assert_same(tmp_path, text, patch)
