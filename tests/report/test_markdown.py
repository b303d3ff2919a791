"""Markdown: hostile text stays text, a box is ticked only by a measurement, and the record says what the seeds' do."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt

from tests.support import report_cases as cases
from tests.support.places import ROOT
from tracelens.cli import main
from tracelens.model import Diagnosis, Goal, Location, Verification
from tracelens.report import ascii_timeline, implementation_record, markdown, markdown_syntax, wording
from tracelens.report.implementation_record import Expectation, Subject

HTML = MarkdownIt("commonmark").enable("table")
HOSTILE = (
    "<script>x</script> | *b* _i_ `c` [l](http://e) # h @everyone ![p](q) \\ ~~s~~ $m$ \x1b[31m\n# heading\n- [x] done"
)
CLAIM = Expectation("gain", "3 to 5 %", "seed.md, 4.3")
SUBJECT = Subject("event-interval", "2+3", "Record an event per batch.", (CLAIM,), ("It may fail",))


def shown(text: str) -> str:
    return str(HTML.render(text))


# -------------------------------------------------------------------------------------------------------- pieces


def test_hostile_text_stays_text_on_one_line() -> None:
    page = shown(f"a {markdown_syntax.plain(HOSTILE)} b")
    assert page.count("<p>") == 1 and page.strip().startswith("<p>a ")
    assert set(re.findall(r"<(\w+)", page)) == {"p"}
    assert "@" not in markdown_syntax.plain(HOSTILE) and "\x1b" not in page
    assert "&lt;script&gt;" in page and "# heading" in page


@pytest.mark.parametrize("text", ["a`b", "``", "`", "a|b", "x``y```z", "</code><b>"])
def test_code_spans_hold_whatever_is_in_them(text: str) -> None:
    page = shown(markdown_syntax.table(("c",), [(markdown_syntax.code(text),)]))
    assert page.count("<td>") == 1
    inside = re.search(r"<td><code>(.*)</code></td>", page)
    assert inside is not None
    assert inside[1].replace("&lt;", "<").replace("&gt;", ">").strip() == text


def test_a_block_cannot_be_left_from_inside() -> None:
    page = shown(markdown_syntax.block("a\n```\n# out\n````\n<b>", "diff"))
    assert page.count("<pre>") == 1 and "<h1>" not in page and "<b>" not in page


def test_a_table_keeps_its_columns() -> None:
    page = shown(
        markdown_syntax.table(
            ("what", "n"), [(markdown_syntax.plain("a | b"), "1"), (markdown_syntax.code("c | d"), "2")], frozenset({1})
        )
    )
    assert page.count("<td") == 4 and page.count("<th") - page.count("<thead") == 2 and "text-align:right" in page


# ------------------------------------------------------------------------------------------------------- summary


def test_the_verdict_is_the_same_sentence() -> None:
    diagnosis = cases.recommended()
    assert f"**{markdown_syntax.plain(wording.verdict(diagnosis))}**" in markdown.summary(diagnosis)


def test_a_summary_of_hostile_names_has_no_tag_of_theirs() -> None:
    base = cases.diagnosis()
    evil = replace(base.stalls[0], call=HOSTILE, location=Location(HOSTILE, 3, HOSTILE))
    finding = replace(base.findings[0], title=HOSTILE, evidence=HOSTILE, location=evil.location)
    page = shown(markdown.summary(replace(base, stalls=(evil,), findings=(finding,))))
    assert set(re.findall(r"<(\w+)", page)) <= {"h1", "h2", "p", "strong", "table", "thead", "tbody", "tr", "th", "td",
                                                "code", "pre", "ul", "li"}  # fmt: skip
    assert page.count("<h1>") == 1


def test_unknown_is_not_zero_in_markdown_either() -> None:
    row = next(line for line in markdown.summary(cases.diagnosis()).splitlines() if "cudaMemcpyAsync" in line)
    assert "not measured" in row


# -------------------------------------------------------------------------------------------------------- record


def boxes(text: str) -> dict[str, bool]:
    """The checklist: what is said before the colon → ticked."""
    found = re.findall(r"^- \[(.)\] ([^:\n]+)", text, re.MULTILINE)
    return {name: mark == "x" for mark, name in found}


def test_the_record_has_the_sections_of_the_seeds() -> None:
    text = implementation_record.record(cases.recommended(), SUBJECT)
    titles = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert titles == [
        "Problem", "Cause", "The schemes and the choice", "Steps", "Checklist", "Expected beside measured",
        "Risks named for it", "Next",
    ]  # fmt: skip
    assert text.startswith("# Implementation record: Scheme 2+3: ")


def test_without_a_measurement_no_box_of_a_result_is_ticked() -> None:
    diagnosis = unmeasured(cases.recommended())
    found = boxes(implementation_record.record(diagnosis, SUBJECT))
    assert found.pop("patch made") is True
    assert len(found) >= 5 and not any(found.values())
    text = implementation_record.record(diagnosis, SUBJECT)
    assert "not verified yet" in text and text.count("not measured") >= 4


def unmeasured(diagnosis: Diagnosis) -> Diagnosis:
    answer = diagnosis.recommendation
    assert answer is not None
    open_goals = tuple(
        replace(stage, goals=tuple(replace(goal, met=None, evidence="") for goal in stage.goals))
        for stage in answer.stages
    )
    return replace(diagnosis, verifications=(), recommendation=replace(answer, stages=open_goals))


def measured(**changes: Any) -> Diagnosis:
    base = cases.recommended()
    numbers = {"compared": {"steps": 200, "losses": 200, "tensors": 41, "lines": 9}}
    details = {"numbers": numbers, "windows": {"before": {}, "after": {"memory_slope_bytes": 0.0}}}
    one = replace(base.verifications[0], details=details)
    return replace(base, verifications=(replace(one, **changes),))


def test_a_measurement_ticks_the_boxes_it_answers_and_no_other() -> None:
    found = boxes(implementation_record.record(measured(), replace(SUBJECT, applied=True)))
    assert found == {
        "patch made": True, "applied": True, "same losses, weights and printed lines as before": True,
        "every loss is still read": True, "no memory leak": True, "synchronizations −90 %": False, "GPU ≥ 90 %": True,
        "as fast as predicted": True,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"numbers_equal": False, "outcome": "different numbers"}, "same losses, weights and printed lines as before"),
        ({"numbers_equal": None}, "same losses, weights and printed lines as before"),
        ({"details": {"windows": {"after": {"memory_slope_bytes": 4096.0}}}}, "no memory leak"),
        ({"ratio": None}, "as fast as predicted"),
    ],
)
def test_what_failed_or_was_not_measured_stays_open(changes: dict[str, Any], name: str) -> None:
    assert boxes(implementation_record.record(measured(**changes), SUBJECT))[name] is False


def test_a_goal_that_was_missed_stays_open_with_its_number() -> None:
    base = measured()
    answer = base.recommendation
    assert answer is not None
    missed = replace(answer.stages[0], goals=(Goal("training 3 % faster or more", False, "+1 %, measured"),))
    text = implementation_record.record(replace(base, recommendation=replace(answer, stages=(missed,))), SUBJECT)
    assert "- [ ] training 3 % faster or more: +1 %, measured" in text


def test_expected_predicted_and_measured_stand_side_by_side() -> None:
    text = implementation_record.record(measured(), SUBJECT)
    rows = [line for line in text.splitlines() if line.startswith(("| expected", "| predicted", "| measured on"))]
    assert [row.split("|")[2].strip() for row in rows] == [
        "3 to 5 % (seed.md, 4.3)",
        "+17 % (+14 % to +20 %)",
        "+16 % (+14 % to +19 %)",
    ]


def test_a_scheme_that_was_not_chosen_says_so() -> None:
    base = cases.recommended()
    other = replace(base, patches={**base.patches, "event-sync": base.patches["event-interval"]})
    text = implementation_record.record(other, Subject("event-sync", "2", "Record an event."))
    assert "not the recommended one on this run: `event-interval` is" in text
    assert "within its noise" in text


def test_a_verification_of_another_scheme_ticks_nothing() -> None:
    base = measured()
    foreign: Verification = replace(base.verifications[0], scheme="event-sync")
    text = implementation_record.record(replace(base, verifications=(foreign,)), SUBJECT)
    assert boxes(text)["same losses, weights and printed lines as before"] is False and "not verified yet" in text


def test_a_strip_draws_each_lane_of_the_step_on_one_scale() -> None:
    drawn = ascii_timeline.strip(cases.timeline())
    assert drawn is not None
    host, stream, *_ = drawn.splitlines()
    lane = stream.partition("|")[2].rstrip("|")
    assert len(lane) == ascii_timeline.COLUMNS
    assert lane.count("#") == pytest.approx(0.7 * ascii_timeline.COLUMNS, abs=1) and lane.count("=") == pytest.approx(
        3.6, abs=1
    )
    assert host.partition("|")[2].count("w") == pytest.approx(0.6 * ascii_timeline.COLUMNS, abs=1)
    assert "10.00 ms" in drawn


# --------------------------------------------------------------------------------------------- on recorded runs


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("samples")
    for name in ("sync_every_batch", "pageable_copies"):
        shutil.copytree(ROOT / "sample_traces" / name, folder / name)
    return folder


def written(folder: Path, *words_: str) -> str:
    out = folder / "record.md"
    assert main(["report", str(folder / "run"), "--format", "markdown", "-o", str(out), *words_]) == 0
    return out.read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_record_of_events_with_an_interval_is_filled_by_the_h200(samples: Path) -> None:
    text = written(samples / "sync_every_batch")
    found = boxes(text)
    assert found["same losses, weights and printed lines as before"] and found["every loss is still read"]
    assert found["synchronizations down by 90 %"] is True
    assert "| synchronizations per step | 2 → 0.2 |" in text
    assert "Scheme 2+3" in text and "verified: faster" in text


@pytest.mark.slow
def test_the_diff_of_a_record_applies(samples: Path) -> None:
    text = written(samples / "sync_every_batch")
    diff = re.search(r"^```diff\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert diff is not None
    command, folder = ["git", "apply", "--check", "-"], samples / "sync_every_batch"
    command, folder = ["git", "apply", "--check", "-"], samples / "sync_every_batch"
    done = subprocess.run(command, input=diff[1], text=True, cwd=folder, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_the_record_of_the_streams_scheme_can_be_written_too(samples: Path) -> None:
    text = written(samples / "pageable_copies", "--scheme", "more-streams")
    assert "# Implementation record: Scheme 1: " in text and "## What runs on which stream" in text
    assert "four\\_stream\\_pipeline.md" in text and "prefetch" in text
    assert boxes(text)["same losses, weights and printed lines as before"] is False
