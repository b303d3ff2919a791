"""fused-optimizer: where the argument goes, what it replaces, and which optimizers are left alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.rounding import changed_lines, obstacles, written


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("torch.optim.AdamW(p, lr=0.1)", "torch.optim.AdamW(p, lr=0.1, fused=True)"),
        ("optim.SGD(p, 0.1, momentum=0.9, )", "optim.SGD(p, 0.1, momentum=0.9, fused=True, )"),
        ("Adam(p, foreach=False)", "Adam(p, fused=True)"),
        ("Adam(p, foreach = True, lr=1)", "Adam(p, fused=True, lr=1)"),
        ("Adam(p, fused=None)", "Adam(p, fused=True)"),
    ],
)
def test_the_argument_is_added_or_takes_the_place_of_what_excludes_it(before: str, after: str, tmp_path: Path) -> None:
    head = "import torch\nfrom torch import optim\nfrom torch.optim import Adam\n"
    patch = written(tmp_path, "fused-optimizer", {"train.py": f"{head}optimizer = {before}\n"})
    assert changed_lines(patch) == [f"-optimizer = {before}", f"+optimizer = {after}"]
    assert [hunk.tier for hunk in patch.hunks] == ["unsafe"]


@pytest.mark.parametrize(
    ("call", "obstacle"),
    [
        ("Adam(p, fused=True)", None),
        ("Adam(p, **options)", "the optimizer's arguments are hidden in `*` or `**`"),
        ("Adam(p, foreach=args.foreach)", "foreach=args.foreach comes from `args.foreach`"),
        ("Adam(p, differentiable=True)", "a fused optimizer is not differentiable"),
        ("Adam(p)  # tracelens: keep", "it is marked `# tracelens: keep`"),
        ("torch.optim.RMSprop(p)", "torch has no fused RMSprop"),
        ("Lion(p)", "no optimizer of torch is made by its name in the files of this project"),
        (
            "getattr(torch.optim, args.name)(p)",
            "no optimizer of torch is made by its name in the files of this project",
        ),
    ],
)
def test_what_has_no_such_argument_or_is_decided_elsewhere_stays(
    call: str, obstacle: str | None, tmp_path: Path
) -> None:
    head = "import torch\nfrom torch.optim import Adam\nfrom lion import Lion\n"
    patch = written(tmp_path, "fused-optimizer", {"train.py": f"{head}optimizer = {call}\n"})
    assert patch.empty
    assert obstacles(patch) == ([obstacle] if obstacle else [])


def test_it_is_found_in_a_file_that_the_script_imports(tmp_path: Path) -> None:
    files = {
        "train.py": "from lib.tools import make\nmake(1)\n",
        "lib/tools.py": "from torch.optim import AdamW as A\nfirst = A(\n    1,\n    lr=1,\n)\n",
        "lib/other.py": "from torch.optim import AdamW\nAdamW(1)\n",
    }
    patch = written(tmp_path, "fused-optimizer", files)
    assert [file.path.name for file in patch.files] == ["tools.py"]
    assert changed_lines(patch) == ["+    fused=True,"]
    assert obstacles(patch) == []
