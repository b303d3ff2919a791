"""One thing, one number: step time, busy share and saving of a sample are the same in every format, as far as shown."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.support.sample_plans import sample_plan
from tests.support.told import told_busy
from tracelens.cli import renderers
from tracelens.cli.options import Presentation
from tracelens.cli.planning import PlanOptions
from tracelens.cli.renderers.renderer import PlanAnswer, render

pytestmark = pytest.mark.slow  # every bundled Run is planned and reported

CASES = ("sync_every_batch", "pageable_copies", "gpu_bound", "loader_bound", "host_bound")
STEP = re.compile(r"of every ([\d.]+) ms step|([\d.]+) ms per step, GPU busy")
SAVED = re.compile(r"(?:costs?|saves) ([\d.]+) ms of every")
GAIN = re.compile(r"\+(\d+) % \((?:measured|predicted), \+|: \+(\d+) % \(\+")
BUSY = re.compile(r"(?:GPU busy|GPU-bound:) (\d+) %(?! →)")  # not the windows of verify, which are other runs


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
    assert set(numbers(BUSY, texts)) == {f"{100 * told_busy(document):.0f}"}
    assert document["baseline"]["gpu_busy_share"] == pytest.approx(told_busy(document))


def test_there_is_one_saving_and_one_gain(said: tuple[dict[str, Any], list[str]]) -> None:
    document, texts = said
    saved = numbers(SAVED, [*texts, document["verdict"], document["headline"]])
    assert len(set(saved)) <= 1, "headline and verdict, in every format"
    wanted = document["recommendation"]["scheme"] or document["recommendation"]["lever"]
    lever = next((one for one in document["levers"] if one["id"] == wanted), None)
    known = lever and (lever["measured"] or lever["predicted"])
    if known and document["recommendation"]["scheme"]:
        step_ms = document["baseline"]["step_us"] / 1000
        assert all(rounds_to(one, step_ms * (1 - 1 / known["speedup"])) for one in saved)


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
