"""Whether a script can use a GPU: only where nothing leads to one is it certain that it cannot."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.parsed_scripts import parsed
from tracelens.patch.code.devices import only_cpu


@pytest.mark.parametrize(
    "body",
    [
        "x = torch.zeros(3)",
        'device = torch.device("cpu")\nx = torch.zeros(3).to(device)',
        'x = torch.zeros(3).to("cpu")',
        "x = torch.zeros(3).to(torch.float64)",
        "import os, numpy as np\nfrom pathlib import Path",
    ],
)
def test_a_script_that_names_no_device_but_the_cpu_stays_on_it(body: str, tmp_path: Path) -> None:
    assert only_cpu(parsed(tmp_path, f"import torch\n{body}\n"))


@pytest.mark.parametrize(
    "body",
    [
        "x = torch.zeros(3).cuda()",
        "# later on a GPU",
        'x = torch.load("model.pt")',
        "x = torch.zeros(3).to(place)",
        "def train(device): ...",
        "device = args.device",
        "x = torch.zeros(3, device=chosen)",
        'x = torch.device("xpu:0")',
        "import helpers_from_elsewhere",
    ],
)
def test_a_script_in_which_anything_may_lead_to_a_gpu_is_not_certain(body: str, tmp_path: Path) -> None:
    assert not only_cpu(parsed(tmp_path, f"import torch\n{body}\n"))


def test_a_script_without_torch_is_handed_its_tensors_by_others(tmp_path: Path) -> None:
    assert not only_cpu(parsed(tmp_path, "x = [1, 2]\n"))


def test_another_file_of_the_project_counts_too(tmp_path: Path) -> None:
    text = "import torch\nimport helper\n"
    (tmp_path / "plain").mkdir()
    (tmp_path / "moving").mkdir()
    assert only_cpu(parsed(tmp_path / "plain", text, helper="import torch\n"))
    assert not only_cpu(parsed(tmp_path / "moving", text, helper="def move(x): return x.cuda()\n"))
