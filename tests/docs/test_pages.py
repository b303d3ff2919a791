"""README and docs say what the program does: printed parts are its own words, commands exist, links lead somewhere,
the site builds without a warning, and the workflow for CI is one that GitHub accepts and whose commands run here."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from importlib.resources import files
from pathlib import Path
from types import ModuleType
from typing import Any

import jsonschema
import pytest
import yaml

import tracelens
from tests.support import run_cases as cases
from tests.support.places import ROOT
from tracelens import cli

DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), ROOT / "sample_traces" / "README.md", *DOCS.rglob("*.md")])
COMMAND = re.compile(
    r"^\s*(?:\$ |next: |run: |→ next command: )?tracelens ([a-z]+)\b(?! loop\b)(.*?)(?:\s{2,}.*)?$", re.MULTILINE
)
LINK = re.compile(r"\]\((?!https?:|#)([^)#]+)(?:#[^)]*)?\)")
AGAIN = "run: python docs/generate.py"


def commands() -> list[tuple[str, str, str]]:
    return [
        (page.name, name, rest) for page in PAGES for name, rest in COMMAND.findall(page.read_text(encoding="utf-8"))
    ]


def test_there_are_commands_to_check() -> None:
    found = {name for _, name, _ in commands()}
    assert {"profile", "recommend", "report", "apply", "verify", "check", "compare", "doctor"} <= found


@pytest.mark.parametrize(("page", "name", "rest"), sorted(set(commands())))
def test_a_command_line_in_the_docs_exists(page: str, name: str, rest: str) -> None:
    assert name in cli.root.commands, f"{page}: tracelens {name}"
    known = {option for parameter in cli.root.commands[name].params for option in parameter.opts} | {"--help"}
    own = re.split(r"\.py| -- |-m \S+", rest, maxsplit=1)[0] if name in ("profile", "try") else rest  # the script's
    own = own.partition(" -- ")[0] if name == "fix" else own
    own = re.split(r"\s(?:[|#]|>>?)\s", own, maxsplit=1)[0]
    used = [word for word in shlex.split(own.replace("'", "")) if re.match(r"-{1,2}[a-z]", word)]
    assert [word for word in used if word.split("=")[0] not in known] == [], f"{page}: tracelens {name} {rest}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page: Path) -> None:
    missing = [link for link in LINK.findall(page.read_text(encoding="utf-8")) if not (page.parent / link).exists()]
    assert missing == []


def test_the_readme_has_two_commands_for_set_up() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    first = re.search(r"```\n(.*?)```", text, re.DOTALL)
    assert first is not None
    assert re.findall(r"^make \w+", first[1], re.MULTILINE) == ["make demo", "make test"]


# -------------------------------------------------------------------------------------------------- what is generated


@pytest.fixture(scope="module")
def generate() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate", DOCS / "generate.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def fresh(generate: ModuleType) -> dict[Path, str]:
    pages: dict[Path, str] = generate.pages()
    return pages


@pytest.mark.programs
@pytest.mark.parametrize("name", ["docs/rules.md", "docs/commands.md", "docs/patching.md", "docs/tour.md", "README.md"])
def test_what_the_program_prints_stands_in_the_page_as_it_prints_it(name: str, fresh: dict[Path, str]) -> None:
    assert (ROOT / name).read_text(encoding="utf-8") == fresh[ROOT / name], AGAIN


@pytest.mark.slow
def test_the_template_of_the_catalogue_has_every_sentence(generate: ModuleType) -> None:
    (path, text), *_ = generate.pages(["catalogue"]).items()
    assert path.read_text(encoding="utf-8") == text, f"{AGAIN} catalogue"


@pytest.mark.programs
def test_a_page_is_generated_by_its_name_and_an_unknown_name_is_refused(
    generate: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    assert list(generate.pages(["commands"])) == [DOCS / "commands.md"]
    assert generate.main(["commands", "definitions"]) == 2
    assert "no such page: definitions" in capsys.readouterr().err


def test_the_changelog_has_the_form_of_keep_a_changelog() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    headings = re.findall(r"^(##+) (.+)$", text, re.MULTILINE)
    versions = [title for marks, title in headings if marks == "##"]
    assert versions[0] == "[Unreleased]"
    assert all(re.fullmatch(r"\[\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d", title) for title in versions[1:])
    kinds = {title for marks, title in headings if marks == "###"}
    assert kinds <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


@pytest.mark.programs
def test_the_reference_has_every_command_and_every_rule(fresh: dict[Path, str]) -> None:
    reference = fresh[DOCS / "commands.md"]
    assert re.findall(r"^## ([a-z]+)$", reference, re.MULTILINE) == list(cli.root.commands)
    command = [sys.executable, "-m", "tracelens", "rules", "--format", "json"]
    rules = json.loads(subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout)
    for kind in ("schemes", "findings", "edits"):
        for rule in rules[kind]:
            assert f"`{rule['id']}`: " in fresh[DOCS / "rules.md"]


@pytest.mark.programs
def test_the_excerpt_in_the_readme_is_in_the_tour(generate: ModuleType, fresh: dict[Path, str]) -> None:
    excerpt = fresh[ROOT / "README.md"].partition("<!-- tour:begin -->")[2].partition("<!-- tour:end -->")[0]
    tour = set(fresh[DOCS / "tour.md"].splitlines())
    shown = [
        line for line in excerpt.splitlines() if line.strip() and not line.startswith("```") and line != "  …"
    ]  # its commands too: another one would not have said this
    assert len(shown) > 20 and [line for line in shown if line not in tour] == []


def test_the_page_in_the_quick_start_that_says_what_a_command_does_is_not_out_of_order() -> None:
    """The quick start follows the order of the work."""
    text = (DOCS / "quickstart.md").read_text(encoding="utf-8")
    firsts = [text.index(f"tracelens {name}") for name in ("doctor", "profile", "analyze", "apply --dry-run", "check")]
    assert firsts == sorted(firsts)


# ----------------------------------------------------------------------------------------------------------- the site


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("site")
    options = ["-W", "--keep-going", "-E", "-q", "-d", str(out / "trees")]
    # A third of the time goes to searches for garbage among the pages' nodes, which are needed to the end.
    build = "import gc; gc.disable(); from sphinx.cmd.build import main; raise SystemExit(main())"
    command = [sys.executable, "-c", build, *options, str(DOCS), str(out / "html")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return out / "html"


@pytest.mark.programs
def test_every_page_is_in_the_site_and_in_its_table_of_contents(site: Path) -> None:
    index = (site / "index.html").read_text(encoding="utf-8")
    for page in DOCS.rglob("*.md"):
        name = page.relative_to(DOCS).with_suffix(".html").as_posix()
        assert (site / name).is_file()
        assert name == "index.html" or f'href="{name}"' in index, name


@pytest.mark.programs
def test_the_api_page_documents_every_public_name(site: Path) -> None:
    text = (site / "api.html").read_text(encoding="utf-8")
    for name in tracelens.__all__:
        assert name.startswith("_") or f'id="tracelens.{name}"' in text, name
    assert 'id="tracelens.model.Diagnosis"' in text and 'id="tracelens.pipeline.plan"' in text


@pytest.mark.programs
def test_links_between_pages_of_the_site_lead_somewhere(site: Path) -> None:
    missing = []
    for page in site.rglob("*.html"):
        for target in re.findall(r'href="([^"#:?]+\.html)(?:#[^"]*)?"', page.read_text(encoding="utf-8")):
            if not (page.parent / target).exists():
                missing.append(f"{page.name}: {target}")
    assert missing == []


# ------------------------------------------------------------------------------------------------------- the workflow


@pytest.fixture(scope="module")
def workflow() -> dict[Any, Any]:
    text = (DOCS / "ci.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```yaml\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    value: dict[Any, Any] = yaml.safe_load(block)
    return value


def test_the_workflow_is_one_that_github_accepts(workflow: dict[Any, Any]) -> None:
    """Held against SchemaStore's schema of GitHub workflows, as the package check-jsonschema ships it."""
    text = (
        files("check_jsonschema")
        .joinpath("builtin_schemas", "vendor", "github-workflows.json")
        .read_text(encoding="utf-8")
    )
    document = {("on" if key is True else key): value for key, value in workflow.items()}  # YAML 1.1 reads `on` as true
    jsonschema.Draft7Validator(json.loads(text)).validate(document)
    broken = {**document, "jobs": {"x": {"steps": [{"run": 3}]}}}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft7Validator(json.loads(text)).validate(broken)


def test_evidence_is_uploaded_also_when_the_gate_failed(workflow: dict[Any, Any]) -> None:
    steps = workflow["jobs"]["record"]["steps"]
    gate = next(k for k, step in enumerate(steps) if "tracelens check" in step.get("run", ""))
    assert len(steps) > gate + 3 and all(step.get("if") == "always()" for step in steps[gate + 1 :])
    kept = steps[-1]["with"]["path"].split()
    assert {Path(path).name for path in kept} == {"report.html", "check.json", "analysis.json"}


@pytest.mark.programs
def test_the_steps_without_a_gpu_run_here_as_they_are_written(workflow: dict[Any, Any], tmp_path: Path) -> None:
    """The second job's own shell lines, on a repository with a committed run and its baseline."""
    recorded = cases.recorded(tmp_path)
    (tmp_path / "ci").mkdir()
    shutil.move(recorded, tmp_path / "ci" / "run")
    meta = json.loads((tmp_path / "ci" / "run" / "run.json").read_text())
    (tmp_path / "ci" / "run" / "run.json").write_text(json.dumps(meta))
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    tool = tmp_path / "bin" / "tracelens"
    tool.parent.mkdir()
    tool.write_text(f'#!/bin/sh\nexec {sys.executable} -m tracelens "$@"\n')
    tool.chmod(0o755)
    summary = tmp_path / "summary.md"
    environment = {
        **os.environ, "PATH": f"{tool.parent}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT), "NO_COLOR": "1",
        "GITHUB_STEP_SUMMARY": str(summary),
    }  # fmt: skip

    def shell(line: str) -> subprocess.CompletedProcess[str]:
        command = ["bash", "-e", "-o", "pipefail", "-c", line]
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)

    assert shell("tracelens analyze ci/run --format json > ci/baseline.json").returncode == 0
    lines = [step["run"] for step in workflow["jobs"]["committed-run"]["steps"] if "tracelens " in step.get("run", "")]
    assert len(lines) == 3
    for line in lines:
        done = shell(line)
        assert done.returncode == 0, done.stderr
    assert summary.read_text().count("# TraceLens") >= 2 and "Implementation record" in summary.read_text()
    gate = shell("tracelens check ci/run --baseline ci/baseline.json --max-syncs-per-step 1 --format github")
    assert gate.returncode == 1 and gate.stdout.startswith("::error title=TraceLens::The gate fails")
