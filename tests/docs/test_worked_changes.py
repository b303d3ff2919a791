"""The worked changes in CONTRIBUTING.md apply to the tree as it is, are small, and do what the page says of them."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.places import ROOT

PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
CHANGES = re.findall(r"^## (A[^\n]+)\n.*?^```diff\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
COPIED = ("tracelens", "rules", "docs", "tests", "pyproject.toml", "README.md", "CONTRIBUTING.md")
PROOFS = (
    "tests/findings/test_registry.py",
    "tests/findings/test_small_copies.py",
    "tests/rules/test_edit_kinds.py",
    "tests/patch/test_recipes.py",
    "tests/cli/test_csv.py",
    "tests/cli/test_renderers.py",
)
"""Run on a copy of the tree with all three changes made and the generated pages written."""


def apply(diff: str, folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = ["git", "apply", *options, "-"]
    return subprocess.run(command, cwd=folder, input=diff, capture_output=True, text=True, check=False)


def changed_files(diff: str) -> list[str]:
    return re.findall(r"^\+\+\+ b/(.+)$", diff, re.MULTILINE)


def test_there_is_a_detector_an_edit_kind_and_a_format() -> None:
    assert [title for title, _ in CHANGES] == ["A detector", "An Edit kind with its recipe", "An output format"]


@pytest.mark.parametrize(("title", "diff"), CHANGES, ids=[title for title, _ in CHANGES])
def test_a_worked_change_applies_and_takes_three_places_besides_its_test(title: str, diff: str) -> None:
    done = apply(diff, ROOT, "--check")
    assert done.returncode == 0, f"{title}: make the change again and paste its diff: {done.stderr}"
    places = {re.sub(r"^(rules/recipes/[^/]+)/.*", r"\1", name) for name in changed_files(diff)}
    assert len([name for name in places if not name.startswith("tests/")]) <= 3


@pytest.mark.programs
def test_with_the_worked_changes_made_the_registries_are_complete(tmp_path: Path) -> None:
    skipped = shutil.ignore_patterns("__pycache__", "_build", "images", "data", "golden", "corpus", "dynamic", "bench")
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
