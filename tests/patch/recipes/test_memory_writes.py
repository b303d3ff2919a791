"""Which code writes into a tensor's memory, through views, methods in place and functions of the file."""

from __future__ import annotations

from pathlib import Path

import libcst as cst
import pytest

from tests.support.parsed_scripts import expression, parsed
from tracelens.patch.code.names import walk
from tracelens.patch.recipes import memory_writes

FILL = "import random\nimport numpy as np\ndef fill(a, b):\n    v = b[0]\n    v.zero_()\ndef show(a):\n    a = 1\n"


def writes(folder: Path, statement: str) -> bool:
    """Whether the last statement of a file writes into the memory of `x`."""
    source = parsed(folder, f"{FILL}{statement}\n")
    return any(memory_writes.writes_into(node, {"x"}, source.names) for node in walk(source.module.body[-1]))


@pytest.mark.parametrize(
    "statement",
    [
        "x[0] = 1",
        "x += 1",
        "x.view(-1)[2:] = 0",
        "x.data[0] -= 1",
        "x.mul_(2)",
        "x[0].reshape(-1).fill_(1)",
        "np.copyto(x, y)",
        "random.shuffle(x)",
        "torch.add(y, z, out=x)",
        "fill(y, x)",
        "fill(b=x[1], a=y)",
    ],
)
def test_these_write_into_the_memory(statement: str, tmp_path: Path) -> None:
    assert writes(tmp_path, statement)


@pytest.mark.parametrize(
    "statement",
    [
        "x = 1",
        "y[0] = x",
        "x.mul(2)",
        "x.__len__()",
        "np.copyto(y, x)",
        "torch.add(x, x, out=y)",
        "fill(x, y)",
        "show(x)",
    ],
)
def test_these_do_not(statement: str, tmp_path: Path) -> None:
    assert not writes(tmp_path, statement)


def test_names_of_views_are_followed() -> None:
    module = cst.parse_module("a = x.numpy()\nb = a[0]\nc = x + 1\nd = b\ne = x.clone()\n")
    assert memory_writes.views(module, {"x"}) == {"x", "a", "b", "d"}


def test_equal_expressions_have_the_same_text() -> None:
    assert memory_writes.text_of(expression('batch[ "x" ]')) == memory_writes.text_of(expression('batch["x"]'))
