"""What is shipped: the wheel alone finds its rules, and the packages of the card are declared, pinned and used."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from tests.support.places import ROOT


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    return next(out.glob("tracelens_torch-*.whl"))


@pytest.mark.programs
def test_the_wheel_carries_rules_template_and_licence(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert "tracelens/rules/weights.yaml" in names
    assert "tracelens/launch/bootstrap/sitecustomize.py" in names
    assert any(name.endswith("report/template.html") for name in names)
    parts = {Path(name).name for name in names if "report/parts/" in name}
    assert {"answer.html", "timeline.html", "macros.html", "card.svg"} <= parts
    assert any(name.endswith("report/assets/timeline.js") for name in names)
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert not [name for name in names if name.startswith(("tests/", "sample_traces/"))]


@pytest.mark.programs
def test_the_installed_wheel_lists_its_rules(wheel: Path, tmp_path: Path) -> None:
    """An empty venv that sees this one's dependencies but not its `tracelens`: only the wheel can bring the rules."""
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True, timeout=120)
    python = venv / "bin" / "python"
    install = [sys.executable, "-m", "pip", "--python", str(python), "install", "-qq", "--no-deps", "--no-index"]
    subprocess.run([*install, str(wheel)], check=True, timeout=120)
    dependencies = next(path for path in sys.path if path.endswith("site-packages"))
    site = next((venv / "lib").glob("python*/site-packages"))
    (site / "zz_dependencies.pth").write_text(f"{dependencies}\n")  # a plain path line: the editable hook is not run
    listed = subprocess.run(
        [str(python), "-m", "tracelens", "rules", "--format", "json"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert listed.returncode == 0, listed.stderr
    ids = json.dumps(json.loads(listed.stdout))
    for scheme in ("more-streams", "event-sync", "interval-sync", "event-interval", "full-pipeline", "pinned-copy"):
        assert scheme in ids


def test_the_packages_of_the_card_are_declared_and_used() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    names = {line.split(">")[0].split("=")[0].lower() for line in declared}
    assert {"torch", "holistictraceanalysis", "pandas", "click", "jinja2", "nvidia-ml-py"} <= names
    source = "\n".join(path.read_text() for path in (ROOT / "tracelens").rglob("*.py"))
    for module in ("torch", "hta", "pandas", "click", "jinja2", "pynvml"):
        assert f"import {module}" in source or f"from {module}" in source, f"{module} is declared and never used"


def test_every_dependency_is_pinned_for_make() -> None:
    pinned = {
        line.split("==")[0].lower() for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line
    }
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = project["dependencies"] + project["optional-dependencies"]["test"]
    names = {line.split(">")[0].split("=")[0].lower() for line in wanted}
    assert names <= pinned
    assert "torch==2.13.0" in (ROOT / "constraints.txt").read_text()
