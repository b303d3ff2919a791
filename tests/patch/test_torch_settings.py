"""tf32, cudnn-benchmark, matmul-precision: the script's own setting, or a line above its loop; what is left alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.rounding import changed_lines, obstacles, written
from tracelens.edit_kinds import EditKind

LOOP = """
for epoch in range(2):
    # all batches
    for x, y in loader:
        loss = model(x).sum()
        loss.backward()
"""
TF32 = "torch.backends.cuda.matmul.allow_tf32 = True"


def test_the_line_stands_above_the_outermost_loop(tmp_path: Path) -> None:
    patch = written(tmp_path, "tf32", {"train.py": f"import torch\nmodel = 1\n# train\n{LOOP.lstrip()}"})
    after = patch.files[0].after.decode()
    assert f"model = 1\n{TF32}\n# train\nfor epoch" in after
    assert [(hunk.tier, hunk.id) for hunk in patch.hunks] == [("unsafe", "TL16-01")]


def test_a_loop_of_one_epoch_in_a_function_is_left_and_the_setting_goes_below_the_imports(tmp_path: Path) -> None:
    engine = "import torch\n\n\ndef train(model, loader):\n    for x in loader:\n        model(x).backward()\n"
    files = {"train.py": "import torch as t\nfrom engine import train\n\n\ntrain(1, 2)\n", "engine.py": engine}
    patch = written(tmp_path, "cudnn-benchmark", files)
    assert [file.path.name for file in patch.files] == ["train.py"]
    assert "import train\n\nt.backends.cudnn.benchmark = True\n\n\ntrain(1, 2)\n" in patch.files[0].after.decode()


@pytest.mark.parametrize(
    ("kind", "choice", "before", "after"),
    [
        ("tf32", "", "torch.backends.cudnn.allow_tf32 = False", "torch.backends.cudnn.allow_tf32 = True"),
        ("cudnn-benchmark", "", "cudnn.benchmark = False", "cudnn.benchmark = True"),
        (
            "matmul-precision",
            "medium",
            'torch.set_float32_matmul_precision("highest")',
            'torch.set_float32_matmul_precision("medium")',
        ),
    ],
)
def test_what_the_script_sets_itself_is_changed_there(
    kind: EditKind, choice: str, before: str, after: str, tmp_path: Path
) -> None:
    head = "import torch\nfrom torch.backends import cudnn\nif torch.cuda.is_available():\n"
    patch = written(tmp_path, kind, {"train.py": f"{head}    {before}\n{LOOP}"}, choice)
    assert changed_lines(patch) == [f"-    {before}", f"+    {after}"]


@pytest.mark.parametrize(
    ("line", "obstacle"),
    [
        (f"{TF32}", None),
        ("torch.backends.cuda.matmul.allow_tf32 = args.fast", "it comes from `args.fast`"),
        ("if args.exact:\n    torch.backends.cuda.matmul.allow_tf32 = False", "it is set below `args.exact`"),
        ("torch.backends.cuda.matmul.allow_tf32 = False  # tracelens: keep", "it is marked `# tracelens: keep`"),
        (
            "torch.backends.cuda.matmul.fp32_precision = 'ieee'",
            "train.py sets torch.backends.cuda.matmul.fp32_precision",
        ),
    ],
)
def test_a_setting_that_is_decided_elsewhere_stays(line: str, obstacle: str | None, tmp_path: Path) -> None:
    patch = written(tmp_path, "tf32", {"train.py": f"import torch\n{line}\n{LOOP}"})
    assert patch.empty
    assert obstacles(patch) == ([obstacle] if obstacle else [])


def test_an_import_at_the_end_of_a_file_is_not_where_a_setting_belongs(tmp_path: Path) -> None:
    body = "    for x in range(2):\n        model(x).backward()\n"
    text = f"import torch\n\n\ndef train(model):\n{body}\n\ntrain(1)\nimport os\n"
    patch = written(tmp_path, "tf32", {"train.py": text})
    assert patch.files[0].after.decode().startswith(f"import torch\n\n{TF32}\n\n\ndef train")


def test_another_file_that_makes_the_setting_is_the_one_that_is_changed(tmp_path: Path) -> None:
    files = {
        "train.py": f"import torch\nimport setup\n{LOOP}",
        "setup.py": "import torch\ntorch.backends.cudnn.benchmark = False\n",
    }
    patch = written(tmp_path, "cudnn-benchmark", files)
    assert [file.path.name for file in patch.files] == ["setup.py"]


def test_a_file_without_a_name_for_torch_is_declined(tmp_path: Path) -> None:
    patch = written(tmp_path, "tf32", {"train.py": f"from torch import nn\n{LOOP}"})
    assert patch.empty and "no name for torch" in obstacles(patch)[0]
