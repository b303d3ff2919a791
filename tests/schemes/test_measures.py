"""The training speed guide's measures: what the seed says of them, and what a run tells."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support import report_cases, run_cases
from tests.support.places import SEEDS
from tracelens import pipeline
from tracelens import run as runs
from tracelens.errors import RuleError
from tracelens.model import InventoryItem
from tracelens.report import html, markdown, text, wording
from tracelens.report import json as json_report
from tracelens.report.terminal import TerminalStyle
from tracelens.schemes import measures, rules

RULES = rules.load()
GUIDE = {
    "mixed-precision": (30, 50),
    "loader-prefetch": (10, 20),
    "lasting-workers": (10, 20),
    "asynchronous-copies": (10, 20),
    "compile": (10, 20),
    "rarer-validation": (5, 10),
    "tensor-cores": None,
    "cudnn-search": None,
    "larger-batches": (5, 15),
    "cached-samples": None,
    "allocator-split": None,
    "launch-without-blocking": None,
    "cudnn-v8": None,
}


def test_the_guide_s_measures_are_all_there_with_its_numbers() -> None:
    assert {m.id: (m.gain.low, m.gain.high) if m.gain else None for m in RULES.measures} == GUIDE
    assert all(m.how and m.caution for m in RULES.measures)


@pytest.mark.skipif(not SEEDS.is_dir(), reason="the seed documents are not beside this checkout")
def test_each_expectation_names_a_heading_that_the_seed_has() -> None:
    seed = (SEEDS / "training_speed_guide.md").read_text(encoding="utf-8")
    headings = {line.lstrip("# ").strip() for line in seed.splitlines() if line.startswith("#")}
    spans = [m.gain for m in RULES.measures if m.gain]
    assert len(spans) == 7
    assert [span.section for span in spans if span.section not in headings] == []
    assert all(f"{span.low:g}-{span.high:g}%" in seed for span in spans)


def test_a_run_tells_by_its_inventory_and_its_environment(tmp_path: Path) -> None:
    environment = {"variables": {"CUDA_LAUNCH_BLOCKING": "1", "PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:128"}}
    run = runs.read(run_cases.recorded(tmp_path, environment=environment))
    base = replace(report_cases.diagnosis(), run=run)
    inventory = (InventoryItem("amp", False, "no kernel of 16 bits"), InventoryItem("compile", True, "compiled"))
    found = {m.id: m.present for m in measures.measures_of_run(RULES.measures, replace(base, inventory=inventory))}
    assert found["mixed-precision"] is False and found["compile"] is True
    assert found["rarer-validation"] is None and found["tensor-cores"] is None
    assert found["launch-without-blocking"] is False and found["allocator-split"] is True
    assert found["cudnn-v8"] is None, "not set is no fault: later versions do it by default"
    assert {m.present for m in measures.measures_of_run(RULES.measures, replace(base, inventory=(), run=None))} == {
        None
    }


@pytest.mark.slow
def test_what_the_loop_lacks_is_listed_as_an_opinion_in_every_format(tmp_path: Path) -> None:
    run_cases.recorded(tmp_path)
    inputs = pipeline.open_inputs((next((tmp_path / "tracelens-runs").iterdir()),))
    examined = pipeline.examine(inputs)
    planned = pipeline.illustrate(examined, pipeline.plan(examined))
    lacking = wording.untried(planned)
    assert "lasting-workers" in [one.id for one in lacking]
    assert "mixed-precision" in [one.id for one in lacking]
    for page in (
        text.recommendation(planned, TerminalStyle(120, color=False, everything=True)),
        markdown.summary(planned),
        html.render(planned),
    ):
        shown = re.sub(r'<span class="unit">(.*?)</span>', r"\1", page)  # the page keeps number and unit on one line
        assert wording.BEYOND in shown and "30 to 50 %" in shown and "opinion" in shown
    parts = planned.breakdown
    assert parts is not None
    document = {one["id"]: one for one in json_report.document(planned)["measures"]}
    assert document["mixed-precision"]["present"] is False
    assert document["mixed-precision"]["expected_percent"]["high"] == 50
    assert document["mixed-precision"]["acts_on_share"] == parts.parts["compute"] / parts.wall_ns
    assert document["rarer-validation"]["present"] is None
    none = replace(report_cases.recommended(), measures=())
    assert wording.BEYOND not in text.recommendation(none, TerminalStyle(120, color=False, everything=True))


@pytest.mark.parametrize(
    ("content", "words_"),
    [
        ("measures:\n  - {id: a, title: b, how: c}", "caution: is missing"),
        ("measures:\n  - {id: a, title: b, how: c, caution: d, x: 1}", "is not known here"),
        ("measures:\n  - {id: a, title: b, how: c, caution: d, gain: {low: 9, high: 1, seed: s, section: t}}", "low"),
        ("measures:\n  - &m {id: a, title: b, how: c, caution: d}\n  - *m", "each id once"),
    ],
)
def test_mistakes_in_a_file_of_one_s_own_are_named(tmp_path: Path, content: str, words_: str) -> None:
    (tmp_path / "measures.yaml").write_text(content, encoding="utf-8")
    with pytest.raises(RuleError) as caught:
        rules.load(tmp_path)
    assert any(words_ in mistake and mistake.startswith("measures.yaml") for mistake in caught.value.mistakes)
