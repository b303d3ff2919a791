"""docs/seeds.md names a place for every heading of the five documents, and the places exist."""

from __future__ import annotations

import re

import pytest

from tests.support.places import ROOT, SEEDS
from tracelens import cli, monitor, runtime
from tracelens.schemes import rules

PAGE = (ROOT / "docs" / "seeds.md").read_text(encoding="utf-8")
RULES = rules.load()


def headings(text: str) -> list[str]:
    outside = re.sub(r"(?ms)^```.*?^```", "", text)
    return [found.strip() for found in re.findall(r"(?m)^##{1,2} (.*)$", outside)]


@pytest.mark.skipif(not SEEDS.is_dir(), reason="the seed documents are not beside this checkout")
def test_every_heading_of_every_seed_has_its_place() -> None:
    seeds = sorted(SEEDS.glob("*.md"))
    assert len(seeds) == 5
    for seed in seeds:
        section = PAGE.partition(f"## {seed.name}\n")[2].partition("\n## ")[0]
        lacking = [heading for heading in headings(seed.read_text(encoding="utf-8")) if heading not in section]
        assert lacking == [], seed.name


def test_the_names_on_the_page_are_names_of_the_program() -> None:
    spans = set(re.findall(r"`([^`]+)`", PAGE))
    ids = {rule.id for rule in (*RULES.schemes, *RULES.measures)}
    assert {scheme.id for scheme in RULES.schemes} <= spans
    named = {m.id for m in RULES.measures} & spans
    assert {"larger-batches", "cached-samples", "allocator-split", "launch-without-blocking", "cudnn-v8"} <= named
    for span in spans:
        if span.startswith("tracelens "):
            assert span.split()[1] in cli.root.commands, span
        if span.startswith("tracelens rules ") and not span.endswith("ID"):
            assert span.split()[2] in ids, span
    for name in ("create_event", "record_event", "query_event", "set_current", "on", "stream", "wait", "keep"):
        assert callable(getattr(runtime.Streams, name))
    for name in ("start_monitoring", "log_iteration", "stop_monitoring", "get_summary"):
        assert callable(getattr(monitor.TrainingMonitor, name))
    assert runtime.Streams(device="cpu").names == ("transfer", "forward", "backward", "spare")


def test_the_seeds_numbers_come_out_of_the_rules() -> None:
    def weighted(scheme: str) -> float:
        rule = RULES.scheme(scheme)
        assert rule is not None and rule.priors is not None
        return round(sum(RULES.weights[name] * score for name, score in rule.priors.items()) / 100, 10)

    printed = {"more-streams": 7.05, "event-sync": 8.15, "full-pipeline": 5.25, "event-interval": 8.95}
    assert {name: weighted(name) for name in printed} == printed
    assert weighted("interval-sync") == 8.80
