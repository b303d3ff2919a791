"""Waits of lines that read no value: the text of a tensor, and shapes that depend on values."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.parsed_scripts import parsed
from tracelens.patch.loop import unread


def why(folder: Path, line: str, before: str = "") -> str | None:
    """What waits on `line`, in a file in which `loss` is a tensor."""
    source = parsed(folder, f"import torch\nloss.backward()\n{before}{line}\n")
    found = unread.why(source, 3 + before.count("\n"))
    return None if found is None else found[0]


@pytest.mark.parametrize("line", ["print(loss)", "text = str(loss)", 'text = "%s" % loss', 'text = f"{loss!r}"'])
def test_the_text_of_a_tensor_is_more_than_its_number(line: str, tmp_path: Path) -> None:
    told = "the text of the tensor `loss` itself is written: more than its number (type, device, graph)"
    assert why(tmp_path, line) == told


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("index = mask.nonzero()", "mask.nonzero()"),
        ("index = torch.masked_select(x, mask)", "torch.masked_select(x, mask)"),
        ("y = x[x > 0]", "x[x > 0]"),
        ("y = x[x.isnan() | x.isinf()]", "x[x.isnan() | x.isinf()]"),
        ("y = x[~own]", "x[~own]"),
    ],
)
def test_a_shape_that_depends_on_values_is_waited_for(line: str, shown: str, tmp_path: Path) -> None:
    told = f"the shape of `{shown}` depends on values, which the host must know before it goes on"
    assert why(tmp_path, line) == told


def test_a_mask_is_followed_through_its_names(tmp_path: Path) -> None:
    before = "positive = target > 0\nmask = positive.unsqueeze(2).expand_as(boxes)\n"
    told = why(tmp_path, "y = boxes[mask]", before)
    assert told is not None and told.startswith("the shape of `boxes[mask]`")


@pytest.mark.parametrize("line", ["total = loss.detach().cpu().sum()", "y = x.numpy()"])
def test_a_tensor_that_the_host_computes_with(line: str, tmp_path: Path) -> None:
    told = why(tmp_path, line)
    assert told is not None and told.endswith("is used on the host in the same batch")


@pytest.mark.parametrize("line", ["print(step)", "y = x[0]", "y = x[index]", 'text = f"{loss:.3f}"', "y = x.view(-1)"])
def test_other_lines_say_nothing(line: str, tmp_path: Path) -> None:
    assert why(tmp_path, line) is None
