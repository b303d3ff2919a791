"""A module of a package brings its helpers into that package, where they are found after an install, too."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.patching import fired, script
from tracelens.model import Edit, Patch
from tracelens.patch.every_place import patch_files
from tracelens.patch.recipes import PatchOptions, make

LOOP = """
def fit():
    for step, (x, y) in enumerate(loader):
        STEP
        print(step, loss.item())  # fires
    else:
        print("end")
"""
"""A loop with an `else` needs the runtime."""
MAIN = "from lib.train.trainer import fit\nfit()\nprint('done')\n"
BASE = "VALUE = 1\n"
PACKAGE = {"main.py": MAIN, "lib/__init__.py": "", "lib/base.py": BASE, "lib/train/__init__.py": ""}
MODULE = "lib/train/trainer.py"
FORMS = {
    "its package's name": ("from lib.base import VALUE\n", "lib", "from lib import tracelens_runtime"),
    "its package's name, dotted": ("import lib.base\n", "lib", "from lib import tracelens_runtime"),
    "up": ("from ..base import VALUE\n", "lib", "from .. import tracelens_runtime"),
    "beside": ("from . import other\n", "lib/train", "from . import tracelens_runtime"),
    "nothing": ("", "lib/train", "from . import tracelens_runtime"),
}
GUARD = "if __name__ == '__main__':\n    fit()\n"
NOT_SHOWN = {
    "perhaps": "try:\n    from .other import x\nexcept ImportError:\n    x = 1\n",
    "in a function": "def later():\n    from . import other\n",
}


def project(folder: Path, imports: str, files: dict[str, str] = PACKAGE) -> Path:
    for name, content in {**files, "lib/train/other.py": "x = 1\n", MODULE: module(imports)}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    return folder / MODULE


def module(imports: str) -> str:
    return script(LOOP).replace("import torch\n", f"import torch\n{imports}", 1)


def every_place(folder: Path, path: Path) -> Patch:
    return patch_files([path], folder, {"defer-read": 10}, PatchOptions(checked=True))


def reads(folder: Path, *names: str, mark: str = "# fires") -> tuple[Edit, ...]:
    places = [place for name in names for place in fired((folder / name).read_text(), mark, name)]
    return (Edit("defer-read", locations=tuple(places), interval=10),)


def of_a_run(folder: Path, *names: str, script: str = "main.py", mark: str = "# fires") -> Patch:
    edits = reads(folder, *(names or (MODULE,)), mark=mark)
    return make(folder, folder / script, edits, (), PatchOptions(checked=True, lossy=False))


def helper_places(patch: Patch) -> list[str]:
    return [one.path.relative_to(patch.root).as_posix() for one in patch.files if one.path.stem == "tracelens_runtime"]


def patched(patch: Patch) -> list[str]:
    return next(one.after for one in patch.files if one.path.name == "trainer.py").decode().splitlines()


def write(patch: Patch) -> None:
    for one in patch.files:
        one.path.write_bytes(one.after)


@pytest.mark.parametrize("form", FORMS)
def test_the_helpers_lie_in_the_package_and_are_imported_from_it(form: str, tmp_path: Path) -> None:
    imports, folder, line = FORMS[form]
    path = project(tmp_path, imports)
    for patch in (every_place(tmp_path, path), of_a_run(tmp_path)):
        assert helper_places(patch) == [f"{folder}/tracelens_runtime.py"]
        assert [text for text in patched(patch) if "import tracelens_runtime" in text] == [line]


@pytest.mark.programs
@pytest.mark.usefixtures("lean_programs")
@pytest.mark.parametrize("form", FORMS)
def test_it_runs_from_the_started_script_and_where_the_package_alone_is_installed(form: str, tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    write(every_place(tmp_path / "source", project(tmp_path / "source", FORMS[form][0])))
    site = tmp_path / "site-packages"
    shutil.copytree(tmp_path / "source/lib", site / "lib")
    installed = tmp_path / "elsewhere/main.py"
    installed.parent.mkdir()
    installed.write_text(f"import sys\nsys.path.append({str(site)!r})\n{MAIN}")
    for main in (tmp_path / "source/main.py", installed):
        ended = subprocess.run(
            [sys.executable, main.name], cwd=main.parent, capture_output=True, text=True, check=False
        )
        assert (ended.returncode, ended.stdout[-5:]) == (0, "done\n"), ended.stderr


@pytest.mark.parametrize("form", NOT_SHOWN)
def test_an_import_that_may_not_run_shows_nothing(form: str, tmp_path: Path) -> None:
    """Who imports the module does: but for that it may be a script."""
    path = project(tmp_path, NOT_SHOWN[form])
    (tmp_path / "main.py").write_text("print('done')\n")
    assert "import tracelens_runtime" in patched(every_place(tmp_path, path))


def test_a_folder_that_is_no_package_has_them_above_it_as_before(tmp_path: Path) -> None:
    files = {name: text for name, text in PACKAGE.items() if "__init__" not in name}
    path = project(tmp_path, "from lib.base import VALUE\n", files)
    assert helper_places(every_place(tmp_path, path)) == ["tracelens_runtime.py"]


def test_a_module_that_is_imported_by_its_own_name_too_has_them_beside_the_script(tmp_path: Path) -> None:
    project(tmp_path, "", {**PACKAGE, "lib/train/run.py": "import trainer\n"})
    patch = of_a_run(tmp_path)
    assert helper_places(patch) == ["tracelens_runtime.py"]
    assert "import tracelens_runtime" in patched(patch)


def test_the_started_script_finds_them_beside_it(tmp_path: Path) -> None:
    """`python lib/train/trainer.py`: `lib` may be an installed copy without them."""
    project(tmp_path, "from lib.base import VALUE\n")
    (tmp_path / "main.py").unlink()
    patch = of_a_run(tmp_path, script=MODULE)
    assert helper_places(patch) == ["lib/train/tracelens_runtime.py"]
    assert "import tracelens_runtime" in patched(patch)


STARTED_FROM_ABOVE = {
    "its imports show it": ("from common.meters import Avg\n", ""),
    "it is imported from there": ("", "def go():\n    from tools import train\n    train.fit()\ngo()\n"),
    "a text names it": ("", "import importlib\nimportlib.import_module('tools.train').fit()\n"),
    "a text names its file": ("", "import runpy\nrunpy.run_path('tools/train.py')\n"),
}


@pytest.mark.parametrize("how", STARTED_FROM_ABOVE)
def test_where_python_may_not_look_beside_the_file_its_helpers_are_not_proved(how: str, tmp_path: Path) -> None:
    """`python -m tools.train`: an import that is not found would end the training before it begins."""
    imports, main = STARTED_FROM_ABOVE[how]
    files = {"common/meters.py": "Avg = 1\n", "tools/train.py": module(imports) + GUARD, "main.py": main}
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    patch = every_place(tmp_path, tmp_path / "tools/train.py")
    assert {hunk.tier for hunk in patch.hunks} == {"checked"}
    assert (
        "whether Python looks for modules in `tools/`, where the helpers lie, is not known" in patch.hunks[0].unproved
    )


def test_files_of_several_places_share_one_beside_the_script(tmp_path: Path) -> None:
    """Helpers of two copies would not know of each other's loops when a signal comes."""
    project(tmp_path, "from lib.base import VALUE\n")
    (tmp_path / "main.py").write_text(script(LOOP) + MAIN)
    patch = of_a_run(tmp_path, MODULE, "main.py")
    assert helper_places(patch) == ["tracelens_runtime.py"]
    assert "import tracelens_runtime" in patched(patch)


def test_the_import_stands_beside_the_one_that_shows_the_package(tmp_path: Path) -> None:
    """What is set before it, as a path, is set before ours."""
    path = project(tmp_path, "import sys\nsys.path.insert(0, '.')\nfrom lib.base import VALUE\n")
    lines = patched(every_place(tmp_path, path))
    assert lines.index("sys.path.insert(0, '.')") + 1 == lines.index("from lib import tracelens_runtime")


def test_a_package_that_was_patched_is_judged_as_before(tmp_path: Path) -> None:
    """Another loop of the module, with the helpers of the first one in the package."""
    second = LOOP.replace("fit", "again").replace("# fires", "# later")
    path = project(tmp_path, "from lib.base import VALUE\n")
    path.write_text(module("from lib.base import VALUE\n") + second.replace("STEP", "loss = criterion(model(x), y)"))
    alone = of_a_run(tmp_path, mark="# later")
    write(of_a_run(tmp_path))
    after = of_a_run(tmp_path, mark="# later")
    assert [hunk.tier for hunk in alone.hunks] == [hunk.tier for hunk in after.hunks] == ["safe"]
    assert helper_places(after) == []
