"""One Run, every format: the numbers are those of the JSON wherever they stand."""

from __future__ import annotations

import html as markup
import json
import re
from typing import Any

import pytest

from tests.support.sample_plans import sample_plan
from tracelens.cli import renderers
from tracelens.cli.options import Presentation
from tracelens.cli.planning import PlanOptions
from tracelens.cli.renderers.renderer import PlanAnswer, render
from tracelens.report import text
from tracelens.report.formatting import gain, milliseconds, percent, short_ms
from tracelens.report.terminal import TerminalStyle

pytestmark = pytest.mark.slow  # every bundled Run is planned and reported

CASES = ("sync_every_batch", "pageable_copies", "gpu_bound", "loader_bound", "host_bound")
Answers = dict[str, Any]


@pytest.fixture(scope="module", params=CASES)
def answers(request: pytest.FixtureRequest) -> Answers:
    """What `report` says of a recorded Run in each format."""
    diagnosis = sample_plan(request.param)
    answer = PlanAnswer(diagnosis, (), PlanOptions())
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "120")  # a narrow terminal gets lists, which have no rows to compare
        found: Answers = {
            renderer.name: render(renderer.page, answer, Presentation(renderer.name, verbose=True))
            for renderer in renderers.RENDERERS
        }
    found["json"], found["sarif"] = json.loads(found["json"]), json.loads(found["sarif"])
    body = re.sub(r"(?s)<(script|style)\b.*?</\1>", "", found["html"])
    found["page"] = re.sub(r"\s+", " ", markup.unescape(re.sub(r"<[^>]+>", "", body)))
    found["bare"] = found["page"].replace(" ", "")
    screen = text.recommendation(diagnosis, TerminalStyle(120))
    found["screen"] = re.sub(r"\s+", " ", screen)
    found["flat"] = re.sub(r"\s+", " ", found["text"])
    return found


def rows_with(text: str, *names: str) -> list[str]:
    return [line for line in text.splitlines() if all(name in line for name in names)]


def test_the_verdict_is_one_sentence(answers: Answers) -> None:
    verdict = answers["json"]["verdict"]
    assert verdict in answers["flat"] and verdict in markup.unescape(answers["html"])
    assert verdict.replace("_", "\\_") in answers["markdown"]
    assert verdict.replace("%", "%25") in answers["github"]
    recommended = answers["json"]["recommendation"]
    assert recommended["verdict"] == verdict


def test_each_scheme_has_the_same_numbers(answers: Answers) -> None:
    judged = [scheme for scheme in answers["json"]["schemes"] if scheme["estimate"]]
    assert judged
    for scheme in judged:
        estimate = scheme["estimate"]
        low, high = f"{estimate['low_us'] / 1000:.2f}", f"{estimate['high_us'] / 1000:.2f}"
        step = milliseconds(1000 * estimate["step_us"])
        said = [step, f"({low} to {high})", gain(estimate["speedup"])]
        said += [] if scheme["total"] is None else [f"{scheme['total']:.2f}"]
        (in_text,) = [
            row for row in rows_with(answers["text"], f" {scheme['id']} ", step) if "range" in row or "95" in row
        ]
        (in_markdown,) = rows_with(
            answers["markdown"].partition("# Implementation record")[0], f"`{scheme['id']}`", "|", step
        )
        assert [one for one in said if one not in in_text or one not in in_markdown] == []
        assert [
            one for one in (step, f"{low} to {high}", gain(estimate["speedup"])) if one not in answers["page"]
        ] == []
        assert estimate["speedup"] == pytest.approx(estimate["base_us"] / estimate["step_us"])
        rank = "–" if scheme["rank"] is None else str(scheme["rank"])
        if any(one["rank"] is not None for one in judged):  # else the column of ranks is empty, and absent
            assert in_text.split()[0] == rank and in_markdown.split("|")[1].strip() == rank


def test_each_wait_has_the_same_numbers(answers: Answers) -> None:
    """The JSON has them as recorded, all others as shares of the one step time."""
    scale = answers["json"]["baseline"]["step_us"] / answers["json"]["breakdown"]["wall_us"]
    for wait in answers["json"]["syncs"]:
        recorded = (wait["wait_us_per_step"], wait["gpu_idle_us_per_step"])
        times = (*(None if us is None else round(1000 * scale * us) for us in recorded), wait["exposed_us_per_step"])
        said = [milliseconds(ns) for ns in times[:2]]
        said.append(milliseconds(None if times[2] is None else 1000 * times[2]))
        place = f"{wait['location']['path']}:{wait['location']['line']}" if wait["location"] else "not recorded"
        cells = f" | {' | '.join(said)} | "
        assert [row for row in rows_with(answers["markdown"], place) if cells in row], (place, cells)
        assert " ".join(said).replace(" ", "") in answers["page"].replace(" ", "")


def test_the_parts_of_a_step_add_up_and_are_the_same(answers: Answers) -> None:
    """The JSON has them as recorded, page and Markdown as shares of the one step time."""
    parts, baseline = answers["json"]["breakdown"], answers["json"]["baseline"]["step_us"]
    assert sum(parts["parts"].values()) == pytest.approx(parts["wall_us"])
    for value in parts["parts"].values():
        if value:
            share = value / parts["wall_us"]
            said = (short_ms(1000 * share * baseline), percent(share, 1))
            assert "".join(said).replace(" ", "") in answers["bare"] and f"| {said[0]} | {said[1]} |" in answers[
                "markdown"
            ].replace("\\<", "<")


def test_the_page_and_the_terminal_have_the_same_answer(answers: Answers) -> None:
    """Headline, step time, gain and next command stand on both first screens, in the same digits."""
    found = answers["json"]
    step = short_ms(1000 * found["baseline"]["step_us"])
    assert found["headline"].rstrip(".") in answers["page"] and found["headline"].rstrip(".") in answers["screen"]
    assert f"Steptime{step}" in answers["bare"] and f" {step} ms per step" in answers["screen"]
    wanted = found["recommendation"]["scheme"] or found["recommendation"]["lever"]
    lever = next((one for one in found["levers"] if one["id"] == wanted), None)
    known = lever and (lever["measured"] or lever["predicted"])
    if known and known["low"] > 1:
        then = short_ms(1000 * found["baseline"]["step_us"] / known["speedup"])
        assert f"Steptime{step}→{then}ms" in answers["bare"] and f"{then} ms per step" in answers["screen"]
        faster = gain(known["speedup"])
        assert f"Throughput{faster}".replace(" ", "") in answers["bare"] and faster in answers["screen"]
        assert f"{then} (" in answers["markdown"]
    assert answers["json"]["gpu_busy_share"] + answers["json"]["idle_share"] == pytest.approx(1)


def test_each_finding_costs_the_same_everywhere(answers: Answers) -> None:
    logged = {result["ruleId"]: result["message"]["text"] for result in answers["sarif"]["runs"][0]["results"]}
    assert set(logged) == {finding["id"] for finding in answers["json"]["findings"]}
    for finding in answers["json"]["findings"]:
        cost = milliseconds(1000 * finding["cost_us_per_step"])
        assert cost in answers["page"] and cost in logged[finding["id"]]
        assert rows_with(answers["github"], finding["id"], cost)


def test_predicted_and_measured_agree_with_what_verify_kept(answers: Answers) -> None:
    for scheme in answers["json"]["schemes"]:
        estimate = scheme["estimate"]
        if estimate is None or estimate["evidence"] != "measured":
            continue
        assert f"measured: step time x {1 / estimate['speedup']:.3f}" in scheme["reasons"]
        record = answers["markdown"].partition("# Implementation record")[2]
        measured = [row for row in record.splitlines() if row.startswith("| measured on this machine")]
        assert gain(estimate["speedup"]) in measured[0]
        graded = next(row for row in record.splitlines() if "as fast as predicted" in row)
        predicted = next(row for row in record.splitlines() if row.startswith("| predicted by the replay"))
        span = re.search(r"measured, (.*) predicted", graded)
        assert span is not None and span[1] in predicted, "one prediction is graded, and it is the one shown"
