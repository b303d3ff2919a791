"""The project's other files: which of them a script reaches, and what their functions look at, print and call."""

from __future__ import annotations

from pathlib import Path

import pytest

from tracelens.patch.code import elsewhere
from tracelens.patch.code.elsewhere import Foreign, Functions
from tracelens.patch.code.outside import OUTPUT


def project(folder: Path, **files: str) -> Path:
    """A project of these files; the script is train.py. `sub__a` is sub/a.py."""
    for name, text in files.items():
        path = folder / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder / "train.py"


def reached_files(folder: Path, **files: str) -> list[str]:
    script = project(folder, **files)
    return [path.relative_to(folder).as_posix() for path in elsewhere.files(script, folder)]


# ---------------------------------------------------------------------------------------------------------- files


@pytest.mark.parametrize(
    ("imported", "files"),
    [
        ("import tools", ["tools.py"]),
        ("import sub.a", ["sub/a.py"]),
        ("from sub import a", ["sub/a.py"]),
        ("from sub.a import f", ["sub/a.py"]),
        ("def f():\n    import tools", ["tools.py"]),
        ("import torch", []),
        ("import train", []),
        ("import broken", ["broken.py"]),
    ],
)
def test_a_file_reaches_what_it_imports(imported: str, files: list[str], tmp_path: Path) -> None:
    assert reached_files(tmp_path, train=imported, tools="", sub__a="", broken="def (") == files


def test_imports_of_imports_are_followed_and_circles_end(tmp_path: Path) -> None:
    assert reached_files(tmp_path, train="import a", a="import b", b="import a\nimport train") == ["a.py", "b.py"]


def test_dots_count_from_the_importing_file(tmp_path: Path) -> None:
    files = {"train": "import sub.a", "sub__a": "from . import b\nfrom .. import c", "sub__b": "", "b": "", "c": ""}
    assert reached_files(tmp_path, **files) == ["sub/a.py", "sub/b.py", "c.py"]


def test_files_outside_of_the_project_are_not_its_own(tmp_path: Path) -> None:
    script = project(tmp_path, inner__train="import tools", tools="")
    assert script.name == "train.py"
    assert elsewhere.files(tmp_path / "inner" / "train.py", tmp_path / "inner") == ()


def test_the_started_script_hands_its_objects_to_other_files(tmp_path: Path) -> None:
    entry = project(tmp_path, train="import loop", loop="")
    assert elsewhere.files(tmp_path / "loop.py", tmp_path, entry) == (entry,)


# ------------------------------------------------------------------------------------------------------ functions


def the(name: str, functions: Functions) -> Foreign:
    (found,) = functions[name]
    return found


def functions(folder: Path, text: str) -> Functions:
    return elsewhere.functions(project(folder, train="import tools", tools=text), folder)


def test_what_a_function_looks_at_and_stores_into(tmp_path: Path) -> None:
    found = the("f", functions(tmp_path, "def f(self, x):\n    config.rate = self.total + x.grad\n"))
    assert found.looks == {"self.total", "*.grad", "*.rate"}
    assert found.settings == {"config"}
    assert found.uses == {"config"}


@pytest.mark.parametrize(
    ("line", "prints", "draws"),
    [
        ("print(x)", True, False),
        ("logger.info(x)", True, False),
        ("file.write(x)", True, False),
        ("y = random.random()", False, True),
        ("y = torch.rand(3)", False, True),
        ("y = x.sum()", False, False),
    ],
)
def test_whether_a_function_prints_or_draws(line: str, prints: bool, draws: bool, tmp_path: Path) -> None:
    found = the("f", functions(tmp_path, f"import random, torch\ndef f(x, file, logger):\n    {line}\n"))
    assert (OUTPUT in found.looks, found.draws) == (prints, draws)


def test_a_class_is_its_init_and_its_attributes_are_no_methods(tmp_path: Path) -> None:
    known = functions(tmp_path, "class Meter:\n    def __init__(self):\n        self.total = 0\n        print()\n")
    assert OUTPUT in the("Meter", known).looks
    assert known["self.total"] == ()


def test_functions_are_followed_through_one_another(tmp_path: Path) -> None:
    text = "def a(x):\n    b(x)\ndef b(x):\n    print(x.loss)\n    a(x)\ndef c(x):\n    x.seed = 1\n"
    found = elsewhere.reached(["a"], functions(tmp_path, text))
    assert {OUTPUT, "*.loss"} <= found.looks
    assert found.settings == set()


def test_a_method_of_some_object_is_not_surely_the_one_that_is_known(tmp_path: Path) -> None:
    text = "def a(x):\n    x.report()\ndef report(self):\n    print(self)\n"
    known = functions(tmp_path, text)
    assert OUTPUT in elsewhere.reached(["a"], known).looks
    assert OUTPUT not in elsewhere.reached(["a"], known, surely=True).looks
