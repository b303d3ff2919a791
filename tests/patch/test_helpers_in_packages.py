"""Helpers lie where the patched file finds them: in its package, where they are found after an install, too, or beside
it, however it is loaded."""

from __future__ import annotations

import os
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
}
EITHER = [
    "if __package__:",
    "    from . import tracelens_runtime",
    "else:  # this file was not loaded as a part of a package",
    "    import tracelens_runtime",
]
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
@pytest.mark.parametrize("imports", ["", *(imports for imports, _, _ in FORMS.values())])
def test_it_runs_from_the_started_script_and_where_the_package_alone_is_installed(imports: str, tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    write(every_place(tmp_path / "source", project(tmp_path / "source", imports)))
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


def imports_both_ways(patch: Patch, name: str = MODULE) -> bool:
    lines = next(one.after for one in patch.files if one.path == patch.root / name).decode().splitlines()
    at = lines.index(EITHER[1]) - 1
    return lines[at : at + 4] == EITHER and helper_places(patch) == [
        Path(name).with_name("tracelens_runtime.py").as_posix()
    ]


@pytest.mark.parametrize("form", NOT_SHOWN)
def test_an_import_that_may_not_run_shows_nothing(form: str, tmp_path: Path) -> None:
    path = project(tmp_path, NOT_SHOWN[form])
    assert imports_both_ways(every_place(tmp_path, path))
    (tmp_path / "main.py").write_text("print('done')\n")
    assert imports_both_ways(every_place(tmp_path, path)), "nor does it where nobody imports the module"


def test_a_folder_that_is_no_package_has_them_above_it_as_before(tmp_path: Path) -> None:
    files = {name: text for name, text in PACKAGE.items() if "__init__" not in name}
    path = project(tmp_path, "from lib.base import VALUE\n", files)
    assert helper_places(every_place(tmp_path, path)) == ["tracelens_runtime.py"]


def test_a_module_that_is_imported_in_two_ways_finds_them_in_both(tmp_path: Path) -> None:
    project(tmp_path, "", {**PACKAGE, "lib/train/run.py": "import trainer\n"})
    for patch in (of_a_run(tmp_path), every_place(tmp_path, tmp_path / MODULE)):
        assert imports_both_ways(patch)


def test_the_started_script_finds_them_beside_it(tmp_path: Path) -> None:
    """`python lib/train/trainer.py`: `lib` may be an installed copy without them."""
    project(tmp_path, "from lib.base import VALUE\n")
    (tmp_path / "main.py").unlink()
    assert imports_both_ways(of_a_run(tmp_path, script=MODULE))


def test_a_script_that_nobody_imports_has_them_beside_it_and_nothing_else_to_try(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(module("") + GUARD)
    for patch in (of_a_run(tmp_path, "train.py", script="train.py"), every_place(tmp_path, tmp_path / "train.py")):
        assert b"from . import" not in patch.files[0].after and helper_places(patch) == ["tracelens_runtime.py"]


STARTED = {
    "its imports show a folder above": (
        {"common/meters.py": "Avg = 1\n"},
        "tools/train.py",
        "from common.meters import Avg\n",
    ),
    "it is imported from there": ({"go.py": "from tools import train\n"}, "tools/train.py", ""),
    "a text names it": ({"go.py": "import importlib\nimportlib.import_module('tools.train')\n"}, "tools/train.py", ""),
    "it lies in a package": ({"core/__init__.py": ""}, "core/train.py", ""),
    "tests import it by the package's name": (
        {"__init__.py": "", "tests/__init__.py": "", "tests/test_train.py": "from ..train import fit\n"},
        "train.py",
        "",
    ),
}
"""Whether these are modules of a package depends on how they are started."""


@pytest.mark.programs
@pytest.mark.usefixtures("lean_programs")
@pytest.mark.parametrize("how", STARTED)
def test_it_is_found_however_the_file_is_loaded(how: str, tmp_path: Path) -> None:
    files, name, imports = STARTED[how]
    root = tmp_path / "project"
    for file, content in {**files, name: module(imports) + GUARD}.items():
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).write_text(content)
    patch = every_place(root, root / name)
    assert {hunk.tier for hunk in patch.hunks} == {"safe"} and imports_both_ways(patch, name)
    write(patch)
    whole = ".".join(("project", *Path(name).with_suffix("").parts))
    ways = [(tmp_path, whole), (root, whole.partition(".")[2]), ((root / name).parent, Path(name).stem)]
    for folder, as_module in ways[: 2 if imports else 3]:
        path = [str(folder), *([str(root)] if imports else [])]
        program = f"import sys\nsys.path[:0] = {path!r}\nimport {as_module} as it\nit.fit()\nprint('done')\n"
        ended = subprocess.run(
            [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert (ended.returncode, ended.stdout[-5:]) == (0, "done\n"), ended.stderr
    ended = subprocess.run(
        [sys.executable, root / name],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(root)},
    )
    assert (ended.returncode, ended.stdout[-4:]) == (0, "end\n"), ended.stderr


BY_PATH = (
    "import runpy\nrunpy.run_path('tools/train.py')\n",
    "import os, runpy\nrunpy.run_path(os.path.join('tools', 'train.py'))\n",
    "import sys\nfrom importlib.util import *\nmodule_from_spec(spec_from_file_location('config', sys.argv[1]))\n",
)


@pytest.mark.parametrize("main", BY_PATH)
def test_a_file_that_may_be_run_by_its_path_is_not_proved_to_find_them(main: str, tmp_path: Path) -> None:
    """So it is no part of a package, and Python does not look beside it."""
    files = {"tools/train.py": module("") + GUARD, "main.py": main}
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    patch = every_place(tmp_path, tmp_path / "tools/train.py")
    assert {hunk.tier for hunk in patch.hunks} == {"checked"}
    assert (
        "whether Python looks for modules in `tools/`, where the helpers lie, is not known" in patch.hunks[0].unproved
    )


@pytest.mark.parametrize("name", ["tests/test_fit.py", "fit_test.py", "tests/conftest.py"])
def test_files_of_pytest_may_be_run_by_their_paths(name: str, tmp_path: Path) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(module(""))
    assert {hunk.tier for hunk in every_place(tmp_path, tmp_path / name).hunks} == {"checked"}


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


@pytest.mark.parametrize("imports", ["from lib.base import VALUE\n", ""])
def test_a_package_that_was_patched_is_judged_as_before(imports: str, tmp_path: Path) -> None:
    """Another loop of the module, with the helpers of the first one in the package."""
    second = LOOP.replace("fit", "again").replace("# fires", "# later")
    path = project(tmp_path, imports)
    path.write_text(module(imports) + second.replace("STEP", "loss = criterion(model(x), y)"))
    alone = of_a_run(tmp_path, mark="# later")
    write(of_a_run(tmp_path))
    after = of_a_run(tmp_path, mark="# later")
    assert [hunk.tier for hunk in alone.hunks] == [hunk.tier for hunk in after.hunks] == ["safe"]
    assert helper_places(after) == []
