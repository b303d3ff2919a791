"""anomaly-off: what is written for each form of the call, in which file, and what stays."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.patching import patched_text, script
from tracelens.model import Edit, Location, Patch
from tracelens.patch.effects import file_effects
from tracelens.patch.recipes import PatchOptions, make

ON = "torch.autograd.set_detect_anomaly(True)"


def patch(folder: Path, head: str, line: int | None, name: str = "train.py") -> Patch:
    (folder / "train.py").write_text(script("for x, y in loader:\n    STEP\n"))
    (folder / name).write_text(head if name != "train.py" else head + (folder / name).read_text())
    edit = Edit("anomaly-off", locations=(Location(name, line),) if line is not None else ())
    return make(folder, folder / "train.py", (edit,), (), PatchOptions(checked=True))


@pytest.mark.parametrize(
    ("head", "line", "written"),
    [
        (f"import torch\n{ON}\n", 2, "torch.autograd.set_detect_anomaly(False)\n"),
        (
            "import torch\ntorch.autograd.set_detect_anomaly(mode=True, check_nan=False)\n",
            2,
            "torch.autograd.set_detect_anomaly(mode=False, check_nan=False)\n",
        ),
        (
            "from torch import autograd\nautograd.set_detect_anomaly(\n    True,\n)\n",
            2,
            "autograd.set_detect_anomaly(\n    False,\n)\n",
        ),
        ("import torch\ntorch.set_anomaly_enabled(True)\n", 2, "torch.set_anomaly_enabled(False)\n"),
        (
            "import torch\nwith torch.autograd.detect_anomaly(check_nan=True), open(__file__):\n    pass\n",
            2,
            "with torch.autograd.set_detect_anomaly(False), open(__file__):\n",
        ),
        (
            "import torch\nfrom torch.autograd import detect_anomaly as watched\nwith watched():\n    pass\n",
            3,
            "with torch.autograd.set_detect_anomaly(False):\n",
        ),
        (
            f"import torch\nif __name__ != '__main__':\n    {ON}\n",
            3,
            "    torch.autograd.set_detect_anomaly(False)\n",
        ),
    ],
)
def test_it_is_switched_off_in_its_place_and_never_proved(head: str, line: int, written: str, tmp_path: Path) -> None:
    made = patch(tmp_path, head, line)
    assert [(hunk.tier, hunk.location.line) for hunk in made.hunks] == [("checked", line)]
    assert "not a number" in made.hunks[0].unproved and "not a number" in made.hunks[0].reason
    assert written in patched_text(made)
    assert len(made.diff.splitlines()) < 14, "one place, and nothing else"


def test_it_is_found_in_another_file_of_the_project(tmp_path: Path) -> None:
    made = patch(tmp_path, f"import torch\n{ON}\n", 2, "helpers.py")
    (file,) = made.files
    assert file.path.name == "helpers.py" and file.after == b"import torch\ntorch.autograd.set_detect_anomaly(False)\n"


def test_the_project_is_not_analysed_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which takes half a minute of some projects; what they do elsewhere decides nothing here."""
    monkeypatch.setattr(file_effects.FileEffects, "replaced", property(lambda _: pytest.fail("it was")))
    assert not patch(tmp_path, f"import torch\n{ON}\n", 2).empty


def test_without_a_line_every_call_of_the_script_is_meant(tmp_path: Path) -> None:
    made = patch(tmp_path, f"import torch\n{ON}\n{ON}\n", None)
    assert patched_text(made).startswith("import torch\n" + 2 * "torch.autograd.set_detect_anomaly(False)\n")
    none = patch(tmp_path, "import torch\n", None)
    assert none.empty and not none.declined


@pytest.mark.parametrize(
    ("head", "line", "why"),
    [
        ("import torch\ntorch.autograd.set_detect_anomaly(bool(1))\n", 2, "comes from `bool(1)`"),
        ("import torch\ntorch.autograd.set_detect_anomaly(*[True])\n", 2, "comes from `torch.autograd.set"),
        (f"import sys, torch\nif len(sys.argv) > 1:\n    {ON}\n", 3, "below `len(sys.argv) > 1`"),
        (f"import torch\n{ON}  # tracelens: keep\n", 2, "keep"),
        ("import torch\ntorch.autograd.set_detect_anomaly(False)\n", 2, "no call on this line"),
        ("from frame import Trainer\nTrainer(detect_anomaly=True)\n", 2, "no call on this line"),
    ],
)
def test_what_is_decided_elsewhere_or_kept_stays(head: str, line: int, why: str, tmp_path: Path) -> None:
    made = patch(tmp_path, head, line)
    assert made.empty and why in made.declined[0].obstacle


def test_a_file_without_a_name_for_autograd_is_left_to_a_person(tmp_path: Path) -> None:
    text = "from torch.autograd import detect_anomaly\nwith detect_anomaly():\n    pass\n"
    made = patch(tmp_path, text, 2, "helpers.py")
    assert made.empty and "no name for torch.autograd" in made.declined[0].obstacle
