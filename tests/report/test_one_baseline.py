"""One thing, one number: step time, busy share and saving of a sample are the same in every format, as far as shown.

And what is called measured was measured: the step of the middle pair, which `verify.json` holds, and no quotient.
"""

from __future__ import annotations

import json
import math
import re
import statistics
from typing import Any

import pytest

from tests.support.places import SAMPLES
from tests.support.sample_plans import sample_plan
from tests.support.told import told_busy, told_parts
from tracelens.cli import renderers
from tracelens.cli.options import Presentation
from tracelens.cli.planning import PlanOptions
from tracelens.cli.renderers.renderer import PlanAnswer, render
from tracelens.report import card, compare

pytestmark = pytest.mark.slow  # every bundled Run is planned and reported

CASES = ("sync_every_batch", "pageable_copies", "gpu_bound", "loader_bound", "host_bound")
STEP = re.compile(r"of every ([\d.]+) ms step|([\d.]+) ms per step, GPU (?:busy|kernels)")
SAVED = re.compile(r"saves ([\d.]+) ms of every")
GAIN = re.compile(r"\+(\d+) % \((?:measured|predicted), \+|: \+(\d+) % \(\+")
BUSY = re.compile(r"(?:GPU busy|GPU-bound:) (\d+) %(?! →)")  # not the windows of verify, which are other runs


KERNELS = re.compile(r"GPU kernels (\d+) %")
COPIES = re.compile(r"(?:GPU kernels \d+ %(?: of the step)?, copies) (\d+) %")


@pytest.fixture(scope="module", params=CASES)
def said(request: pytest.FixtureRequest) -> tuple[dict[str, Any], list[str]]:
    """The JSON of a recorded Run, and what each format for people says."""
    answer = PlanAnswer(sample_plan(request.param), (), PlanOptions())
    texts = []
    for renderer in renderers.RENDERERS:
        for verbose in (False, True) if renderer.name == "text" else (False,):
            shown = render(renderer.page, answer, Presentation(renderer.name, verbose=verbose))
            if renderer.name == "json":
                document = json.loads(shown)
            plain = re.sub(r"(?s)<(script|style)\b.*?</\1>|<[^>]+>", " ", shown) if renderer.name == "html" else shown
            texts.append(re.sub(r"\s+", " ", plain.replace("%25", "%").replace("&nbsp;", " ")))
    return document, texts


def numbers(pattern: re.Pattern[str], texts: list[str]) -> list[str]:
    return [next(group for group in found.groups() if group) for text in texts for found in pattern.finditer(text)]


def rounds_to(shown: str, value: float) -> bool:
    """Whether a number on screen is this value, with the digits that it is shown with."""
    digits = len(shown.partition(".")[2])
    return abs(float(shown) - value) <= 0.5001 * 10**-digits


def test_there_is_one_step_time(said: tuple[dict[str, Any], list[str]]) -> None:
    document, texts = said
    step_ms = document["baseline"]["step_us"] / 1000
    shown = numbers(STEP, texts)
    assert shown and [one for one in shown if not rounds_to(one, step_ms)] == []
    estimates = [scheme["estimate"] for scheme in document["schemes"] if scheme["estimate"]]
    assert {one["base_us"] for one in estimates if one["evidence"] == "measured"} <= {document["baseline"]["step_us"]}


def test_there_is_one_busy_share(said: tuple[dict[str, Any], list[str]]) -> None:
    document, texts = said
    copies = told_parts(document)["copy_exposed"] / document["baseline"]["step_us"]
    if copies < 0.05:
        assert set(numbers(BUSY, texts)) == {f"{100 * told_busy(document):.0f}"}
    else:  # a GPU that copies does not compute: both are said, and no sum of them
        kernels = f"{100 * (told_busy(document) - copies):.0f}"
        assert set(numbers(KERNELS, texts)) == {kernels} and not numbers(BUSY, texts)
        assert {one for text in texts for one in COPIES.findall(text)} == {f"{100 * copies:.0f}"}
    assert document["baseline"]["gpu_busy_share"] == pytest.approx(told_busy(document))


def test_there_is_one_saving_and_one_gain(said: tuple[dict[str, Any], list[str]]) -> None:
    document, texts = said
    saved = numbers(SAVED, [*texts, document["verdict"], document["headline"]])
    assert len(set(saved)) <= 1, "the verdict, in every format"
    wanted = document["recommendation"]["scheme"] or document["recommendation"]["lever"]
    lever = next((one for one in document["levers"] if one["id"] == wanted), None)
    known = lever and (lever["measured"] or lever["predicted"])
    if known and document["recommendation"]["scheme"]:
        step_ms = document["baseline"]["step_us"] / 1000
        digits = 1 if step_ms >= 10 else 2
        less = round(step_ms, digits) - round(step_ms / known["speedup"], digits)
        assert all(rounds_to(one, less) for one in saved), "of the two times as they are shown"


def test_a_lever_has_one_prediction(said: tuple[dict[str, Any], list[str]]) -> None:
    """What the verdict says a step would take is what the table of levers says."""
    document, _ = said
    step_ms = document["baseline"]["step_us"] / 1000
    told = re.search(r"a step takes ([\d.]+) ms \((?:predicted|measured)\)", document["verdict"])
    if told is None:
        return
    steps = [
        step_ms / known["speedup"] for lever in document["levers"] if (known := lever["measured"] or lever["predicted"])
    ]
    assert any(rounds_to(told[1], step) for step in steps), (told[1], steps)


# --------------------------------------------------------------------------------------- measured, and no quotient


def measured_pairs(case: str) -> list[tuple[float, float]]:
    """Original and patched step of each pair of the last trial, in ms, as the file has them."""
    (*_, entry) = json.loads((SAMPLES / case / "run" / "verify.json").read_text())["entries"]
    return [(pair["original_us"] / 1000, pair["patched_us"] / 1000) for pair in entry["times"]["pairs"]]


@pytest.mark.parametrize(("case", "middle"), [("sync_every_batch", (1,)), ("pageable_copies", (0, 3))])
def test_the_step_then_is_the_middle_pair_s_in_every_format(case: str, middle: tuple[int, ...]) -> None:
    pairs = measured_pairs(case)
    before, after = (statistics.fmean(pairs[place][side] for place in middle) for side in (0, 1))
    quotient = before * math.exp(statistics.fmean(math.log(b / a) for a, b in pairs))
    assert abs(quotient - after) > 0.05, "else this test tells nothing"
    answer = PlanAnswer(sample_plan(case), (), PlanOptions())
    drawn = card.render(sample_plan(case))
    for renderer in renderers.RENDERERS:
        shown = render(renderer.page, answer, Presentation(renderer.name, verbose=True))
        if renderer.name == "html":
            shown += drawn
        plain = re.sub(r"(?s)<(script|style)\b.*?</\1>|<[^>]+>", " ", shown) if renderer.name == "html" else shown
        numbers_ms = [float(number) for number in re.findall(r"(?<![\d.])\d+\.\d+(?![\d.])", plain)]
        if renderer.name == "json":
            known = next(lever for lever in json.loads(shown)["levers"] if lever["state"] == "measured")["measured"]
            assert (known["before_us"], known["after_us"]) == (round(1000 * before, 3), round(1000 * after, 3))
            numbers_ms += [number / 1000 for number in numbers_ms]
        elif renderer.name in ("text", "html", "markdown"):
            assert any(rounds_to(f"{number}", after) for number in numbers_ms)
        if case == "sync_every_batch":  # 6.49 is also what another lever of the other run is predicted to take
            assert not [
                one for one in numbers_ms if len(f"{one}".partition(".")[2]) > 1 and abs(one - quotient) < 0.006
            ]


def test_a_measured_gain_is_that_of_the_step_times_on_the_screen_in_every_format() -> None:
    """25.430 to 16.875 ms is +51 %; 25.4 to 16.9, which a reader sees, +50 %."""
    before, after = measured_pairs("sync_every_batch")[1]
    assert round(100 * (before / after - 1)) == 51
    answer = PlanAnswer(sample_plan("sync_every_batch"), (), PlanOptions())
    for renderer in renderers.RENDERERS:
        shown = render(renderer.page, answer, Presentation(renderer.name, verbose=True))
        plain = shown.replace("&nbsp;", " ").replace("%25", "%").replace("Pair 3: 25.6 → 16.9 ms, +51 %", "")
        assert "+51 %" not in plain, renderer.name


@pytest.mark.parametrize("case", ["sync_every_batch", "pageable_copies"])
def test_a_bar_that_was_measured_has_no_parts_that_were_not_recorded(case: str) -> None:
    """What these runs kept of the changed script has no work of its GPU: one bar, no share, and no number twice."""
    from tracelens.report.first_screen import first_screen

    screen = first_screen(sample_plan(case))
    assert screen.strip is not None and screen.then is not None
    then = screen.strip.steps[1].gpu
    assert then is not None and [part.kind for part in then.segments] == ["whole"] and screen.then.busy_share is None
    assert len(screen.strip.total_ns("lost")) == len(screen.strip.total_ns("gpu")) == 1


def test_the_parts_that_a_comparison_shows_are_those_of_the_steps_that_it_compares() -> None:
    """22.6 against 9.3 ms without the profiler: the first was recorded at 25.3, and measured at 25.4 beside a patch."""
    result = compare.compare_diagnoses(sample_plan("sync_every_batch"), sample_plan("pageable_copies"))
    for step_ns, side in ((result.base_ns, "base_ns"), (result.new_ns, "new_ns")):
        assert sum(getattr(part, side) for part in result.parts) == pytest.approx(step_ns, rel=1e-3)


def test_a_pair_that_stands_apart_is_named_as_a_pair() -> None:
    html = next(one for one in renderers.RENDERERS if one.name == "html")
    page = render(html.page, PlanAnswer(sample_plan("pageable_copies"), (), PlanOptions()), Presentation("html"))
    said = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", page))
    assert re.search(r"Pair 3: 11.7 → 6.8 ms, \+73 %; apart from the others", said)
    assert len(re.findall("apart from the others", said)) == 1
    assert "the mean of pairs 1 and 4" in said


def test_a_prediction_that_was_missed_is_said_on_the_first_screen() -> None:
    """+32 % (25 to 41) was predicted of 25.4 ms, +51 % measured."""
    shown = {
        case: [
            render(one.page, PlanAnswer(sample_plan(case), (), PlanOptions()), Presentation(one.name))
            for one in renderers.RENDERERS
            if one.name in ("text", "html")
        ]
        for case in ("sync_every_batch", "pageable_copies")
    }
    said = "Predicted 19.2 ms (18.0 to 20.4): missed."
    for text in shown["sync_every_batch"]:
        assert said in re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", text).replace("&nbsp;", " "))
    assert not [text for text in shown["pageable_copies"] if "Predicted 6." in text], "inside of its range"
