"""From which folders a project imports a file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.patching import script
from tracelens.patch.code.import_roots import import_roots
from tracelens.patch.effects.project import Project
from tracelens.patch.every_place import patch_files
from tracelens.patch.recipes import PatchOptions

PROJECTS = {
    "a package": ({"main.py": "from core.trainer import fit\n", "core/__init__.py": ""}, "core/trainer.py", ["."]),
    "a folder without __init__": ({"main.py": "import engine.loop\n"}, "engine/loop.py", ["."]),
    "a module of a package": ({"main.py": "from core import trainer\n"}, "core/trainer.py", ["."]),
    "through the package's own names": (
        {"main.py": "import core\n", "core/__init__.py": "from .trainer import fit\n"},
        "core/trainer.py",
        ["."],
    ),
    "beside": ({"run/main.py": "from loop import fit\n"}, "run/loop.py", ["run"]),
    "two ways": (
        {"a.py": "import deep.core.t\n", "deep/b.py": "from core.t import fit\n"},
        "deep/core/t.py",
        [".", "deep"],
    ),
    "nobody": ({"main.py": "import json\n"}, "core/trainer.py", []),
    "a script that tests import too": (
        {"tests/test_train.py": "from scripts.train import main\n"},
        "scripts/train.py",
        ["."],
    ),
}


def project(folder: Path, files: dict[str, str], file: str, text: str) -> Path:
    for name, content in {**files, file: text}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    return folder / file


@pytest.mark.parametrize("name", PROJECTS)
def test_the_folders_are_those_that_imports_name_the_file_from(name: str, tmp_path: Path) -> None:
    files, file, expected = PROJECTS[name]
    path = project(tmp_path, files, file, "def fit():\n    pass\n")
    assert import_roots(path, Project(tmp_path)) == {tmp_path / folder for folder in expected}


LOOP = (
    "import logging\nlogging.basicConfig(filename='run.log')\nlog = logging.getLogger('t')\nlog.setLevel(20)\n"
    "def fit():\n    for x, y in loader:\n        STEP\n        log.info('%.4f', loss.item())  # fires\n"
)


@pytest.mark.programs
@pytest.mark.usefixtures("lean_programs")
@pytest.mark.parametrize(
    "files",
    [{"core/__init__.py": ""}, {}],
)
def test_a_patched_module_finds_its_helpers(files: dict[str, str], tmp_path: Path) -> None:
    main = "from core.trainer import fit\nfit()\nprint('done')\n"
    path = project(tmp_path, {"main.py": main, **files}, "core/trainer.py", script(LOOP))
    patch = patch_files(
        [tmp_path / "main.py", path], tmp_path, {"defer-read": 10}, PatchOptions(checked=True, lossy=False)
    )
    assert {file.path.relative_to(tmp_path).as_posix() for file in patch.files} >= {"core/tracelens_runtime.py"}
    for file in patch.files:
        file.path.write_bytes(file.after)
    ended = subprocess.run([sys.executable, "main.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout[-5:]) == (0, "done\n"), ended.stderr
