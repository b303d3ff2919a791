"""What contributors are given: GitHub accepts the forms and the workflow, decisions have their form, hooks exist."""

from __future__ import annotations

import json
import os
import re
import shlex
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from tests.support.places import ROOT

DECISIONS = sorted((ROOT / "docs" / "decisions").glob("*.md"))
FORMS = [path for path in sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml")) if path.stem != "config"]


def schema(name: str) -> dict[str, Any]:
    """SchemaStore's schema, as the package check-jsonschema ships it."""
    path = files("check_jsonschema").joinpath("builtin_schemas", "vendor", f"{name}.json")
    value: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return value


def document(path: Path) -> Any:
    value = yaml.safe_load(path.read_text(encoding="utf-8"))
    return {("on" if key is True else key): item for key, item in value.items()}  # YAML 1.1 reads `on` as true


def test_the_workflow_is_accepted_by_github_and_runs_what_everybody_runs() -> None:
    workflow = document(ROOT / ".github" / "workflows" / "ci.yml")
    jsonschema.Draft7Validator(schema("github-workflows")).validate(workflow)
    steps = workflow["jobs"]["test"]["steps"]
    assert [step["run"] for step in steps if "run" in step] == [".ci/run"]
    assert os.access(ROOT / ".ci" / "run", os.X_OK)


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_an_issue_form_is_accepted_by_github(path: Path) -> None:
    jsonschema.Draft7Validator(schema("github-issue-forms")).validate(document(path))


def test_the_choice_of_issue_forms_is_accepted_by_github() -> None:
    config = document(ROOT / ".github" / "ISSUE_TEMPLATE" / "config.yml")
    jsonschema.Draft7Validator(schema("github-issue-config")).validate(config)
    assert len(FORMS) >= 2


def test_the_hooks_before_a_commit_are_tools_of_the_virtual_environment() -> None:
    """The tools themselves are installed by `make test-tools`, so each of them is a dependency for tests."""
    (repository,) = document(ROOT / ".pre-commit-config.yaml")["repos"]
    assert repository["repo"] == "local"
    tools = [Path(shlex.split(hook["entry"])[0]) for hook in repository["hooks"]]
    assert all(tool.parts[:2] == (".venv", "bin") for tool in tools)
    declared = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    package = {"lint-imports": "import-linter"}
    assert [tool.name for tool in tools if f'"{package.get(tool.name, tool.name)}>=' not in declared] == []


@pytest.mark.parametrize("path", DECISIONS, ids=lambda path: path.stem)
def test_a_decision_has_its_number_and_says_context_decision_and_consequence(path: Path) -> None:
    number = DECISIONS.index(path) + 1
    text = path.read_text(encoding="utf-8")
    assert path.name.startswith(f"{number:04d}-")
    assert text.startswith(f"# {number}. ")
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == ["Context", "Decision", "Consequence"]


def test_files_and_folders_that_a_decision_or_the_map_names_exist() -> None:
    """`name.py` and `folder/` may be given with as much of their path as a reader needs."""
    generated = {"tracelens_runtime.py"}
    paths = [
        path.relative_to(ROOT).as_posix()
        for top in ("tracelens", "rules", "docs", "tests")
        for path in (ROOT / top).rglob("*")
    ]
    missing = []
    for page in (*DECISIONS, ROOT / "docs" / "architecture.md"):
        for name in re.findall(r"`([a-z_]+(?:/[a-z_]+)*(?:\.py|/))`", page.read_text(encoding="utf-8")):
            known = any(f"/{path}".endswith(f"/{name.rstrip('/')}") for path in paths)
            if not known and name not in generated and not (ROOT / name).exists():
                missing.append(f"{page.name}: {name}")
    assert missing == []
