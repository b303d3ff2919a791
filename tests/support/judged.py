"""What a diagnosis says of an incomplete file, held against the whole file.

In: a Diagnosis of a damaged file, the whole file as `plain_trace` reads it. Out: sentences, one per thing that is said
and not true, or that is said though it cannot be known. No sentence is the expected answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.support.plain_trace import PlainTrace
from tracelens import pipeline
from tracelens.findings import kept_steps
from tracelens.model import Diagnosis
from tracelens.report import budget, gate
from tracelens.report import json as json_report
from tracelens.trace import streams

WITHIN = 0.01
"""How far a busy share may be off."""
GENEROUS = budget.Budgets(syncs_per_step=1e9, exposed_ms=1e9, idle_share=1.0, step_ms=1e9)
"""Budgets that everything keeps which can be measured."""


def diagnosed(path: Path) -> Diagnosis:
    return pipeline.diagnose(pipeline.open_inputs((path,)))


def true_busy_share(file: PlainTrace, diagnosis: Diagnosis) -> float:
    """Of the steps that the diagnosis judged, on the device that it judged."""
    picture = diagnosis.timeline
    kept, zero = kept_steps.select(picture), picture.trace.origin_ns
    device = streams.main_device(picture.tables.ops)
    if device is None:
        raise ValueError("no GPU work was judged")
    spans = zip(kept.starts.tolist(), kept.ends.tolist(), strict=True)
    return sum(file.busy_ns(zero + start, zero + end, device) for start, end in spans) / kept.wall_ns


def untruths(file: PlainTrace, diagnosis: Diagnosis) -> Iterator[str]:
    """What is wrong with the answer about a damaged file."""
    document = json_report.document(diagnosis)
    if document["traces"][0]["completeness"]["complete"] is not False:
        yield "the file is called complete"
    if "recording" not in [item["detector"] for item in document["abstentions"]]:
        yield "no note says that the recording is incomplete"
    if not diagnosis.timeline.coverage.judged:
        yield from made_up(document)
    elif diagnosis.gpu_busy_share is not None:
        expected = true_busy_share(file, diagnosis)
        if abs(diagnosis.gpu_busy_share - expected) > WITHIN:
            yield f"the busy share is {diagnosis.gpu_busy_share:.4f} and not {expected:.4f}"
    items = budget.judge_budgets(diagnosis, GENEROUS, diagnosis.exposed_together_ns)
    if gate.judge(diagnosis, items, (), None, 0.02).passed is True:
        yield "check passes"


def made_up(document: dict[str, Any]) -> Iterator[str]:
    """What is said though no step can be judged."""
    nulls = ("breakdown", "overlap", "gpu_busy_share", "idle_share", "exposed_together_us_per_step")
    yield from (f"{key} is not null" for key in nulls if document[key] is not None)
    yield from (f"{key} are not empty" for key in ("syncs", "findings") if document[key])
    yield from (f"{item['id']} is said to be absent" for item in document["inventory"] if item["present"] is False)
