"""The registry of detectors: every table that names detectors covers each of them, and one more takes three files."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.analyzing import analyzed
from tests.support.builders import Machine
from tests.support.sources import MODULES, tree_of
from tracelens.findings import DETECTORS, AnalyzedRank, Detector, detect
from tracelens.findings.detector import NEGLIGIBLE_SHARE
from tracelens.model import Abstention, Finding, Timeline
from tracelens.report import html
from tracelens.schemes import rules
from tracelens.trace import timeline

ROOT = Path(__file__).parents[2]
SMALL_BYTES = 4 << 10
IDS = [detector.id for detector in DETECTORS]


def ten_small_copies_per_step() -> Timeline:
    machine = Machine()
    for number in range(6):
        with machine.step(number):
            for _ in range(10):
                machine.copy("h2d", "pinned", 5, nbytes=SMALL_BYTES)
            machine.launch("gemm", 300)
            machine.synchronize()
    return timeline.build(machine.trace())


def small_copies(rank: AnalyzedRank) -> tuple[Finding, ...] | Abstention:
    """A detector as somebody might add it: five or more small copies per step."""
    ops = rank.timeline.ops()
    small = ops[(ops["kind"] == "copy") & (ops["bytes"] <= SMALL_BYTES)]
    per_step = len(small) / rank.steps.count
    cost_ns = round((small["end_ns"] - small["start_ns"]).sum() / rank.steps.count)
    if per_step < 5:
        return ()
    return (rank.finding("small_copies", "Many small copies", cost_ns, f"{per_step:.0f} copies per step"),)


SMALL_COPIES = Detector(id="small_copies", passed="Few or no small copies", detect=small_copies)


def costing(share: float) -> Detector:
    """A detector whose one Finding costs a share of the step."""

    def found(rank: AnalyzedRank) -> tuple[Finding, ...]:
        return (rank.finding("costly", "It costs", round(share * rank.steps.median_ns), "by construction"),)

    return Detector(id="costly", passed="It costs nothing", detect=found)


# ------------------------------------------------------------------------------------------------ passed or not


def test_a_symptom_that_is_there_is_not_reported_as_passed() -> None:
    detected = detect(analyzed(ten_small_copies_per_step()), (SMALL_COPIES,))
    assert [finding.id for finding in detected.findings] == ["small_copies"]
    assert detected.passed == ()


def test_a_symptom_that_is_absent_passes_with_the_words_of_its_detector() -> None:
    machine = Machine()
    for number in range(6):
        with machine.step(number):
            machine.launch("gemm", 300)
    detected = detect(analyzed(timeline.build(machine.trace())), (SMALL_COPIES,))
    assert detected.findings == ()
    assert [(check.detector, check.meaning) for check in detected.passed] == [
        ("small_copies", "Few or no small copies")
    ]


def test_what_cannot_occur_is_not_applicable_with_its_reason() -> None:
    machine = Machine()
    for number in range(6):
        with machine.step(number):
            machine.launch("gemm", 300)
    detected = detect(analyzed(timeline.build(machine.trace())))
    reasons = {check.detector: check.reason for check in detected.not_applicable}
    without_copies = "nothing is copied to the GPU in these steps"
    assert reasons["blocking_copy"] == reasons["overlap_gap"] == without_copies
    assert reasons["exposed_communication"] == "the recording has no collectives"


def test_every_detector_is_in_exactly_one_group() -> None:
    detected = detect(analyzed(ten_small_copies_per_step()))
    silent = [*detected.abstentions, *detected.passed, *detected.not_applicable]
    groups = [*{finding.id for finding in detected.findings}, *(check.detector for check in silent)]
    assert sorted(groups) == sorted(IDS)


# ------------------------------------------------------------------------------------------------ the 1 % rule


@pytest.mark.parametrize(("share", "reported"), [(NEGLIGIBLE_SHARE / 2, False), (2 * NEGLIGIBLE_SHARE, True)])
def test_a_finding_below_one_percent_of_the_step_is_not_reported(share: float, reported: bool) -> None:
    detected = detect(analyzed(ten_small_copies_per_step()), (costing(share),))
    assert bool(detected.findings) is reported
    assert bool(detected.passed) is not reported


def test_the_rule_goes_by_the_cost_and_not_by_the_share_that_a_detector_states() -> None:
    def overstated(rank: AnalyzedRank) -> tuple[Finding, ...]:
        return (replace(rank.finding("costly", "It costs", 1, "1 ns per step"), share=0.5),)

    detector = Detector(id="costly", passed="It costs nothing", detect=overstated)
    assert detect(analyzed(ten_small_copies_per_step()), (detector,)).findings == ()


# ------------------------------------------------------------------------------------------------ the tables


def test_ids_are_unique_and_those_of_the_modules() -> None:
    assert len(set(IDS)) == len(IDS)
    package = ROOT / "tracelens/findings"
    modules = {path.stem for path in package.glob("*.py") if "DETECTOR = " in path.read_text(encoding="utf-8")}
    assert modules == set(IDS)


def test_every_detector_has_its_text_and_every_text_its_detector() -> None:
    """`tracelens rules`, the SARIF rules and docs/rules.md are made from these texts."""
    assert set(rules.load().findings) == set(IDS)
    assert {path.stem for path in (ROOT / "rules/findings").glob("*.yaml")} == set(IDS)


def test_the_generated_page_of_rules_has_every_detector() -> None:
    page = (ROOT / "docs/rules.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^### Finding `(\w+)`", page, re.MULTILINE)) == set(IDS)


def test_every_detector_says_what_it_means_that_nothing_was_found() -> None:
    sentences = [detector.passed for detector in DETECTORS]
    assert all(sentence[0].isupper() and not sentence.endswith(".") for sentence in sentences)
    assert len(set(sentences)) == len(sentences)


def test_only_the_module_the_registry_and_the_text_of_a_detector_name_it() -> None:
    """So one more detector takes three files: its module, `DETECTORS`, and rules/findings/<id>.yaml."""
    naming = {name: set[str]() for name in IDS}
    for path in MODULES:
        for name in naming.keys() & names_in(tree_of(path)):
            naming[name].add(path.relative_to(ROOT).as_posix())
    for path in [*(ROOT / "tracelens").rglob("*.html"), *(ROOT / "rules").rglob("*.yaml")]:
        for name in naming.keys() & set(re.findall(r"\w+", path.read_text(encoding="utf-8"))):
            naming[name].add(path.relative_to(ROOT).as_posix())
    registry = "tracelens/findings/__init__.py"
    assert naming == {name: {registry, f"tracelens/findings/{name}.py", f"rules/findings/{name}.yaml"} for name in IDS}


def names_in(tree: ast.AST) -> set[str]:
    """Identifiers and whole string constants; a sentence that mentions a word does not count."""
    nodes = list(ast.walk(tree))
    words = {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    return words | {node.id for node in nodes if isinstance(node, ast.Name)}


def test_the_report_prints_what_the_registry_says() -> None:
    from tests.support import report_cases

    detected = detect(analyzed(ten_small_copies_per_step()))
    page = html.render(
        replace(report_cases.recommended(), passed=detected.passed, not_applicable=detected.not_applicable)
    )
    assert all(check.meaning in page for check in detected.passed)
    assert all(check.reason in page for check in detected.not_applicable)
