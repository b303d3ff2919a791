"""HTA asked about a recording, beside ours by its definitions; what it cannot answer is said, not raised."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support import oracle
from tests.support.places import SAMPLES, TRACES
from tracelens.cli import main
from tracelens.model import ComparedQuantity
from tracelens.trace import chrome, hta_bridge, second_opinion, timeline

Capture = pytest.CaptureFixture[str]
pytestmark = oracle.IMPORT_NOISE
SAMPLE = SAMPLES / "sync_every_batch" / "run"


@pytest.mark.parametrize(
    ("theirs", "ours", "agrees"),
    [(100.0, 100.9, True), (100.0, 102.0, False), (0.0, 0.009, True), (None, 1.0, None), (1.0, None, None)],
)
def test_one_percent_is_agreement(theirs: float | None, ours: float | None, agrees: bool | None) -> None:
    assert ComparedQuantity("idle", "ms", theirs, ours).agrees is agrees


@pytest.mark.slow
def test_a_sample_gets_htas_numbers_in_text_and_json(capsys: Capture) -> None:
    assert main(["analyze", str(SAMPLE), "--hta", "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    found = {one["name"]: one for one in document["hta"]["quantities"]}
    # 10 recorded steps and those around them: HTA reads 308.2 ms, of which 121.2 idle
    assert found["from the first operation to the last"]["hta"] == pytest.approx(308.207)
    assert found["GPU idle"]["hta"] == pytest.approx(121.172)
    assert found["GPU idle"]["tracelens"] == pytest.approx(118.522)
    assert document["hta"]["version"].startswith("0.5")
    assert main(["analyze", str(SAMPLE), "--hta"]) == 0
    said = capsys.readouterr().out
    assert "Second opinion: HTA 0.5" in said and "121.2 ms" in said


@pytest.mark.skipif(not (TRACES / "hta/a100_world2_nccl.json.gz").is_file(), reason="the shared traces are not at hand")
def test_a_shared_trace_with_collectives_has_both_overlaps_and_the_reason_of_the_difference() -> None:
    opinion = second_opinion.ask(timeline.build(chrome.load(TRACES / "hta/a100_world2_nccl.json.gz")))
    overlap = next(one for one in opinion.quantities if one.name == "communication under computation")
    assert (overlap.theirs, overlap.agrees) == (pytest.approx(15.14), False)
    assert overlap.ours == pytest.approx(15.61, abs=0.01)
    assert any("microsecond" in note for note in opinion.notes)


def test_an_hta_that_fails_costs_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise KeyError("index_correlation\nand more")

    monkeypatch.setattr(hta_bridge, "analysis", fails)
    (trace,) = Path(SAMPLE / "rank0").glob("*.json.gz")
    opinion = second_opinion.ask(timeline.build(chrome.load(trace)))
    assert opinion.notes == ("HTA gives no answer here (reading): KeyError: 'index_correlation\\nand more'",)
    assert all(one.theirs is None for one in opinion.quantities)
    assert any(one.ours for one in opinion.quantities)
