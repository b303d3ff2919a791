"""What a lever is called where its id would say nothing to somebody who reads about it for the first time.

In: a Lever and the plan that it stands in. Out: a few plain words. Settings are called as PyTorch calls them.
"""

from __future__ import annotations

from tracelens.messages import say
from tracelens.model import Diagnosis, Lever, PlannedDiagnosis
from tracelens.report.formatting import clean

_WORDS = {
    "event-sync": say("Wait for an event"),
    "pinned-copy": say("Copy from pinned memory"),
    "more-streams": say("Copy the next batch ahead"),
}
_SETTINGS = {
    "compile": "torch.compile",
    "workers": say("DataLoader workers"),
    "prefetch": say("Batches ahead per worker"),
    "batch": say("Batch size"),
    "gc-collect": say("Collect every 100th batch"),
    "omp-threads": say("CPU threads"),
    "cudnn-benchmark": say("cuDNN's fastest kernels"),
    "persistent-workers": say("Workers that stay"),
    "pin-memory": say("Batches in pinned memory"),
    "transform-on-gpu": say("Transforms on the GPU"),
    "cached-samples": say("Keep decoded samples"),
    "set-to-none": say("Gradients freed, not zeroed"),
    "anomaly-off": say("No anomaly detection"),
    "foreach": say("foreach optimizer"),
    "fused": say("fused optimizer"),
    "matmul-precision": say("float32 product precision"),
}


def name(lever: Lever, diagnosis: PlannedDiagnosis) -> str:
    """'Wait every 10th batch', 'DataLoader workers 2→4', 'bf16'."""
    if lever.id in _WORDS:
        return _WORDS[lever.id]
    if lever.id in ("event-interval", "interval-sync", "full-pipeline"):
        return _every(lever.id, _ordinal(diagnosis.interval))
    setting, _, value = lever.id.partition("=")
    if setting == "workers" and value:
        before = _workers(diagnosis)
        change = clean(value) if before is None else f"{before}→{clean(value)}"
        return say("DataLoader workers {change}", change=change)
    words = _SETTINGS.get(setting, clean(setting))
    return say("{setting} {value}", setting=words, value=clean(value)) if value else words


def _every(scheme: str, nth: str) -> str:
    if scheme == "event-interval":
        return say("Wait every {nth} batch", nth=nth)
    if scheme == "interval-sync":
        return say("Synchronize every {nth} batch", nth=nth)
    return say("Copy ahead, wait every {nth}", nth=nth)


def _ordinal(number: int) -> str:
    """'1st', '2nd', '10th'."""
    if 10 <= number % 100 <= 20 or number % 10 not in (1, 2, 3):
        return say("{number}th", number=number)
    if number % 10 == 1:
        return say("{number}st", number=number)
    return say("{number}nd", number=number) if number % 10 == 2 else say("{number}rd", number=number)


def _workers(diagnosis: Diagnosis) -> int | None:
    """How many the loop has; None where the recording does not tell."""
    item = next((item for item in diagnosis.inventory if item.id == "loader_workers"), None)
    return None if item is None else 0 if item.present is False else item.value
