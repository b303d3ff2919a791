"""The worked changes in CONTRIBUTING.md apply to the tree as it is, are small, and do what the page says of them."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.places import ROOT
from tracelens.edit_kinds import DEFINITIONS

PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
CHANGES = re.findall(r"^## (A[^\n]+)\n.*?^```diff\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
COPIED = ("tracelens", "rules", "docs", "tests", "pyproject.toml", "README.md", "CONTRIBUTING.md")
PROOFS = (
    "tests/findings/test_registry.py",
    "tests/findings/test_small_copies.py",
    "tests/rules/test_edit_kinds.py",
    "tests/patch/test_recipes.py",
    "tests/patch/test_unsafe.py",
    "tests/cli/test_csv.py",
    "tests/cli/test_renderers.py",
)
"""Run on a copy of the tree with all three changes made and the generated pages written."""


@dataclass(frozen=True)
class Addition:
    """Lines that a worked change adds to a file of the tree, directly below `anchor`."""

    path: str
    anchor: str


def apply(diff: str, folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Each part goes below the lines above it, wherever they are by now: what others add beside it does not matter."""
    command = ["git", "apply", "--unidiff-zero", *options, "-"]
    return subprocess.run(command, cwd=folder, input=diff, capture_output=True, text=True, check=False)


def additions(diff: str) -> list[Addition]:
    out = []
    for part in re.split(r"^diff --git ", diff, flags=re.MULTILINE)[1:]:
        if "new file mode" not in part:
            path = changed_files(part)[0]
            for hunk in re.split(r"^@@ .*\n", part, flags=re.MULTILINE)[1:]:
                lines = hunk.splitlines()
                signs = "".join(line[0] for line in lines)
                assert re.fullmatch(r" +[+]+", signs), f"{path}: a part is lines of the file, then what it adds below"
                out.append(Addition(path, "".join(f"{line[1:]}\n" for line in lines if line[0] == " ")))
    return out


def times_in_tree(addition: Addition) -> int:
    path = ROOT / addition.path
    return path.read_text(encoding="utf-8").count(addition.anchor) if path.is_file() else 0


def what_to_do(title: str, diff: str) -> str:
    """The sentences that a change of the tree asks for, where the example no longer goes with it."""
    told = [f'CONTRIBUTING.md, "## {title}":']
    for addition in additions(diff):
        if not times_in_tree(addition):
            told.append(f"{addition.path}: nowhere {addition.anchor!r}; put a line that it has above what is added")
    for name in re.findall(r"^diff --git a/(\S+) b/\S+\nnew file mode", diff, re.MULTILINE):
        if (ROOT / name).exists():
            told.append(f"{name} exists by now: give the example another name")
    return "\n  ".join(told)


def changed_files(diff: str) -> list[str]:
    return re.findall(r"^\+\+\+ b/(.+)$", diff, re.MULTILINE)


def test_there_is_a_detector_an_edit_kind_and_a_format() -> None:
    assert [title for title, _ in CHANGES] == ["A detector", "An Edit kind with its recipe", "An output format"]


@pytest.mark.parametrize(("title", "diff"), CHANGES, ids=[title for title, _ in CHANGES])
def test_a_worked_change_applies_and_takes_three_places_besides_its_test(title: str, diff: str) -> None:
    done = apply(diff, ROOT, "--check")
    assert done.returncode == 0, f"{what_to_do(title, diff)}\n{done.stderr}"
    assert [one for one in additions(diff) if times_in_tree(one) != 1] == [], f"{title}: put these below a unique line"
    places = {re.sub(r"^(rules/recipes/[^/]+)/.*", r"\1", name) for name in changed_files(diff)}
    assert len([name for name in places if not name.startswith("tests/")]) <= 3


@pytest.mark.parametrize(("title", "diff"), CHANGES, ids=[title for title, _ in CHANGES])
def test_a_worked_change_applies_where_others_have_added_lines_beside_it(title: str, diff: str, tmp_path: Path) -> None:
    for addition in additions(diff):
        path = tmp_path / addition.path
        path.parent.mkdir(parents=True, exist_ok=True)
        text = (path if path.exists() else ROOT / addition.path).read_text(encoding="utf-8")
        path.write_text(text.replace(addition.anchor, f"# another\n{addition.anchor}# a third\n"), encoding="utf-8")
    done = apply(diff, tmp_path)
    assert done.returncode == 0, f"{title}: {done.stderr}"
    for addition in additions(diff):
        assert f"# another\n{addition.anchor}# a third" not in (tmp_path / addition.path).read_text(encoding="utf-8")


def test_the_number_of_the_worked_kind_is_free() -> None:
    taken = {one.hunk: one.id for one in DEFINITIONS}
    number = int(re.findall(r"^\+        hunk=(\d+),$", PAGE, re.MULTILINE)[0])
    assert number not in taken, f"CONTRIBUTING.md: hunk={number} is {taken[number]} now; write one above {max(taken)}"


@pytest.mark.programs
def test_with_the_worked_changes_made_the_registries_are_complete(tmp_path: Path) -> None:
    # Bytecode goes along: it is that of the same files, and to compile the package takes longer than all the rest.
    skipped = shutil.ignore_patterns("_build", "images", "data", "golden", "corpus", "dynamic", "bench")
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, tmp_path / name, ignore=skipped)
        else:
            shutil.copyfile(source, tmp_path / name)
    for title, diff in CHANGES:
        done = apply(diff, tmp_path)
        assert done.returncode == 0, f"{title}: {done.stderr}"

    def run(*words: str) -> None:
        done = subprocess.run([sys.executable, *words], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    run("docs/generate.py", "commands", "patching", "rules")
    chosen = "small_copies or prefetch-factor or csv or table or detector or kind"
    run("-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", chosen, *PROOFS)
